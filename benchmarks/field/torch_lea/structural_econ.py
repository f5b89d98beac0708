"""Structural pieces for estimation: production, mixed frequency lags, credit charges, regimes."""

import math
from typing import Literal, Tuple

import torch
from torch.autograd.function import once_differentiable


class CESAggregate(torch.autograd.Function):
    """Constant elasticity of substitution aggregate.

    output = tfp * (sum_i share_i * input_i ** rho) ** (nu / rho)

    Args:
        quantities: (..., k) input quantities, positive.
        shares: (k,) distribution parameters, positive (need not sum to one).
        tfp: scalar tensor, total factor productivity.
        rho: scalar tensor, substitution parameter; below one and not zero.
        nu: returns to scale, a float. 1.0 is constant returns.

    Returns:
        (...) output.
    """

    @staticmethod
    def forward(quantities, shares, tfp, rho, nu=1.0):
        inner = (shares * quantities**rho).sum(-1)
        return tfp * inner ** (nu / rho)

    @staticmethod
    def setup_context(ctx, inputs, output):
        quantities, shares, tfp, rho, nu = inputs
        ctx.save_for_backward(quantities, shares, tfp, rho)
        ctx.nu = nu

    @staticmethod
    def backward(ctx, grad_output):
        quantities, shares, tfp, rho = ctx.saved_tensors
        nu = ctx.nu
        powered = quantities**rho
        terms = shares * powered
        inner = terms.sum(-1)
        bundle = inner ** (nu / rho)
        gy = grad_output * tfp * bundle
        per_inner = (gy / inner).unsqueeze(-1)

        grad_q = nu * per_inner * terms / quantities
        grad_s = (nu / rho * per_inner * powered).sum_to_size(shares.shape)
        grad_tfp = (grad_output * bundle).sum()
        mean_log = (terms * quantities.log()).sum(-1) / inner
        grad_rho = (gy * (mean_log / rho - nu * inner.log() / rho**2)).sum()
        return grad_q, grad_s, grad_tfp, grad_rho, None


def ces(quantities, shares, tfp, rho, nu: float = 1.0):
    """CES output; see CESAggregate."""
    return CESAggregate.apply(quantities, shares, tfp, rho, nu)


def _almon_weights(theta, n_lags):
    k = torch.arange(1, n_lags + 1, dtype=theta.dtype, device=theta.device)
    return torch.softmax(theta[0] * k + theta[1] * k * k, 0), k


class AlmonLag(torch.autograd.Function):
    """Exponential Almon lag of a high frequency series (MIDAS).

    Low frequency period j sees the n_lags high frequency values that end at position
    ``n_lags - 1 + j * ratio``, the latest one with lag 1. Windows overlap when
    ``n_lags > ratio``.

    Args:
        series: (..., T) high frequency observations, T >= n_lags.
        theta: (2,) Almon coefficients.
        n_lags: window length.
        ratio: high frequency steps per low frequency period.

    Returns:
        (..., J) with J = (T - n_lags) // ratio + 1.
    """

    @staticmethod
    def forward(ctx, series, theta, n_lags, ratio):
        w, _ = _almon_weights(theta, n_lags)
        windows = series.unfold(-1, n_lags, ratio)
        ctx.save_for_backward(series, theta)
        ctx.n_lags, ctx.ratio = n_lags, ratio
        return windows @ w.flip(0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y):
        series, theta = ctx.saved_tensors
        n_lags, ratio = ctx.n_lags, ctx.ratio
        w, k = _almon_weights(theta, n_lags)
        n_out = grad_y.shape[-1]
        grad_series = torch.zeros_like(series)
        corr = theta.new_zeros(n_lags)
        for lag in range(n_lags):
            start = n_lags - 1 - lag
            stop = start + (n_out - 1) * ratio + 1
            grad_series[..., start:stop:ratio] += w[lag] * grad_y
            corr[lag] = (series[..., start:stop:ratio] * grad_y).sum()
        centred = w * (corr - w @ corr)
        grad_theta = torch.stack([centred @ k, centred @ (k * k)])
        return grad_series, grad_theta, None, None


def almon_lag(series, theta, n_lags: int = 12, ratio: int = 3):
    """MIDAS regressor; see AlmonLag."""
    return AlmonLag.apply(series, theta, n_lags, ratio)


ExposureRule = Literal["end", "midpoint"]


class CreditCharge(torch.autograd.Function):
    """Credit valuation adjustment on a time grid.

    cva = (1 - recovery) * sum_i disc_i * EE_i * (S_{i-1} - S_i),
    S_i = exp(-sum_{j<=i} hazard_j * dt_j), S_0 = 1

    Args:
        exposure: (..., n + 1) expected positive exposure at the grid times.
        hazard: (n,) or (..., n) piecewise constant default intensity.
        discount: (n,) discount factors at the interval ends.
        dt: (n,) interval lengths, data.
        recovery: float in [0, 1).
        rule: EE_i is exposure[i] ("end") or the average of both interval ends ("midpoint").
    """

    @staticmethod
    def forward(exposure, hazard, discount, dt, recovery, rule):
        surv = torch.exp(-(hazard * dt).cumsum(-1))
        prev = torch.cat([torch.ones_like(surv[..., :1]), surv[..., :-1]], -1)
        ee = exposure[..., 1:]
        if rule == "midpoint":
            ee = 0.5 * (ee + exposure[..., :-1])
        return (1.0 - recovery) * (discount * ee * (prev - surv)).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        exposure, hazard, discount, dt, ctx.recovery, ctx.rule = inputs
        ctx.save_for_backward(exposure, hazard, discount, dt)

    @staticmethod
    def backward(ctx, grad):
        exposure, hazard, discount, dt = ctx.saved_tensors
        g = ((1.0 - ctx.recovery) * grad).unsqueeze(-1)
        surv = torch.exp(-(hazard * dt).cumsum(-1))
        prev = torch.cat([torch.ones_like(surv[..., :1]), surv[..., :-1]], -1)
        ee = exposure[..., 1:]
        if ctx.rule == "midpoint":
            ee = 0.5 * (ee + exposure[..., :-1])

        g_ee = g * discount * (prev - surv)
        edge = torch.zeros_like(g_ee[..., :1])
        if ctx.rule == "midpoint":
            half = 0.5 * g_ee
            g_exposure = torch.cat([half, edge], -1) + torch.cat([edge, half], -1)
        else:
            g_exposure = torch.cat([edge, g_ee], -1)

        pay = g * discount * ee
        nxt = torch.cat([pay[..., 1:], torch.zeros_like(pay[..., :1])], -1)
        g_surv = nxt - pay
        tail = (g_surv * surv).flip(-1).cumsum(-1).flip(-1)
        g_hazard = (-dt * tail).sum_to_size(hazard.shape)
        g_discount = (g * ee * (prev - surv)).sum_to_size(discount.shape)
        return g_exposure.sum_to_size(exposure.shape), g_hazard, g_discount, None, None, None


def cva(exposure, hazard, discount, dt, recovery: float = 0.4, rule: ExposureRule = "end"):
    """Credit charge of a netting set; see CreditCharge."""
    if rule not in ("end", "midpoint"):
        raise ValueError(rule)
    return CreditCharge.apply(exposure, hazard, discount, dt, recovery, rule)


class SmoothTransition(torch.autograd.Function):
    """Logistic smooth transition regression (LSTAR mean).

    mean_t = x_t . low + G_t * x_t . (high - low),
    G_t = sigmoid(gamma * (s_t - c) / std(s))

    std(s) only makes gamma scale free. It is treated as a constant of the data: the backward
    pass holds it fixed on purpose, so the gradient of ``s`` is that of the transition at a given
    scale and NOT the derivative through the sample standard deviation.

    Args:
        x: (T, k) regressors.
        s: (T,) transition variable, T >= 2.
        low, high: (k,) coefficients of the two regimes.
        gamma: scalar tensor, steepness.
        c: scalar tensor, threshold.

    Returns:
        (mean, G), each (T,).
    """

    @staticmethod
    def forward(ctx, x, s, low, high, gamma, c):
        scale = s.std()
        gate = torch.sigmoid(gamma * (s - c) / scale)
        ctx.save_for_backward(x, s, low, high, gamma, c, gate)
        ctx.scale = scale
        return x @ low + gate * (x @ (high - low)), gate

    @staticmethod
    @once_differentiable
    def backward(ctx, g_mean, g_gate) -> Tuple[torch.Tensor, ...]:
        x, s, low, high, gamma, c, gate = ctx.saved_tensors
        scale = ctx.scale
        step = high - low
        g_gate = g_gate + g_mean * (x @ step)
        g_arg = g_gate * gate * (1 - gate) / scale
        gated = g_mean * gate
        g_x = torch.outer(g_mean, low) + torch.outer(gated, step)
        g_high = gated @ x
        g_low = g_mean @ x - g_high
        g_s = gamma * g_arg
        return g_x, g_s, g_low, g_high, (g_arg * (s - c)).sum(), -g_s.sum()


def lognormal_default_time(hazard: float, u: float) -> float:
    """Inverse of the flat hazard survival curve, for simulation."""
    return -math.log1p(-u) / hazard
