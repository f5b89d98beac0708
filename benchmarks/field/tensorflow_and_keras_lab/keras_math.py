"""Small numerical ops shared by the Keras models."""
from keras import ops


@ops.custom_gradient
def pairwise_distance(x, y):
    """Euclidean distances between the rows of two point sets.

    Parameters
    ----------
    x : tensor (n, d)
    y : tensor (m, d)

    Returns
    -------
    tensor (n, m)
    """
    diff = ops.expand_dims(x, 1) - ops.expand_dims(y, 0)
    dist = ops.sqrt(ops.sum(diff * diff, axis=-1))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        apart = dist > 0
        unit = ops.where(apart, upstream / ops.where(apart, dist, ops.ones_like(dist)), ops.zeros_like(dist))
        pull = ops.expand_dims(unit, -1) * diff
        return ops.sum(pull, axis=1), -ops.sum(pull, axis=0)

    return dist, grad


def tempered_softmax(logits, temperature, axis=-1):
    """Softmax of `logits / temperature` along `axis`; `temperature` is a scalar tensor and learnable."""
    logits = ops.convert_to_tensor(logits)
    temperature = ops.cast(temperature, logits.dtype)

    @ops.custom_gradient
    def _softmax(logits, temperature):
        p = ops.softmax(logits / temperature, axis=axis)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            inner = ops.sum(p * upstream, axis=-1, keepdims=True)
            dlogits = p * (upstream - inner) / temperature
            dtemp = -ops.sum(dlogits * logits) / temperature
            return dlogits, dtemp

        return p, grad

    return _softmax(logits, temperature)


def weighted_logsumexp(x, weights, axis=-1, keepdims=False):
    """log(sum(weights * exp(x))) along one axis, weights positive and of x's shape."""

    @ops.custom_gradient
    def _lse(x, weights):
        top = ops.max(x, axis=axis, keepdims=True)
        e = ops.exp(x - top)
        total = ops.sum(weights * e, axis=axis, keepdims=True)
        full = ops.log(total) + top

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            if not keepdims:
                upstream = ops.expand_dims(upstream, axis)
            dw = upstream * e / total
            return dw * weights, dw

        return (full if keepdims else ops.squeeze(full, axis=axis)), grad

    return _lse(ops.convert_to_tensor(x), ops.convert_to_tensor(weights))
