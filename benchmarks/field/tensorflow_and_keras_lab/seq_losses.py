"""Losses used by the tagging and forecasting models."""
import math

import tensorflow as tf


@tf.custom_gradient
def masked_cross_entropy(logits, labels, lengths):
    """Token level cross entropy averaged over the real (not padded) tokens.

    logits: (batch, time, vocab) float; labels: (batch, time) int;
    lengths: (batch,) int, number of real tokens in each row. Returns a scalar.
    """
    dtype = logits.dtype
    mask = tf.sequence_mask(lengths, tf.shape(labels)[1], dtype=dtype)
    logp = tf.nn.log_softmax(logits, axis=-1)
    onehot = tf.one_hot(labels, tf.shape(logits)[-1], dtype=dtype)
    nll = -tf.reduce_sum(onehot * logp, axis=-1)
    loss = tf.reduce_sum(nll * mask) / tf.reduce_sum(mask)

    def grad(upstream):
        count = tf.cast(tf.size(labels), dtype)
        delta = (tf.exp(logp) - onehot) * mask[..., None]
        return upstream * delta / count, None, None

    return loss, grad


def weighted_softmax_ce(logits, labels, class_weights, ignore_index=-100, reduction="mean"):
    """Softmax cross entropy with class weights, the way PyTorch defines it.

    :param logits: scores, ``(n, classes)``
    :param labels: integer classes, ``(n,)``; entries equal to ``ignore_index`` do not count
    :param class_weights: ``(classes,)``, also differentiable
    :param ignore_index: label of the padding
    :param reduction: ``"none"``, ``"sum"`` or ``"mean"`` (divided by the sum of the weights used)
    :returns: ``(n,)`` for ``"none"``, a scalar otherwise
    """
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(f"unknown reduction {reduction!r}")
    labels = tf.convert_to_tensor(labels)
    keep = tf.not_equal(labels, ignore_index)
    safe = tf.where(keep, labels, tf.zeros_like(labels))

    @tf.custom_gradient
    def _loss(logits, class_weights):
        valid = tf.cast(keep, logits.dtype)
        w = tf.gather(class_weights, safe) * valid
        nll = tf.nn.sparse_softmax_cross_entropy_with_logits(safe, logits)
        if reduction == "none":
            value = w * nll
        elif reduction == "sum":
            value = tf.reduce_sum(w * nll)
        else:
            value = tf.reduce_sum(w * nll) / tf.reduce_sum(w)

        def grad(up):
            classes = logits.shape[-1]
            if reduction == "mean":
                coef = up / tf.reduce_sum(w) * tf.ones_like(nll)
                dw = coef * (nll - value)
            else:
                coef = up * tf.ones_like(nll)
                dw = coef * nll
            residual = tf.nn.softmax(logits) - tf.one_hot(safe, classes, dtype=logits.dtype)
            dlogits = (coef * w)[:, None] * residual
            dweights = tf.math.unsorted_segment_sum(dw * valid, safe, classes)
            return dlogits, dweights

        return value, grad

    return _loss(tf.convert_to_tensor(logits), tf.convert_to_tensor(class_weights))


def pinball_loss(y_true, y_pred, quantiles=(0.1, 0.5, 0.9)):
    """Quantile loss, summed over the quantiles.

    Args:
        y_true: observations, `[batch, 1]`.
        y_pred: predicted quantiles, `[batch, len(quantiles)]`.
        quantiles: levels in (0, 1).

    Returns:
        `[batch]` losses.
    """
    y_pred = tf.convert_to_tensor(y_pred)
    q = tf.constant(quantiles, dtype=y_pred.dtype)

    @tf.custom_gradient
    def _loss(y_true, y_pred):
        err = y_true - y_pred
        out = tf.reduce_sum(tf.maximum(q * err, (q - 1.0) * err), axis=-1)

        def grad(upstream):
            slope = tf.where(err > 0, q, q - 1.0) * upstream[:, None]
            return tf.reduce_mean(slope, axis=-1, keepdims=True), -slope

        return out, grad

    return _loss(tf.cast(y_true, y_pred.dtype), y_pred)


@tf.custom_gradient
def mixture_nll(logits, mu, log_sigma, y):
    # logits, mu, log_sigma: (batch, components); y: (batch,)
    inv_sigma = tf.exp(-log_sigma)
    z = (y[:, None] - mu) * inv_sigma
    log_pi = tf.nn.log_softmax(logits)
    joint = log_pi - 0.5 * z * z - log_sigma - 0.5 * math.log(2 * math.pi)
    evidence = tf.reduce_logsumexp(joint, axis=1)
    pi = tf.exp(log_pi)

    def grad(upstream):
        u = upstream[:, None]
        resp = tf.exp(joint - evidence[:, None])
        d_logits = u * (pi - resp)
        d_mu = -u * resp * z * inv_sigma
        d_log_sigma = u * pi * (1.0 - z * z)
        d_y = -tf.reduce_sum(d_mu, axis=1)
        return d_logits, d_mu, d_log_sigma, d_y

    return -evidence, grad


class MixtureDensityHead(tf.Module):
    """Turns features into the negative log density of the target."""

    def __init__(self, features, components, name=None):
        super().__init__(name=name)
        self.components = components
        self.kernel = tf.Variable(tf.random.normal([features, 3 * components], stddev=0.1))

    def __call__(self, features, target):
        logits, mu, log_sigma = tf.split(features @ self.kernel, 3, axis=-1)
        return tf.reduce_mean(mixture_nll(logits, mu, log_sigma, target))
