"""Pieces of a learned image codec: soft rounding, bounded parameters and the bin likelihood."""

import tensorflow as tf


def _sum_like(value, target):
    """Reduces `value` over the axes along which `target` was broadcast."""
    value_shape = tf.shape(value)
    target_shape = tf.shape(target)
    _, axes = tf.raw_ops.BroadcastGradientArgs(s0=value_shape, s1=target_shape)
    return tf.reshape(tf.reduce_sum(value, axis=axes), target_shape)


def soft_round_inverse(y, alpha, name="soft_round_inverse"):
    """Inverse of the soft rounding function.

    Soft rounding maps `x` to `m + tanh(alpha * (x - m)) / (2 * tanh(alpha / 2))` with
    `m = floor(x) + 1/2`; this is the `x` that it maps to `y`.

    Args:
      y: `tf.Tensor` of floating point type.
      alpha: `tf.Tensor` that broadcasts against `y`, positive. Values between 0.1 and 12 are
        usual; the larger, the closer is soft rounding to rounding.
      name: name of the scope.

    Returns:
      `tf.Tensor` of the shape of `y + alpha`.
    """
    with tf.name_scope(name):
        y = tf.convert_to_tensor(y)
        alpha = tf.convert_to_tensor(alpha, dtype=y.dtype)

        @tf.custom_gradient
        def _inverse(y, alpha):
            m = tf.floor(y) + 0.5
            u = y - m
            t = tf.tanh(alpha / 2.0)
            s = 2.0 * u * t
            r = tf.atanh(s) / alpha

            def grad(dx):
                slope = 1.0 / ((1.0 - s) * (1.0 + s))
                dy = dx * 2.0 * t * slope / alpha
                dalpha = dx * (u * (1.0 - t * t) * slope - r) / alpha
                return _sum_like(dy, y), _sum_like(dalpha, alpha)

            return m + r, grad

        return _inverse(y, alpha)


def upper_bound(inputs, bound, gradient="identity_if_towards", name="upper_bound"):
    """Same as `tf.minimum`, but with helpful gradient for `inputs > bound`.

    The gradient of `tf.minimum` is zero where the bound holds, so that a parameter that has
    overstepped the bound never comes back. This function can instead pass the gradient on
    where a step of gradient descent would move the value back towards the bound.

    Args:
      inputs: Input tensor.
      bound: Tensor that broadcasts to the shape of `inputs`. It receives no gradient.
      gradient: 'disconnected', 'identity', or 'identity_if_towards' (default).
        'disconnected' is the gradient of `tf.minimum`; 'identity' passes the gradient on
        everywhere; 'identity_if_towards' passes it on where `inputs <= bound`, and beyond
        the bound where descent (a step against the gradient) decreases `inputs`.
      name: Name for this op.

    Returns:
      Tensor of the shape of `inputs`.

    Raises:
      ValueError: for another `gradient`.
    """
    if gradient not in ("disconnected", "identity", "identity_if_towards"):
        raise ValueError(f"gradient must not be {gradient!r}")
    with tf.name_scope(name):
        inputs = tf.convert_to_tensor(inputs)
        bound = tf.convert_to_tensor(bound, dtype=inputs.dtype)

        @tf.custom_gradient
        def _upper_bound(inputs, bound):
            def grad(upstream):
                if gradient == "identity":
                    return upstream, None
                keep = inputs <= bound
                if gradient == "identity_if_towards":
                    keep = tf.logical_or(keep, upstream > 0)
                return tf.where(keep, upstream, tf.zeros_like(upstream)), None

            return tf.minimum(inputs, bound), grad

        return _upper_bound(inputs, bound)


def discretized_logistic_log_prob(x, loc, log_scale, *, levels=256):
    """Log probability of the bin of `x` under a logistic distribution.

    The levels lie evenly in [-1, 1]. The lowest bin reaches to minus infinity and the highest
    to plus infinity, so that the probabilities of all levels sum to one.

    Args:
      x: pixel values in [-1, 1], each on one of the levels. They are data and receive no gradient.
      loc: location, broadcasts to `x`.
      log_scale: logarithm of the scale, broadcasts to `x`.
      levels: number of levels.

    Returns:
      Tensor of the shape of `x`.
    """
    x = tf.convert_to_tensor(x)
    loc = tf.convert_to_tensor(loc, dtype=x.dtype)
    log_scale = tf.convert_to_tensor(log_scale, dtype=x.dtype)
    half = 1.0 / (levels - 1)

    @tf.custom_gradient
    def _log_prob(loc, log_scale):
        inv_scale = tf.exp(-log_scale)
        upper = (x - loc + half) * inv_scale
        lower = (x - loc - half) * inv_scale
        width = 2.0 * half * inv_scale
        first = x < -1.0 + half
        last = x > 1.0 - half
        log_cdf = tf.math.log_sigmoid(upper)
        log_survival = tf.math.log_sigmoid(-lower)
        log_width = tf.math.log(-tf.math.expm1(-width))
        out = tf.where(
            first,
            log_cdf,
            tf.where(last, log_survival, log_cdf + log_survival + log_width),
        )

        def grad(dy):
            between = 1.0 / tf.math.expm1(width)
            d_upper = tf.where(
                first, tf.sigmoid(-upper), tf.sigmoid(-upper) + between
            )
            d_upper = tf.where(last, tf.zeros_like(upper), d_upper)
            d_lower = tf.where(
                last, -tf.sigmoid(-lower), -tf.sigmoid(lower) - between
            )
            d_lower = tf.where(first, tf.zeros_like(lower), d_lower)
            d_loc = -dy * (d_upper + d_lower) * inv_scale
            d_log_scale = -dy * (d_upper * upper + d_lower * lower)
            return _sum_like(d_loc, loc), _sum_like(d_log_scale, log_scale)

        return out, grad

    return _log_prob(loc, log_scale)


class LogisticPixelHead(tf.keras.layers.Layer):
    """Splits features into location and scale and scores an image with them."""

    def __init__(self, channels=3, min_log_scale=-7.0, max_log_scale=3.0, **kwargs):
        super().__init__(**kwargs)
        self.project = tf.keras.layers.Conv2D(2 * channels, 1)
        self.min_log_scale = min_log_scale
        self.max_log_scale = max_log_scale

    def call(self, features, image):
        loc, log_scale = tf.split(self.project(features), 2, axis=-1)
        log_scale = upper_bound(log_scale, self.max_log_scale)
        log_scale = tf.maximum(log_scale, self.min_log_scale)
        return discretized_logistic_log_prob(image, loc, log_scale)
