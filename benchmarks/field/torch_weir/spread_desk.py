"""Crack and spark spread options on futures."""
import math
from typing import Dict

import torch
from torch import Tensor


def _cdf(x: Tensor) -> Tensor:
    return 0.5 * torch.erfc(-x / math.sqrt(2.0))


def _pdf(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


class KirkSpread(torch.autograd.Function):
    """Kirk's approximation for a European option on ``f1 - f2 - strike``.

    The second leg and the strike are lumped into one lognormal asset ``f2 + strike``, whose volatility is that of the
    second leg scaled by ``w = f2 / (f2 + strike)``.

    Args:
        f1, f2: futures prices, positive.
        strike: ``f2 + strike`` must stay positive; zero gives the exchange option.
        vol1, vol2: volatilities, positive.
        rho: correlation, strictly between -1 and 1.
        tau: years to expiry, positive.
        discount: discount factor to the payment date.
        call: ``False`` for the put.

    All tensors have one shape.
    """

    @staticmethod
    def forward(ctx, f1, f2, strike, vol1, vol2, rho, tau, discount, call=True):
        lump = f2 + strike
        w = f2 / lump
        vol = torch.sqrt(vol1 * vol1 - 2.0 * rho * vol1 * vol2 * w + vol2 * vol2 * w * w)
        dev = vol * torch.sqrt(tau)
        d1 = torch.log(f1 / lump) / dev + 0.5 * dev
        d2 = d1 - dev
        ctx.save_for_backward(f1, f2, strike, vol1, vol2, rho, tau, discount, vol, d1, d2)
        ctx.sign = 1.0 if call else -1.0
        s = ctx.sign
        return s * discount * (f1 * _cdf(s * d1) - lump * _cdf(s * d2))

    @staticmethod
    def backward(ctx, grad):
        f1, f2, strike, vol1, vol2, rho, tau, discount, vol, d1, d2 = ctx.saved_tensors
        s = ctx.sign
        lump = f2 + strike
        w = f2 / lump
        root = torch.sqrt(tau)

        n1, n2 = _cdf(s * d1), _cdf(s * d2)
        g_f1 = grad * s * discount * n1
        g_lump = -grad * s * discount * n2
        vega = grad * discount * f1 * _pdf(d1) * root

        # d vol / d (vol1, vol2, rho, w)
        g_vol1 = vega * (vol1 - rho * vol2 * w) / vol
        g_vol2 = vega * (vol2 * w * w - rho * vol1 * w) / vol
        g_rho = -vega * vol1 * vol2 * w / vol
        g_w = vega * (vol2 * vol2 * w - rho * vol1 * vol2) / vol

        g_f2 = g_lump
        g_strike = g_lump - g_w * f2 / (lump * lump)
        g_tau = vega * vol / (2.0 * tau)
        g_discount = grad * s * (f1 * n1 - lump * n2)
        return g_f1, g_f2, g_strike, g_vol1, g_vol2, g_rho, g_tau, g_discount, None


def hedge_ratios(market: Dict[str, Tensor], strike: Tensor, call: bool = True) -> Dict[str, Tensor]:
    """Deltas of both legs for a book of options."""
    f1 = market["f1"].detach().requires_grad_()
    f2 = market["f2"].detach().requires_grad_()
    price = KirkSpread.apply(
        f1, f2, strike, market["vol1"], market["vol2"], market["rho"], market["tau"], market["discount"], call
    )
    d1, d2 = torch.autograd.grad(price.sum(), (f1, f2))
    return {"price": price.detach(), "delta1": d1, "delta2": d2}


def implied_correlation(quotes: Tensor, market: Dict[str, Tensor], strike: Tensor, steps: int = 100) -> Tensor:
    raw = torch.zeros_like(quotes, requires_grad=True)
    opt = torch.optim.Adam([raw], lr=0.1)
    for _ in range(steps):
        opt.zero_grad()
        price = KirkSpread.apply(
            market["f1"], market["f2"], strike, market["vol1"], market["vol2"], torch.tanh(raw), market["tau"],
            market["discount"],
        )
        (price - quotes).square().sum().backward()
        opt.step()
    return torch.tanh(raw.detach())
