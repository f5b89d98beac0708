"""Backend-agnostic losses with explicit gradients (Keras 3)."""
import math

import keras
from keras import ops


def huber_loss(y_true, y_pred, sample_weight=None, delta=1.0, reduction="sum_over_batch_size"):
    """Huber loss with sample weights.

    Args:
        y_true: targets, shape `(batch, outputs)`.
        y_pred: predictions, shape `(batch, outputs)`.
        sample_weight: shape `(batch,)`, ones when left out.
        delta: where the quadratic part ends.
        reduction: `"none"`, `"sum"`, `"sum_over_batch_size"` or
            `"mean_with_sample_weight"`.

    Returns:
        Shape `(batch,)` for `"none"`, a scalar otherwise.
    """
    y_pred = ops.convert_to_tensor(y_pred)
    y_true = ops.cast(y_true, y_pred.dtype)
    batch = y_pred.shape[0]
    if sample_weight is None:
        sample_weight = ops.ones((batch,), dtype=y_pred.dtype)
    sample_weight = ops.cast(sample_weight, y_pred.dtype)

    @ops.custom_gradient
    def _huber(y_true, y_pred, weight):
        err = y_pred - y_true
        mag = ops.abs(err)
        elem = ops.where(mag <= delta, 0.5 * err * err, delta * (mag - 0.5 * delta))
        per = ops.mean(elem, axis=-1)
        outputs = y_pred.shape[-1]
        if reduction == "none":
            value = weight * per
        elif reduction == "sum":
            value = ops.sum(weight * per)
        elif reduction == "mean_with_sample_weight":
            value = ops.sum(weight * per) / ops.sum(weight)
        else:
            value = ops.sum(weight * per) / batch

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            coef = upstream * ops.ones_like(per)
            shift = 0.0
            if reduction == "sum_over_batch_size":
                coef = coef / batch
            elif reduction == "mean_with_sample_weight":
                coef = coef / ops.sum(weight)
                shift = value
            slope = ops.clip(err, -delta, delta) / outputs
            dpred = ops.expand_dims(coef * weight, -1) * slope
            return -dpred, dpred, coef * (per - shift)

        return value, grad

    return _huber(y_true, y_pred, sample_weight)


def weighted_sparse_ce(logits, labels, class_weight=None):
    """Mean cross entropy of integer labels with optional class weights.

    Args:
        logits: `(batch, classes)`.
        labels: `(batch,)` integers.
        class_weight: sequence of `classes` floats or None.

    Returns:
        Scalar, the average of the weighted example losses.
    """
    logits = ops.convert_to_tensor(logits)
    classes = logits.shape[-1]
    labels = ops.cast(labels, "int32")

    @ops.custom_gradient
    def _ce(logits):
        onehot = ops.cast(ops.one_hot(labels, classes), logits.dtype)
        logp = ops.log_softmax(logits, axis=-1)
        nll = -ops.sum(onehot * logp, axis=-1)
        if class_weight is not None:
            w = ops.convert_to_tensor(class_weight, dtype=logits.dtype)
            nll = nll * ops.take(w, labels, axis=0)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return upstream * (ops.exp(logp) - onehot) / logits.shape[0]

        return ops.mean(nll), grad

    return _ce(logits)


def mixture_log_prob(x, logits, mu, log_sigma):
    """Log density of points under a diagonal Gaussian mixture.

    x (n, d); logits (k,); mu (k, d); log_sigma (k, d)  ->  (n,)
    """
    const = 0.5 * math.log(2.0 * math.pi)

    @ops.custom_gradient
    def _log_prob(x, logits, mu, log_sigma):
        inv = ops.exp(-log_sigma)
        z = (ops.expand_dims(x, 1) - mu) * inv
        comp = ops.sum(-0.5 * z * z - log_sigma - const, axis=-1)
        joint = ops.log_softmax(logits, axis=-1) + comp
        out = ops.logsumexp(joint, axis=-1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            u = ops.expand_dims(upstream, -1)
            r = u * ops.exp(joint - ops.expand_dims(out, -1))
            pull = ops.expand_dims(r, -1) * z * inv
            dx = -ops.sum(pull, axis=1)
            dmu = ops.sum(pull, axis=0)
            dls = ops.sum(ops.expand_dims(r, -1) * (z * z - 1.0), axis=0)
            dlogits = ops.sum(r, axis=0) - ops.sum(upstream) * ops.softmax(logits, axis=-1)
            return dx, dlogits, dmu, dls

        return out, grad

    return _log_prob(*[ops.convert_to_tensor(t) for t in (x, logits, mu, log_sigma)])


def _norm(t):
    return ops.sqrt(ops.sum(t * t, axis=-1, keepdims=True))


@ops.custom_gradient
def cosine_similarity(a, b):
    """Row-wise cosine of two (batch, dim) embeddings, shape (batch,)."""
    na = _norm(a)
    nb = _norm(b)
    ua = a / na
    ub = b / nb
    cos = ops.sum(ua * ub, axis=-1)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        c = ops.expand_dims(cos, -1)
        u = ops.expand_dims(upstream, -1) / na
        return u * (ub - c * ua), u * (ua - c * ub)

    return cos, grad


class CosineLoss(keras.losses.Loss):
    """`1 - cos(y_true, y_pred)`."""

    def call(self, y_true, y_pred):
        y_pred = ops.convert_to_tensor(y_pred)
        return 1.0 - cosine_similarity(ops.cast(y_true, y_pred.dtype), y_pred)
