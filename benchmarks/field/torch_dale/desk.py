"""Pricing and signal helpers of the FX desk."""
import math
from typing import Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_SQRT2 = math.sqrt(2.0)
_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


def _cdf(x: Tensor) -> Tensor:
    return 0.5 * torch.erfc(-x / _SQRT2)


def _pdf(x: Tensor) -> Tensor:
    return _INV_SQRT_2PI * torch.exp(-0.5 * x * x)


def _d1_d2(spot, strike, vol, r_dom, r_for, tau) -> Tuple[Tensor, Tensor]:
    sd = vol * tau.sqrt()
    d1 = ((spot / strike).log() + (r_dom - r_for) * tau) / sd + 0.5 * sd
    return d1, d1 - sd


class GarmanKohlhagenPrice(Function):
    """Price of European currency options.

    Parameters
    ----------
    spot, strike : Tensor, shape (N,)
        Positive; units of domestic currency per unit of foreign currency.
    vol : Tensor, shape (N,)
        Annual volatility, positive.
    r_dom, r_for : Tensor, shape (N,)
        Continuously compounded domestic and foreign rates, any sign.
    tau : Tensor, shape (N,)
        Year fraction to expiry, positive.
    phi : Tensor, shape (N,)
        +1 for a call, -1 for a put. Calls and puts may be mixed in a batch. Not differentiated.

    Returns
    -------
    Tensor, shape (N,)
        ``phi * (S exp(-r_for tau) N(phi d1) - K exp(-r_dom tau) N(phi d2))``

    Notes
    -----
    The backward pass is the usual table of closed-form greeks (delta, strike delta, vega, rho, phi,
    and minus theta).
    """

    @staticmethod
    def forward(spot, strike, vol, r_dom, r_for, tau, phi):
        d1, d2 = _d1_d2(spot, strike, vol, r_dom, r_for, tau)
        fwd = spot * torch.exp(-r_for * tau)
        pv_k = strike * torch.exp(-r_dom * tau)
        return phi * (fwd * _cdf(phi * d1) - pv_k * _cdf(phi * d2))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        spot, strike, vol, r_dom, r_for, tau, phi = ctx.saved_tensors
        d1, d2 = _d1_d2(spot, strike, vol, r_dom, r_for, tau)
        df_for = torch.exp(-r_for * tau)
        df_dom = torch.exp(-r_dom * tau)
        n1, n2 = _cdf(phi * d1), _cdf(phi * d2)
        asset, cash = spot * df_for * n1, strike * df_dom * n2
        vega = spot * df_for * _pdf(d1) * tau.sqrt()

        delta = phi * df_for * n1
        dual_delta = -phi * df_dom * n2
        rho_dom = phi * tau * cash
        rho_for = -phi * tau * asset
        decay = 0.5 * vega * vol / tau + r_dom * cash - r_for * asset
        return g * delta, g * dual_delta, g * vega, g * rho_dom, g * rho_for, g * decay, None


class CrossSectionZScore(Function):
    """Daily z-score of (days, names) over the names in the universe (bool, same shape), 0 outside it; std with `ddof`."""

    @staticmethod
    def forward(ctx, x, universe, ddof: int = 0):
        m = universe.to(x.dtype)
        n = m.sum(-1, keepdim=True)
        mean = (x * m).sum(-1, keepdim=True) / n
        dev = (x - mean) * m
        std = ((dev * dev).sum(-1, keepdim=True) / (n - ddof)).sqrt()
        z = dev / std
        ctx.save_for_backward(z, std, m, n)
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        z, std, m, n = ctx.saved_tensors
        g = g * m
        g_mean = g.sum(-1, keepdim=True) / n
        gz_mean = (g * z).sum(-1, keepdim=True) / n
        return (g - g_mean - z * gz_mean) * m / std, None, None


class ClaytonLogDensity(Function):
    # u, v in (0, 1), theta > 0, broadcast together

    @staticmethod
    def forward(ctx, u, v, theta):
        lu, lv = u.log(), v.log()
        a, b = -theta * lu, -theta * lv
        top = torch.maximum(a, b)
        t = top + torch.log(torch.exp(a - top) + torch.exp(b - top) - torch.exp(-top))
        ctx.save_for_backward(u, v, theta, t)
        return torch.log1p(theta) - (1 + theta) * (lu + lv) - (2 + 1 / theta) * t

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        u, v, theta, t = ctx.saved_tensors
        lu, lv = u.log(), v.log()
        pu = torch.exp(-theta * lu - t)
        pv = torch.exp(-theta * lv - t)
        gu = g * ((1 + 2 * theta) * pu - (1 + theta)) / u
        gv = g * ((1 + 2 * theta) * pv - (1 + theta)) / v
        gt = g * (1 / (1 + theta) - lu - lv + t / theta**2 + (2 + 1 / theta) * (lu * pu + lv * pv))
        return gu.sum_to_size(u.shape), gv.sum_to_size(v.shape), gt.sum_to_size(theta.shape)


class TickRounding(Function):
    """Quote rounded to the tick grid within [lo, hi]; gradient by design that of the clamp alone (straight-through rounding)."""

    @staticmethod
    def forward(ctx, price: Tensor, tick: float = 1e-4, lo: float = 0.0, hi: float = math.inf) -> Tensor:
        ctx.save_for_backward((price >= lo) & (price <= hi))
        return torch.round(price.clamp(lo, hi) / tick) * tick

    @staticmethod
    def backward(ctx, g: Tensor):
        (inside,) = ctx.saved_tensors
        return g * inside, None, None, None


def pair_nll(u, v, raw_theta):
    """Negative mean log-likelihood of a Clayton pair copula."""
    return -ClaytonLogDensity.apply(u, v, torch.nn.functional.softplus(raw_theta)).mean()
