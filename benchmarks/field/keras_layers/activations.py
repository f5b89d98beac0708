"""Activation functions with compact backward passes."""

import keras
from keras import ops


def _mish_gate(x):
    # tanh(softplus(x)) and its distance to 1, from exp(-|x|) alone
    n = ops.exp(-ops.abs(x))
    positive = x >= 0
    top = ops.where(positive, 1.0 + 2.0 * n, n * (n + 2.0))
    rest = ops.where(positive, 2.0 * n * n, 2.0 * ops.ones_like(n))
    return top / (top + rest), rest / (top + rest)


@keras.ops.custom_gradient
def mish(x):
    """Self-regularised activation ``x * tanh(softplus(x))``.

    Only the input is kept for the backward pass; the gate is evaluated again.
    """
    gate, _ = _mish_gate(x)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        t, rest = _mish_gate(x)
        slope = t + x * ops.sigmoid(x) * rest * (1.0 + t)
        return upstream * slope

    return x * gate, grad


def swiglu(x, *, beta=1.0, axis=-1):
    """Gated linear unit with a swish gate.

    The input is cut in two equal halves along ``axis``; the first is the value,
    the second the gate, and the result is ``value * gate * sigmoid(beta * gate)``.

    Args:
        x: Float tensor with an even size along `axis`.
        beta: Python float, sharpness of the swish gate.
        axis: Axis to split.

    Returns:
        Tensor with half the size of `x` along `axis`.
    """
    x = ops.convert_to_tensor(x)
    if x.shape[axis] % 2:
        raise ValueError(
            f"Axis {axis} must have an even size. Received shape {tuple(x.shape)}."
        )

    @ops.custom_gradient
    def _swiglu(x):
        value, gate = ops.split(x, 2, axis=axis)
        s = ops.sigmoid(beta * gate)
        swish = gate * s

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_value = upstream * swish
            d_gate = upstream * value * (s + swish * (1.0 - s))
            return ops.concatenate([d_value, d_gate], axis=axis)

        return value * swish, grad

    return _swiglu(x)


class SwiGLU(keras.layers.Layer):
    def __init__(self, beta=1.0, axis=-1, **kwargs):
        super().__init__(**kwargs)
        self.beta = float(beta)
        self.axis = axis

    def call(self, inputs):
        return swiglu(inputs, beta=self.beta, axis=self.axis)

    def get_config(self):
        config = super().get_config()
        config.update({"beta": self.beta, "axis": self.axis})
        return config
