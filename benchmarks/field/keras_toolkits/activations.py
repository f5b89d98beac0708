"""Periodic and vector-valued activations for audio and capsule models."""

import math

import keras
from keras import ops


def _sum_to_shape(value, shape):
    """Sum `value` over the axes along which `shape` was broadcast."""
    extra = len(value.shape) - len(shape)
    if extra > 0:
        value = ops.sum(value, axis=tuple(range(extra)))
    axes = tuple(
        i for i, (have, want) in enumerate(zip(value.shape, shape))
        if want == 1 and have != 1
    )
    if axes:
        value = ops.sum(value, axis=axes, keepdims=True)
    return value


@ops.custom_gradient
def snake_beta(x, alpha, beta):
    """Snake activation with separate frequency and magnitude.

    Computes `x + sin(alpha * x) ** 2 / beta`.

    Args:
        x: Tensor of any rank.
        alpha: Frequency, broadcastable against `x` (a scalar, one value per
            channel, ...).
        beta: Magnitude, non-zero, broadcastable against `x`.

    Returns:
        Tensor with the broadcast shape of the three inputs.
    """
    phase = alpha * x
    sine = ops.sin(phase)
    ratio = ops.square(sine) / beta

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        slope = ops.sin(2.0 * phase) / beta
        dx = upstream * (1.0 + alpha * slope)
        dalpha = upstream * x * slope
        dbeta = -upstream * ratio / beta
        return (
            _sum_to_shape(dx, x.shape),
            _sum_to_shape(dalpha, alpha.shape),
            _sum_to_shape(dbeta, beta.shape),
        )

    return x + ratio, grad


class SnakeBeta(keras.layers.Layer):
    """Snake activation with trainable per-channel parameters (log scale)."""

    def __init__(self, initial_alpha=1.0, **kwargs):
        super().__init__(**kwargs)
        self.initial_alpha = float(initial_alpha)

    def build(self, input_shape):
        init = keras.initializers.Constant(math.log(self.initial_alpha))
        shape = (input_shape[-1],)
        self.log_alpha = self.add_weight(shape=shape, initializer=init, name="log_alpha")
        self.log_beta = self.add_weight(shape=shape, initializer=init, name="log_beta")

    def call(self, inputs):
        return snake_beta(inputs, ops.exp(self.log_alpha), ops.exp(self.log_beta))

    def get_config(self):
        return {**super().get_config(), "initial_alpha": self.initial_alpha}


def capsule_squash(vectors, axis=-1, epsilon=1e-7):
    """Shrink capsule vectors to a length below one, keeping their direction.

    Args:
        vectors: Floating point tensor; capsules lie along `axis`.
        axis: Integer, the axis that holds the components of a capsule.
        epsilon: Small positive number added to the squared length.

    Returns:
        Tensor of the shape of `vectors`.
    """
    vectors = ops.convert_to_tensor(vectors)

    @ops.custom_gradient
    def squash(s):
        squared = ops.sum(ops.square(s), axis=axis, keepdims=True) + epsilon
        length = ops.sqrt(squared)
        factor = length / (1.0 + squared)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            inner = ops.sum(upstream * s, axis=axis, keepdims=True)
            dfactor = (1.0 - squared) / (1.0 + squared)
            return upstream * factor + s * dfactor * inner / length

        return s * factor, grad

    return squash(vectors)


class PrimaryCapsules(keras.layers.Layer):
    def __init__(self, num_capsules, capsule_dim, **kwargs):
        super().__init__(**kwargs)
        self.num_capsules = num_capsules
        self.capsule_dim = capsule_dim
        self.projection = keras.layers.Dense(num_capsules * capsule_dim)

    def call(self, inputs):
        flat = ops.reshape(inputs, (ops.shape(inputs)[0], -1))
        caps = ops.reshape(
            self.projection(flat), (-1, self.num_capsules, self.capsule_dim)
        )
        return capsule_squash(caps, axis=-1)
