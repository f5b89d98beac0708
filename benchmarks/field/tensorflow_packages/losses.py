"""Classification and ranking losses on logits."""
from __future__ import annotations

from typing import Optional, Sequence

import tensorflow as tf


def _check_reduction(reduction: str) -> None:
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"unknown reduction {reduction!r}")


def smoothed_cross_entropy(
    labels,
    logits,
    *,
    label_smoothing: float = 0.0,
    class_weights: Optional[Sequence[float]] = None,
    ignore_index: int = -100,
    reduction: str = "mean",
):
    """Fused softmax cross entropy with label smoothing.

    Args:
        labels: integer class ids, shape ``[...]``.
        logits: float tensor, shape ``[..., num_classes]``.
        label_smoothing: mass spread evenly over all classes.
        class_weights: constants, one per class; the weight of an example is the
            one of its label, and ``"mean"`` divides by the sum of these weights.
        ignore_index: label of positions that do not count.
        reduction: ``"none"``, ``"sum"`` or ``"mean"``.
    """
    _check_reduction(reduction)
    labels = tf.convert_to_tensor(labels)

    @tf.custom_gradient
    def _loss(logits):
        num_classes = tf.shape(logits)[-1]
        valid = tf.not_equal(labels, tf.cast(ignore_index, labels.dtype))
        ids = tf.where(valid, labels, tf.zeros_like(labels))
        if class_weights is None:
            weight = tf.ones_like(ids, dtype=logits.dtype)
        else:
            weight = tf.gather(tf.constant(list(class_weights), logits.dtype), ids)
        weight = tf.where(valid, weight, tf.zeros_like(weight))
        uniform = label_smoothing / tf.cast(num_classes, logits.dtype)
        target = (1.0 - label_smoothing) * tf.one_hot(
            ids, num_classes, dtype=logits.dtype) + uniform
        log_p = tf.nn.log_softmax(logits, axis=-1)
        per_item = -weight * tf.reduce_sum(target * log_p, axis=-1)
        if reduction == "none":
            out, scale = per_item, weight
        elif reduction == "sum":
            out, scale = tf.reduce_sum(per_item), weight
        else:
            total = tf.reduce_sum(weight)
            out = tf.math.divide_no_nan(tf.reduce_sum(per_item), total)
            scale = tf.math.divide_no_nan(weight, total)

        def grad(g):
            return (g * scale)[..., tf.newaxis] * (tf.exp(log_p) - target)

        return out, grad

    return _loss(tf.convert_to_tensor(logits))


def sigmoid_focal_loss(labels, logits, alpha=0.25, gamma=2.0, reduction="none"):
    _check_reduction(reduction)
    logits = tf.convert_to_tensor(logits)
    labels = tf.cast(labels, logits.dtype)

    @tf.custom_gradient
    def _focal(logits):
        p = tf.sigmoid(logits)
        ce = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        p_t = labels * p + (1.0 - labels) * (1.0 - p)
        alpha_t = labels * alpha + (1.0 - labels) * (1.0 - alpha)
        weight = alpha_t * tf.pow(1.0 - p_t, gamma)
        loss = weight * ce
        if reduction == "sum":
            loss = tf.reduce_sum(loss)
        elif reduction == "mean":
            loss = tf.reduce_mean(loss)

        def grad(upstream):
            if reduction == "mean":
                upstream = upstream / tf.cast(tf.size(logits), logits.dtype)
            return upstream * weight * (p - labels)

        return loss, grad

    return _focal(logits)


def list_mle_loss(labels, scores, mask=None):
    """ListMLE: negative log likelihood of the label order (Plackett-Luce).

    Args:
        labels: relevance grades, shape ``[batch, list_size]``; ties keep the
            given order.
        scores: float tensor, shape ``[batch, list_size]``.
        mask: optional bool tensor, ``False`` for items that do not exist.

    Returns:
        Loss of each list, shape ``[batch]``.
    """
    labels = tf.convert_to_tensor(labels)
    if mask is None:
        mask = tf.ones_like(labels, dtype=tf.bool)
    key = tf.where(mask, labels, tf.fill(tf.shape(labels), labels.dtype.min))
    # masked items move behind the valid ones, whatever their label
    by_label = tf.argsort(key, axis=-1, direction="DESCENDING", stable=True)
    by_mask = tf.argsort(
        tf.cast(tf.gather(mask, by_label, batch_dims=1), tf.int32),
        axis=-1, direction="DESCENDING", stable=True)
    order = tf.gather(by_label, by_mask, batch_dims=1)

    @tf.custom_gradient
    def _list_mle(scores):
        s = tf.gather(scores, order, batch_dims=1)
        m = tf.gather(mask, order, batch_dims=1)
        neg = tf.constant(s.dtype.min, s.dtype)
        masked = tf.where(m, s, neg)
        size = tf.shape(s)[-1]
        # remaining[i, k] is True where item k is still unplaced at step i
        steps = tf.range(size)
        remaining = steps[tf.newaxis, :] >= steps[:, tf.newaxis]
        pairs = tf.where(remaining[tf.newaxis] & m[:, tf.newaxis, :],
                         masked[:, tf.newaxis, :], neg)
        lse = tf.reduce_logsumexp(pairs, axis=-1)
        terms = tf.where(m, lse - s, tf.zeros_like(s))

        def grad(g):
            prob = tf.exp(pairs - lse[..., tf.newaxis])
            prob = tf.where(m[..., tf.newaxis], prob, tf.zeros_like(prob))
            d_sorted = tf.reduce_sum(prob, axis=1) - tf.cast(m, s.dtype)
            inverse = tf.argsort(order, axis=-1)
            d_scores = tf.gather(d_sorted, inverse, batch_dims=1)
            return g[:, tf.newaxis] * d_scores

        return tf.reduce_sum(terms, axis=-1), grad

    return _list_mle(tf.convert_to_tensor(scores))
