"""A small network that fills in latin squares and sudoku boards.

Boards are flattened: a board of side ``s`` has ``N = s * s`` cells, row by row, and each
cell carries scores for ``K`` digits.  Three pieces of the network have hand-written
derivatives, because the autograd graph of the gathered units was what filled the memory of our
(old) card.
"""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd import Function


def latin_units(side: int) -> Tensor:
    """Rows and columns of a board as a table of cell numbers, (2 * side, side)."""
    cells = torch.arange(side * side).reshape(side, side)
    return torch.cat([cells, cells.T], dim=0)


def pad_units(units: list[list[int]]) -> Tensor:
    """Irregular (jigsaw) units to one table, filled up with -1."""
    longest = max(len(u) for u in units)
    return torch.tensor([u + [-1] * (longest - len(u)) for u in units])


def board_symmetries(side: int) -> Tensor:
    """The eight symmetries of the square as gather tables, (8, N).

    Row ``g`` says for each target cell from which cell it is read.
    """
    cells = torch.arange(side * side).reshape(side, side)
    tables = []
    for flipped in (False, True):
        base = cells.flip(1) if flipped else cells
        for quarter in range(4):
            tables.append(torch.rot90(base, quarter).reshape(-1))
    return torch.stack(tables)


class UnitExclusionLoss(Function):
    """Every digit once in every unit.

    probs (B, N, K), units (U, M) of cell numbers with -1 where a unit is shorter, weight (U,).
    Per board: sum over units and digits of weight * (total probability of the digit in the unit - 1)^2;
    over the boards the mean or the sum.
    """

    @staticmethod
    def forward(ctx, probs, units, weight, reduction="mean"):
        present = (units >= 0).to(probs.dtype)
        cells = units.clamp(min=0)
        totals = (probs[:, cells] * present[None, :, :, None]).sum(dim=2)
        excess = totals - 1.0                                   # (B, U, K)
        per_board = (weight[:, None] * excess.square()).sum(dim=(1, 2))
        ctx.save_for_backward(excess, units, weight)
        ctx.n_cells = probs.shape[1]
        ctx.share = 1.0 / probs.shape[0] if reduction == "mean" else 1.0
        return per_board.sum() * ctx.share

    @staticmethod
    def backward(ctx, grad):
        excess, units, weight = ctx.saved_tensors
        boards, n_units, digits = excess.shape
        scale = grad * ctx.share
        pull = 2.0 * scale * weight[:, None] * excess           # (B, U, K)
        spread = pull[:, :, None, :].expand(boards, n_units, units.shape[1], digits)
        # one slot more than there are cells, for the filling
        slots = torch.where(units >= 0, units, ctx.n_cells).reshape(-1)
        g = excess.new_zeros(boards, ctx.n_cells + 1, digits)
        g.index_add_(1, slots, spread.reshape(boards, -1, digits))
        return g[:, :-1], None, scale * excess.square().sum(dim=(0, 2)), None


class GivenClampSoftmax(Function):
    """Digit probabilities of the open cells; the printed digits of the puzzle stay one-hot.

    logits (B, N, K); temperature: 0-d or one per cell, (N,); given (B, N) holds the printed digit or -1;
    allowed: boolean (B, N, K) or None, pencil marks (each open cell has at least one).
    """

    @staticmethod
    def forward(ctx, logits, temperature, given, allowed=None):
        t = temperature[..., None]
        z = logits / t
        if allowed is not None:
            z = z.masked_fill(~(allowed | (given >= 0)[..., None]), float("-inf"))
        p = torch.softmax(z, dim=-1)
        printed = nn.functional.one_hot(given.clamp(min=0), logits.shape[-1]).to(p.dtype)
        p = torch.where((given >= 0)[..., None], printed, p)
        ctx.save_for_backward(p, logits, temperature)
        return p

    @staticmethod
    def backward(ctx, grad):
        p, logits, temperature = ctx.saved_tensors
        t = temperature[..., None]
        inner = p * (grad - (p * grad).sum(dim=-1, keepdim=True))
        g_logits = inner / t
        g_t = -(inner * logits).sum(dim=-1) / temperature.square()      # (B, N)
        g_t = g_t.sum() if temperature.dim() == 0 else g_t.sum(dim=0)
        return g_logits, g_t, None, None


class SymmetryBlend(Function):
    """Weighted sum of a board's symmetric images: out[:, n] = sum_g mix[g] * x[:, tables[g, n]]."""

    @staticmethod
    def forward(ctx, x, mix, tables):
        out = torch.zeros_like(x)
        for g in range(tables.shape[0]):
            out = out + mix[g] * x[:, tables[g]]
        ctx.save_for_backward(x, mix, tables)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, mix, tables = ctx.saved_tensors
        g_x = torch.zeros_like(x)
        g_mix = []
        for g in range(tables.shape[0]):
            g_x = g_x + mix[g] * grad[:, tables[g]]
            g_mix.append((grad * x[:, tables[g]]).sum())
        return g_x, torch.stack(g_mix), None


class BoardHead(nn.Module):
    """Features (B, N, F) to digit probabilities (B, N, K)."""

    def __init__(self, side: int, features: int, digits: int | None = None):
        super().__init__()
        self.to_digits = nn.Linear(features, digits or side)
        self.mix = nn.Parameter(torch.full((8,), 1 / 8))
        self.log_t = nn.Parameter(torch.zeros(side * side))
        self.register_buffer("tables", board_symmetries(side))
        self.register_buffer("units", latin_units(side))

    def forward(self, features: Tensor, given: Tensor) -> Tensor:
        blended = SymmetryBlend.apply(self.to_digits(features), self.mix, self.tables)
        return GivenClampSoftmax.apply(blended, self.log_t.exp(), given)

    def rule_loss(self, probs: Tensor) -> Tensor:
        weight = probs.new_ones(self.units.shape[0])
        return UnitExclusionLoss.apply(probs, self.units, weight, "mean")


if __name__ == "__main__":
    torch.manual_seed(0)
    head = BoardHead(4, 6)
    printed = torch.full((2, 16), -1)
    printed[:, 5] = 2
    p = head(torch.randn(2, 16, 6), printed)
    print(p.shape, float(head.rule_loss(p)))
