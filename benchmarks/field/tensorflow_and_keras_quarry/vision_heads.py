"""Heads and activations for the Keras vision models."""

import math

import keras
from keras import ops

MAX_LOGIT_SCALE = math.log(100.0)


def _reduce_like(value, like):
    lead = len(value.shape) - len(like.shape)
    if lead > 0:
        value = ops.sum(value, axis=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(like.shape) if n == 1 and value.shape[i] != 1)
    if axes:
        value = ops.sum(value, axis=axes, keepdims=True)
    return value


@ops.custom_gradient
def squareplus(x, b):
    """Squareplus activation, `(x + sqrt(x**2 + b)) / 2`.

    Args:
        x: Tensor.
        b: Positive tensor that broadcasts to the shape of `x`, e.g. a scalar
            or one value per channel.
    """
    root = ops.sqrt(ops.square(x) + b)
    # (x + root) / 2 == (b / 2) / (root - x), which does not cancel for x < 0
    value = ops.where(x < 0, 0.5 * b / (root + ops.abs(x)), 0.5 * (x + root))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        dx = upstream * value / root
        db = upstream * 0.25 / root
        return dx, _reduce_like(db, b)

    return value, grad


def bilinear_pool(left, right, epsilon=1e-6):
    """Second-order pooling of two feature maps.

    The outer products of the features are summed over the positions, passed
    through a signed square root and scaled to unit length.

    Args:
        left: Tensor `(batch, positions, channels_left)`.
        right: Tensor `(batch, positions, channels_right)`.
        epsilon: Smoothing of both roots.

    Returns:
        Tensor `(batch, channels_left, channels_right)`.
    """

    @ops.custom_gradient
    def pool(left, right):
        outer = ops.matmul(ops.swapaxes(left, 1, 2), right)
        inner_root = ops.sqrt(ops.abs(outer) + epsilon)
        rooted = ops.sign(outer) * (inner_root - math.sqrt(epsilon))
        length = ops.sqrt(ops.sum(ops.square(rooted), axis=(1, 2), keepdims=True) + epsilon)
        pooled = rooted / length

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            along = ops.sum(upstream * pooled, axis=-1, keepdims=True)
            d_rooted = (upstream - pooled * along) / length
            d_outer = d_rooted * 0.5 / inner_root
            d_left = ops.matmul(right, ops.swapaxes(d_outer, 1, 2))
            d_right = ops.matmul(left, d_outer)
            return d_left, d_right

        return pooled, grad

    return pool(left, right)


def cosine_attention(query, key, value, logit_scale, bias=None):
    """Scaled cosine attention.

    Args:
        query, key, value: Tensors `(batch, heads, tokens, depth)`.
        logit_scale: Tensor `(heads,)`, log of the scale of each head; values
            above `log(100)` are cut to it.
        bias: Optional constant, added to the logits,
            broadcastable to `(batch, heads, tokens, tokens)`.
    """

    @ops.custom_gradient
    def attend(q, k, v, log_scale):
        q_norm = ops.sqrt(ops.sum(ops.square(q), axis=-1, keepdims=True) + 1e-12)
        k_norm = ops.sqrt(ops.sum(ops.square(k), axis=-1, keepdims=True) + 1e-12)
        q_hat, k_hat = q / q_norm, k / k_norm
        scale = ops.exp(ops.minimum(log_scale, MAX_LOGIT_SCALE))[None, :, None, None]
        cosine = ops.matmul(q_hat, ops.swapaxes(k_hat, -1, -2))
        logits = scale * cosine
        if bias is not None:
            logits = logits + bias
        probs = ops.softmax(logits, axis=-1)
        out = ops.matmul(probs, v)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            dv = ops.matmul(ops.swapaxes(probs, -1, -2), upstream)
            dp = ops.matmul(upstream, ops.swapaxes(v, -1, -2))
            dlogits = probs * (dp - ops.sum(dp * probs, axis=-1, keepdims=True))
            dlog_scale = ops.sum(dlogits * cosine * scale, axis=(0, 2, 3))
            dcos = dlogits * scale
            dq_hat = ops.matmul(dcos, k_hat)
            dk_hat = ops.matmul(ops.swapaxes(dcos, -1, -2), q_hat)
            dq = (dq_hat - q_hat * ops.sum(dq_hat * q_hat, axis=-1, keepdims=True)) / q_norm
            dk = (dk_hat - k_hat * ops.sum(dk_hat * k_hat, axis=-1, keepdims=True)) / k_norm
            return dq, dk, dv, dlog_scale

        return out, grad

    return attend(query, key, value, logit_scale)


def lovasz_hinge(labels, logits):
    labels = ops.cast(labels, logits.dtype)

    @ops.custom_gradient
    def loss(logits):
        signs = 2.0 * labels - 1.0
        errors = 1.0 - logits * signs
        order = ops.argsort(-errors, axis=-1)
        ranked = ops.take_along_axis(errors, order, axis=-1)
        truth = ops.take_along_axis(labels, order, axis=-1)
        positives = ops.sum(truth, axis=-1, keepdims=True)
        intersection = positives - ops.cumsum(truth, axis=-1)
        union = positives + ops.cumsum(1.0 - truth, axis=-1)
        jaccard = 1.0 - intersection / union
        steps = ops.concatenate([jaccard[:, :1], jaccard[:, 1:] - jaccard[:, :-1]], axis=-1)
        value = ops.sum(ops.relu(ranked) * steps, axis=-1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            active = steps * ops.cast(ranked > 0, steps.dtype)
            back = ops.take_along_axis(active, ops.argsort(order, axis=-1), axis=-1)
            return -upstream[:, None] * signs * back

        return value, grad

    return loss(logits)


class Squareplus(keras.layers.Layer):
    """Squareplus with one trainable smoothness per channel."""

    def __init__(self, initial=4.0, **kwargs):
        super().__init__(**kwargs)
        self.initial = initial

    def build(self, input_shape):
        self.b = self.add_weight(
            shape=(input_shape[-1],),
            initializer=keras.initializers.Constant(self.initial),
            constraint=keras.constraints.NonNeg(),
            name="b",
        )

    def call(self, inputs):
        return squareplus(inputs, 1.0 * self.b)
