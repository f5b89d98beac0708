import numpy as np

import keras
from keras import ops


def dot_product_attention(query, key, value, mask=None, *, causal=False, scale=None):
    """Scaled dot-product attention.

    Args:
        query: Tensor of shape `(..., Tq, D)`.
        key: Tensor of shape `(..., Tk, D)`, same leading axes as `query`.
        value: Tensor of shape `(..., Tk, Dv)`, same leading axes as `query`.
        mask: Boolean tensor that broadcasts to `(..., Tq, Tk)`, true where a
            query may look at a key. Queries that may look at none give zeros.
        causal: Forbid keys that lie later than the query; the last query is
            aligned with the last key.
        scale: Factor of the scores, `D ** -0.5` if `None`.

    Returns:
        Tensor of shape `(..., Tq, Dv)`.
    """
    query = ops.convert_to_tensor(query)
    key = ops.convert_to_tensor(key)
    value = ops.convert_to_tensor(value)
    t_q, t_k = query.shape[-2], key.shape[-2]
    if scale is None:
        scale = float(query.shape[-1]) ** -0.5
    allowed = np.ones((t_q, t_k), dtype="bool")
    if causal:
        allowed = np.tril(allowed, t_k - t_q)
    allowed = ops.convert_to_tensor(allowed)
    if mask is not None:
        allowed = ops.logical_and(ops.cast(mask, "bool"), allowed)

    @ops.custom_gradient
    def attend(q, k, v):
        scores = ops.einsum("...qd,...kd->...qk", q, k) * scale
        scores = ops.where(allowed, scores, -1e30)
        top = ops.max(scores, axis=-1, keepdims=True)
        weights = ops.where(allowed, ops.exp(scores - top), 0.0)
        total = ops.sum(weights, axis=-1, keepdims=True)
        probs = weights / ops.where(total > 0, total, 1.0)
        out = ops.einsum("...qk,...kd->...qd", probs, v)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            dv = ops.einsum("...qk,...qd->...kd", probs, upstream)
            dp = ops.einsum("...qd,...kd->...qk", upstream, v)
            delta = ops.sum(upstream * out, axis=-1, keepdims=True)
            ds = probs * (dp - delta) * scale
            dq = ops.einsum("...qk,...kd->...qd", ds, k)
            dk = ops.einsum("...qk,...qd->...kd", ds, q)
            return dq, dk, dv

        return out, grad

    return attend(query, key, value)


def generalized_mean_pool(x, p, epsilon=1e-6):
    """Generalised-mean pooling over the spatial axes of channels-last features.

    Args:
        x: Features of shape `(batch, *spatial, channels)`; entries below
            `epsilon` are raised to it.
        p: Positive exponents of shape `(channels,)`, learned. 1 gives average
            pooling, large values come near to max pooling.
        epsilon: Floor of the features.

    Returns:
        Tensor of shape `(batch, channels)`.
    """
    x = ops.convert_to_tensor(x)
    p = ops.copy(p)
    spatial = tuple(range(1, len(x.shape) - 1))
    count = int(np.prod([x.shape[a] for a in spatial]))

    @ops.custom_gradient
    def pool(x, p):
        floored = ops.where(x > epsilon, x, epsilon)
        powered = ops.power(floored, p)
        moment = ops.sum(powered, axis=spatial, keepdims=True) / count
        pooled = ops.power(moment, 1.0 / p)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = ops.reshape(upstream, (-1,) + tuple(moment.shape)[1:]) * pooled / moment
            dx = g * powered / floored / count
            dx = ops.where(x > epsilon, dx, ops.zeros_like(dx))
            log_moment = (
                ops.sum(powered * ops.log(floored), axis=spatial, keepdims=True) / count
            )
            dp = ops.sum(g * log_moment / p, axis=tuple(range(len(x.shape) - 1)))
            return dx, dp

        return ops.squeeze(pooled, axis=spatial), grad

    return pool(x, p)


class GeneralizedMeanPooling(keras.layers.Layer):
    def __init__(self, initial_p=3.0, **kwargs):
        super().__init__(**kwargs)
        self.initial_p = initial_p

    def build(self, input_shape):
        self.p = self.add_weight(
            name="p",
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(self.initial_p),
        )

    def call(self, inputs):
        return generalized_mean_pool(inputs, self.p)


def _windows(length, pool_size, strides, padding):
    if padding == "valid":
        out, before = (length - pool_size) // strides + 1, 0
    elif padding == "same":
        out = -(-length // strides)
        before = max((out - 1) * strides + pool_size - length, 0) // 2
    else:
        raise ValueError(f"Unknown padding: {padding!r}")
    start = np.arange(out)[:, None] * strides - before
    position = np.arange(length)[None, :]
    return (position >= start) & (position < start + pool_size)


def average_pool_1d(x, pool_size=2, strides=None, padding="valid"):
    # x: (batch, steps, channels); padded steps do not count in the average
    x = ops.convert_to_tensor(x)
    strides = pool_size if strides is None else strides
    cover = _windows(x.shape[1], pool_size, strides, padding)
    counts = ops.cast(cover.sum(axis=1)[:, None], x.dtype)
    cover = ops.cast(cover, x.dtype)

    @ops.custom_gradient
    def pool(x):
        sums = ops.einsum("ot,btc->boc", cover, x)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return ops.einsum("ot,boc->btc", cover, upstream) / pool_size

        return sums / counts, grad

    return pool(x)
