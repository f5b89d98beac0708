"""Differentiable pricing and household-finance pieces."""
import math

import torch
from torch.autograd import Function

SQRT_2PI = math.sqrt(2.0 * math.pi)


def _ncdf(x):
    return torch.special.ndtr(x)


def _npdf(x):
    return torch.exp(-0.5 * x * x) / SQRT_2PI


def _unbroadcast(g, like):
    return g.sum_to_size(like.shape)


class LogLinearDiscount(Function):
    """Discount factors from zero rates, log-linear between pillars.

    The quantity ``rate * time`` is interpolated linearly in time through the
    origin and the pillars. After the last pillar the forward rate of the last
    segment is continued (flat-forward extrapolation).

    Args:
        rates: Continuously compounded zero rates, shape ``(..., n)``, n >= 1.
        pillars: Pillar times in years, shape ``(n,)``, strictly increasing and
            positive. Treated as constant, no gradient.
        times: Query times in years, shape ``(m,)``, non-negative, in any
            order, repeats allowed. Treated as constant, no gradient.

    Returns:
        Discount factors of shape ``(..., m)``.
    """

    @staticmethod
    def forward(ctx, rates, pillars, times):
        knots = torch.cat([pillars.new_zeros(1), pillars])
        y = torch.cat([torch.zeros_like(rates[..., :1]), rates * pillars], -1)
        j = torch.searchsorted(knots, times).clamp(1, pillars.numel())
        left, right = knots[j - 1], knots[j]
        w = (times - left) / (right - left)
        df = torch.exp(-((1.0 - w) * y[..., j - 1] + w * y[..., j]))
        ctx.save_for_backward(pillars, times, df)
        return df

    @staticmethod
    def backward(ctx, grad):
        pillars, times, df = ctx.saved_tensors
        n = pillars.numel()
        knots = torch.cat([pillars.new_zeros(1), pillars])
        j = torch.searchsorted(knots, times).clamp(1, n)
        t = times.clamp(max=knots[-1])
        w = (t - knots[j - 1]) / (knots[j] - knots[j - 1])
        g = -grad * df
        gy = g.new_zeros(*g.shape[:-1], n + 1)
        gy.index_add_(-1, j - 1, g * (1.0 - w))
        gy.index_add_(-1, j, g * w)
        return gy[..., 1:] * pillars, None, None


class GeometricAsian(Function):
    """Discretely monitored geometric-average Asian option (Kemna-Vorst), `fixings` equally spaced dates ending at expiry."""

    @staticmethod
    def _terms(spot, strike, vol, expiry, rate, fixings):
        n = float(fixings)
        c1 = (n + 1.0) / (2.0 * n)
        c2 = (n + 1.0) * (2.0 * n + 1.0) / (6.0 * n * n)
        var = c2 * vol * vol * expiry
        s = var.sqrt()
        fwd = spot * torch.exp((rate - 0.5 * vol * vol) * c1 * expiry + 0.5 * var)
        d1 = (torch.log(fwd / strike) + 0.5 * var) / s
        return c1, c2, s, fwd, d1, torch.exp(-rate * expiry)

    @staticmethod
    def forward(spot, strike, vol, expiry, rate, fixings, put=False):
        _, _, s, fwd, d1, disc = GeometricAsian._terms(spot, strike, vol, expiry, rate, fixings)
        w = -1.0 if put else 1.0
        return w * disc * (fwd * _ncdf(w * d1) - strike * _ncdf(w * (d1 - s)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.fixings, ctx.put = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    def backward(ctx, grad):
        spot, strike, vol, expiry, rate, price = ctx.saved_tensors
        c1, c2, s, fwd, d1, disc = GeometricAsian._terms(spot, strike, vol, expiry, rate, ctx.fixings)
        w = -1.0 if ctx.put else 1.0
        d_fwd = w * disc * _ncdf(w * d1) * fwd  # per unit of log-forward
        d_s = disc * fwd * _npdf(d1)
        g_spot = d_fwd / spot
        g_strike = -w * disc * _ncdf(w * (d1 - s))
        g_vol = d_fwd * vol * expiry * (c2 - c1) + d_s * s / vol
        g_exp = d_fwd * ((rate - 0.5 * vol * vol) * c1 + 0.5 * c2 * vol * vol) + 0.5 * d_s * s / expiry - rate * price
        g_rate = d_fwd * c1 * expiry - expiry * price
        out = [_unbroadcast(grad * g, x) for g, x in zip((g_spot, g_strike, g_vol, g_exp, g_rate),
                                                         (spot, strike, vol, expiry, rate))]
        return (*out, None, None)


class JohnsonSULogProb(Function):
    @staticmethod
    def forward(ctx, x, gamma, delta, xi, lam):
        u = (x - xi) / lam
        z = gamma + delta * torch.asinh(u)
        ctx.save_for_backward(x, gamma, delta, xi, lam)
        return torch.log(delta / (lam * SQRT_2PI)) - 0.5 * torch.log1p(u * u) - 0.5 * z * z

    @staticmethod
    def backward(ctx, grad):
        x, gamma, delta, xi, lam = ctx.saved_tensors
        u = (x - xi) / lam
        a = torch.asinh(u)
        z = gamma + delta * a
        q = 1.0 + u * u
        gu = -grad * (u / q + z * delta * q.rsqrt())
        gx = gu / lam
        return (
            _unbroadcast(gx, x),
            _unbroadcast(-grad * z, gamma),
            _unbroadcast(grad * (1.0 / delta - z * a), delta),
            _unbroadcast(-gx, xi),
            _unbroadcast(-(gu * u + grad) / lam, lam),
        )


class BracketTax(Function):
    # edges[0] == 0, increasing; credit is not refundable

    @staticmethod
    def forward(ctx, income, edges, rates, credit):
        steps = torch.cat([rates[:1], rates[1:] - rates[:-1]])
        over = (income.unsqueeze(-1) - edges).clamp(min=0)
        due = over @ steps - credit
        ctx.save_for_backward(over, steps, due)
        return due.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        over, steps, due = ctx.saved_tensors
        g = grad * (due > 0)
        inside = (over > 0).to(over.dtype)
        axes = tuple(range(grad.dim()))
        g_income = g * (inside @ steps)
        g_steps = (g.unsqueeze(-1) * over).sum(axes)
        g_rates = g_steps.clone()
        g_rates[:-1] -= g_steps[1:]
        g_edges = -steps * (grad.unsqueeze(-1) * inside).sum(axes)
        return g_income, g_edges, g_rates, -g.sum()


def calibrate_rates(income, revenue, edges, rates, credit, steps=50, lr=1e-3):
    rates = rates.clone().requires_grad_()
    for _ in range(steps):
        gap = BracketTax.apply(income, edges, rates, credit).mean() - revenue
        (g,) = torch.autograd.grad(gap**2, rates)
        with torch.no_grad():
            rates -= lr * g
    return rates.detach()
