from __future__ import annotations

import math

import keras
from keras import ops

_REDUCTIONS = ("none", "sum", "sum_over_batch_size", "mean_with_sample_weight")


def focal_tversky_loss(
    y_true,
    y_pred,
    alpha: float = 0.7,
    beta: float = 0.3,
    gamma: float = 4.0 / 3.0,
    smooth: float = 1.0,
    class_weight=None,
):
    r"""Focal Tversky loss for soft segmentation maps.

    .. math:: L_n = \sum_c w_c (1 - TI_{nc})^\gamma / \sum_c w_c

    :param y_true: soft or hard targets in [0, 1], shape ``(batch, ..., classes)``
    :param y_pred: probabilities in [0, 1], same shape
    :param alpha: weight of the false negatives
    :param beta: weight of the false positives
    :param gamma: focusing exponent, at least one
    :param smooth: positive constant added to numerator and denominator
    :param class_weight: optional sequence of one number per class
    :return: tensor of shape ``(batch,)``
    """
    if gamma < 1.0:
        raise ValueError(f"`gamma` must be at least 1. Received: {gamma}")
    y_pred = ops.convert_to_tensor(y_pred)
    y_true = ops.cast(ops.convert_to_tensor(y_true), y_pred.dtype)
    rank = len(y_pred.shape)
    classes = y_pred.shape[-1]
    axes = tuple(range(1, rank - 1))
    if class_weight is None:
        class_weight = [1.0] * classes
    total = float(sum(class_weight))
    shares = [float(w) / total for w in class_weight]

    def spread(v):
        """(batch, classes) -> (batch, 1, ..., 1, classes)"""
        for axis in axes:
            v = ops.expand_dims(v, axis)
        return v

    @ops.custom_gradient
    def loss_fn(t, p):
        share = ops.convert_to_tensor(shares, dtype=p.dtype)
        hit = ops.sum(t * p, axis=axes) if axes else t * p
        miss = ops.sum(t * (1.0 - p), axis=axes) if axes else t * (1.0 - p)
        false = ops.sum((1.0 - t) * p, axis=axes) if axes else (1.0 - t) * p
        excess = alpha * miss + beta * false
        denominator = hit + excess + smooth
        gap = excess / denominator
        loss = ops.sum(share * ops.power(gap, gamma), axis=-1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            outer = ops.expand_dims(upstream, -1) * share
            outer = outer * gamma * ops.power(gap, gamma - 1.0)
            d_excess = spread(outer * (hit + smooth) / ops.square(denominator))
            d_hit = spread(-outer * excess / ops.square(denominator))
            dp = d_hit * t + d_excess * (beta * (1.0 - t) - alpha * t)
            dt = d_hit * p + d_excess * (alpha * (1.0 - p) - beta * p)
            return dt, dp

        return loss, grad

    return loss_fn(y_true, y_pred)


class FocalTverskyLoss(keras.losses.Loss):
    def __init__(self, alpha=0.7, beta=0.3, gamma=4.0 / 3.0, smooth=1.0, **kwargs):
        super().__init__(**kwargs)
        self.alpha, self.beta = alpha, beta
        self.gamma, self.smooth = gamma, smooth

    def call(self, y_true, y_pred):
        return focal_tversky_loss(
            y_true, y_pred, self.alpha, self.beta, self.gamma, self.smooth
        )


def weighted_log_cosh_loss(
    y_true, y_pred, sample_weight=None, *, reduction: str = "sum_over_batch_size"
):
    """Logarithm of the hyperbolic cosine of the error, weighted and reduced.

    The error is averaged over the last axis. Targets, predictions and sample
    weights all receive gradients, so that weights may come from a network.

    Args:
        y_true: Targets, shape `(..., d)`.
        y_pred: Predictions, same shape.
        sample_weight: Optional weights, shape `(...)`.
        reduction: `"none"`, `"sum"`, `"sum_over_batch_size"` or
            `"mean_with_sample_weight"` (the weighted sum over the sum of the
            weights).
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"Unknown reduction {reduction!r}, use one of {_REDUCTIONS}")
    y_pred = ops.convert_to_tensor(y_pred)
    y_true = ops.cast(ops.convert_to_tensor(y_true), y_pred.dtype)
    if sample_weight is None:
        sample_weight = ops.ones_like(y_pred[..., 0])
    sample_weight = ops.cast(ops.convert_to_tensor(sample_weight), y_pred.dtype)

    @ops.custom_gradient
    def loss_fn(target, prediction, weight):
        error = prediction - target
        size = ops.abs(error)
        pointwise = size + ops.log1p(ops.exp(-2.0 * size)) - math.log(2.0)
        values = ops.mean(pointwise, axis=-1)
        weighted = values * weight
        if reduction == "none":
            norm, out = None, weighted
        elif reduction == "sum":
            norm, out = None, ops.sum(weighted)
        elif reduction == "sum_over_batch_size":
            norm = ops.sum(ops.ones_like(weighted))
            out = ops.sum(weighted) / norm
        else:
            norm = ops.sum(weight)
            out = ops.sum(weighted) / norm

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            if norm is not None:
                upstream = upstream / norm
            d_values = ops.ones_like(values) * upstream
            d_weight = d_values * values
            d_error = ops.expand_dims(d_values * weight, -1) * ops.tanh(error)
            d_error = d_error / error.shape[-1]
            return -d_error, d_error, d_weight

        return out, grad

    return loss_fn(y_true, y_pred, sample_weight)
