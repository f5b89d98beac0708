"""Small vision head for a dishwashing line that drops cutlery into trays.

A camera sits over the belt; the backbone is an ordinary convnet that lives
elsewhere.  This file has the pieces we wrote ourselves: a pyramid readout that
copes with crops of any size, an activation with a trainable exponent, and the
loss that knows what a mistake costs the kitchen.
"""
from dataclasses import dataclass
from typing import Iterator, Sequence, Tuple

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

TRAYS = ("fork", "knife", "spoon", "teaspoon", "reject")


@dataclass(frozen=True)
class HeadConfig:
    channels: int = 16
    levels: Tuple[int, ...] = (1, 2, 3)
    trays: int = len(TRAYS)


def _edges(size: int, cells: int) -> Iterator[Tuple[int, int]]:
    """Start and stop of each cell; every pixel lies in at least one cell."""
    for i in range(cells):
        yield (i * size) // cells, -((-(i + 1) * size) // cells)


class PyramidReadout(Function):
    """Cell means of a feature map at several grid resolutions.

    Args:
        x: features, ``(N, C, H, W)``; crops may be any height and width that
            is at least ``max(levels)``.
        levels: number of cells per side at each level.

    Returns:
        ``(N, C, sum(l * l))``, cells in row-major order, level after level.
        The cells follow the adaptive-pooling convention (floor of the start,
        ceiling of the stop).
    """

    @staticmethod
    def forward(ctx, x, levels):
        cells = []
        for n in levels:
            for r0, r1 in _edges(x.shape[-2], n):
                for c0, c1 in _edges(x.shape[-1], n):
                    cells.append(x[..., r0:r1, c0:c1].mean(dim=(-2, -1)))
        ctx.levels = tuple(levels)
        ctx.shape = x.shape
        return torch.stack(cells, dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        h, w = ctx.shape[-2:]
        total = grad.new_zeros(ctx.shape)
        slot = 0
        for n in ctx.levels:
            plane = grad.new_zeros(ctx.shape)
            for r0, r1 in _edges(h, n):
                for c0, c1 in _edges(w, n):
                    area = (r1 - r0) * (c1 - c0)
                    plane[..., r0:r1, c0:c1] = (grad[..., slot] / area)[..., None, None]
                    slot += 1
            total += plane
        return total, None


class RaisedRelu(Function):
    """``scale * relu(x) ** power + shift`` with per-channel (axis 1) parameters.

    ``scale``, ``shift`` and ``power`` are vectors of length C. Powers are kept
    above one, so the function is smooth where it leaves the floor.
    """

    @staticmethod
    def forward(x, scale, shift, power):
        view = (1, -1) + (1,) * (x.dim() - 2)
        lit = x > 0
        base = torch.where(lit, x, torch.ones_like(x))
        lifted = torch.where(lit, base ** power.view(view), torch.zeros_like(x))
        return scale.view(view) * lifted + shift.view(view)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale, shift, power = inputs
        ctx.save_for_backward(x, scale, power)

    @staticmethod
    def backward(ctx, grad):
        x, scale, power = ctx.saved_tensors
        view = (1, -1) + (1,) * (x.dim() - 2)
        others = [d for d in range(x.dim()) if d != 1]
        s, p = scale.view(view), power.view(view)
        lit = (x > 0).to(x.dtype)
        base = torch.where(x > 0, x, torch.ones_like(x))
        grad_x = grad_scale = grad_shift = grad_power = None
        if ctx.needs_input_grad[0]:
            grad_x = grad * s * p * base ** (p - 1) * lit
        if ctx.needs_input_grad[1]:
            grad_scale = (grad * base ** p * lit).sum(dim=others)
        if ctx.needs_input_grad[2]:
            grad_shift = grad.sum(dim=others)
        if ctx.needs_input_grad[3]:
            # log(1) == 0 wherever the unit is dark
            grad_power = (grad * s * base ** p * base.log()).sum(dim=others)
        return grad_x, grad_scale, grad_shift, grad_power


class TrayCostLoss(Function):
    """Expected price of the tray that the network would choose.

    ``prices[i, j]`` is what it costs, in cents, when a piece that truly is of
    kind ``i`` ends up in tray ``j``; the price list is fixed. (A knife among the
    spoons cuts somebody; a spoon among the knives only annoys.)  Pieces
    labelled ``-1`` were not annotated and do not count in the mean.
    """

    @staticmethod
    def forward(ctx, logits, labels, prices):
        kept = labels >= 0
        safe = labels.clamp(min=0)
        probs = torch.softmax(logits, dim=-1)
        each = (probs * prices[safe]).sum(dim=-1)
        count = kept.sum().clamp(min=1)
        ctx.save_for_backward(probs, safe, kept, prices, count)
        return torch.where(kept, each, torch.zeros_like(each)).sum() / count

    @staticmethod
    def backward(ctx, grad):
        probs, safe, kept, prices, count = ctx.saved_tensors
        bill = prices.index_select(1, safe).t()
        expected = (probs * bill).sum(dim=-1, keepdim=True)
        out = probs * (bill - expected) * kept[:, None] / count
        return grad * out, None, None


def default_prices(dtype=torch.float32) -> torch.Tensor:
    prices = torch.ones(5, 5, dtype=dtype) - torch.eye(5, dtype=dtype)
    prices[1, :] *= 6.0          # knives in the wrong place
    prices[:, 4] *= 0.25         # rejecting is cheap: a person looks again
    return prices


class SorterHead(nn.Module):
    def __init__(self, config: HeadConfig = HeadConfig()):
        super().__init__()
        c = config.channels
        self.levels: Sequence[int] = config.levels
        self.scale = nn.Parameter(torch.full((c,), 0.9))
        self.shift = nn.Parameter(torch.full((c,), -0.4))
        self.power = nn.Parameter(torch.full((c,), 2.0))
        self.out = nn.Linear(c * sum(l * l for l in config.levels), config.trays)
        self.register_buffer("prices", default_prices())

    def forward(self, features):
        lit = RaisedRelu.apply(features, self.scale, self.shift, self.power)
        return self.out(PyramidReadout.apply(lit, self.levels).flatten(1))

    def loss(self, features, labels):
        return TrayCostLoss.apply(self(features), labels, self.prices)


if __name__ == "__main__":
    head = SorterHead()
    value = head.loss(torch.randn(4, 16, 12, 18), torch.tensor([0, 1, -1, 4]))
    value.backward()
    print(value.item(), head.power.grad.norm())
