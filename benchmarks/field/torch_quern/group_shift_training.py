"""Objectives for training under group shift with few labels.

Collected from the classifier training code: a smooth worst-group objective, a
graph pass that spreads seed labels over an affinity matrix, the consistency
term between a student and its averaged teacher, and the two-label cross
entropy used when patches of one image are pasted into another.

The backward passes are written out; the forward passes run without building a
graph, which keeps the memory of the affinity passes flat in the number of
iterations.
"""

from __future__ import annotations

import copy
from typing import NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

DEGREE_FLOOR = 1e-8


class Batch(NamedTuple):
    image: Tensor  # (B, C, H, W)
    label: Tensor  # (B,)
    group: Tensor  # (B,)


# ---------------------------------------------------------------------------


class SoftWorstGroup(Function):
    """Smooth maximum of the mean losses of the groups.

    losses (N,), group (N,) with values in [0, num_groups), tau () > 0.  Returns
    the objective ``tau * log mean_g exp(mean_g / tau)`` over the groups that
    have samples, the group means (num_groups,) (zero for an absent group) and
    the integer counts.
    """

    @staticmethod
    def forward(losses, group, tau, num_groups):
        count = torch.bincount(group, minlength=num_groups)
        mean = torch.zeros(num_groups, dtype=losses.dtype, device=losses.device)
        mean = mean.index_add(0, group, losses) / count.clamp(min=1)
        present = count > 0
        score = torch.where(present, mean / tau, torch.full_like(mean, -torch.inf))
        objective = tau * (score.logsumexp(0) - present.sum().to(losses.dtype).log())
        return objective, mean, count

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, group, tau, _ = inputs
        objective, mean, count = output
        ctx.mark_non_differentiable(count)
        ctx.save_for_backward(group, tau, objective, mean, count)

    @staticmethod
    @once_differentiable
    def backward(ctx, g_objective, g_mean, _):
        group, tau, objective, mean, count = ctx.saved_tensors
        score = torch.where(count > 0, mean / tau, torch.full_like(mean, -torch.inf))
        q = score.softmax(0)
        g_tau = g_objective * (objective - (q * mean).sum()) / tau
        per_group = (g_objective * q + g_mean) / count.clamp(min=1)
        return per_group[group], None, g_tau, None


# ---------------------------------------------------------------------------


def normalise_affinity(affinity: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Scale by the square roots of the out- and in-degrees."""
    out_degree = affinity.sum(1) + DEGREE_FLOOR
    in_degree = affinity.sum(0) + DEGREE_FLOOR
    scaled = affinity * out_degree.rsqrt()[:, None] * in_degree.rsqrt()[None, :]
    return scaled, out_degree, in_degree


class AffinityDiffusion(Function):
    """Spread seed labels along an affinity graph.

    Iterates ``F <- alpha * S F + (1 - alpha) * Y`` from ``F = Y``, where ``S``
    is the degree-normalised affinity.

    Parameters
    ----------
    affinity : Tensor
        ``(N, N)``, non-negative; row ``i`` holds the neighbours that ``i``
        listens to.  A k-nearest-neighbour graph is accepted as it is.
    seed : Tensor
        ``(N, K)`` label scores, zero rows for the unlabelled.
    alpha : float
    steps : int

    Returns
    -------
    Tensor
        ``(N, K)``
    """

    @staticmethod
    def forward(ctx, affinity, seed, alpha=0.9, steps=10):
        scaled, out_degree, in_degree = normalise_affinity(affinity)
        field = seed
        trail = []
        for _ in range(steps):
            trail.append(field)
            field = alpha * (scaled @ field) + (1.0 - alpha) * seed
        ctx.save_for_backward(scaled, out_degree, in_degree, *trail)
        ctx.alpha = alpha
        return field

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        scaled, out_degree, in_degree, *trail = ctx.saved_tensors
        alpha = ctx.alpha
        g_seed = torch.zeros_like(grad)
        g_scaled = torch.zeros_like(scaled)
        for field in reversed(trail):
            g_seed = g_seed + (1.0 - alpha) * grad
            g_scaled.addmm_(grad, field.T, alpha=alpha)
            grad = alpha * (scaled @ grad)
        g_seed = g_seed + grad

        pull = g_scaled * scaled
        g_affinity = (
            g_scaled * out_degree.rsqrt()[:, None] * in_degree.rsqrt()[None, :]
            - 0.5 * (pull.sum(1) / out_degree)[:, None]
            - 0.5 * (pull.sum(0) / in_degree)[None, :]
        )
        return g_affinity, g_seed, None, None


# ---------------------------------------------------------------------------


class ConfidentConsistency(Function):
    """Consistency of a student with its teacher on the confident rows.

    The teacher is a target: by design no gradient flows into its logits.

    Args:
        student: (B, C) logits.
        teacher: (B, C) logits.
        threshold: a row counts when the teacher's top probability reaches it.
        sharpen: temperature of the teacher's distribution used as target.
        kind: ``"kl"`` or ``"mse"`` (between probabilities, mean over classes).

    Returns:
        The mean over the rows that count; zero when there are none.
    """

    @staticmethod
    def forward(ctx, student, teacher, threshold=0.8, sharpen=1.0, kind="kl"):
        sure = (teacher.softmax(-1).amax(-1) >= threshold).to(student.dtype)
        rows = sure.sum().clamp(min=1.0)
        log_target = F.log_softmax(teacher / sharpen, -1)
        target = log_target.exp()
        log_prob = F.log_softmax(student, -1)
        prob = log_prob.exp()
        if kind == "kl":
            term = (target * (log_target - log_prob)).sum(-1)
        elif kind == "mse":
            term = (prob - target).square().mean(-1)
        else:
            raise ValueError(f"unknown kind {kind!r}")
        ctx.save_for_backward(prob, target, sure / rows)
        ctx.kind = kind
        return (term * sure).sum() / rows

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        prob, target, share = ctx.saved_tensors
        if ctx.kind == "kl":
            g = prob - target
        else:
            pull = 2.0 * (prob - target) / prob.shape[-1]
            g = prob * (pull - (prob * pull).sum(-1, keepdim=True))
        return grad * share[:, None] * g, None, None, None, None


# ---------------------------------------------------------------------------


class PastedLabelCE(Function):
    """Cross entropy for images that carry two labels.

    ``area`` is the visible share of the first label of every image; in soft
    pasting it comes from the mask network and is trained.  Class weights act
    as in ``nn.CrossEntropyLoss``: the total is divided by the weight present
    in the batch, each label counting with its share of the image.

    logits (B, C), area (B,), first (B,), second (B,), class_weight (C,)
    """

    @staticmethod
    def forward(ctx, logits, area, first, second, class_weight):
        log_prob = F.log_softmax(logits, -1)
        nll_first = -log_prob.gather(-1, first[:, None]).squeeze(-1)
        nll_second = -log_prob.gather(-1, second[:, None]).squeeze(-1)
        part_first = area * class_weight[first]
        part_second = (1.0 - area) * class_weight[second]
        mass = (part_first + part_second).sum()
        loss = (part_first * nll_first + part_second * nll_second).sum() / mass
        ctx.save_for_backward(
            log_prob, area, first, second, class_weight, nll_first, nll_second, mass, loss
        )
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (log_prob, area, first, second, class_weight, nll_first, nll_second, mass, loss) = ctx.saved_tensors
        scale = grad / mass
        w_first, w_second = class_weight[first], class_weight[second]
        pull_first = scale * area * w_first
        pull_second = scale * (1.0 - area) * w_second

        g_logits = (pull_first + pull_second)[:, None] * log_prob.exp()
        g_logits.scatter_add_(-1, first[:, None], -pull_first[:, None])
        g_logits.scatter_add_(-1, second[:, None], -pull_second[:, None])

        g_area = scale * (w_first * nll_first - w_second * nll_second)

        g_weight = torch.zeros_like(class_weight)
        g_weight.index_add_(0, first, scale * area * (nll_first - loss))
        g_weight.index_add_(0, second, scale * (1.0 - area) * (nll_second - loss))
        return g_logits, g_area, None, None, g_weight


# ---------------------------------------------------------------------------


def knn_affinity(feature: Tensor, neighbours: int, width: float = 1.0) -> Tensor:
    """Gaussian affinities to the nearest neighbours of each row; not symmetrised."""
    distance = torch.cdist(feature, feature).square()
    distance = distance + torch.diag(torch.full((len(feature),), torch.inf, dtype=feature.dtype))
    near = distance.topk(neighbours, largest=False)
    value = torch.exp(-near.values / (2.0 * width**2))
    return torch.zeros_like(distance).scatter(1, near.indices, value)


class LabelSpreader(nn.Module):
    def __init__(self, num_classes: int, neighbours: int = 5, alpha: float = 0.9, steps: int = 10):
        super().__init__()
        self.num_classes = num_classes
        self.neighbours = neighbours
        self.alpha = alpha
        self.steps = steps

    def forward(self, feature: Tensor, label: Tensor, symmetric: bool = False) -> Tensor:
        """``label`` holds -1 for the unlabelled rows."""
        known = label >= 0
        seed = F.one_hot(label.clamp(min=0), self.num_classes).to(feature.dtype)
        seed = seed * known[:, None]
        affinity = knn_affinity(feature, self.neighbours)
        if symmetric:
            affinity = 0.5 * (affinity + affinity.T)
        return AffinityDiffusion.apply(affinity, seed, self.alpha, self.steps)


class PatchPaster(nn.Module):
    """Soft pasting: a tiny network decides how much of each image shows."""

    def __init__(self, channels: int, num_classes: int, class_weight: Optional[Tensor] = None):
        super().__init__()
        self.gate = nn.Conv2d(2 * channels, 1, 3, padding=1)
        weight = torch.ones(num_classes) if class_weight is None else class_weight
        self.register_buffer("class_weight", weight)

    def mix(self, image: Tensor, partner: Tensor) -> Tuple[Tensor, Tensor]:
        mask = self.gate(torch.cat((image, partner), 1)).sigmoid()
        return mask * image + (1.0 - mask) * partner, mask.mean((1, 2, 3))

    def loss(self, logits: Tensor, area: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return PastedLabelCE.apply(logits, area, first, second, self.class_weight)


class Trainer:
    def __init__(self, net: nn.Module, num_groups: int, num_classes: int, channels: int = 3):
        self.net = net
        self.teacher = copy.deepcopy(net).requires_grad_(False)
        self.num_groups = num_groups
        self.log_tau = torch.zeros((), requires_grad=True)
        self.paster = PatchPaster(channels, num_classes)
        self.optimiser = torch.optim.SGD(
            [*net.parameters(), *self.paster.parameters(), self.log_tau], lr=0.05
        )

    @torch.no_grad()
    def update_teacher(self, momentum: float = 0.99) -> None:
        for slow, fast in zip(self.teacher.parameters(), self.net.parameters()):
            slow.mul_(momentum).add_(fast, alpha=1.0 - momentum)

    def step(self, batch: Batch) -> float:
        order = torch.randperm(len(batch.label))
        logits = self.net(batch.image)
        losses = F.cross_entropy(logits, batch.label, reduction="none")
        worst, _, _ = SoftWorstGroup.apply(losses, batch.group, self.log_tau.exp(), self.num_groups)
        agree = ConfidentConsistency.apply(logits, self.teacher(batch.image), 0.5, 0.7, "mse")
        mixed, area = self.paster.mix(batch.image, batch.image[order])
        pasted = self.paster.loss(self.net(mixed), area, batch.label, batch.label[order])
        total = worst + 0.5 * agree + pasted
        self.optimiser.zero_grad()
        total.backward()
        self.optimiser.step()
        self.update_teacher()
        return float(total.detach())


if __name__ == "__main__":
    torch.manual_seed(0)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(3 * 8 * 8, 4))
    trainer = Trainer(classifier, num_groups=3, num_classes=4)
    data = Batch(torch.randn(12, 3, 8, 8), torch.randint(0, 4, (12,)), torch.randint(0, 3, (12,)))
    print([round(trainer.step(data), 4) for _ in range(5)])
    spread = LabelSpreader(3, neighbours=3)(torch.randn(10, 4), torch.tensor([0, 1, 2] + [-1] * 7))
    print(spread.argmax(-1).tolist())
