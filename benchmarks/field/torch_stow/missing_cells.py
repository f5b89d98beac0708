"""Layers for tables with missing cells.

Exports from hospital and plant databases arrive with holes.  The layers here
keep the observed-cell mask next to the values and never look at what a missing
cell happens to contain (it may be zero, -999 or NaN after ``nan_to_num``):

``ObservedNorm``       batch standardisation from observed cells only, with a
                       learned value for the holes
``DonorImputer``       hot-deck imputation, holes are filled from similar rows
``PatternLinear``      linear layer whose holes contribute their own embedding

``mask`` is boolean everywhere, True where a cell was observed.
"""

import math
from typing import List, Optional

import torch
from torch import nn
from torch.autograd.function import once_differentiable

EPS = 1e-5


def split_mask(table: torch.Tensor):
    """Return (values with NaN replaced by zero, mask of observed cells)."""
    mask = ~torch.isnan(table)
    return torch.where(mask, table, torch.zeros_like(table)), mask


def missing_rates(mask: torch.Tensor) -> torch.Tensor:
    return 1.0 - mask.double().mean(0)


class ObservedStandardize(torch.autograd.Function):
    """Standardise the columns of a batch over their observed cells.

    Args:
        x: (rows, columns) values.
        mask: (rows, columns) bool.
        fill: (columns,) standardised value put in the holes.
        ddof: subtracted from the count in the variance.
        eps: added to the variance.

    Returns:
        Tuple of the standardised table, and the column means and variances
        (for running statistics; these two carry no gradient).
    """

    @staticmethod
    def forward(ctx, x, mask, fill, ddof, eps):
        seen = mask.to(x.dtype)
        count = seen.sum(0)
        size = count.clamp(min=1.0)
        freedom = (count - ddof).clamp(min=1.0)
        clean = torch.where(mask, x, torch.zeros_like(x))
        mean = clean.sum(0) / size
        centred = torch.where(mask, clean - mean, torch.zeros_like(x))
        var = centred.pow(2).sum(0) / freedom
        rstd = torch.rsqrt(var + eps)
        unit = centred * rstd
        ctx.save_for_backward(unit, seen, rstd, size, freedom)
        ctx.mark_non_differentiable(mean, var)
        return torch.where(mask, unit, fill.expand_as(x)), mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _grad_mean, _grad_var):
        unit, seen, rstd, size, freedom = ctx.saved_tensors
        grad_unit = grad * seen
        level = grad_unit.sum(0) / size
        spread = (grad_unit * unit).sum(0) / freedom
        grad_x = rstd * (grad_unit - level - unit * spread) * seen
        grad_fill = (grad * (1.0 - seen)).sum(0)
        return grad_x, None, grad_fill, None, None


class DonorFill(torch.autograd.Function):
    """Fill the holes of each row by a softmax-weighted mean of donor rows.

    Parameters
    ----------
    x : (rows, columns)
    mask : (rows, columns) bool
    donors : (pool, columns)
        Complete rows.
    index : (rows, k) int64
        The donors of each row.
    score : (rows, k)
        Unnormalised log weights of these donors.
    """

    @staticmethod
    def forward(ctx, x, mask, donors, index, score):
        weight = torch.softmax(score, dim=1)
        offered = donors[index]
        mixed = torch.einsum("rk,rkc->rc", weight, offered)
        ctx.save_for_backward(mask, donors, index, weight)
        return torch.where(mask, x, mixed)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        mask, donors, index, weight = ctx.saved_tensors
        zero = torch.zeros_like(grad)
        grad_x = torch.where(mask, grad, zero)
        grad_mixed = torch.where(mask, zero, grad)

        pull = torch.einsum("rc,rkc->rk", grad_mixed, donors[index])
        grad_score = weight * (pull - (weight * pull).sum(1, keepdim=True))

        grad_donors = torch.zeros_like(donors)
        grad_donors[index] += weight.unsqueeze(-1) * grad_mixed.unsqueeze(1)
        return grad_x, None, grad_donors, None, grad_score


class PatternProjection(torch.autograd.Function):
    """y = sqrt(F / observed) * sum_obs x_f W_f + sum_miss M_f + b."""

    @staticmethod
    def forward(x, mask, weight, absent, bias):
        seen = mask.to(x.dtype)
        clean = torch.where(mask, x, torch.zeros_like(x))
        return _row_gain(seen) * (clean @ weight) + (1.0 - seen) @ absent + bias

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, mask, weight, absent, bias = inputs
        ctx.save_for_backward(x, mask, weight)

    @staticmethod
    def backward(ctx, grad):
        x, mask, weight = ctx.saved_tensors
        seen = mask.to(grad.dtype)
        scaled = grad * _row_gain(seen)
        grad_x = torch.where(mask, scaled @ weight.t(), torch.zeros_like(x))
        clean = torch.where(mask, x, torch.zeros_like(x))
        features, width = weight.shape
        grad_weight = clean.reshape(-1, features).t() @ scaled.reshape(-1, width)
        grad_absent = (1.0 - seen).reshape(-1, features).t() @ grad.reshape(-1, width)
        return grad_x, None, grad_weight, grad_absent, grad.reshape(-1, width).sum(0)


def _row_gain(seen):
    observed = seen.sum(-1, keepdim=True).clamp(min=1.0)
    return torch.sqrt(seen.shape[-1] / observed)


class ObservedNorm(nn.Module):
    """Drop-in for BatchNorm1d on (rows, columns) tables with a mask."""

    def __init__(self, columns: int, momentum: float = 0.1, ddof: int = 0, eps: float = EPS):
        super().__init__()
        self.fill = nn.Parameter(torch.zeros(columns))
        self.momentum, self.ddof, self.eps = momentum, ddof, eps
        self.register_buffer("running_mean", torch.zeros(columns))
        self.register_buffer("running_var", torch.ones(columns))

    def forward(self, x, mask):
        if self.training:
            out, mean, var = ObservedStandardize.apply(x, mask, self.fill, self.ddof, self.eps)
            with torch.no_grad():
                known = mask.any(0)
                self.running_mean.copy_(
                    torch.where(known, torch.lerp(self.running_mean, mean, self.momentum), self.running_mean)
                )
                self.running_var.copy_(
                    torch.where(known, torch.lerp(self.running_var, var, self.momentum), self.running_var)
                )
            return out
        unit = (x - self.running_mean) * torch.rsqrt(self.running_var + self.eps)
        return torch.where(mask, unit, self.fill)


class DonorImputer(nn.Module):
    """Hot-deck imputation with a learned pool of donor rows.

    The ``k`` donors nearest on the observed cells are looked up; their weights
    fall off with the squared distance, at a learned temperature.
    """

    def __init__(self, pool: int, columns: int, k: int = 5):
        super().__init__()
        if k > pool:
            raise ValueError(f"k={k} exceeds the pool of {pool}")
        self.k = k
        self.donors = nn.Parameter(torch.randn(pool, columns))
        self.log_temperature = nn.Parameter(torch.zeros(()))

    def distances(self, x, mask):
        gap = torch.where(mask[:, None], x[:, None] - self.donors[None], torch.zeros_like(x)[:, None])
        return gap.pow(2).sum(-1) / mask.sum(-1, keepdim=True).clamp(min=1)

    def forward(self, x, mask):
        distance = self.distances(x, mask)
        near, index = distance.topk(self.k, dim=1, largest=False)
        return DonorFill.apply(x, mask, self.donors, index, -near * torch.exp(-self.log_temperature))

    @torch.no_grad()
    def load_pool(self, complete_rows: torch.Tensor, generator: Optional[torch.Generator] = None):
        """Draw the donors among complete training rows."""
        order = torch.randperm(len(complete_rows), generator=generator)[: len(self.donors)]
        self.donors[: len(order)] = complete_rows[order]


class PatternLinear(nn.Module):
    def __init__(self, columns: int, width: int):
        super().__init__()
        bound = 1.0 / math.sqrt(columns)
        self.weight = nn.Parameter(torch.empty(columns, width).uniform_(-bound, bound))
        self.absent = nn.Parameter(torch.zeros(columns, width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x, mask):
        """x and mask (..., columns) -> (..., width)"""
        return PatternProjection.apply(x, mask, self.weight, self.absent, self.bias)


class HoleyTableNet(nn.Module):
    """Normalise, impute for the skip branch, embed by pattern, classify."""

    def __init__(self, columns: int, width: int, classes: int, pool: int = 32):
        super().__init__()
        self.norm = ObservedNorm(columns)
        self.impute = DonorImputer(pool, columns)
        self.embed = PatternLinear(columns, width)
        self.skip = nn.Linear(columns, width)
        self.head = nn.Sequential(nn.GELU(), nn.Linear(width, classes))

    def forward(self, table):
        values, mask = split_mask(table)
        unit = self.norm(values, mask)
        filled = self.impute(unit, mask)
        return self.head(self.embed(unit, mask) + self.skip(filled))


def train(net: HoleyTableNet, table, labels, steps: int = 10, lr: float = 3e-3) -> List[float]:
    """Full-batch training; returns the losses."""
    optimiser = torch.optim.AdamW(net.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(table), labels)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses


if __name__ == "__main__":
    torch.manual_seed(7)
    demo = torch.randn(64, 9)
    demo[torch.rand(64, 9) < 0.25] = float("nan")
    target = torch.randint(0, 3, (64,))
    network = HoleyTableNet(9, 16, 3)
    print("losses", [round(v, 4) for v in train(network, demo, target)])
    network.eval()
    print("missing", missing_rates(split_mask(demo)[1]).tolist())
    print("eval logits", tuple(network(demo).shape))
