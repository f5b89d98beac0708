"""Time series: trend smoothing, pitch difference function, excitable units."""
from typing import NamedTuple

import torch
import torch.nn as nn
from torch.autograd.function import once_differentiable


class HoltTrend(torch.autograd.Function):
    """Holt's linear trend smoothing with an optional damped trend.

    The level and the trend of every series are updated by

        pred_t  = level_{t-1} + phi * trend_{t-1}
        level_t = alpha * y_t + (1 - alpha) * pred_t
        trend_t = beta * (level_t - level_{t-1}) + (1 - beta) * phi * trend_{t-1}

    for ``t = 1, ..., T - 1``, starting from ``level_0 = y_0`` and
    ``trend_0 = y_1 - y_0``.

    Args:
        y: (B, T) observations, ``T >= 2``.
        alpha: (B,) level smoothing, each in (0, 1).
        beta: (B,) trend smoothing, each in (0, 1).
        horizon: number of steps ``H >= 1`` to forecast past the end.
        phi: damping of the trend, a float in (0, 1]. With 1 the trend is
            carried on for ever (Holt), below 1 it levels off (Gardner and
            McKenzie).

    Returns:
        A tuple ``(fitted, forecast)``: the one step ahead predictions
        ``pred_1, ..., pred_{T-1}`` of shape (B, T - 1) and the forecasts of
        shape (B, H), where the forecast ``h`` steps ahead is
        ``level_{T-1} + (phi + phi**2 + ... + phi**h) * trend_{T-1}``.
        Both are differentiable with respect to ``y``, ``alpha`` and ``beta``.
    """

    @staticmethod
    def forward(ctx, y, alpha, beta, horizon=1, phi=1.0):
        level, trend = y[:, 0], y[:, 1] - y[:, 0]
        fitted, surprise, slope_error = [], [], []
        for t in range(1, y.shape[1]):
            pred = level + phi * trend
            innovation = y[:, t] - pred
            new_level = pred + alpha * innovation
            gap = new_level - level - phi * trend
            fitted.append(pred)
            surprise.append(innovation)
            slope_error.append(gap)
            level, trend = new_level, phi * trend + beta * gap
        steps = torch.arange(1, horizon + 1, dtype=y.dtype, device=y.device)
        reach = torch.cumsum(phi ** steps, dim=0)
        ctx.save_for_backward(alpha, beta, torch.stack(surprise, 1), torch.stack(slope_error, 1), reach)
        forecast = level[:, None] + reach * trend[:, None]
        return torch.stack(fitted, dim=1), forecast

    @staticmethod
    @once_differentiable
    def backward(ctx, g_fitted, g_forecast):
        alpha, beta, surprise, slope_error, reach = ctx.saved_tensors
        n = surprise.shape[1]
        g_y = g_fitted.new_zeros(g_fitted.shape[0], n + 1)
        g_alpha = torch.zeros_like(alpha)
        g_beta = torch.zeros_like(beta)
        g_level = g_forecast.sum(dim=1)
        g_trend = g_forecast @ reach
        for t in range(n, 0, -1):
            g_beta += g_trend * slope_error[:, t - 1]
            g_new = g_level + beta * g_trend
            g_alpha += g_new * surprise[:, t - 1]
            g_y[:, t] += alpha * g_new
            g_pred = g_fitted[:, t - 1] + (1.0 - alpha) * g_new
            g_level = g_pred - beta * g_trend
            g_trend = g_pred + (1.0 - beta) * g_trend
        g_y[:, 0] += g_level - g_trend
        g_y[:, 1] += g_trend
        return g_y, g_alpha, g_beta, None, None


class HoltForecaster(nn.Module):
    """One pair of smoothing constants per series, kept in (0, 1) by a sigmoid."""

    def __init__(self, n_series: int, horizon: int = 4, phi: float = 1.0):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(2, n_series))
        self.horizon = horizon
        self.phi = phi

    def forward(self, y):
        alpha, beta = torch.sigmoid(self.raw)
        return HoltTrend.apply(y, alpha, beta, self.horizon, self.phi)

    def fit(self, y, steps=100, lr=0.05):
        opt = torch.optim.Adam(self.parameters(), lr=lr)
        for _ in range(steps):
            opt.zero_grad()
            fitted, _ = self(y)
            ((fitted - y[:, 1:]) ** 2).mean().backward()
            opt.step()
        return self


def _difference(frames, window, max_lag):
    head = frames[..., :window]
    rows = [(head - frames[..., lag:lag + window]).square().sum(-1) for lag in range(max_lag)]
    return torch.stack(rows, dim=-1)


def _running_total(diff):
    total = diff.cumsum(-1)
    total[..., 0] = 1.0
    return total


class YinDifference(torch.autograd.Function):

    @staticmethod
    def forward(frames, window, max_lag, cmnd):
        diff = _difference(frames, window, max_lag)
        if not cmnd:
            return diff
        lags = torch.arange(max_lag, dtype=diff.dtype, device=diff.device)
        out = lags * diff / _running_total(diff)
        out[..., 0] = 1.0
        return out

    @staticmethod
    def setup_context(ctx, inputs, output):
        frames, ctx.window, ctx.max_lag, ctx.cmnd = inputs
        ctx.save_for_backward(frames)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        frames, = ctx.saved_tensors
        if ctx.cmnd:
            diff = _difference(frames, ctx.window, ctx.max_lag)
            total = _running_total(diff)
            lags = torch.arange(ctx.max_lag, dtype=diff.dtype, device=diff.device)
            lead = grad * lags / total
            share = lead * diff / total
            tail = share.sum(-1, keepdim=True) - share.cumsum(-1)
            grad = lead - tail
        w = ctx.window
        g_frames = torch.zeros_like(frames)
        for lag in range(1, ctx.max_lag):
            delta = 2.0 * grad[..., lag:lag + 1] * (frames[..., :w] - frames[..., lag:lag + w])
            g_frames[..., :w] += delta
            g_frames[..., lag:lag + w] -= delta
        return g_frames, None, None, None


def yin(signal, frame=256, hop=128, max_lag=96, cmnd=False):
    frames = signal.unfold(-1, frame, hop)
    return YinDifference.apply(frames, frame - max_lag, max_lag, cmnd)


class FHNState(NamedTuple):
    v: torch.Tensor
    w: torch.Tensor


class FitzHughNagumo(torch.autograd.Function):

    @staticmethod
    def forward(ctx, v, w, stim, a, b, tau, dt):
        vs, ws = [], [w]
        for current in stim:
            dv = v - v ** 3 / 3 - w + current
            dw = (v + a - b * w) / tau
            v, w = v + dt * dv, w + dt * dw
            vs.append(v)
            ws.append(w)
        vs, ws = torch.stack(vs), torch.stack(ws)
        ctx.dt = dt
        ctx.save_for_backward(vs, ws, a, b, tau)
        return vs, w

    @staticmethod
    @once_differentiable
    def backward(ctx, g_vs, g_w):
        vs, ws, a, b, tau = ctx.saved_tensors
        dt = ctx.dt
        g_v = torch.zeros_like(g_w)
        g_stim = torch.empty_like(g_vs)
        g_a, g_b, g_tau = torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(tau)
        for t in reversed(range(len(g_vs))):
            v, w = vs[t], ws[t]
            g_v = g_v + g_vs[t]
            g_stim[t] = dt * g_v
            pull = dt * g_w / tau
            g_a += pull.sum()
            g_b -= (pull * w).sum()
            g_tau -= (pull * (v + a - b * w)).sum() / tau
            g_v, g_w = g_v * (1 + dt * (1 - v ** 2)) + pull, g_w - dt * g_v - pull * b
        return g_v, g_w, g_stim, g_a, g_b, g_tau, None


class ExcitableLayer(nn.Module):
    def __init__(self, dt=0.1):
        super().__init__()
        self.dt = dt
        self.a = nn.Parameter(torch.tensor(0.7))
        self.b = nn.Parameter(torch.tensor(0.8))
        self.tau = nn.Parameter(torch.tensor(12.5))

    def forward(self, stim, state: FHNState = None):
        if state is None:
            rest = torch.zeros_like(stim[0])
            state = FHNState(rest - 1.2, rest - 0.62)
        vs, w = FitzHughNagumo.apply(state.v, state.w, stim, self.a, self.b, self.tau, self.dt)
        return vs, FHNState(vs[-1], w)
