import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _spacing(strikes):
    gaps = strikes[1:] - strikes[:-1]
    return torch.cat([gaps[:1], 0.5 * (gaps[1:] + gaps[:-1]), gaps[-1:]])


class VarianceStrip(Function):
    """Fair variance from a strip of out-of-the-money quotes, the listed-index way; strikes ascending, at least two."""

    @staticmethod
    def forward(ctx, quotes, strikes, forward, growth, maturity):
        pivot = (torch.searchsorted(strikes.detach(), forward.detach(), right=True) - 1).clamp(min=0)
        width = _spacing(strikes)
        strip = (quotes * width / strikes**2).sum(-1)
        lean = forward / strikes[pivot] - 1
        variance = (2 * growth * strip - lean**2) / maturity
        ctx.save_for_backward(quotes, strikes, forward, growth, maturity, pivot, strip, variance)
        return variance

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        quotes, strikes, forward, growth, maturity, pivot, strip, variance = ctx.saved_tensors
        width = _spacing(strikes)
        per = grad / maturity
        d_strip = (2 * growth * per)[:, None]
        d_quotes = d_strip * width / strikes**2

        d_width = (d_strip * quotes).sum(0) / strikes**2
        d_strikes = -2 * (d_quotes * quotes).sum(0) / strikes
        d_gaps = 0.5 * (d_width[1:] + d_width[:-1])
        d_gaps[0] += 0.5 * d_width[0]
        d_gaps[-1] += 0.5 * d_width[-1]
        d_strikes[1:] += d_gaps
        d_strikes[:-1] -= d_gaps

        anchor = strikes[pivot]
        lean = forward / anchor - 1
        d_forward = -2 * per * lean / anchor
        d_strikes = d_strikes.index_add(0, pivot, 2 * per * lean * forward / anchor**2)
        return d_quotes, d_strikes, d_forward, 2 * per * strip, -per * variance


class ContractParSpread(Function):
    """Par spread of a default swap on piecewise-constant hazards.

    hazards (B, N), discounts (B, N), accruals (N,) year fractions, recovery (B,).
    ``accrued_on_default`` adds half a coupon in the period of the default to the premium leg.
    """

    @staticmethod
    def forward(ctx, hazards, discounts, accruals, recovery, accrued_on_default=False):
        survival = torch.exp(-(hazards * accruals).cumsum(-1))
        start = torch.cat([torch.ones_like(survival[:, :1]), survival[:, :-1]], -1)
        default = start - survival
        paying = survival + 0.5 * default if accrued_on_default else survival
        protection = (discounts * default).sum(-1)
        annuity = (accruals * discounts * paying).sum(-1)
        spread = (1 - recovery) * protection / annuity
        ctx.save_for_backward(hazards, discounts, accruals, recovery, survival, default, protection, annuity, spread)
        return spread

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        hazards, discounts, accruals, recovery, survival, default, protection, annuity, spread = ctx.saved_tensors
        g_prot = (grad * (1 - recovery) / annuity)[:, None]
        g_ann = (-grad * spread / annuity)[:, None]
        d_disc = g_prot * default + g_ann * accruals * survival
        d_default = g_prot * discounts
        d_surv = g_ann * accruals * discounts - d_default
        d_surv[:, :-1] += d_default[:, 1:]
        d_log = -(d_surv * survival)
        d_step = d_log.flip(-1).cumsum(-1).flip(-1)
        d_haz = d_step * accruals
        d_acc = (d_step * hazards + g_ann * discounts * survival).sum(0)
        return d_haz, d_disc, d_acc, -grad * protection / annuity, None


def par_spread(curve: dict, accrued_on_default=False):
    return ContractParSpread.apply(
        curve["hazards"], curve["discounts"], curve["accruals"], curve["recovery"], accrued_on_default
    )
