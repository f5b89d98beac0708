"""Index-linked gilts and TIPS: projected index, reference index, and real-yield pricing with the deflation floor."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class BondTable(NamedTuple):
    times: torch.Tensor  # (bonds, dates) years to each coupon, zero after maturity
    n_dates: torch.Tensor  # (bonds,) long, number of coupons left, >= 1
    coupon: torch.Tensor  # (bonds,) annual real coupon per unit of face


class FixingTable(NamedTuple):
    month: torch.Tensor  # (fixings,) long, settlement month on the index axis
    weight: torch.Tensor  # (fixings,) (day - 1) / days in month


class SeasonalPath(Function):
    """Monthly index levels from annual rates and a seasonal pattern."""

    @staticmethod
    def forward(
        ctx,
        rates,  # (paths, years) continuously compounded annual inflation
        seasonals,  # (12,) monthly log seasonals, January first, centred in here
        base,  # () last published level
        months,  # int, steps to project, <= 12 * years
        start_month=0,  # int, calendar month of the first step, 0 = January
    ):
        calendar = (start_month + torch.arange(months, device=rates.device)) % 12
        centred = seasonals - seasonals.mean()
        steps = rates.repeat_interleave(12, dim=1)[:, :months] / 12 + centred[calendar]
        levels = base * torch.exp(F.pad(steps.cumsum(1), (1, 0)))
        ctx.start_month = start_month
        ctx.save_for_backward(levels, base)
        ctx.years = rates.shape[1]
        return levels  # (paths, months + 1), the first column is base

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        levels, base = ctx.saved_tensors
        weighted = grad * levels
        g_base = weighted.sum() / base
        # a step moves every later level
        g_steps = weighted[:, 1:].flip(1).cumsum(1).flip(1)
        blocks = F.pad(g_steps, (0, 12 * ctx.years - g_steps.shape[1])).unflatten(
            1, (ctx.years, 12)
        )
        g_rates = blocks.sum(2) / 12
        g_seasonals = blocks.sum((0, 1))
        g_seasonals = g_seasonals - g_seasonals.mean()
        return g_rates, g_seasonals, g_base, None, None


class ReferenceIndex(Function):
    """Lagged reference index on settlement days."""

    @staticmethod
    def forward(
        ctx,
        index,  # (..., months)
        month,  # (fixings,) long, month >= lag and month - lag + 1 < months
        weight,  # (fixings,)
        lag=3,
        style="linear",  # "linear" (TIPS, new gilts), "flat" (old gilts), "log" (house model)
    ):
        early = index[..., month - lag]
        late = index[..., month - lag + 1]
        if style == "linear":
            out = early + weight * (late - early)
        elif style == "log":
            out = early * (late / early) ** weight
        elif style == "flat":
            out = early.clone()
        else:
            raise ValueError(style)
        ctx.lag, ctx.style, ctx.n_months = lag, style, index.shape[-1]
        ctx.save_for_backward(month, weight, early, late, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        month, weight, early, late, out = ctx.saved_tensors
        g_weight = None
        if ctx.style == "flat":
            to_early, to_late = grad, torch.zeros_like(grad)
            slope = torch.zeros_like(grad)
        elif ctx.style == "linear":
            to_early, to_late = grad * (1 - weight), grad * weight
            slope = late - early
        else:
            to_early = grad * out * (1 - weight) / early
            to_late = grad * out * weight / late
            slope = out * torch.log(late / early)
        if ctx.needs_input_grad[2]:
            g_weight = (grad * slope).sum_to_size(weight.shape)
        g_index = grad.new_zeros(grad.shape[:-1] + (ctx.n_months,))
        g_index.index_add_(-1, month - ctx.lag, to_early)
        g_index.index_add_(-1, month - ctx.lag + 1, to_late)
        return g_index, None, g_weight, None, None


class LinkerPrice(Function):
    """Dirty cash price of index-linked bonds."""

    @staticmethod
    def forward(
        ctx,
        real_yield,  # (scenarios, bonds) or (bonds,), semi-annual compounding
        ratio,  # (scenarios, bonds) or (bonds,) index ratio, reference index over base index
        coupon,  # (bonds,)
        times,  # (bonds, dates)
        n_dates,  # (bonds,)
        floor=True,  # principal repaid at par at least (TIPS); gilts carry no floor
    ):
        alive = torch.arange(times.shape[1], device=times.device) < n_dates[:, None]
        growth = (1 + real_yield / 2)[..., None]
        df = growth ** (-2 * times) * alive
        annuity = df.sum(-1) / 2
        last = (n_dates - 1).expand(df.shape[:-1])[..., None]
        redeem = df.gather(-1, last)[..., 0]
        uplift = ratio.clamp(min=1.0) if floor else ratio
        price = ratio * coupon * annuity + uplift * redeem
        ctx.save_for_backward(
            real_yield, ratio, coupon, times, n_dates, df, annuity, redeem, uplift, price
        )
        return price

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        real_yield, ratio, coupon, times, n_dates, df, annuity, redeem, uplift, price = (
            ctx.saved_tensors
        )
        maturity = times.gather(1, (n_dates - 1)[:, None])[:, 0]
        stretch = 1 + real_yield / 2
        d_annuity = -(times * df).sum(-1) / (2 * stretch)
        d_redeem = -maturity * redeem / stretch
        g_yield = grad * (ratio * coupon * d_annuity + uplift * d_redeem)
        # cash price = index ratio x real price
        g_ratio = grad * price / ratio
        g_coupon = grad * ratio * annuity
        return (
            g_yield.sum_to_size(real_yield.shape),
            g_ratio.sum_to_size(ratio.shape),
            g_coupon.sum_to_size(coupon.shape),
            None,
            None,
            None,
        )


def linker_values(
    rates,
    seasonals,
    base,
    real_yield,
    base_index,
    bonds: BondTable,
    fixings: FixingTable,
    start_month=0,
    lag=3,
    floor=True,
):
    """Price of each bond on its fixing day, on every inflation path."""
    months = int(fixings.month.max()) - lag + 1
    levels = SeasonalPath.apply(rates, seasonals, base, months, start_month)
    reference = ReferenceIndex.apply(levels, fixings.month, fixings.weight, lag, "linear")
    ratio = reference / base_index
    return LinkerPrice.apply(real_yield, ratio, bonds.coupon, bonds.times, bonds.n_dates, floor)


def inflation_delta(*args, **kwargs):
    """Key-rate inflation sensitivities, value change per basis point of each annual rate."""
    rates = args[0].detach().requires_grad_(True)
    value = linker_values(rates, *args[1:], **kwargs).sum(-1).mean()
    return 1e-4 * torch.autograd.grad(value, rates)[0]
