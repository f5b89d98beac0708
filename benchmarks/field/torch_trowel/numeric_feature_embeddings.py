"""Embeddings of numeric columns for tabular networks.

Raw numeric columns are a poor input to an MLP.  This module has the three
front ends used by the tabular baselines of the group:

``PiecewiseLinearEncoding``
    position of a value among per-column bin edges, one number per bin;
``PeriodicFeatures``
    cosines and sines with learned frequencies;
``RobustSquash``
    imputation, robust scaling and a smooth bound, in one pass over the data.

The Functions recompute cheap intermediates in the backward pass; with wide
tables (thousands of columns, tens of bins) the saved activations of the
composed version were the largest tensors of the whole model.
"""

import math
from typing import Dict, List, Optional

import torch
from torch import nn
from torch.autograd import Function

SQUASH_LIMIT = 3.0
MIN_BIN_WIDTH = 1e-6
IQR_TO_SCALE = 0.7413


def quantile_edges(column: torch.Tensor, bins: int) -> torch.Tensor:
    """``bins + 1`` edges of one column, by quantile, forced to increase."""
    column = column[~torch.isnan(column)]
    q = torch.linspace(0.0, 1.0, bins + 1, dtype=column.dtype, device=column.device)
    edges = torch.quantile(column, q)
    bump = torch.arange(bins + 1, dtype=column.dtype, device=column.device) * MIN_BIN_WIDTH
    return edges + bump


class PiecewiseLinearEncoding(Function):
    """Encode ``x`` of shape (..., F) against ``edges`` of shape (F, M + 1).

    Bin m of a column holds (x - e[m]) / (e[m + 1] - e[m]), cut to [0, 1],
    except that the first bin is not cut from below and the last bin not from
    above: a value outside of the training range is continued linearly.

    Returns a tensor (..., F, M).
    """

    @staticmethod
    def _ratio(x, edges):
        low = edges[:, :-1]
        width = edges[:, 1:] - low
        return (x.unsqueeze(-1) - low) / width, width

    @staticmethod
    def forward(ctx, x, edges):
        ratio, _ = PiecewiseLinearEncoding._ratio(x, edges)
        lower = torch.zeros(ratio.shape[-1], dtype=x.dtype, device=x.device)
        upper = torch.ones_like(lower)
        lower[0] = -torch.inf
        upper[-1] = torch.inf
        ctx.save_for_backward(x, edges)
        return torch.minimum(torch.maximum(ratio, lower), upper)

    @staticmethod
    def backward(ctx, grad):
        x, edges = ctx.saved_tensors
        ratio, width = PiecewiseLinearEncoding._ratio(x, edges)
        in_bin = (ratio >= 0.0) & (ratio <= 1.0)
        slope = torch.where(in_bin, grad / width, torch.zeros_like(grad))

        grad_x = grad_edges = None
        if ctx.needs_input_grad[0]:
            grad_x = slope.sum(-1)
        if ctx.needs_input_grad[1]:
            bins = edges.shape[1] - 1
            at_low = (slope * (ratio - 1.0)).reshape(-1, edges.shape[0], bins).sum(0)
            at_high = (-slope * ratio).reshape(-1, edges.shape[0], bins).sum(0)
            grad_edges = torch.zeros_like(edges)
            grad_edges[:, :-1] += at_low
            grad_edges[:, 1:] += at_high
        return grad_x, grad_edges


class PeriodicFeatures(Function):
    """cos and sin of 2 pi x f for each column.

    Args:
        x: values; last axis is the column, F of them.
        frequencies: (F, K).
        keep_raw: also put the value itself in front.

    Returns:
        (..., F, 2K), or (..., F, 2K + 1) with ``keep_raw``.
    """

    @staticmethod
    def forward(x, frequencies, keep_raw=False):
        angle = 2.0 * math.pi * x.unsqueeze(-1) * frequencies
        parts = [torch.cos(angle), torch.sin(angle)]
        if keep_raw:
            parts.insert(0, x.unsqueeze(-1))
        return torch.cat(parts, dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, frequencies, keep_raw = inputs
        ctx.save_for_backward(x, frequencies, output)
        ctx.keep_raw = keep_raw

    @staticmethod
    def backward(ctx, grad):
        x, frequencies, output = ctx.saved_tensors
        k = frequencies.shape[-1]
        raw = 1 if ctx.keep_raw else 0
        cos, sin = output[..., raw:raw + k], output[..., raw + k:]
        on_angle = grad[..., raw + k:] * cos - grad[..., raw:raw + k] * sin
        on_angle = 2.0 * math.pi * on_angle

        grad_x = grad_freq = None
        if ctx.needs_input_grad[0]:
            grad_x = (on_angle * frequencies).sum(-1)
            if ctx.keep_raw:
                grad_x = grad_x + grad[..., 0]
        if ctx.needs_input_grad[1]:
            grad_freq = (on_angle * x.unsqueeze(-1)).sum_to_size(frequencies.shape)
        return grad_x, grad_freq, None


class RobustSquash(Function):
    """Impute, centre, scale and bound.

    Notes
    -----
    With v the value where ``present`` and ``fill`` elsewhere,

        z = (v - center) / scale
        y = z / sqrt(1 + (z / limit)**2)

    ``x`` and ``present`` are (N, F); ``fill``, ``center`` and ``scale`` are
    (F,).  Absent entries of ``x`` may hold anything, nan included.
    """

    @staticmethod
    def forward(ctx, x, fill, center, scale, present, limit=SQUASH_LIMIT):
        value = torch.where(present, x, fill)
        z = (value - center) / scale
        ctx.save_for_backward(z, scale, present)
        ctx.limit = limit
        return z * torch.rsqrt(1.0 + (z / limit).square())

    @staticmethod
    def backward(ctx, grad_y):
        z, scale, present = ctx.saved_tensors
        grad_z = grad_y * (1.0 + (z / ctx.limit).square()).pow(-1.5)
        grad_value = grad_z / scale

        observed = torch.where(present, grad_value, torch.zeros_like(grad_value))
        grad_x = observed if ctx.needs_input_grad[0] else None
        grad_fill = (grad_value - observed).sum(0) if ctx.needs_input_grad[1] else None
        grad_center = -observed.sum(0) if ctx.needs_input_grad[2] else None
        grad_scale = -(observed * z).sum(0) if ctx.needs_input_grad[3] else None
        return grad_x, grad_fill, grad_center, grad_scale, None, None


class Squash(nn.Module):
    """Learned robust scaling, started from the median and the IQR."""

    def __init__(self, train: torch.Tensor, limit: float = SQUASH_LIMIT):
        super().__init__()
        center = torch.nanmedian(train, dim=0).values
        spread = torch.nanquantile(train, 0.75, dim=0) - torch.nanquantile(train, 0.25, dim=0)
        scale = (IQR_TO_SCALE * spread).clamp(min=1e-3)
        self.center = nn.Parameter(center)
        self.log_scale = nn.Parameter(scale.log())
        self.fill = nn.Parameter(torch.nanmean(train, dim=0))
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        present = ~torch.isnan(x)
        return RobustSquash.apply(
            x, self.fill, self.center, self.log_scale.exp(), present, self.limit
        )


class PiecewiseEmbedding(nn.Module):
    def __init__(self, train: torch.Tensor, bins: int, dim: int, learn_edges: bool = False):
        super().__init__()
        edges = torch.stack([quantile_edges(c, bins) for c in train.unbind(1)])
        if learn_edges:
            self.edges = nn.Parameter(edges)
        else:
            self.register_buffer("edges", edges)
        self.weight = nn.Parameter(torch.randn(train.shape[1], bins, dim) / math.sqrt(bins))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        code = PiecewiseLinearEncoding.apply(x, self.edges)
        return torch.einsum("nfm,fmd->nfd", code, self.weight)


class PeriodicEmbedding(nn.Module):
    """Periodic features, a linear map per column, ReLU."""

    def __init__(self, columns: int, frequencies: int, dim: int,
                 sigma: float = 0.1, keep_raw: bool = False):
        super().__init__()
        self.frequencies = nn.Parameter(sigma * torch.randn(columns, frequencies))
        self.keep_raw = keep_raw
        width = 2 * frequencies + int(keep_raw)
        self.weight = nn.Parameter(torch.randn(columns, width, dim) / math.sqrt(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        code = PeriodicFeatures.apply(x, self.frequencies, self.keep_raw)
        return torch.relu(torch.einsum("nfk,fkd->nfd", code, self.weight))


class TabularNet(nn.Module):
    """MLP on embedded numeric columns and plain categorical embeddings."""

    def __init__(self, train: torch.Tensor, cardinalities: List[int], config: Dict):
        super().__init__()
        dim = config.get("dim", 8)
        columns = train.shape[1]
        self.squash = Squash(train, config.get("limit", SQUASH_LIMIT))
        with torch.no_grad():
            squashed = self.squash(train)
        kind = config.get("numeric", "piecewise")
        if kind == "piecewise":
            self.numeric = PiecewiseEmbedding(
                squashed, config.get("bins", 6), dim, config.get("learn_edges", True))
        elif kind == "periodic":
            self.numeric = PeriodicEmbedding(
                columns, config.get("frequencies", 12), dim, keep_raw=config.get("keep_raw", True))
        else:
            raise ValueError(f"unknown numeric embedding {kind!r}")
        self.categorical = nn.ModuleList(nn.Embedding(c, dim) for c in cardinalities)
        width = dim * (columns + len(cardinalities))
        self.mlp = nn.Sequential(
            nn.Linear(width, config.get("hidden", 64)), nn.ReLU(), nn.Linear(config.get("hidden", 64), 1)
        )

    def forward(self, x_num: torch.Tensor, x_cat: Optional[torch.Tensor] = None) -> torch.Tensor:
        parts = [self.numeric(self.squash(x_num)).flatten(1)]
        if x_cat is not None:
            parts += [emb(x_cat[:, i]) for i, emb in enumerate(self.categorical)]
        return self.mlp(torch.cat(parts, dim=1)).squeeze(-1)


if __name__ == "__main__":
    torch.manual_seed(0)
    table = torch.randn(256, 5) * torch.tensor([1.0, 10.0, 0.1, 3.0, 1.0])
    table[torch.rand_like(table) < 0.1] = float("nan")
    cats = torch.randint(0, 4, (256, 2))
    target = torch.nan_to_num(table[:, 0]) + 0.1 * cats[:, 0]
    for kind in ("piecewise", "periodic"):
        net = TabularNet(table, [4, 4], {"numeric": kind})
        optim = torch.optim.AdamW(net.parameters(), lr=3e-3)
        for _ in range(30):
            optim.zero_grad()
            loss = (net(table, cats) - target).square().mean()
            loss.backward()
            optim.step()
        print(kind, round(loss.item(), 4))
