"""Training objectives with closed-form backward passes."""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable


def _reduce(values, reduction):
    if reduction == "mean":
        return values.mean()
    if reduction == "sum":
        return values.sum()
    if reduction == "none":
        return values
    raise ValueError(f"unknown reduction {reduction!r}")


def _spread(grad, like, reduction):
    if reduction == "mean":
        return (grad / like.numel()).expand_as(like)
    if reduction == "sum":
        return grad.expand_as(like)
    return grad


def _log1mexp(x):
    # log(1 - exp(x)) for x < 0
    return torch.where(x > -math.log(2.0), torch.log(-torch.expm1(x)), torch.log1p(-torch.exp(x)))


class OddsRatioPreferenceFunction(torch.autograd.Function):
    """Odds-ratio preference objective on length-averaged log-probabilities.

    ``loss = -chosen - beta * log sigmoid(logit(exp(chosen)) - logit(exp(rejected)))``

    Args:
        chosen (Tensor): mean token log-probability of the preferred answers, negative.
        rejected (Tensor): the same of the other answers.
        beta (float): weight of the odds-ratio term.
        reduction (str): ``"mean"``, ``"sum"`` or ``"none"``.
    """

    @staticmethod
    def forward(ctx, chosen, rejected, beta=0.1, reduction="mean"):
        log_odds = (chosen - _log1mexp(chosen)) - (rejected - _log1mexp(rejected))
        loss = -chosen - beta * F.logsigmoid(log_odds)
        ctx.save_for_backward(chosen, rejected)
        ctx.beta, ctx.reduction = beta, reduction
        return _reduce(loss, reduction)

    @staticmethod
    def backward(ctx, grad):
        chosen, rejected = ctx.saved_tensors
        log_odds = (chosen - _log1mexp(chosen)) - (rejected - _log1mexp(rejected))
        g = _spread(grad, chosen, ctx.reduction)
        pull = ctx.beta * torch.sigmoid(-log_odds)
        return -g * (1 + pull), g * pull, None, None


class EvidentialRegressionFunction(torch.autograd.Function):
    """Negative log evidence of a normal-inverse-gamma head.

    ``gamma, nu, alpha, beta`` are the four outputs of the head, all of the shape of
    ``target``; ``nu, beta > 0`` and ``alpha > 1``. ``coeff`` weighs the evidence
    regulariser ``|target - gamma| * (2 * nu + alpha)``.
    """

    @staticmethod
    def forward(gamma, nu, alpha, beta, target, coeff=0.0, reduction="mean"):
        omega = 2 * beta * (1 + nu)
        err = target - gamma
        nll = (
            0.5 * torch.log(math.pi / nu)
            - alpha * torch.log(omega)
            + (alpha + 0.5) * torch.log(err.square() * nu + omega)
            + torch.lgamma(alpha)
            - torch.lgamma(alpha + 0.5)
        )
        loss = nll + coeff * err.abs() * (2 * nu + alpha)
        return _reduce(loss, reduction)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.coeff, ctx.reduction = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx, grad):
        gamma, nu, alpha, beta, target = ctx.saved_tensors
        g = _spread(grad, target, ctx.reduction)
        err = target - gamma
        omega = 2 * beta * (1 + nu)
        total = err.square() * nu + omega
        half = alpha + 0.5
        size = err.abs()

        d_err = half * 2 * err * nu / total + ctx.coeff * err.sign() * (2 * nu + alpha)
        d_nu = -0.5 / nu - 2 * alpha * beta / omega + half * (err.square() + 2 * beta) / total
        d_nu = d_nu + ctx.coeff * size
        d_alpha = torch.log(total) - torch.log(omega)
        d_alpha = d_alpha + torch.digamma(alpha) - torch.digamma(half) + ctx.coeff * size
        d_beta = 2 * (1 + nu) * (half / total - alpha / omega)
        return -g * d_err, g * d_nu, g * d_alpha, g * d_beta, g * d_err, None, None


class WingLossFunction(torch.autograd.Function):
    """Wing loss for landmark regression.

    Parameters
    ----------
    pred, target : Tensor
        Coordinates, e.g. ``(batch, landmarks, 2)``.
    weight : Tensor, optional
        Visibility, broadcastable to ``pred``.
    width, curvature : float
        Extent of the logarithmic part and its curvature.
    reduction : {"mean", "sum", "none"}
        The mean is the weighted mean.
    """

    @staticmethod
    def forward(ctx, pred, target, weight=None, width=10.0, curvature=2.0, reduction="mean"):
        ctx.save_for_backward(pred, target, weight)
        ctx.settings = (width, curvature, reduction)
        loss = WingLossFunction._elementwise(pred - target, width, curvature)
        if weight is None:
            return _reduce(loss, reduction)
        full = weight.expand_as(loss)
        if reduction == "mean":
            return (full * loss).sum() / full.sum()
        return _reduce(full * loss, reduction)

    @staticmethod
    def _elementwise(diff, width, curvature):
        size = diff.abs()
        offset = width - width * math.log1p(width / curvature)
        return torch.where(size < width, width * torch.log1p(size / curvature), size - offset)

    @staticmethod
    def backward(ctx, grad):
        pred, target, weight = ctx.saved_tensors
        width, curvature, reduction = ctx.settings
        diff = pred - target
        size = diff.abs()
        slope = diff.sign() * torch.where(
            size < width, width / (curvature + size), torch.ones_like(size)
        )
        if weight is None:
            g = _spread(grad, diff, reduction) * slope
            return g, -g, None, None, None, None
        loss = WingLossFunction._elementwise(diff, width, curvature)
        full = weight.expand_as(loss)
        if reduction == "mean":
            norm = full.sum()
            average = (full * loss).sum() / norm
            g = grad * full * slope / norm
            g_weight = grad * (loss - average) / norm
        else:
            g = grad * full * slope
            g_weight = grad * loss
        return g, -g, g_weight.sum_to_size(weight.shape), None, None, None


@dataclass(frozen=True)
class WingLoss:
    width: float = 10.0
    curvature: float = 2.0
    reduction: str = "mean"

    def __call__(self, pred, target, weight=None):
        return WingLossFunction.apply(
            pred, target, weight, self.width, self.curvature, self.reduction
        )


class CosineMarginEmbeddingFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx, left, right, sign, margin=0.0, reduction="mean"):
        n_left = torch.sqrt(left.square().sum(-1) + 1e-12)
        n_right = torch.sqrt(right.square().sum(-1) + 1e-12)
        cos = (left * right).sum(-1) / (n_left * n_right)
        loss = torch.where(sign > 0, 1 - cos, F.relu(cos - margin))
        ctx.save_for_backward(left, right, sign, n_left, n_right, cos)
        ctx.margin = margin
        ctx.reduction = reduction
        return _reduce(loss, reduction)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        left, right, sign, n_left, n_right, cos = ctx.saved_tensors
        active = (cos > 0).to(cos.dtype)
        d_cos = torch.where(sign > 0, -torch.ones_like(cos), active)
        d_cos = (_spread(grad, cos, ctx.reduction) * d_cos).unsqueeze(-1)
        cos, n_left, n_right = cos.unsqueeze(-1), n_left.unsqueeze(-1), n_right.unsqueeze(-1)
        d_left = d_cos * (right / (n_left * n_right) - cos * left / n_left.square())
        d_right = d_cos * (left / (n_left * n_right) - cos * right / n_right.square())
        return d_left, d_right, None, None, None


def cosine_margin_embedding(left, right, sign, *, margin=0.0, reduction="mean"):
    """Pull pairs with ``sign == 1`` together, push others below a cosine of ``margin``."""
    return CosineMarginEmbeddingFunction.apply(left, right, sign, margin, reduction)


def _lovasz_weights(sorted_labels):
    total = sorted_labels.sum()
    intersection = total - sorted_labels.cumsum(0)
    union = total + (1 - sorted_labels).cumsum(0)
    jaccard = 1 - intersection / union
    return torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])


class LovaszHingeFunction(torch.autograd.Function):
    """Binary Lovasz hinge.

    Args:
        logits: float tensor ``(B, H, W)``.
        labels: integer tensor ``(B, H, W)`` of zeros, ones and ``ignore_index``.
        per_image: mean over the losses of the images, else one loss over all pixels.
        ignore_index: label of the pixels to leave out.
    """

    @staticmethod
    def forward(ctx, logits, labels, per_image=True, ignore_index=255):
        rows = logits.shape[0] if per_image else 1
        flat = logits.reshape(rows, -1)
        flat_labels = labels.reshape(rows, -1)
        slope = torch.zeros_like(flat)
        loss = flat.new_zeros(())
        for i in range(rows):
            kept = (flat_labels[i] != ignore_index).nonzero().squeeze(1)
            if kept.numel() == 0:
                continue
            y = flat_labels[i, kept].to(flat.dtype)
            side = 2 * y - 1
            errors, order = torch.sort(1 - flat[i, kept] * side, descending=True)
            weights = _lovasz_weights(y[order])
            loss = loss + torch.dot(F.relu(errors), weights)
            slope[i, kept[order]] = -side[order] * weights * (errors > 0)
        ctx.save_for_backward((slope / rows).reshape(logits.shape))
        return loss / rows

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (slope,) = ctx.saved_tensors
        return grad * slope, None, None, None
