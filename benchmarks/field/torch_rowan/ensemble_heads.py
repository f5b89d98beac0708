"""Cheap ensembles and their uncertainty scores.

A rank-one ensemble (Wen et al., "BatchEnsemble") shares one weight matrix between
members; each member owns a pair of fast weights.  On top of it sit the usual
scores: entropy decomposition for acquisition, and free energy for out-of-scope
detection with a margin loss during fine-tuning (Liu et al. 2020).

Conventions: ``M`` members, ``B`` examples, ``C`` classes.  Inside the network the
member axis is folded into the batch, member-major: rows ``0..B-1`` belong to member
0, rows ``B..2B-1`` to member 1, and so on.
"""

from typing import NamedTuple, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

DEFAULT_MEMBERS = 4
ENERGY_TEMPERATURE = 1.0
MARGIN_IN = -5.0     # in-scope examples should have an energy below this
MARGIN_OUT = -2.0    # out-of-scope examples one above this


class Uncertainty(NamedTuple):
    total: torch.Tensor
    aleatoric: torch.Tensor
    epistemic: torch.Tensor


def tile_members(x: torch.Tensor, members: int) -> torch.Tensor:
    """(B, ...) -> (M * B, ...), member-major."""
    return x.repeat(members, *([1] * (x.dim() - 1)))


def split_members(x: torch.Tensor, members: int) -> torch.Tensor:
    """(M * B, ...) -> (M, B, ...)"""
    return x.reshape(members, -1, *x.shape[1:])


def random_signs(shape, generator: Optional[torch.Generator] = None) -> torch.Tensor:
    return torch.randint(0, 2, shape, generator=generator).float() * 2 - 1


# -- layers ---------------------------------------------------------------------


class RankOneDense(torch.autograd.Function):
    """Dense layer of a rank-one ensemble, without storing the per-member products.

    Args:
        x: (M * B, in)
        weight: (out, in), shared
        fast_in: (M, in)
        fast_out: (M, out)
        bias: (M, out)

    Returns:
        (M * B, out)
    """

    @staticmethod
    def forward(ctx, x, weight, fast_in, fast_out, bias):
        members = fast_in.shape[0]
        xs = x.reshape(members, -1, x.shape[-1])
        core = torch.matmul(xs * fast_in[:, None], weight.t())
        y = core * fast_out[:, None] + bias[:, None]
        ctx.save_for_backward(x, weight, fast_in, fast_out)
        return y.view(-1, weight.shape[0])

    @staticmethod
    def backward(ctx, grad_y):
        x, weight, fast_in, fast_out = ctx.saved_tensors
        members, width = fast_in.shape
        g = grad_y.reshape(members, -1, weight.shape[0])
        scaled = x.reshape(members, -1, width) * fast_in[:, None]

        grad_bias = g.sum(1)
        grad_fast_out = (g * torch.matmul(scaled, weight.t())).sum(1)

        g_core = g * fast_out[:, None]
        grad_weight = torch.einsum("mbo,mbi->oi", g_core, scaled)
        g_scaled = torch.matmul(g_core, weight).reshape(-1, width)

        grad_fast_in = (g_scaled * x).view(-1, members, width).sum(0)
        grad_x = (g_scaled.view(members, -1, width) * fast_in[:, None]).view_as(x)
        return grad_x, grad_weight, grad_fast_in, grad_fast_out, grad_bias


class RankOneLinear(nn.Module):
    def __init__(self, in_features: int, out_features: int, members: int = DEFAULT_MEMBERS):
        super().__init__()
        self.members = members
        self.weight = nn.Parameter(torch.empty(out_features, in_features))
        nn.init.kaiming_uniform_(self.weight, a=5 ** 0.5)
        self.fast_in = nn.Parameter(random_signs((members, in_features)))
        self.fast_out = nn.Parameter(random_signs((members, out_features)))
        self.bias = nn.Parameter(torch.zeros(members, out_features))

    def forward(self, x):
        if x.shape[0] % self.members:
            raise ValueError("batch is not a multiple of the number of members")
        return RankOneDense.apply(x, self.weight, self.fast_in, self.fast_out, self.bias)

    def extra_repr(self) -> str:
        out_features, in_features = self.weight.shape
        return f"{in_features}, {out_features}, members={self.members}"


class EnsembleClassifier(nn.Module):
    """Two hidden layers; returns logits (M, B, C)."""

    def __init__(self, in_features: int, hidden: int, classes: int,
                 members: int = DEFAULT_MEMBERS):
        super().__init__()
        self.members = members
        self.layers = nn.ModuleList([
            RankOneLinear(in_features, hidden, members),
            RankOneLinear(hidden, hidden, members),
            RankOneLinear(hidden, classes, members),
        ])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = tile_members(x, self.members)
        for layer in self.layers[:-1]:
            h = F.gelu(layer(h))
        return split_members(self.layers[-1](h), self.members)


# -- entropy decomposition ----------------------------------------------------------


class EntropySplit(torch.autograd.Function):
    """Entropy of the mixture, mean entropy of the members, and their difference.

    ``logits`` (M, B, C), ``weight`` (M,) the members' weights (non-negative, adding up
    to one; each is a free variable for the gradient), ``temperature`` a scalar tensor.
    Returns three tensors (B,).
    """

    @staticmethod
    def forward(logits, weight, temperature):
        log_p = torch.log_softmax(logits / temperature, dim=-1)
        log_mix = torch.logsumexp(log_p + weight.log()[:, None, None], dim=0)
        total = -(log_mix.exp() * log_mix).sum(-1)
        each = -(log_p.exp() * log_p).sum(-1)
        aleatoric = (weight[:, None] * each).sum(0)
        return total, aleatoric, total - aleatoric

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g_total, g_aleatoric, g_epistemic):
        logits, weight, temperature = ctx.saved_tensors
        g_mix = (g_total + g_epistemic)[:, None]          # (B, 1)
        g_each = (g_aleatoric - g_epistemic)[:, None]

        log_p = torch.log_softmax(logits / temperature, dim=-1)
        p = log_p.exp()
        log_mix = torch.logsumexp(log_p + weight.log()[:, None, None], dim=0)

        d_mix = -(log_mix + 1.0) * g_mix                  # (B, C)
        d_each = -(log_p + 1.0) * g_each                  # (M, B, C)
        d_p = weight[:, None, None] * (d_mix + d_each)
        d_scaled = p * (d_p - (p * d_p).sum(-1, keepdim=True))

        grad_weight = (p * d_mix).sum((1, 2)) - (p * log_p * g_each).sum((1, 2))
        grad_logits = d_scaled / temperature
        grad_temperature = -(d_scaled * logits).sum() / temperature ** 2
        return grad_logits, grad_weight, grad_temperature.reshape(temperature.shape)


def decompose(logits: torch.Tensor, weight: Optional[torch.Tensor] = None,
              temperature: Optional[torch.Tensor] = None) -> Uncertainty:
    members = logits.shape[0]
    if weight is None:
        weight = logits.new_full((members,), 1.0 / members)
    if temperature is None:
        temperature = logits.new_ones(())
    return Uncertainty(*EntropySplit.apply(logits, weight, temperature))


def acquisition_order(logits: torch.Tensor) -> torch.Tensor:
    """Indices of the pool, most informative example first."""
    return decompose(logits).epistemic.argsort(descending=True)


# -- free energy ----------------------------------------------------------------


class EnergyMargin(torch.autograd.Function):
    """Squared-hinge loss on the free energy ``-T * logsumexp(logits / T)``.

    In-scope rows are pushed below ``margin_in`` and out-of-scope rows above
    ``margin_out``; the two groups are averaged separately and added, so that the mix
    in the batch doesn't shift the balance.  A group without rows adds nothing.

    logits [N, C], is_out [N] bool -> loss [], energy [N]
    """

    @staticmethod
    def forward(ctx, logits, is_out, temperature, margin_in, margin_out):
        energy = -temperature * torch.logsumexp(logits / temperature, dim=-1)
        inside = ~is_out
        excess = torch.relu(energy - margin_in) * inside
        short = torch.relu(margin_out - energy) * is_out
        n_in = inside.sum().clamp(min=1)
        n_out = is_out.sum().clamp(min=1)
        loss = excess.square().sum() / n_in + short.square().sum() / n_out
        ctx.save_for_backward(logits, excess, short, n_in)
        ctx.temperature = temperature
        return loss, energy

    @staticmethod
    def backward(ctx, g_loss, g_energy):
        logits, excess, short, n = ctx.saved_tensors
        d_energy = g_energy + g_loss * 2.0 * (excess - short) / n
        p = torch.softmax(logits / ctx.temperature, dim=-1)
        return -d_energy[:, None] * p, None, None, None, None


class ScopeHead(nn.Module):
    """Classification loss on in-scope rows plus the energy margin on all rows."""

    def __init__(self, margin_in: float = MARGIN_IN, margin_out: float = MARGIN_OUT,
                 temperature: float = ENERGY_TEMPERATURE, weight: float = 0.1):
        super().__init__()
        self.margins = (margin_in, margin_out)
        self.temperature = temperature
        self.weight = weight

    def forward(self, logits: torch.Tensor, labels: torch.Tensor,
                is_out: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        margin, energy = EnergyMargin.apply(logits, is_out, self.temperature, *self.margins)
        inside = ~is_out
        if inside.any():
            nll = F.cross_entropy(logits[inside], labels[inside])
        else:
            nll = logits.sum() * 0.0
        return nll + self.weight * margin, energy.detach()


def training_step(model: EnsembleClassifier, head: ScopeHead, x, labels, is_out):
    """Loss of every member, averaged, less a small reward for diverse members."""
    logits = model(x)
    losses = [head(member, labels, is_out)[0] for member in logits]
    diversity = decompose(logits).epistemic[~is_out].mean()
    return torch.stack(losses).mean() - 0.01 * diversity


def main() -> None:
    torch.manual_seed(2)
    model, head = EnsembleClassifier(10, 32, 5), ScopeHead()
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    centres = 2.0 * torch.randn(5, 10)
    for step in range(100):
        labels = torch.randint(0, 5, (48,))
        x = centres[labels] + 0.7 * torch.randn(48, 10)
        x = torch.cat([x, 4.0 * torch.randn(16, 10)])
        labels = torch.cat([labels, labels.new_zeros(16)])
        is_out = torch.arange(64) >= 48
        loss = training_step(model, head, x, labels, is_out)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"last loss {loss.item():.3f}")
    print(decompose(model(x)).epistemic[:3])


if __name__ == "__main__":
    main()
