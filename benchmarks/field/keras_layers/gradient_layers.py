"""Quantisers, constraints and layers that act on the backward signal."""

import keras
from keras import ops


def fake_quantize_ste(x, scale=0.1, bits=8, narrow_range=False):
    """Uniform signed quantisation with a straight-through estimator.

    The forward pass rounds `x / scale` to the integer grid of `bits` bits and
    multiplies it out again. The backward pass takes the rounding as the identity:
    the incoming gradient passes unchanged where `x / scale` lies within the grid's
    range (ends included) and is zero where it saturates.
    """
    x = ops.convert_to_tensor(x)
    q_max = 2 ** (bits - 1) - 1
    q_min = -q_max if narrow_range else -q_max - 1

    @ops.custom_gradient
    def quantize(x):
        steps = x / scale
        inside = ops.logical_and(steps >= q_min, steps <= q_max)
        rounded = ops.clip(ops.round(steps), q_min, q_max)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return ops.where(inside, upstream, ops.zeros_like(upstream))

        return rounded * scale, grad

    return quantize(x)


class GradientReversal(keras.layers.Layer):
    """Identity whose backward pass multiplies the gradient by ``-strength``.

    Used between a feature extractor and a domain classifier.
    """

    def __init__(self, strength=1.0, **kwargs):
        super().__init__(**kwargs)
        self.strength = float(strength)

    def call(self, inputs):
        strength = self.strength

        @ops.custom_gradient
        def reverse(x):
            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                return -strength * upstream

            return x * 1.0, grad

        return reverse(inputs)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "strength": self.strength}


class MaxNormProjection(keras.layers.Layer):
    def __init__(self, max_norm=1.0, axis=-1, **kwargs):
        super().__init__(**kwargs)
        if max_norm <= 0:
            raise ValueError("max_norm must be positive")
        self.max_norm = float(max_norm)
        self.axis = axis

    def call(self, inputs):
        max_norm, axis = self.max_norm, self.axis

        @ops.custom_gradient
        def project(x):
            norm = ops.sqrt(ops.sum(ops.square(x), axis=axis, keepdims=True))
            outside = norm > max_norm
            factor = ops.where(
                outside, max_norm / ops.where(outside, norm, max_norm), 1.0
            )

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                return upstream * factor

            return x * factor, grad

        return project(inputs)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "max_norm": self.max_norm,
            "axis": self.axis,
        }
