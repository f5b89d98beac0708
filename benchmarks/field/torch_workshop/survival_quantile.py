# Losses for time-to-event and interval forecasting heads.
# Conventions follow lifelines / pycox: `event` is True where the event was observed,
# False where the subject was censored.

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

DEFAULT_QUANTILES = (0.1, 0.5, 0.9)


def _reduce(x, how):
    return {"mean": torch.mean, "sum": torch.sum}[how](x) if how != "none" else x


def risk_sets(time):
    """at_risk[i, j] is True when subject j is still under observation at time[i]."""
    return time[None, :] >= time[:, None]


class Pinball(Function):
    """Tilted absolute loss of pred (N, Q) at levels (Q,) against target (N,); reduction mean / sum / none."""

    @staticmethod
    def forward(ctx, pred, target, levels, reduction):
        diff = target[:, None] - pred
        ctx.save_for_backward(diff, levels)
        ctx.reduction = reduction
        loss = torch.maximum(levels * diff, (levels - 1) * diff)
        return _reduce(loss, reduction)

    @staticmethod
    def backward(ctx, grad):
        diff, levels = ctx.saved_tensors
        slope = levels - (diff < 0).to(diff.dtype)
        g = slope * grad
        if ctx.reduction == "mean":
            g = g / diff.shape[0]
        # levels are hyper-parameters, never trained
        return -g, g.sum(1), None, None


class CoxNLL(Function):
    """Negative log partial likelihood, Breslow's handling of ties, averaged over events."""

    @staticmethod
    def forward(ctx, log_risk, time, event):
        at_risk = risk_sets(time)
        table = log_risk[None, :].masked_fill(~at_risk, float("-inf"))
        lse = torch.logsumexp(table, dim=1)
        n = event.sum().clamp(min=1)
        ctx.save_for_backward(table, lse, event)
        ctx.n = n
        return ((lse - log_risk) * event).sum() / n

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        table, lse, event = ctx.saved_tensors
        share = torch.exp(table - lse[:, None])
        expected = share.sum(0)
        return grad * (expected - event.to(expected.dtype)) / ctx.n, None, None


class WeibullNLL(Function):
    """Right-censored Weibull negative log likelihood per subject.

    Parameters are log_scale and log_shape; time is positive data (no gradient).
    """

    @staticmethod
    def forward(ctx, log_scale, log_shape, time, event):
        k = log_shape.exp()
        u = time.log() - log_scale
        cum_hazard = torch.exp(k * u)
        d = event.to(u.dtype)
        ctx.save_for_backward(k, u, cum_hazard, d)
        return cum_hazard - d * (log_shape + (k - 1) * u - log_scale)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        k, u, cum_hazard, d = ctx.saved_tensors
        grad_scale = grad_shape = None
        if ctx.needs_input_grad[0]:
            grad_scale = grad * k * (d - cum_hazard)
        if ctx.needs_input_grad[1]:
            grad_shape = grad * (k * u * (cum_hazard - d) - d)
        return grad_scale, grad_shape, None, None


class DiscreteHazardNLL(Function):
    """Nnet-survival likelihood: logits (N, T) are per-bin hazards, bin (N,) the bin of event or censoring.

    A censored subject survives its own bin.
    """

    @staticmethod
    def forward(ctx, logits, bin, event, reduction):
        bins = torch.arange(logits.shape[1], device=logits.device)
        alive = bins[None, :] <= bin[:, None]
        dies = (bins[None, :] == bin[:, None]) & event[:, None]
        nll = (F.softplus(logits) * alive - logits * dies).sum(1)
        ctx.save_for_backward(logits, alive, dies)
        ctx.reduction = reduction
        return _reduce(nll, reduction)

    @staticmethod
    def backward(ctx, grad):
        logits, alive, dies = ctx.saved_tensors
        g = torch.sigmoid(logits) * alive - dies.to(logits.dtype)
        if ctx.reduction == "mean":
            g = g / logits.shape[0]
        if ctx.reduction == "none":
            grad = grad[:, None]
        return g * grad, None, None, None


class MonotoneQuantiles(Function):
    """(N, Q) raw scores -> non-crossing quantiles: the first column plus cumulated softplus steps."""

    @staticmethod
    def forward(ctx, raw):
        base, steps = raw[:, :1], F.softplus(raw[:, 1:])
        ctx.save_for_backward(steps)
        return torch.cat([base, base + steps.cumsum(1)], dim=1)

    @staticmethod
    def backward(ctx, grad):
        (steps,) = ctx.saved_tensors
        tail = grad.flip(1).cumsum(1).flip(1)
        return torch.cat([tail[:, :1], tail[:, 1:] * torch.sigmoid(steps)], dim=1)


class QuantileHead(nn.Module):
    def __init__(self, features, levels=DEFAULT_QUANTILES, reduction="mean"):
        super().__init__()
        self.register_buffer("levels", torch.as_tensor(levels))
        self.proj = nn.Linear(features, len(levels))
        self.reduction = reduction

    def forward(self, x):
        return MonotoneQuantiles.apply(self.proj(x))

    def loss(self, x, y):
        return Pinball.apply(self(x), y, self.levels.to(y.dtype), self.reduction)


class WeibullHead(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = nn.Linear(features, 2)

    def loss(self, x, time, event):
        log_scale, log_shape = self.proj(x).unbind(-1)
        return WeibullNLL.apply(log_scale, log_shape, time, event).mean()


def deepsurv_step(net, optimiser, x, time, event):
    optimiser.zero_grad()
    loss = CoxNLL.apply(net(x).squeeze(-1), time, event)
    loss.backward()
    optimiser.step()
    return loss.item()


def hazard_loss(logits, bin, event, reduction="mean"):
    return DiscreteHazardNLL.apply(logits, bin, event.bool(), reduction)
