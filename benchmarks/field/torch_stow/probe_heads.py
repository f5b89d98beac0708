"""Probing heads on frozen encoders.

A probe reads the hidden states of every layer of a frozen encoder, mixes them
with learned scalar weights, and predicts a label set that is often too large
for a flat softmax (word senses, ICD codes, species).  Three pieces:

* ``LayerMix`` -- softmax-weighted sum of layers with a global gain, and the
  entropy of the weights for a sparsity term;
* ``ClusteredNLL`` -- two-level softmax, cluster first and class within it;
* ``VarianceFloor`` -- hinge that keeps the standard deviation of the projected
  features from collapsing while the probe is pre-trained without labels.

Batches are dictionaries as produced by the feature dump script::

    {"layers": (layers, batch, tokens, width), "labels": (batch, tokens)}
"""

from __future__ import annotations

import math
from typing import Dict, Literal, Optional

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

IGNORE = -100
FLOOR = 1.0
Reduction = Literal["none", "sum", "mean"]


def contiguous_clusters(classes: int, clusters: int) -> Tensor:
    """Cluster number of every class, in equal runs."""
    return torch.arange(classes) * clusters // classes


def frequency_clusters(counts: Tensor, clusters: int) -> Tensor:
    """Classes binned so each cluster holds about the same share of tokens."""
    order = counts.argsort(descending=True)
    share = counts[order].double().cumsum(0) / counts.sum()
    number = (share * clusters).ceil().long().clamp(1, clusters) - 1
    table = torch.empty_like(order)
    table[order] = number
    return table


class LayerMix(torch.autograd.Function):
    """Scalar mix of encoder layers.

    Parameters
    ----------
    hidden : Tensor
        Layer states, layers along the first axis.
    logits : Tensor, shape (layers,)
    gain : Tensor, shape ()
    keep : BoolTensor, shape (layers,)
        Layers left in the mix this step (layer dropout); at least one.

    Returns
    -------
    mixed : Tensor
        ``gain * sum_l softmax(logits)_l * hidden_l``.
    entropy : Tensor, shape ()
        Entropy of the weights in nats.
    """

    @staticmethod
    def forward(ctx, hidden, logits, gain, keep):
        log_p = torch.log_softmax(logits.masked_fill(~keep, -math.inf), dim=0)
        p = log_p.exp()
        plogp = p * log_p.masked_fill(~keep, 0.0)
        entropy = -plogp.sum()
        blend = torch.tensordot(p, hidden, dims=1)
        ctx.save_for_backward(hidden, gain, p, log_p.masked_fill(~keep, 0.0), entropy, blend)
        return gain * blend, entropy.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_mixed, grad_entropy):
        hidden, gain, p, log_p, entropy, blend = ctx.saved_tensors
        layers = hidden.shape[0]
        grad_gain = (grad_mixed * blend).sum()
        grad_hidden = None
        if ctx.needs_input_grad[0]:
            grad_hidden = (gain * p).view(-1, *[1] * grad_mixed.dim()) * grad_mixed
        match = hidden.reshape(layers, -1) @ grad_mixed.reshape(-1)
        grad_logits = p * (match - torch.dot(p, match))
        grad_logits = grad_logits - grad_entropy * p * (log_p + entropy)
        return grad_hidden, grad_logits, grad_gain, None


class ClusteredNLL(torch.autograd.Function):
    """Negative log likelihood under a two-level softmax.

    log p(y) = log_softmax(cluster_logits)[table[y]]
             + log_softmax(class_logits restricted to the cluster of y)[y]

    Args:
        cluster_logits: (n, clusters)
        class_logits: (n, classes)
        labels: (n,) int64; entries equal to ``ignore`` do not count.
        table: (classes,) int64, cluster of each class.
        reduction: "mean" averages over the labels that count.
        ignore: int
    """

    @staticmethod
    def forward(ctx, cluster_logits, class_logits, labels, table, reduction="mean", ignore=IGNORE):
        counted = labels != ignore
        safe = labels.masked_fill(~counted, 0)
        home = table[safe]
        siblings = table[None, :] == home[:, None]
        outer = torch.log_softmax(cluster_logits, dim=1)
        inner = torch.log_softmax(class_logits.masked_fill(~siblings, -math.inf), dim=1)
        nll = -(outer.gather(1, home[:, None]) + inner.gather(1, safe[:, None])).squeeze(1)
        nll = nll.masked_fill(~counted, 0.0)

        ctx.save_for_backward(outer, inner, counted, safe, home)
        ctx.reduction = reduction
        if reduction == "none":
            return nll
        if reduction == "sum":
            return nll.sum()
        if reduction == "mean":
            return nll.sum() / counted.sum().clamp(min=1)
        raise ValueError(f"unknown reduction {reduction!r}")

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        outer, inner, counted, safe, home = ctx.saved_tensors
        per_row = grad.expand(counted.shape) * counted.to(outer.dtype)
        if ctx.reduction == "mean":
            per_row = per_row / counted.sum().clamp(min=1)
        grad_outer = outer.exp()
        grad_outer.scatter_add_(1, home[:, None], -torch.ones_like(grad_outer[:, :1]))
        grad_inner = inner.exp()
        grad_inner.scatter_add_(1, safe[:, None], -torch.ones_like(grad_inner[:, :1]))
        scale = per_row[:, None]
        return grad_outer * scale, grad_inner * scale, None, None, None, None


class VarianceFloor(torch.autograd.Function):
    """max(0, floor - std) of the features ``z`` over ``axis`` (unbiased)."""

    @staticmethod
    def forward(z, axis, floor, eps):
        std = torch.sqrt(z.var(dim=axis, unbiased=True) + eps)
        return torch.relu(floor - std)

    @staticmethod
    def setup_context(ctx, inputs, output):
        z, axis, floor, eps = inputs
        ctx.save_for_backward(z, output)
        ctx.axis, ctx.floor, ctx.eps = axis, floor, eps

    @staticmethod
    def backward(ctx, grad):
        z, short = ctx.saved_tensors
        samples = len(z)
        centred = z - z.mean(dim=ctx.axis, keepdim=True)
        std = torch.sqrt(z.var(dim=ctx.axis, unbiased=True, keepdim=True) + ctx.eps)
        active = (grad * (short > 0).to(grad.dtype)).unsqueeze(ctx.axis)
        return -active * centred / (std * (samples - 1)), None, None, None


class ScalarLayerMix(nn.Module):
    """``LayerMix`` with layer dropout during training."""

    def __init__(self, layers: int, dropout: float = 0.0, train_gain: bool = True):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(layers))
        self.gain = nn.Parameter(torch.ones(()), requires_grad=train_gain)
        self.dropout = dropout

    def _keep(self) -> Tensor:
        keep = torch.ones_like(self.logits, dtype=torch.bool)
        if self.training and self.dropout > 0.0:
            keep = torch.rand_like(self.logits) >= self.dropout
            if not bool(keep.any()):
                keep[-1] = True
        return keep

    def forward(self, hidden: Tensor):
        return LayerMix.apply(hidden, self.logits, self.gain, self._keep())


class TwoLevelHead(nn.Module):
    def __init__(self, width: int, table: Tensor, reduction: Reduction = "mean"):
        super().__init__()
        self.register_buffer("table", table)
        self.cluster = nn.Linear(width, int(table.max()) + 1)
        self.classes = nn.Linear(width, table.numel())
        self.reduction = reduction

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        flat = features.reshape(-1, features.shape[-1])
        return ClusteredNLL.apply(
            self.cluster(flat), self.classes(flat), labels.reshape(-1), self.table, self.reduction, IGNORE
        )

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """Best class of the best cluster."""
        flat = features.reshape(-1, features.shape[-1])
        best = self.cluster(flat).argmax(1)
        scores = self.classes(flat)
        allowed = self.table[None, :] == best[:, None]
        return scores.masked_fill(~allowed, -math.inf).argmax(1).view(features.shape[:-1])


class SpreadRegulariser(nn.Module):
    """Mean hinge of :class:`VarianceFloor`.

    Works on a batch ``(batch, width)`` or on stacked augmented views
    ``(views, batch, width)``; the statistics are taken over the batch.
    """

    def __init__(self, floor: float = FLOOR, eps: float = 1e-4):
        super().__init__()
        self.floor, self.eps = floor, eps

    def forward(self, z: Tensor) -> Tensor:
        return VarianceFloor.apply(z, z.dim() - 2, self.floor, self.eps).mean()


class Probe(nn.Module):
    """Mix, project, score.

    ``forward`` returns a dict of losses; the entropy term is present only
    when it is weighted.
    """

    def __init__(self, layers: int, width: int, table: Tensor, entropy_weight: float = 0.0, dropout: float = 0.1):
        super().__init__()
        self.mix = ScalarLayerMix(layers, dropout)
        self.project = nn.Linear(width, width)
        self.head = TwoLevelHead(width, table)
        self.spread = SpreadRegulariser()
        self.entropy_weight = entropy_weight

    def forward(self, batch: Dict[str, Tensor], noise: Optional[float] = None) -> Dict[str, Tensor]:
        mixed, entropy = self.mix(batch["layers"])
        features = torch.tanh(self.project(mixed))
        losses = {"nll": self.head(features, batch["labels"])}
        if noise is not None:
            pooled = features.mean(1)
            views = torch.stack([pooled, pooled + noise * torch.randn_like(pooled)])
            losses["spread"] = self.spread(views)
        if self.entropy_weight:
            losses["entropy"] = self.entropy_weight * entropy
        return losses


if __name__ == "__main__":
    torch.manual_seed(5)
    clusters = frequency_clusters(torch.tensor([50, 40, 30, 8, 7, 6, 5, 3, 2, 1]), 3)
    probe = Probe(layers=4, width=12, table=clusters, entropy_weight=0.01)
    states = torch.randn(4, 6, 5, 12)
    gold = torch.randint(0, 10, (6, 5))
    gold[:, -1] = IGNORE
    optimiser = torch.optim.SGD(probe.parameters(), lr=0.1)
    for step in range(5):
        optimiser.zero_grad()
        parts = probe({"layers": states, "labels": gold}, noise=0.05)
        sum(parts.values()).backward()
        optimiser.step()
        print(step, {name: round(value.item(), 4) for name, value in parts.items()})
    print("layer weights", torch.softmax(probe.mix.logits, 0).tolist())
