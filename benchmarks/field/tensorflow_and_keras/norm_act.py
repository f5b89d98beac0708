"""Normalizations and activations missing from `keras.layers`.

Everything is written with `keras.ops`, so the layers run on the TensorFlow, JAX and
PyTorch backends alike. Channels last throughout.
"""

import keras
from keras import ops


def _upstream(args, upstream):
    if upstream is None:
        (upstream,) = args
    return upstream


def group_norm(x, gamma, beta, groups=8, epsilon=1e-5):
    """Group normalization.

    Args:
        x: Tensor of shape `(batch, height, width, channels)`.
        gamma: Tensor of shape `(channels,)`.
        beta: Tensor of shape `(channels,)`.
        groups: Integer, divides `channels`.
        epsilon: Small float added to the variance.

    Returns:
        Tensor of the same shape as `x`.
    """
    batch, height, width, channels = x.shape
    grouped = (-1, height, width, groups, channels // groups)
    flat = (-1, height, width, channels)
    axes = (1, 2, 4)

    @ops.custom_gradient
    def fn(x, gamma, beta):
        xg = ops.reshape(x, grouped)
        mean = ops.mean(xg, axis=axes, keepdims=True)
        var = ops.mean(ops.square(xg - mean), axis=axes, keepdims=True)
        inv = ops.rsqrt(var + epsilon)
        x_hat = (xg - mean) * inv

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            gg = ops.reshape(g, grouped)
            dx = inv * (
                gg
                - ops.mean(gg, axis=axes, keepdims=True)
                - x_hat * ops.mean(gg * x_hat, axis=axes, keepdims=True)
            )
            dx = ops.reshape(dx, flat) * gamma
            dgamma = ops.sum(g * ops.reshape(x_hat, flat), axis=(0, 1, 2))
            dbeta = ops.sum(g, axis=(0, 1, 2))
            return dx, dgamma, dbeta

        return ops.reshape(x_hat, flat) * gamma + beta, grad

    return fn(x, ops.cast(gamma, x.dtype), ops.cast(beta, x.dtype))


@ops.custom_gradient
def channel_prelu(x, alpha):
    """PReLU whose slope is shared over the spatial axes; x (B, H, W, C), alpha (1, 1, C)."""
    neg = ops.where(x > 0, ops.zeros_like(x), x)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        dx = ops.where(x > 0, upstream, upstream * alpha)
        dalpha = ops.sum(upstream * neg, axis=(1, 2), keepdims=True)
        return dx, ops.mean(dalpha, axis=0)

    return ops.where(x > 0, x, alpha * x), grad


@ops.custom_gradient
def snake(x, alpha):
    """Snake activation, `x + sin(alpha x)^2 / alpha`.

    Learns periodic functions (https://arxiv.org/abs/2006.08195); popular in
    neural vocoders.

    Args:
        x: `(batch, time, channels)`.
        alpha: `(channels,)`, positive frequencies.
    """
    s = ops.sin(alpha * x) / alpha

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        c = ops.cos(alpha * x)
        dx = upstream * (1.0 + 2.0 * alpha * s * c)
        dalpha = ops.sum(upstream * s * (2.0 * x * c - s), axis=(0, 1))
        return dx, dalpha

    return x + alpha * ops.square(s), grad


def squash(s, axis=-1):
    """The nonlinearity of capsule networks: shrinks the norm n to n^2 / (1 + n^2)."""

    @ops.custom_gradient
    def fn(s):
        n = ops.sqrt(ops.sum(ops.square(s), axis=axis, keepdims=True))
        f = n / (1.0 + ops.square(n))

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            unit = s / ops.where(n > 0, n, ops.ones_like(n))
            slope = (1.0 - ops.square(n)) / ops.square(1.0 + ops.square(n))
            radial = ops.sum(unit * g, axis=axis, keepdims=True)
            return f * g + slope * s * radial

        return f * s, grad

    return fn(s)


class ChannelPReLU(keras.layers.Layer):
    def __init__(self, initial=0.25, **kwargs):
        super().__init__(**kwargs)
        self.initial = initial

    def build(self, input_shape):
        self.alpha = self.add_weight(
            shape=(1, 1, input_shape[-1]),
            initializer=keras.initializers.Constant(self.initial),
            name="alpha",
        )

    def call(self, x):
        return channel_prelu(x, ops.cast(self.alpha, x.dtype))


class Snake(keras.layers.Layer):
    """Layer version of `snake` with alpha = exp(log_alpha)."""

    def build(self, input_shape):
        self.log_alpha = self.add_weight(
            shape=(input_shape[-1],), initializer="zeros", name="log_alpha"
        )

    def call(self, x):
        return snake(x, ops.exp(self.log_alpha))


class GroupNorm(keras.layers.Layer):
    def __init__(self, groups=8, **kwargs):
        super().__init__(**kwargs)
        self.groups = groups

    def build(self, input_shape):
        self.gamma = self.add_weight(shape=(input_shape[-1],), initializer="ones")
        self.beta = self.add_weight(shape=(input_shape[-1],), initializer="zeros")

    def call(self, x):
        return group_norm(x, self.gamma, self.beta, groups=self.groups)
