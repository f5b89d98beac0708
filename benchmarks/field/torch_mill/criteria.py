"""Training criteria with fused backward passes."""
from __future__ import annotations

import math
from typing import Optional

import torch
import torch.nn as nn
from torch.autograd.function import once_differentiable

__all__ = [
    "AsymmetricLossFunction",
    "KTOLossFunction",
    "SoftDiceLossFunction",
    "BarronRobustLossFunction",
    "AsymmetricLoss",
    "SoftDiceLoss",
]


def _reduce(value: torch.Tensor, reduction: str) -> torch.Tensor:
    if reduction == "mean":
        return value.mean()
    if reduction == "sum":
        return value.sum()
    if reduction == "none":
        return value
    raise ValueError(f"unknown reduction: {reduction!r}")


class AsymmetricLossFunction(torch.autograd.Function):
    """Asymmetric focusing loss for multi-label classification.

    Positives are weighted by ``(1 - p) ** gamma_pos`` and negatives by
    ``p_m ** gamma_neg``, with the shifted probability ``p_m = max(p - clip, 0)``.

    Args:
        logits: scores of any shape.
        targets: multi-hot labels in {0, 1}, shaped like ``logits``.
        gamma_neg: focusing exponent of the negatives.
        gamma_pos: focusing exponent of the positives.
        clip: probability margin taken off the negatives.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    @staticmethod
    def forward(ctx, logits, targets, gamma_neg=4.0, gamma_pos=1.0, clip=0.0, reduction="mean"):
        p = torch.sigmoid(logits)
        pm = (p - clip).clamp(min=0) if clip > 0 else p
        log_p = nn.functional.logsigmoid(logits)
        log_q = torch.log1p(-pm) if clip > 0 else nn.functional.logsigmoid(-logits)
        y = targets.to(logits.dtype)
        loss = -(y * (1 - p) ** gamma_pos * log_p + (1 - y) * pm ** gamma_neg * log_q)

        pos = (1 - p) ** (gamma_pos + 1) - gamma_pos * p * (1 - p) ** gamma_pos * log_p
        neg = gamma_neg * pm ** gamma_neg * (1 - pm) * log_q - pm ** (gamma_neg + 1)
        ctx.save_for_backward(-(y * pos + (1 - y) * neg))
        ctx.reduction = reduction
        return _reduce(loss, reduction)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (local,) = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad_output = grad_output / local.numel()
        return grad_output * local, None, None, None, None, None


class AsymmetricLoss(nn.Module):
    def __init__(self, gamma_neg: float = 4.0, gamma_pos: float = 1.0, clip: float = 0.0, reduction: str = "mean"):
        super().__init__()
        self.gamma_neg, self.gamma_pos, self.clip, self.reduction = gamma_neg, gamma_pos, clip, reduction

    def forward(self, logits, targets):
        return AsymmetricLossFunction.apply(
            logits, targets, self.gamma_neg, self.gamma_pos, self.clip, self.reduction
        )


class KTOLossFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx,
        policy_logps: torch.Tensor,
        reference_logps: torch.Tensor,
        is_desirable: torch.Tensor,
        kl: torch.Tensor,
        beta: float = 0.1,
        desirable_weight: float = 1.0,
        undesirable_weight: float = 1.0,
        reduction: str = "mean",
    ) -> torch.Tensor:
        good = is_desirable.to(policy_logps.dtype)
        sign = 2.0 * good - 1.0
        weight = desirable_weight * good + undesirable_weight * (1.0 - good)
        margin = sign * beta * (policy_logps - reference_logps - kl)
        miss = torch.sigmoid(-margin)
        ctx.save_for_backward(weight * sign * miss * torch.sigmoid(margin))
        ctx.beta = beta
        ctx.reduction = reduction
        ctx.kl_shape = kl.shape
        return _reduce(weight * miss, reduction)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (slope,) = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad_output = grad_output / slope.numel()
        up = grad_output * ctx.beta * slope
        grad_kl = None
        if ctx.needs_input_grad[3]:
            grad_kl = up.sum_to_size(ctx.kl_shape)
        return -up, up, None, grad_kl, None, None, None, None


class SoftDiceLossFunction(torch.autograd.Function):
    """Soft Dice loss over ``(batch, classes, *spatial)`` maps.

    :param probs: predicted probabilities.
    :param target: soft or hard labels of the same shape.
    :param mask: validity map broadcastable to ``probs``, or ``None``.
    :param class_weight: ``(classes,)`` weights normalised to sum to one, or ``None``.
    :param smooth: constant added to numerator and denominator.
    :param squared: square the terms of the denominator.
    :returns: the loss averaged over the batch.
    """

    @staticmethod
    def forward(ctx, probs, target, mask=None, class_weight=None, smooth=1.0, squared=False):
        flat = probs.shape[:2] + (-1,)
        m = torch.ones_like(probs) if mask is None else mask.to(probs.dtype).expand_as(probs)
        if class_weight is None:
            w = probs.new_full((probs.shape[1],), 1.0 / probs.shape[1])
        else:
            w = class_weight.to(probs.dtype) / class_weight.sum()
        inter = (m * probs * target).reshape(flat).sum(-1)
        if squared:
            total = (m * (probs ** 2 + target ** 2)).reshape(flat).sum(-1)
        else:
            total = (m * (probs + target)).reshape(flat).sum(-1)
        num, den = 2 * inter + smooth, total + smooth
        ctx.save_for_backward(probs, target, m, w, num, den)
        ctx.squared = squared
        return ((1 - num / den) * w).sum(1).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        probs, target, m, w, num, den = ctx.saved_tensors
        shape = num.shape + (1,) * (probs.dim() - 2)
        scale = grad_output * w / probs.shape[0]
        c_inter = (-2 * scale / den).view(shape)
        c_total = (scale * num / den ** 2).view(shape)
        d_probs = 2 * probs if ctx.squared else 1.0
        d_target = 2 * target if ctx.squared else 1.0
        g_probs = g_target = None
        if ctx.needs_input_grad[0]:
            g_probs = m * (c_inter * target + c_total * d_probs)
        if ctx.needs_input_grad[1]:
            g_target = m * (c_inter * probs + c_total * d_target)
        return g_probs, g_target, None, None, None, None


class SoftDiceLoss(nn.Module):
    def __init__(self, class_weight: Optional[torch.Tensor] = None, *, smooth: float = 1.0, squared: bool = False):
        super().__init__()
        self.register_buffer("class_weight", class_weight)
        self.smooth = smooth
        self.squared = squared

    def forward(self, logits, target, mask=None):
        return SoftDiceLossFunction.apply(
            logits.sigmoid(), target, mask, self.class_weight, self.smooth, self.squared
        )


class BarronRobustLossFunction(torch.autograd.Function):
    """General robust loss with shape ``alpha`` and scale ``scale``.

    Parameters
    ----------
    residual : Tensor
        Differences of any shape.
    weight : Tensor or None
        Per-residual weights (constants) broadcastable to ``residual``.
    alpha : float
        2 is squared error, 0 Cauchy, ``-inf`` Welsch.
    scale : float
        Width of the quadratic bowl.
    reduction : str
        ``"mean"`` is the weighted mean, ``"sum"`` the weighted sum.
    """

    @staticmethod
    def forward(ctx, residual, weight=None, alpha=1.0, scale=1.0, reduction="mean"):
        z2 = (residual / scale) ** 2
        if alpha == 2.0:
            rho = 0.5 * z2
        elif alpha == 0.0:
            rho = torch.log1p(0.5 * z2)
        elif alpha == -math.inf:
            rho = -torch.expm1(-0.5 * z2)
        else:
            b = abs(alpha - 2.0)
            rho = (b / alpha) * ((z2 / b + 1.0) ** (0.5 * alpha) - 1.0)
        w = torch.ones_like(residual) if weight is None else weight.to(residual.dtype).expand_as(residual)
        ctx.save_for_backward(residual, w)
        ctx.alpha, ctx.scale, ctx.reduction = alpha, scale, reduction
        total = (w * rho).sum()
        return total / w.sum() if reduction == "mean" else total

    @staticmethod
    def backward(ctx, grad_output):
        residual, w = ctx.saved_tensors
        alpha, scale = ctx.alpha, ctx.scale
        z2 = (residual / scale) ** 2
        slope = residual / scale ** 2
        if alpha == 0.0:
            slope = slope / (0.5 * z2 + 1.0)
        elif alpha == -math.inf:
            slope = slope * torch.exp(-0.5 * z2)
        elif alpha != 2.0:
            slope = slope * (z2 / abs(alpha - 2.0) + 1.0) ** (0.5 * alpha - 1.0)
        if ctx.reduction == "mean":
            grad_output = grad_output / residual.numel()
        return grad_output * w * slope, None, None, None, None
