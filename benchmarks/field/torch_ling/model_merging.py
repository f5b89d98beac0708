"""Differentiable merging of fine-tuned checkpoints.

Checkpoints fine-tuned from one base are combined in weight space.  The merge
coefficients are then tuned on a few held-out batches by backpropagating
through the merge, so every merge operator needs a gradient; the stock autograd
graph keeps a copy of every expert per operator, the rules below keep only what
is needed.

Conventions: ``n`` is the number of experts, leading axis of every stack.
A *task vector* (``delta``) is expert minus base.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

NORM_EPS = 1e-12
FISHER_FLOOR = 1e-6

StateDict = Mapping[str, Tensor]


class MergeStack(NamedTuple):
    base: Tensor       # (*shape)
    experts: Tensor    # (n, *shape)

    @property
    def deltas(self) -> Tensor:
        return self.experts - self.base


def stack_states(base: StateDict, experts: Iterable[StateDict]) -> Dict[str, MergeStack]:
    experts = list(experts)
    out: Dict[str, MergeStack] = OrderedDict()
    for name, tensor in base.items():
        if not tensor.is_floating_point():
            continue
        out[name] = MergeStack(tensor, torch.stack([e[name] for e in experts]))
    return out


def top_fraction_mask(deltas: Tensor, fraction: float) -> Tensor:
    """Boolean mask of the largest entries of every expert, by magnitude."""
    flat = deltas.detach().abs().flatten(1)
    k = max(1, int(round(fraction * flat.shape[1])))
    kth = flat.topk(k, dim=1).values[:, -1:]
    return (flat >= kth).view_as(deltas)


def _expand_like(weights: Tensor, stack: Tensor) -> Tensor:
    return weights.view(-1, *([1] * (stack.dim() - 1)))


class ElectSignMerge(Function):
    """Weighted mean over the experts which agree with the elected sign.

    The sign of every entry is elected by the weighted sum of the kept deltas;
    experts of the other sign, or whose entry was not kept, do not take part.
    Entries in which nobody takes part merge to 0.

    Args:
        deltas: (n, *shape) task vectors.
        weights: (n,) positive voting weights.
        keep: (n, *shape) bool, entries kept by the trimming.

    Returns:
        (*shape) merged task vector.
    """

    @staticmethod
    def forward(ctx, deltas: Tensor, weights: Tensor, keep: Tensor) -> Tensor:
        w = _expand_like(weights, deltas)
        kept = torch.where(keep, deltas, torch.zeros_like(deltas))
        elected = (w * kept).sum(0).sign()
        agree = keep & (deltas.sign() == elected) & (elected != 0)
        mass = (w * agree).sum(0)
        empty = mass == 0
        mass = torch.where(empty, torch.ones_like(mass), mass)
        merged = (w * agree * deltas).sum(0) / mass
        ctx.save_for_backward(deltas, weights, agree, mass, merged)
        return merged

    @staticmethod
    def backward(ctx, grad):
        deltas, weights, agree, mass, merged = ctx.saved_tensors
        w = _expand_like(weights, deltas)
        share = torch.where(agree, grad / mass, torch.zeros_like(deltas))
        g_deltas = g_weights = None
        if ctx.needs_input_grad[0]:
            g_deltas = share * w
        if ctx.needs_input_grad[1]:
            g_weights = (share * (deltas - merged)).flatten(1).sum(1)
        return g_deltas, g_weights, None


class MeanNormMerge(Function):
    """Average the experts, then give back the norm which averaging shrinks.

    experts : (n, rows, cols).  Norms are taken along ``dim`` (of a single
    matrix, negative), so -1 keeps the norms of the rows and -2 those of the
    columns.
    """

    @staticmethod
    def forward(experts, dim=-1):
        mean = experts.mean(0)
        size = experts.norm(dim=dim, keepdim=True).mean(0)
        length = mean.norm(dim=dim, keepdim=True).clamp_min(NORM_EPS)
        return mean * (size / length)

    @staticmethod
    def setup_context(ctx, inputs, output):
        experts, dim = inputs
        ctx.dim = dim
        ctx.save_for_backward(experts)

    @staticmethod
    def backward(ctx, grad):
        (experts,) = ctx.saved_tensors
        n = experts.shape[0]
        mean = experts.mean(0)
        norms = experts.norm(dim=ctx.dim, keepdim=True).clamp_min(NORM_EPS)
        length = mean.norm(dim=ctx.dim, keepdim=True).clamp_min(NORM_EPS)
        unit = mean / length
        along = (grad * unit).sum(-1, keepdim=True)
        g_mean = (norms.mean(0) / length) * (grad - unit * along)
        g_size = along
        return (g_mean + g_size * experts / norms) / n, None


class GroupedTaskBlend(Function):
    """base[l] + sum_i coef[i, group[l]] * delta[i, l]

    base    (layers, params)
    deltas  (n, layers, params)
    coef    (n, groups)
    group   (layers,) long; -1 marks a frozen layer, which keeps the base
    """

    @staticmethod
    def forward(ctx, base, deltas, coef, group):
        slot = group.clamp_min(0)
        active = (group >= 0).to(deltas.dtype)
        scale = coef[:, slot] * active                      # (n, layers)
        ctx.save_for_backward(deltas, scale, slot)
        ctx.groups = coef.shape[1]
        return base + torch.einsum("nl,nlp->lp", scale, deltas)

    @staticmethod
    def backward(ctx, grad):
        deltas, scale, slot = ctx.saved_tensors
        g_base = g_deltas = g_coef = None
        if ctx.needs_input_grad[0]:
            g_base = grad
        if ctx.needs_input_grad[1]:
            g_deltas = scale[:, :, None] * grad
        if ctx.needs_input_grad[2]:
            per_layer = torch.einsum("lp,nlp->nl", grad, deltas)
            g_coef = grad.new_zeros(deltas.shape[0], ctx.groups)
            g_coef.index_add_(1, slot, per_layer)
        return g_base, g_deltas, g_coef, None


class FisherWeightedMerge(Function):

    @staticmethod
    def forward(thetas, fishers, weights):
        precision = _expand_like(weights, thetas) * (fishers + FISHER_FLOOR)
        total = precision.sum(0)
        return (precision * thetas).sum(0) / total

    @staticmethod
    def setup_context(ctx, inputs, output):
        thetas, fishers, weights = inputs
        ctx.save_for_backward(thetas, fishers, weights, output)

    @staticmethod
    def backward(ctx, grad):
        thetas, fishers, weights, merged = ctx.saved_tensors
        w = _expand_like(weights, thetas)
        curvature = fishers + FISHER_FLOOR
        pull = grad / (w * curvature).sum(0)
        spread = pull * (thetas - merged)
        g_thetas = pull * w * curvature
        g_fishers = spread * w
        g_weights = (spread * curvature).flatten(1).sum(1)
        return g_thetas, g_fishers, g_weights


class MergeCoefficients(nn.Module):
    """Softmax voting weights plus a per-group scale."""

    def __init__(self, n_experts: int, n_groups: int, init: float = 0.3):
        super().__init__()
        self.vote = nn.Parameter(torch.zeros(n_experts))
        self.scale = nn.Parameter(torch.full((n_experts, n_groups), init))

    def weights(self) -> Tensor:
        return torch.softmax(self.vote, dim=0)


class TiesMerger(nn.Module):
    """Trim, elect, merge; one scale for every merged tensor."""

    def __init__(self, n_experts: int, density: float = 0.2):
        super().__init__()
        self.density = density
        self.vote = nn.Parameter(torch.zeros(n_experts))
        self.log_scale = nn.Parameter(torch.zeros(()))

    def forward(self, stacks: Mapping[str, MergeStack]) -> Dict[str, Tensor]:
        weights = torch.softmax(self.vote, 0)
        merged = {}
        for name, stack in stacks.items():
            deltas = stack.deltas
            keep = top_fraction_mask(deltas, self.density)
            task = ElectSignMerge.apply(deltas, weights, keep)
            merged[name] = stack.base + self.log_scale.exp() * task
        return merged


def soup(stacks: Mapping[str, MergeStack], column_norms: Iterable[str] = ()) -> Dict[str, Tensor]:
    """Norm-preserving soup.

    Embedding-like matrices (listed in ``column_norms``) keep the norms of
    their columns, all the other matrices those of their rows; vectors are
    averaged.
    """
    column_norms = set(column_norms)
    out = {}
    for name, stack in stacks.items():
        if stack.experts.dim() == 3:
            dim = -2 if name in column_norms else -1
            out[name] = MeanNormMerge.apply(stack.experts, dim)
        else:
            out[name] = stack.experts.mean(0)
    return out


def blend_blocks(
    base: Tensor,
    deltas: Tensor,
    coefficients: MergeCoefficients,
    group_names: List[Optional[str]],
) -> Tensor:
    """Blend a transformer's blocks, flattened to rows.

    ``group_names`` names the coefficient group of every block, None for a
    block which stays at the base.
    """
    known: Dict[str, int] = {}
    table = []
    for name in group_names:
        table.append(-1 if name is None else known.setdefault(name, len(known)))
    group = torch.tensor(table, device=base.device)
    return GroupedTaskBlend.apply(base, deltas, coefficients.scale, group)


def empirical_fisher(model: nn.Module, loss_fn: Callable[[nn.Module, Tensor], Tensor],
                     batches: Iterable[Tensor]) -> Dict[str, Tensor]:
    totals = {k: torch.zeros_like(p) for k, p in model.named_parameters()}
    count = 0
    for batch in batches:
        model.zero_grad()
        loss_fn(model, batch).backward()
        for k, p in model.named_parameters():
            totals[k] += p.grad.square()
        count += 1
    return {k: v / max(count, 1) for k, v in totals.items()}


def fisher_merge(stacks: Mapping[str, MergeStack], fishers: List[Dict[str, Tensor]],
                 weights: Tensor) -> Dict[str, Tensor]:
    out = {}
    for name, stack in stacks.items():
        f = torch.stack([fish[name] for fish in fishers])
        out[name] = FisherWeightedMerge.apply(stack.experts, f, weights)
    return out


def _demo() -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    base = {k: v.detach().clone() for k, v in net.state_dict().items()}
    experts = [{k: v + 0.1 * torch.randn_like(v) for k, v in base.items()} for _ in range(3)]
    stacks = stack_states(base, experts)
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))

    merger = TiesMerger(3, density=0.5)
    opt = torch.optim.Adam(merger.parameters(), lr=0.05)
    for step in range(20):
        opt.zero_grad()
        logits = torch.func.functional_call(net, merger(stacks), (x,))
        loss = F.cross_entropy(logits, y)
        loss.backward()
        opt.step()
    print("ties", loss.item(), merger.vote.tolist())

    coefficients = MergeCoefficients(3, 2)
    rows = blend_blocks(torch.randn(5, 7), torch.randn(3, 5, 7), coefficients,
                        ["early", "early", "late", None, "late"])
    rows.square().mean().backward()
    print("blend", coefficients.scale.grad)

    fishers = [{k: torch.rand_like(v) for k, v in base.items()} for _ in range(3)]
    merged = fisher_merge(stacks, fishers, coefficients.weights())
    print("fisher", {k: tuple(v.shape) for k, v in merged.items()})
    print("soup", {k: v.norm().item() for k, v in soup(stacks, ["0.weight"]).items()})


if __name__ == "__main__":
    _demo()
