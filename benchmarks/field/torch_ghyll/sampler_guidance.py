"""Guidance and training weights for denoising diffusion models.

Arrays are ``(batch, ...)``; statistics are taken over all axes but the first.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn


def _rows(x):
    return x.reshape(x.shape[0], -1)


def _col(values, batch):
    """() or (batch,) to (batch, 1)."""
    return values.expand(batch).unsqueeze(1)


class GuidanceRescale(torch.autograd.Function):
    """Classifier-free guidance whose standard deviation is drawn back to that of the conditional output."""

    @staticmethod
    def forward(ctx, cond, uncond, strength, mix):
        c, u = _rows(cond), _rows(uncond)
        s = _col(strength, c.shape[0])
        guided = u + s * (c - u)
        sd_c, sd_g = c.std(1, keepdim=True), guided.std(1, keepdim=True)
        gain = mix * sd_c / sd_g + (1 - mix)
        ctx.save_for_backward(c, u, strength, guided, sd_c, sd_g, gain)
        ctx.mix, ctx.shape = mix, cond.shape
        return (gain * guided).reshape(cond.shape)

    @staticmethod
    def backward(ctx, grad):
        c, u, strength, guided, sd_c, sd_g, gain = ctx.saved_tensors
        grad = _rows(grad)
        batch, n = c.shape
        s = _col(strength, batch)
        g_ratio = ctx.mix * (grad * guided).sum(1, keepdim=True)
        g_sd_c = g_ratio / sd_g
        g_sd_g = -g_ratio * sd_c / sd_g**2
        g_guided = gain * grad + g_sd_g * (guided - guided.mean(1, keepdim=True)) / (sd_g * (n - 1))
        g_c = s * g_guided + g_sd_c * (c - c.mean(1, keepdim=True)) / (sd_c * (n - 1))
        g_u = (1 - s) * g_guided
        g_s = (g_guided * (c - u)).sum(1).sum_to_size(strength.shape)
        return g_c.reshape(ctx.shape), g_u.reshape(ctx.shape), g_s, None


def guidance_rescale(cond, uncond, strength, mix=0.7):
    """Guided prediction; ``strength`` is () or (batch,), ``mix`` blends rescaled and plain guidance."""
    return GuidanceRescale.apply(cond, uncond, strength, mix)


class PerpendicularNegative(torch.autograd.Function):
    """Take from the positive direction what the negative prompts add across it."""

    @staticmethod
    def forward(ctx, positive, negatives, weights):
        p = _rows(positive)                                             # (B, n)
        q = negatives.reshape(negatives.shape[0], *p.shape)             # (K, B, n)
        power = (p * p).sum(-1)
        along = (q * p).sum(-1) / power                                 # (K, B)
        across = q - along.unsqueeze(-1) * p
        w = weights.reshape(weights.shape[0], -1, 1)
        ctx.save_for_backward(p, across, along, power, weights)
        ctx.shapes = positive.shape, negatives.shape
        return (p - (w * across).sum(0)).reshape(positive.shape)

    @staticmethod
    def backward(ctx, grad):
        p, across, along, power, weights = ctx.saved_tensors
        g = _rows(grad)
        w = weights.reshape(weights.shape[0], -1, 1)
        g_across = -w * g                                               # (K, B, n)
        dot = ((g_across * p).sum(-1) / power).unsqueeze(-1)
        g_q = g_across - dot * p
        g_p = g - (along.unsqueeze(-1) * g_across + dot * across).sum(0)
        g_w = -(across * g).sum(-1)
        if weights.dim() == 1:
            g_w = g_w.sum(1)
        return g_p.reshape(ctx.shapes[0]), g_q.reshape(ctx.shapes[1]), g_w


def perpendicular_negative(positive, negatives, weights):
    """``positive`` (batch, ...), ``negatives`` (prompts, batch, ...), ``weights`` (prompts,) or (prompts, batch)."""
    return PerpendicularNegative.apply(positive, negatives, weights)


class DynamicThreshold(torch.autograd.Function):
    """Clip each sample at a quantile of its magnitudes and bring it back to [-1, 1]."""

    @staticmethod
    def forward(ctx, x, quantile, floor):
        rows = _rows(x)
        ordered, order = rows.abs().sort(dim=1)
        at = quantile * (rows.shape[1] - 1)
        lo = int(math.floor(at))
        hi = min(lo + 1, rows.shape[1] - 1)
        part = at - lo
        level = (1 - part) * ordered[:, lo] + part * ordered[:, hi]
        scale = level.clamp(min=floor).unsqueeze(1)
        ctx.save_for_backward(rows, scale, order[:, lo], order[:, hi], level > floor)
        ctx.part = part
        return (rows.clamp(-scale, scale) / scale).reshape(x.shape)

    @staticmethod
    def backward(ctx, grad):
        rows, scale, at_lo, at_hi, moves = ctx.saved_tensors
        inside = _rows(grad) * (rows.abs() <= scale)
        g_rows = inside / scale
        g_level = -(inside * rows).sum(1) / scale.squeeze(1) ** 2 * moves
        for where, share in ((at_lo, 1 - ctx.part), (at_hi, ctx.part)):
            where = where.unsqueeze(1)
            g_rows = g_rows.scatter_add(1, where, share * g_level.unsqueeze(1) * rows.gather(1, where).sign())
        return g_rows.reshape(grad.shape), None, None


def dynamic_threshold(x, quantile=0.995, floor=1.0):
    """Dynamic thresholding of predicted images; samples whose quantile is under ``floor`` are clipped there."""
    return DynamicThreshold.apply(x, quantile, floor)


class ClippedSnrLoss(torch.autograd.Function):
    """Squared error with weights that are capped in the signal-to-noise ratio."""

    @staticmethod
    def forward(ctx, prediction, target, log_snr, mask, gamma, kind, reduction):
        diff = prediction - target
        full = torch.ones_like(diff) if mask is None else mask.expand_as(diff).to(diff.dtype)
        count = _rows(full).sum(1).clamp(min=1)
        error = _rows(full * diff * diff).sum(1) / count
        snr = log_snr.exp()
        capped = snr.clamp(max=gamma)
        if kind == "epsilon":
            weight = capped / snr
        elif kind == "sample":
            weight = capped
        elif kind == "velocity":
            weight = capped / (snr + 1)
        else:
            raise ValueError(kind)
        ctx.save_for_backward(diff, full, count, error, snr, weight)
        ctx.gamma, ctx.kind, ctx.reduction = gamma, kind, reduction
        out = weight * error
        return out.mean() if reduction == "mean" else out

    @staticmethod
    def backward(ctx, grad):
        diff, full, count, error, snr, weight = ctx.saved_tensors
        g = (grad / snr.shape[0]).expand_as(snr) if ctx.reduction == "mean" else grad
        share = (2.0 * g * weight / count).reshape(-1, *[1] * (diff.dim() - 1))
        g_diff = share * full * diff
        free = snr < ctx.gamma
        zero = torch.zeros_like(snr)
        if ctx.kind == "epsilon":
            slope = torch.where(free, zero, -weight)
        elif ctx.kind == "sample":
            slope = torch.where(free, snr, zero)
        else:
            slope = torch.where(free, weight / (snr + 1), zero)
        return g_diff, -g_diff, g * error * slope, None, None, None, None


def clipped_snr_loss(prediction, target, log_snr, mask=None, gamma=5.0, kind="epsilon", reduction="mean"):
    """Loss with weights min(snr, gamma) / snr, min(snr, gamma) or min(snr, gamma) / (snr + 1).

    ``log_snr`` is (batch,) and may come from a learned schedule.  ``kind`` says what the network predicts:
    "epsilon", "sample" or "velocity".  ``mask`` broadcasts to the prediction, its true cells form the mean.
    ``reduction`` is "mean" or "none".
    """
    return ClippedSnrLoss.apply(prediction, target, log_snr, mask, gamma, kind, reduction)


@dataclass
class GuidanceConfig:
    strength: float = 7.5
    mix: float = 0.7
    quantile: float = 0.995
    floor: float = 1.0


class GuidedPrediction(nn.Module):
    def __init__(self, config: GuidanceConfig = GuidanceConfig(), prompts: int = 0):
        super().__init__()
        self.config = config
        self.strength = nn.Parameter(torch.tensor(config.strength))
        self.negative = nn.Parameter(torch.full((prompts,), 0.5)) if prompts else None

    def forward(self, cond, uncond, negatives=None):
        if self.negative is not None and negatives is not None:
            cond = uncond + perpendicular_negative(cond - uncond, negatives - uncond, self.negative)
        guided = guidance_rescale(cond, uncond, self.strength, self.config.mix)
        return dynamic_threshold(guided, self.config.quantile, self.config.floor)


class LearnedScheduleLoss(nn.Module):
    """Training loss with a linear log-SNR schedule whose ends are learned."""

    def __init__(self, gamma=5.0, kind="epsilon"):
        super().__init__()
        self.ends = nn.Parameter(torch.tensor([6.0, -6.0]))
        self.gamma, self.kind = gamma, kind

    def forward(self, prediction, target, time, mask=None):
        log_snr = self.ends[0] + (self.ends[1] - self.ends[0]) * time
        return clipped_snr_loss(prediction, target, log_snr, mask, self.gamma, self.kind)
