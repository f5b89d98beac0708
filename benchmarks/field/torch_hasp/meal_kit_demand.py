"""Demand forecasting for a weekly meal-kit service.

The kitchen plans boxes per recipe and per delivery day.  Three differentiable
pieces are used by the forecaster:

* a fan of quantiles, scored with a weighted pinball loss and a penalty when
  two neighbouring quantiles cross,
* a count likelihood for rarely chosen recipes, with optional extra zeros for
  recipes which were not on the menu of a household at all,
* bumps around holidays, added to the log demand.
"""

from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function

REDUCTIONS = ("mean", "sum", "per_series")


def _unbroadcast(grad: Tensor, shape: torch.Size) -> Tensor:
    """Sum ``grad`` down to ``shape``."""
    return grad.sum_to_size(shape)


class FanLoss(Function):
    """Pinball loss of a fan of quantiles.

    Args:
        fan: forecasts, (series, days, levels), levels ascending.
        actual: what was ordered, (series, days).
        weight: non-negative weight of each day, (series, days); a zero drops
            the day.  Every series keeps at least one day.
        levels: the quantile levels, plain floats.
        crossing: strength of the squared crossing penalty.
        reduction: "mean" (weighted mean over all days), "sum", or
            "per_series" (weighted mean of each series, shape (series,)).
    """

    @staticmethod
    def forward(ctx, fan, actual, weight, levels, crossing, reduction):
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction must be one of {REDUCTIONS}")
        ctx.save_for_backward(fan, actual, weight)
        ctx.levels, ctx.crossing, ctx.reduction = tuple(levels), crossing, reduction
        day = FanLoss._day_loss(fan, actual, levels, crossing)
        total = weight * day
        if reduction == "sum":
            return total.sum()
        if reduction == "mean":
            return total.sum() / weight.sum()
        return total.sum(-1) / weight.sum(-1)

    @staticmethod
    def _day_loss(fan, actual, levels, crossing):
        tau = torch.as_tensor(levels, dtype=fan.dtype, device=fan.device)
        miss = actual.unsqueeze(-1) - fan
        pinball = torch.maximum(tau * miss, (tau - 1.0) * miss).mean(-1)
        over = (fan[..., :-1] - fan[..., 1:]).clamp(min=0.0)
        return pinball + crossing * over.square().sum(-1)

    @staticmethod
    def backward(ctx, grad):
        fan, actual, weight = ctx.saved_tensors
        tau = torch.as_tensor(ctx.levels, dtype=fan.dtype, device=fan.device)
        day = FanLoss._day_loss(fan, actual, ctx.levels, ctx.crossing)

        if ctx.reduction == "sum":
            per_day = grad * weight
            d_weight = grad * day
        else:
            dims = (0, 1) if ctx.reduction == "mean" else (1,)
            norm = weight.sum(dims, keepdim=True)
            value = (weight * day).sum(dims, keepdim=True) / norm
            up = grad.reshape(norm.shape)
            per_day = up * weight / norm
            d_weight = up * (day - value) / norm

        miss = actual.unsqueeze(-1) - fan
        d_miss = torch.where(miss >= 0, tau, tau - 1.0) / len(ctx.levels)
        d_fan = -d_miss
        over = 2.0 * ctx.crossing * (fan[..., :-1] - fan[..., 1:]).clamp(min=0.0)
        d_fan = d_fan + nn.functional.pad(over, (0, 1)) - nn.functional.pad(over, (1, 0))
        return (d_fan * per_day.unsqueeze(-1), d_miss.sum(-1) * per_day, d_weight,
                None, None, None)


class OrderCountNLL(Function):
    """Negative log likelihood of order counts, one value per cell.

    The counts are negative binomial with mean ``exp(log_mean)`` and dispersion
    ``exp(log_size)`` (variance ``mean + mean**2 / size``).  ``absent`` is the
    probability that the recipe was never shown, in which case the count is
    zero; it defaults to nought.  All four broadcast together.
    """

    @staticmethod
    def forward(ctx, counts, log_mean, log_size, absent):
        mean, size = log_mean.exp(), log_size.exp()
        log_p = (torch.lgamma(counts + size) - torch.lgamma(size) - torch.lgamma(counts + 1.0)
                 + size * (log_size - torch.log(size + mean))
                 + counts * (log_mean - torch.log(size + mean)))
        zero = counts == 0
        mixed = torch.where(zero, absent + (1.0 - absent) * log_p.exp(),
                            (1.0 - absent) * torch.ones_like(log_p))
        ctx.save_for_backward(counts, log_mean, log_size, absent, log_p)
        return -torch.where(zero, mixed.log(), mixed.log() + log_p)

    @staticmethod
    def backward(ctx, grad):
        counts, log_mean, log_size, absent, log_p = ctx.saved_tensors
        mean, size = log_mean.exp(), log_size.exp()
        zero = counts == 0
        p_zero = log_p.exp()
        mixed = absent + (1.0 - absent) * p_zero
        shown = torch.where(zero, (1.0 - absent) * p_zero / mixed, torch.ones_like(p_zero))

        d_mean = (counts - mean) * size / (size + mean)
        d_size = size * (torch.digamma(counts + size) - torch.digamma(size)
                         + log_size - torch.log(size + mean)
                         + (mean - counts) / (size + mean))
        d_absent = torch.where(zero, (1.0 - p_zero) / mixed, -1.0 / (1.0 - absent))

        return (None,
                _unbroadcast(-grad * shown * d_mean, log_mean.shape),
                _unbroadcast(-grad * d_size, log_size.shape),
                _unbroadcast(-grad * d_absent, absent.shape))


def order_count_nll(counts: Tensor, log_mean: Tensor, log_size: Tensor,
                    absent: Optional[Tensor] = None) -> Tensor:
    if absent is None:
        absent = torch.zeros((), dtype=log_mean.dtype, device=log_mean.device)
    return OrderCountNLL.apply(counts, log_mean, log_size, absent)


class HolidayTable(NamedTuple):
    height: Tensor  # (holidays,)
    lead: Tensor    # (holidays,) days over which orders build up, > 0
    lag: Tensor     # (holidays,) days over which they fade, > 0


class HolidayBump(Function):
    """height * exp(-days / width), with its own width before and after the day.

    ``holiday`` (long) and ``offset`` (days since the holiday, negative before)
    are calendars of one shape; the three tables are indexed by ``holiday``.
    """

    @staticmethod
    def forward(ctx, holiday, offset, height, lead, lag):
        days = offset.to(height.dtype)
        before = days < 0
        width = torch.where(before, lead[holiday], lag[holiday])
        shape = torch.exp(-days.abs() / width)
        ctx.save_for_backward(holiday, offset, height, lead, lag)
        return height[holiday] * shape

    @staticmethod
    def backward(ctx, grad):
        holiday, offset, height, lead, lag = ctx.saved_tensors
        days = offset.to(height.dtype)
        before = days < 0
        width = torch.where(before, lead[holiday], lag[holiday])
        shape = torch.exp(-days.abs() / width)
        d_width = grad * height[holiday] * shape * days.abs() / width.square()

        which = holiday.reshape(-1)
        d_height = torch.zeros_like(height).index_add_(0, which, (grad * shape).reshape(-1))
        d_lead = torch.zeros_like(lead).index_add_(
            0, which, torch.where(before, d_width, 0.0 * d_width).reshape(-1))
        d_lag = torch.zeros_like(lag)
        d_lag[holiday[~before]] += d_width[~before]
        return None, None, d_height, d_lead, d_lag


class MealKitForecaster(nn.Module):
    """Linear fan with holiday bumps on the log demand."""

    def __init__(self, features: int, holidays: int, levels: Sequence[float] = (0.1, 0.5, 0.9)):
        super().__init__()
        self.levels = tuple(levels)
        self.fan = nn.Linear(features, len(self.levels))
        self.height = nn.Parameter(torch.zeros(holidays))
        self.log_lead = nn.Parameter(torch.zeros(holidays))
        self.log_lag = nn.Parameter(torch.zeros(holidays))

    def forward(self, x, holiday, offset):
        bump = HolidayBump.apply(holiday, offset, self.height, self.log_lead.exp(), self.log_lag.exp())
        return torch.exp(self.fan(x) + bump.unsqueeze(-1))

    def loss(self, x, holiday, offset, actual, weight, crossing=0.1, reduction="mean"):
        fan = self(x, holiday, offset)
        return FanLoss.apply(fan, actual, weight, self.levels, crossing, reduction)
