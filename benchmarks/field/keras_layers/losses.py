"""Losses that are fused with their link function."""

from keras import ops

_REDUCTIONS = ("mean", "sum", "none")


def _count(shape):
    n = 1
    for s in shape:
        n *= int(s)
    return n


def _check_reduction(reduction):
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of {_REDUCTIONS}, got {reduction!r}")


def sparse_softmax_cross_entropy(
    labels, logits, ignore_class=None, label_smoothing=0.0, reduction="mean"
):
    """Softmax cross entropy with integer labels.

    :param labels: integer tensor of the shape ``logits.shape[:-1]``.
    :param logits: float tensor, classes in the last axis.
    :param ignore_class: label of positions that take no part, or ``None``.
    :param label_smoothing: mass that is spread evenly over all the classes.
    :param reduction: ``"mean"`` over the positions that take part, ``"sum"``
        or ``"none"``.
    :returns: a scalar, or one value a position for ``"none"``.
    """
    _check_reduction(reduction)
    logits = ops.convert_to_tensor(logits)
    labels = ops.cast(labels, "int32")
    dtype = logits.dtype
    classes = logits.shape[-1]
    if ignore_class is None:
        valid = ops.ones(labels.shape, dtype=dtype)
    else:
        keep = ops.not_equal(labels, ignore_class)
        valid = ops.cast(keep, dtype)
        labels = ops.where(keep, labels, ops.zeros_like(labels))
    target = ops.one_hot(labels, classes, dtype=dtype)
    target = target * (1.0 - label_smoothing) + label_smoothing / classes
    if reduction == "mean":
        weight = valid / ops.clip(ops.sum(valid), 1.0, float(_count(labels.shape)))
    else:
        weight = valid

    @ops.custom_gradient
    def fused(logits):
        shifted = logits - ops.max(logits, axis=-1, keepdims=True)
        log_p = shifted - ops.log(ops.sum(ops.exp(shifted), axis=-1, keepdims=True))
        losses = -ops.sum(target * log_p, axis=-1) * weight

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            per_row = ops.expand_dims(upstream * weight, -1)
            return (ops.exp(log_p) - target) * per_row

        if reduction == "none":
            return losses, grad
        return ops.sum(losses), grad

    return fused(logits)


def sigmoid_focal_loss(y_true, y_pred, alpha=0.25, gamma=2.0, reduction="mean"):
    """Binary focal loss on logits.

    Args:
        y_true: Targets in `[0, 1]`, same shape as `y_pred`; held constant.
        y_pred: Logits of any shape.
        alpha: Weight of the positive class, or `None` for no class weight.
        gamma: Focusing exponent.
        reduction: `"mean"`, `"sum"` or `"none"`.

    Returns:
        A scalar, or a tensor of the shape of `y_pred` for `"none"`.
    """
    _check_reduction(reduction)
    y_pred = ops.convert_to_tensor(y_pred)
    y_true = ops.stop_gradient(ops.cast(y_true, y_pred.dtype))

    @ops.custom_gradient
    def focal(z):
        p = ops.sigmoid(z)
        miss = y_true * (1.0 - p) + (1.0 - y_true) * p
        ce = ops.softplus(z) - z * y_true
        weight = 1.0
        if alpha is not None:
            weight = alpha * y_true + (1.0 - alpha) * (1.0 - y_true)
        values = weight * ops.power(miss, gamma) * ce

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_miss = (1.0 - 2.0 * y_true) * p * (1.0 - p)
            slope = weight * (
                ops.power(miss, gamma) * (p - y_true)
                + gamma * ops.power(miss, gamma - 1.0) * d_miss * ce
            )
            if reduction == "none":
                return upstream * slope
            return upstream * slope / max(1, _count(z.shape))

        if reduction == "mean":
            values = ops.sum(values) / max(1, _count(z.shape))
        elif reduction == "sum":
            values = ops.sum(values)
        return values, grad

    return focal(y_pred)


def quantile_huber(y_true, y_pred, tau=0.5, delta=1.0):
    """Asymmetric Huber loss for the quantile `tau`, averaged over the last axis.

    Both tensors have the same shape. With the residual `u = y_true - y_pred`, the Huber value `h(u)` is weighted
    by `tau` for residuals of 0 and above and by `1 - tau` for those below.
    """
    y_true = ops.convert_to_tensor(y_true)
    y_pred = ops.convert_to_tensor(y_pred)

    @ops.custom_gradient
    def loss(y_true, y_pred):
        u = y_true - y_pred
        a = ops.abs(u)
        h = ops.where(a <= delta, 0.5 * u * u, delta * (a - 0.5 * delta)) / delta
        over = ops.cast(u < 0, u.dtype)
        value = ops.sum(ops.abs(tau - over) * h, axis=-1) / u.shape[-1]

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            w = tau * over + (1.0 - tau) * (1.0 - over)
            psi = ops.where(a <= delta, u, delta * ops.sign(u)) / delta
            g = ops.expand_dims(upstream, -1) * w * psi / u.shape[-1]
            return g, -g

        return value, grad

    return loss(y_true, y_pred)
