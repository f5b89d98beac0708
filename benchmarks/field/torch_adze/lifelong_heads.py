"""Losses and heads for class-incremental training.

The trainer sees tasks one after another.  For each new task it keeps

* a snapshot of the weights with a diagonal importance (``ConsolidationPenalty``),
* the logits of the previous model on the new images (``OldClassDistill``),
* a gradient measured on the replay memory (``ReferenceProject``),
* a few stored images per class, read out by nearest class mean
  (``NearestMeanLogits``).

References: Kirkpatrick et al. 2017; Li & Hoiem 2016; Chaudhry et al. 2019;
Rebuffi et al. 2017.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Dict, List, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

NORM_FLOOR = 1e-8
IMPORTANCE_CAP = 10.0


def flatten_tree(tree: Dict[str, Tensor]) -> Tensor:
    """Concatenate the leaves of a flat parameter dict in key order."""
    return torch.cat([tree[k].reshape(-1) for k in sorted(tree)])


def unflatten_like(vector: Tensor, tree: Dict[str, Tensor]) -> "OrderedDict[str, Tensor]":
    out, at = OrderedDict(), 0
    for key in sorted(tree):
        n = tree[key].numel()
        out[key] = vector[at : at + n].view_as(tree[key])
        at += n
    return out


def task_blocks(sizes: Sequence[int]) -> Tuple[Tuple[int, int], ...]:
    """``[10, 5, 5] -> ((0, 10), (10, 15), (15, 20))``"""
    blocks, at = [], 0
    for n in sizes:
        blocks.append((at, at + n))
        at += n
    return tuple(blocks)


class ConsolidationPenalty(Function):
    """Quadratic pull of the weights towards the optima of former tasks.

    ``0.5 * sum_k strength[k] * sum_p min(importance[k, p], cap) * (theta[p] - anchor[k, p])**2``

    Shapes: theta (P,), anchors (K, P), importance (K, P), strength (K,).
    """

    @staticmethod
    def forward(ctx, theta, anchors, importance, strength, cap):
        drift = theta - anchors
        weight = importance.clamp_max(cap)
        per_task = (weight * drift * drift).sum(-1)
        ctx.save_for_backward(drift, importance, weight, strength, per_task)
        ctx.cap = cap
        return 0.5 * torch.dot(strength, per_task)

    @staticmethod
    def backward(ctx, grad):
        drift, importance, weight, strength, per_task = ctx.saved_tensors
        scaled = grad * strength[:, None]
        pull = scaled * weight * drift
        g_importance = 0.5 * scaled * drift**2 * (importance < ctx.cap)
        return pull.sum(0), -pull, g_importance, 0.5 * grad * per_task, None


class OldClassDistill(Function):
    """Distil the former heads into the first columns of the current one.

    Each former task has its own softmax over its block of classes.  The loss
    is the temperature-scaled KL divergence from the previous model, averaged
    over images and over blocks, a block counting by the number of its classes.
    The previous model is frozen: ``teacher`` gets no gradient.

    Args:
        logits: (B, C) with C at least the end of the last block.
        teacher: (B, C_old).
        blocks: tuple of (start, stop).
        temperature: float.
    """

    @staticmethod
    def forward(ctx, logits, teacher, blocks, temperature):
        n_old = sum(stop - start for start, stop in blocks)
        gap = torch.zeros_like(logits)
        loss = logits.new_zeros(())
        for start, stop in blocks:
            log_q = F.log_softmax(logits[:, start:stop] / temperature, dim=-1)
            log_p = F.log_softmax(teacher[:, start:stop] / temperature, dim=-1)
            p = log_p.exp()
            share = (stop - start) / n_old
            loss = loss + share * (p * (log_p - log_q)).sum(-1).mean()
            gap[:, start:stop] = log_q.exp() - p
        ctx.save_for_backward(gap)
        ctx.temperature = temperature
        ctx.n_blocks = len(blocks)
        return loss * temperature**2

    @staticmethod
    def backward(ctx, grad):
        (gap,) = ctx.saved_tensors
        scale = ctx.temperature / (gap.shape[0] * ctx.n_blocks)
        return grad * scale * gap, None, None, None


class ReferenceProject(Function):
    """Remove from an update what would raise the loss on the memory.

    For a row ``g`` with ``g . r < 0`` the result is ``g - (g . r) / (r . r) r``,
    otherwise ``g`` itself.  ``r`` is one reference for all rows (P,).
    """

    @staticmethod
    def forward(ctx, updates, reference):
        dot = updates @ reference
        sq = torch.dot(reference, reference)
        clash = dot < 0
        coef = torch.where(clash, dot / sq.clamp_min(torch.finfo(sq.dtype).tiny), 0.0 * dot)
        ctx.save_for_backward(updates, reference, coef, clash, sq)
        return updates - coef[:, None] * reference

    @staticmethod
    def backward(ctx, grad):
        updates, reference, coef, clash, sq = ctx.saved_tensors
        along = torch.where(clash, grad @ reference / sq, torch.zeros_like(coef))
        g_updates = grad - along[:, None] * reference
        per_row = -coef[:, None] * grad - along[:, None] * updates
        per_row = per_row + 2.0 * (along * coef)[:, None] * reference
        return g_updates, per_row.sum(0)


class NearestMeanLogits(Function):
    """Negative squared distances to the class means of stored exemplars.

    Features and exemplars are put on the unit sphere; a class mean is the mean
    of its exemplars put back on the sphere.  Classes without exemplars have the
    origin as their mean.

    Parameters
    ----------
    features : (B, D)
    exemplars : (E, D)
    labels : (E,) integer
    scale : scalar tensor
    n_classes : int
    """

    @staticmethod
    def forward(ctx, features, exemplars, labels, scale, n_classes):
        f_norm = features.norm(dim=-1, keepdim=True).clamp_min(NORM_FLOOR)
        e_norm = exemplars.norm(dim=-1, keepdim=True).clamp_min(NORM_FLOOR)
        f_hat = features / f_norm
        e_hat = exemplars / e_norm
        count = torch.bincount(labels, minlength=n_classes).to(features.dtype)
        present = (count > 0).to(features.dtype)
        count = count.clamp_min(1.0)[:, None]
        mean = features.new_zeros(n_classes, features.shape[-1]).index_add(0, labels, e_hat)
        mean = mean / count
        m_norm = mean.norm(dim=-1, keepdim=True).clamp_min(NORM_FLOOR)
        m_hat = mean / m_norm
        dist = 1.0 + present - 2.0 * f_hat @ m_hat.t()
        ctx.save_for_backward(f_hat, f_norm, e_hat, e_norm, m_hat, m_norm, count, labels, scale, dist)
        return -scale * dist

    @staticmethod
    def backward(ctx, grad):
        f_hat, f_norm, e_hat, e_norm, m_hat, m_norm, count, labels, scale, dist = ctx.saved_tensors
        g_cos = 2.0 * scale * grad
        g_fhat = g_cos @ m_hat
        g_features = (g_fhat - (g_fhat * f_hat).sum(-1, keepdim=True) * f_hat) / f_norm
        g_mean = (g_cos.t() @ f_hat) / m_norm
        g_ehat = (g_mean / count)[labels]
        g_exemplars = (g_ehat - (g_ehat * e_hat).sum(-1, keepdim=True) * e_hat) / e_norm
        g_scale = -(grad * dist).sum()
        return g_features, g_exemplars, None, g_scale, None


@dataclass
class TaskMemory:
    anchors: List[Tensor] = field(default_factory=list)
    importance: List[Tensor] = field(default_factory=list)

    def record(self, params: Dict[str, Tensor], sq_grads: Dict[str, Tensor]) -> None:
        self.anchors.append(flatten_tree(params).detach().clone())
        self.importance.append(flatten_tree(sq_grads).detach().clone())

    def stacked(self) -> Tuple[Tensor, Tensor]:
        return torch.stack(self.anchors), torch.stack(self.importance)


class LifelongClassifier(nn.Module):
    """Small backbone with a growing linear head and an exemplar read-out."""

    def __init__(self, d_in: int, d_feat: int, task_sizes: Sequence[int], temperature=2.0):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(d_in, d_feat), nn.Tanh())
        self.head = nn.Linear(d_feat, sum(task_sizes))
        self.scale = nn.Parameter(torch.tensor(4.0))
        self.log_strength = nn.Parameter(torch.zeros(len(task_sizes)))
        self.blocks = task_blocks(task_sizes)
        self.temperature = temperature
        self.memory = TaskMemory()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))

    def read_out(self, x: Tensor, stored: Tensor, labels: Tensor) -> Tensor:
        return NearestMeanLogits.apply(
            self.backbone(x), self.backbone(stored), labels, self.scale, self.head.out_features
        )

    def task_loss(self, x, y, previous_logits, n_former: int) -> Tensor:
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        if n_former:
            loss = loss + OldClassDistill.apply(
                logits, previous_logits, self.blocks[:n_former], self.temperature
            )
        if self.memory.anchors:
            anchors, importance = self.memory.stacked()
            theta = flatten_tree(dict(self.backbone.named_parameters()))
            strength = self.log_strength.exp()[: len(self.memory.anchors)]
            loss = loss + ConsolidationPenalty.apply(
                theta, anchors, importance, strength, IMPORTANCE_CAP
            )
        return loss


def guarded_updates(updates: Tensor, reference: Tensor) -> Tensor:
    return ReferenceProject.apply(updates, reference)


def _demo() -> None:
    torch.manual_seed(0)
    model = LifelongClassifier(8, 6, [4, 3, 2])
    params = {k: v.detach() + 0.05 for k, v in model.backbone.named_parameters()}
    model.memory.record(params, {k: torch.rand_like(v) for k, v in params.items()})
    x, y = torch.randn(5, 8), torch.randint(0, 9, (5,))
    loss = model.task_loss(x, y, torch.randn(5, 7), n_former=2)
    loss.backward()
    print("loss", loss.item(), "head grad", model.head.weight.grad.norm().item())
    read = model.read_out(x, torch.randn(9, 8), torch.tensor([0, 0, 1, 2, 3, 4, 5, 6, 6]))
    print("read-out", read.shape, guarded_updates(torch.randn(2, 4), torch.randn(4)).shape)


if __name__ == "__main__":
    _demo()
