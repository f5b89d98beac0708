"""Pricing and portfolio pieces that sit inside the differentiable back-test."""
from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch.autograd import Function


class Drawdown(NamedTuple):
    depth: torch.Tensor
    peak: torch.Tensor
    trough: torch.Tensor


def _cdf(x):
    return 0.5 * torch.erfc(-x / math.sqrt(2.0))


def _pdf(x):
    return torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _fold(grad, like):
    """Sum a broadcast gradient back to the shape of ``like``."""
    return grad.sum_to_size(like.shape)


class MargrabeExchange(Function):
    """Margrabe price of the right to swap asset 2 for asset 1."""

    @staticmethod
    def forward(ctx, s1, s2, vol1, vol2, rho, tau, carry):
        q1, q2 = carry
        sigma = torch.sqrt(vol1 ** 2 + vol2 ** 2 - 2.0 * rho * vol1 * vol2)
        sd = sigma * torch.sqrt(tau)
        d1 = (torch.log(s1 / s2) + (q2 - q1) * tau) / sd + 0.5 * sd
        d2 = d1 - sd
        leg1 = torch.exp(-q1 * tau) * _cdf(d1)
        leg2 = torch.exp(-q2 * tau) * _cdf(d2)
        ctx.save_for_backward(s1, s2, vol1, vol2, rho, tau, sigma, d1, leg1, leg2)
        ctx.q1 = q1
        return s1 * leg1 - s2 * leg2

    @staticmethod
    def backward(ctx, g):
        s1, s2, vol1, vol2, rho, tau, sigma, d1, leg1, leg2 = ctx.saved_tensors
        root = torch.sqrt(tau)
        dens = s1 * torch.exp(-ctx.q1 * tau) * _pdf(d1)
        vega = g * dens * root
        out = [None] * 7
        if ctx.needs_input_grad[0]:
            out[0] = _fold(g * leg1, s1)
        if ctx.needs_input_grad[1]:
            out[1] = _fold(-g * leg2, s2)
        if ctx.needs_input_grad[2]:
            out[2] = _fold(vega * (vol1 - rho * vol2) / sigma, vol1)
        if ctx.needs_input_grad[3]:
            out[3] = _fold(vega * (vol2 - rho * vol1) / sigma, vol2)
        if ctx.needs_input_grad[4]:
            out[4] = _fold(-vega * vol1 * vol2 / sigma, rho)
        if ctx.needs_input_grad[5]:
            out[5] = _fold(g * dens * sigma / (2.0 * root), tau)
        return tuple(out)


def exchange_option(s1, s2, vol1, vol2, rho, tau, yields=(0.0, 0.0)):
    """Price of an exchange option.

    Args:
        s1, s2: spot prices (asset received, asset delivered), positive.
        vol1, vol2: annual volatilities, positive.
        rho: correlation in (-1, 1).
        tau: time to expiry in years, positive.
        yields: continuous dividend yields of the two assets (floats).

    All tensors broadcast; greeks by autograd with respect to each of them.
    """
    q1, q2 = yields
    return MargrabeExchange.apply(s1, s2, vol1, vol2, rho, tau, (float(q1), float(q2)))


class MaxDrawdown(Function):
    """Largest relative loss from a running peak along the last axis.

    Parameters
    ----------
    prices : Tensor (..., T)
        Strictly positive values.

    Returns
    -------
    depth : Tensor (...)
        max_t (1 - prices[t] / max_{s <= t} prices[s])
    peak, trough : LongTensor (...)
        Where it started and ended; integers, not differentiable.
    """

    @staticmethod
    def forward(prices):
        run, where = torch.cummax(prices, -1)
        depth, trough = (1.0 - prices / run).max(-1)
        peak = where.gather(-1, trough[..., None])[..., 0]
        return depth, peak, trough

    @staticmethod
    def setup_context(ctx, inputs, output):
        (prices,) = inputs
        _, peak, trough = output
        ctx.mark_non_differentiable(peak, trough)
        ctx.save_for_backward(prices, peak, trough)

    @staticmethod
    def backward(ctx, grad, _peak, _trough):
        prices, peak, trough = ctx.saved_tensors
        peak, trough = peak[..., None], trough[..., None]
        high, low = prices.gather(-1, peak), prices.gather(-1, trough)
        grad = grad[..., None]
        out = torch.zeros_like(prices)
        out.scatter_add_(-1, trough, -grad / high)
        out.scatter_add_(-1, peak, grad * low / high ** 2)
        return out


def max_drawdown(prices: torch.Tensor) -> Drawdown:
    return Drawdown(*MaxDrawdown.apply(prices))


class WinsorizedMean(Function):
    """Mean after pulling the ``floor(fraction * n)`` smallest and largest entries in to the
    nearest remaining order statistic.

    ``fraction`` is in [0, 0.5), ``dim`` any axis of ``x``; the axis is removed.
    """

    @staticmethod
    def forward(ctx, x, fraction=0.05, dim=-1):
        n = x.shape[dim]
        k = int(fraction * n)
        ranked = x.sort(dim=dim).values
        low = ranked.narrow(dim, k, 1)
        high = ranked.narrow(dim, n - 1 - k, 1)
        ctx.save_for_backward(x, low, high)
        ctx.dim = dim
        return torch.minimum(torch.maximum(x, low), high).mean(dim)

    @staticmethod
    def backward(ctx, grad):
        x, low, high = ctx.saved_tensors
        n = x.shape[ctx.dim]
        kept = (x >= low) & (x <= high)
        return grad.unsqueeze(ctx.dim) * kept.to(x.dtype) / n, None, None


class WholeLots(Function):
    """Target shares rounded to whole lots, trained straight through.

    Forward: ``lot * round(weight * capital / (price * lot))``.
    Backward: the rounding is taken to be the identity on purpose, so the gradient is that of the
    fractional holding ``weight * capital / price`` (for weights and prices alike).
    """

    @staticmethod
    def forward(ctx, weight, price, capital: float, lot: int = 1):
        ctx.save_for_backward(weight, price)
        ctx.capital = capital
        return lot * torch.round(weight * capital / (price * lot))

    @staticmethod
    def backward(ctx, grad):
        weight, price = ctx.saved_tensors
        per_unit = grad * ctx.capital / price
        g_weight = _fold(per_unit, weight) if ctx.needs_input_grad[0] else None
        g_price = _fold(-per_unit * weight / price, price) if ctx.needs_input_grad[1] else None
        return g_weight, g_price, None, None


def fit_allocation(price_paths: torch.Tensor, capital: float = 1e5, lot: int = 10, steps: int = 50, lr: float = 0.05):
    """Gradient search for weights with a good robust return and a shallow drawdown.

    price_paths: (scenarios, T, assets).
    """
    logits = torch.zeros(price_paths.shape[-1], dtype=price_paths.dtype, requires_grad=True)
    opt = torch.optim.Adam([logits], lr=lr)
    for _ in range(steps):
        shares = WholeLots.apply(torch.softmax(logits, -1), price_paths[0, 0], capital, lot)
        value = (price_paths * shares).sum(-1)
        value = value + (capital - value[:, :1])
        gain = value[:, -1] / value[:, 0] - 1.0
        loss = -WinsorizedMean.apply(gain, 0.1) + max_drawdown(value).depth.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return torch.softmax(logits, -1).detach()
