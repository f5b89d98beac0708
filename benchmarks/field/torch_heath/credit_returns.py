"""Rates, performance ratios and recovery models for the credit desk."""
import math

import torch
from torch.autograd.function import once_differentiable


def _present_value(y, flows, times, freq):
    if freq is None:
        df = torch.exp(-y[:, None] * times)
        slope = -times * df
    else:
        base = 1 + y[:, None] / freq
        df = base ** (-freq * times)
        slope = -times * df / base
    return df, (flows * df).sum(-1), (flows * slope).sum(-1)


class YieldToMaturity(torch.autograd.Function):
    """Yield that reprices a bond.

    Parameters
    ----------
    price : (N,)
        Dirty prices, positive.
    flows : (N, K)
        Non-negative cash flows; shorter bonds are padded with zeros.
    times : (N, K)
        Payment times in years, non-negative. Every bond has a flow after time zero, and the price is above
        what is paid at time zero.
    freq : int or None
        Compounding periods per year; None for continuous compounding.

    Notes
    -----
    Solved with Newton's method (the price is convex and falling in the yield, so it cannot cycle). The
    derivatives come from the implicit function theorem and do not go through the iterations. Yields
    between -10 % and 200 % are supported.
    """

    @staticmethod
    def forward(ctx, price, flows, times, freq=None):
        y = torch.zeros_like(price)
        floor = -1.0 if freq is None else -0.9 * freq
        tol = 4 * torch.finfo(price.dtype).eps
        for _ in range(300):
            _, pv, slope = _present_value(y, flows, times, freq)
            step = (pv - price) / slope
            y = (y - step).clamp(min=floor)
            if not bool((step.abs() > tol * (1 + y.abs())).any()):
                break
        ctx.freq = freq
        ctx.save_for_backward(y, flows, times)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        y, flows, times = ctx.saved_tensors
        freq = ctx.freq
        df, _, slope = _present_value(y, flows, times, freq)
        lam = grad / slope
        force = y if freq is None else freq * torch.log1p(y / freq)
        g_flows = g_times = None
        if ctx.needs_input_grad[1]:
            g_flows = -lam[:, None] * df
        if ctx.needs_input_grad[2]:
            g_times = lam[:, None] * flows * force[:, None] * df
        return lam, g_flows, g_times, None


def bond_yield(price, flows, times, freq=None):
    """See :class:`YieldToMaturity`."""
    return YieldToMaturity.apply(price, flows, times, freq)


class DownsideRatio(torch.autograd.Function):
    """Sortino ratio per asset.

    mean(r - target) / sqrt(mean(min(r - target, 0)^2) + eps^2), with means over the observed days of the
    first axis.

    returns (T, A); observed (T, A), 0/1, at least one day per asset; target: minimum acceptable return, a
    tensor () or (A,), e.g. a funding rate that another model puts out.
    """

    @staticmethod
    def forward(ctx, returns, observed, target, eps):
        obs = observed.to(returns.dtype)
        n = obs.sum(0)
        excess = (returns - target) * obs
        short = excess.clamp(max=0)
        mean = excess.sum(0) / n
        dev = torch.sqrt((short * short).sum(0) / n + eps * eps)
        ctx.target_shape = target.shape
        ctx.save_for_backward(obs, n, short, mean, dev)
        return mean / dev

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        obs, n, short, mean, dev = ctx.saved_tensors
        g_returns = g_target = None
        g_mean = grad / dev
        if ctx.needs_input_grad[0]:
            g_dev = -grad * mean / dev ** 2
            g_returns = obs * g_mean / n + g_dev * short / (n * dev)
        if ctx.needs_input_grad[2]:
            g_target = (-g_mean).sum_to_size(ctx.target_shape)
        return g_returns, None, g_target, None


def sortino(returns, target=0.0, observed=None, eps=1e-6):
    if observed is None:
        observed = torch.ones_like(returns)
    target = torch.as_tensor(target, dtype=returns.dtype, device=returns.device)
    return DownsideRatio.apply(returns, observed, target, eps)


_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


def _hazard(z):
    """phi(z) / Phi(z), stable in the lower tail."""
    return torch.exp(-0.5 * z * z - _LOG_SQRT_2PI - torch.special.log_ndtr(z))


class TobitNLL(torch.autograd.Function):
    """Negative log likelihood of a two-limit Tobit model.

    A latent normal with mean ``mu`` and scale ``exp(log_sigma)`` is seen only between the limits. Observations
    at or below ``lower`` count as left-censored, those at or above ``upper`` as right-censored.

    Args:
        y: observations (N,), treated as data (no gradient).
        mu: latent mean (N,).
        log_sigma: log scale, (N,).
        lower: lower limit, a float; ``-inf`` switches it off.
        upper: upper limit, a float; ``inf`` switches it off.
        reduction: ``"none"``, ``"sum"`` or ``"mean"``.
    """

    @staticmethod
    def forward(y, mu, log_sigma, lower, upper, reduction):
        sigma = log_sigma.exp()
        z = (y.clamp(lower, upper) - mu) / sigma
        nll = 0.5 * z * z + _LOG_SQRT_2PI + log_sigma
        nll = torch.where(y <= lower, -torch.special.log_ndtr(z), nll)
        nll = torch.where(y >= upper, -torch.special.log_ndtr(-z), nll)
        if reduction == "sum":
            return nll.sum()
        if reduction == "mean":
            return nll.mean()
        return nll

    @staticmethod
    def setup_context(ctx, inputs, output):
        y, mu, log_sigma, ctx.lower, ctx.upper, ctx.reduction = inputs
        ctx.save_for_backward(y, mu, log_sigma)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        y, mu, log_sigma = ctx.saved_tensors
        sigma = log_sigma.exp()
        z = (y.clamp(ctx.lower, ctx.upper) - mu) / sigma
        if ctx.reduction == "mean":
            grad = grad / y.numel()
        left, right = y <= ctx.lower, y >= ctx.upper
        tail = torch.where(left, _hazard(z), _hazard(-z))
        d_mu = torch.where(left, tail / sigma, torch.where(right, -tail / sigma, -z / sigma))
        d_ls = torch.where(left | right, z * tail, 1 - z * z)
        return None, grad * d_mu, grad * d_ls, None, None, None


def recovery_loss(recovery, mu, log_sigma, lower=0.0, upper=float("inf"), reduction="mean"):
    """Tobit loss for recovery rates; recoveries of zero are common, pass ``upper=1.0`` for full ones."""
    return TobitNLL.apply(recovery, mu, log_sigma, lower, upper, reduction)


def fit_recovery(features, recovery, steps=200, lr=0.05, upper=1.0):
    weight = torch.zeros(features.shape[1], dtype=features.dtype, requires_grad=True)
    bias = torch.zeros((), dtype=features.dtype, requires_grad=True)
    log_sigma = torch.zeros((), dtype=features.dtype, requires_grad=True)
    opt = torch.optim.Adam([weight, bias, log_sigma], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        mu = features @ weight + bias
        loss = recovery_loss(recovery, mu, log_sigma.expand_as(mu), upper=upper)
        loss.backward()
        opt.step()
    return weight.detach(), bias.detach(), log_sigma.detach()
