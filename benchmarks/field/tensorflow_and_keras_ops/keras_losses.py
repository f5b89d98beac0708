"""Losses and output activations for the ranking and forecasting models (Keras 3, any backend)."""
import keras
from keras import ops


@ops.custom_gradient
def fm_interaction(x, v):
    """Second-order factorization machine term in linear time.

    Args:
        x: `(batch, n)` dense features.
        v: `(n, k)` latent factors.

    Returns:
        `(batch, 1)`.
    """
    xv = ops.matmul(x, v)
    x2, v2 = ops.square(x), ops.square(v)
    y = 0.5 * ops.sum(ops.square(xv) - ops.matmul(x2, v2), axis=1, keepdims=True)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        dx = upstream * (ops.matmul(xv, ops.transpose(v)) - x * ops.sum(v2, axis=1))
        dv = ops.matmul(ops.transpose(x), upstream * xv) - v * ops.matmul(ops.transpose(x2), upstream)
        return dx, dv

    return y, grad


class FactorizationMachine(keras.layers.Layer):
    def __init__(self, factors=8, **kwargs):
        super().__init__(**kwargs)
        self.factors = factors
        self.linear = keras.layers.Dense(1)

    def build(self, input_shape):
        self.v = self.add_weight(shape=(input_shape[-1], self.factors), initializer="glorot_normal", name="v")
        self.linear.build(input_shape)

    def call(self, x):
        return self.linear(x) + fm_interaction(x, ops.cast(self.v, x.dtype))


def pinball_loss(y_true, y_pred, tau=0.5):
    """Quantile loss averaged over all entries.

    Parameters
    ----------
    y_true, y_pred : tensors of equal shape, (batch, horizon)
    tau : float
        The quantile to forecast, in (0, 1).
    """

    @ops.custom_gradient
    def fn(y_true, y_pred):
        err = y_true - y_pred
        loss = ops.mean(ops.maximum(tau * err, (tau - 1.0) * err))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            n = ops.cast(ops.size(err), err.dtype)
            under = ops.cast(err > 0, err.dtype)
            g = upstream / n * (tau * (1.0 - under) - (1.0 - tau) * under)
            return -g, g

        return loss, grad

    return fn(y_true, y_pred)


class QuantileLoss(keras.losses.Loss):
    def __init__(self, tau=0.5, **kwargs):
        super().__init__(**kwargs)
        self.tau = tau

    def __call__(self, y_true, y_pred, sample_weight=None):
        return pinball_loss(ops.convert_to_tensor(y_true), y_pred, self.tau)


@ops.custom_gradient
def sparsemax(z):
    k = ops.arange(1, z.shape[-1] + 1, dtype=z.dtype)
    srt = ops.flip(ops.sort(z, axis=-1), axis=-1)
    cs = ops.cumsum(srt, axis=-1)
    on = ops.cast(1.0 + k * srt > cs, z.dtype)
    size = ops.sum(on, axis=-1, keepdims=True)
    tau = (ops.sum(srt * on, axis=-1, keepdims=True) - 1.0) / size
    p = ops.relu(z - tau)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        support = ops.cast(p > 0, p.dtype)
        mean = ops.sum(upstream * support, axis=-1, keepdims=True) / ops.sum(support, axis=-1, keepdims=True)
        return support * (upstream - mean)

    return p, grad


def smoothed_cross_entropy(logits, labels, smoothing=0.1, ignore_index=-1, reduction="mean"):
    """Cross entropy with label smoothing; rows labelled `ignore_index` do not count.

    Args:
        logits: `(n, classes)`.
        labels: integer `(n,)`.
        smoothing: Mass spread over all classes.
        ignore_index: Label of padding.
        reduction: `"mean"` (over the rows that count), `"sum"` or `"none"`.
    """
    labels = ops.cast(labels, "int32")

    @ops.custom_gradient
    def fn(logits):
        classes = logits.shape[-1]
        valid = ops.cast(labels != ignore_index, logits.dtype)
        safe = ops.where(labels != ignore_index, labels, 0)
        target = ops.one_hot(safe, classes, dtype=logits.dtype) * (1.0 - smoothing) + smoothing / classes
        logp = ops.log_softmax(logits, axis=-1)
        rows = -ops.sum(target * logp, axis=-1) * valid
        count = ops.maximum(ops.sum(valid), 1.0)
        if reduction == "mean":
            out = ops.sum(rows) / count
        elif reduction == "sum":
            out = ops.sum(rows)
        else:
            out = rows

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            scale = upstream * valid
            if reduction == "mean":
                scale = scale / count
            return scale[:, None] * (ops.exp(logp) - target)

        return out, grad

    return fn(logits)


def distillation_loss(student_logits, teacher_logits, reduction="mean"):
    """KL(teacher || student).

    :param student_logits: ``(batch, classes)``
    :param teacher_logits: ``(batch, classes)``
    :param reduction: ``"mean"`` over every entry, ``"batchmean"`` (the mathematical KL averaged over rows) or ``"sum"``
    """

    @ops.custom_gradient
    def fn(zs, zt):
        log_s = ops.log_softmax(zs, axis=-1)
        log_t = ops.log_softmax(zt, axis=-1)
        t = ops.exp(log_t)
        pointwise = t * (log_t - log_s)
        kl = ops.sum(pointwise, axis=-1, keepdims=True)
        if reduction == "mean":
            value = ops.mean(pointwise)
        elif reduction == "batchmean":
            value = ops.mean(kl)
        else:
            value = ops.sum(kl)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = upstream
            if reduction != "sum":
                g = g / ops.cast(ops.size(pointwise), pointwise.dtype)
            return g * (ops.exp(log_s) - t), g * (t * (log_t - log_s - kl))

        return value, grad

    return fn(student_logits, teacher_logits)
