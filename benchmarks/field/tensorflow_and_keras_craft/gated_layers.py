"""Normalization and gating layers with fused backward passes (Keras 3).

All rules are written with `keras.ops` and so run on the TensorFlow and JAX
backends alike; PyTorch hands the cotangent over as `upstream`.
"""

import keras
from keras import ops


def _cotangent(args, upstream):
    """The output's cotangent, wherever the backend has put it."""
    if upstream is None:
        (upstream,) = args
    return upstream


def _read(variable):
    """A plain tensor: custom gradients must not be handed variables."""
    return ops.copy(variable)


def _sum_leading(x):
    """Reduces all axes but the last one."""
    return ops.sum(x, axis=tuple(range(len(x.shape) - 1)))


class FusedGroupNorm(keras.layers.Layer):
    """Group normalization, channels last.

    Args:
        groups: Integer. Must divide the number of channels.
        epsilon: Small float added to the variance.

    Input shape:
        `(batch, ..., channels)`; the statistics of a group are taken over all
        positions and the channels of the group, one sample at a time.
    """

    def __init__(self, groups=8, epsilon=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.groups = groups
        self.epsilon = epsilon

    def build(self, input_shape):
        channels = input_shape[-1]
        if channels % self.groups:
            raise ValueError(f"{self.groups} groups do not divide {channels}.")
        self.gamma = self.add_weight(shape=(channels,), initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=(channels,), initializer="zeros", name="beta")

    def call(self, inputs):
        shape = ops.shape(inputs)
        grouped = (shape[0], -1, self.groups, shape[-1] // self.groups)

        @ops.custom_gradient
        def normalize(x, gamma, beta):
            xg = ops.reshape(x, grouped)
            mean = ops.mean(xg, axis=(1, 3), keepdims=True)
            var = ops.mean(ops.square(xg - mean), axis=(1, 3), keepdims=True)
            rstd = ops.rsqrt(var + self.epsilon)
            xhat = (xg - mean) * rstd
            y = ops.reshape(xhat, shape) * gamma + beta

            def grad(*args, upstream=None):
                dy = _cotangent(args, upstream)
                d_gamma = _sum_leading(dy * ops.reshape(xhat, shape))
                d_beta = _sum_leading(dy)
                dxhat = ops.reshape(dy * gamma, grouped)
                m1 = ops.mean(dxhat, axis=(1, 3), keepdims=True)
                m2 = ops.mean(dxhat * xhat, axis=(1, 3), keepdims=True)
                dx = rstd * (dxhat - m1 - xhat * m2)
                return ops.reshape(dx, shape), d_gamma, d_beta

            return y, grad

        return normalize(inputs, _read(self.gamma), _read(self.beta))

    def get_config(self):
        return {**super().get_config(), "groups": self.groups, "epsilon": self.epsilon}


def make_rms_norm(epsilon=1e-6, unit_offset=False):
    """Builds `rms_norm(x, scale)` over the last axis.

    Args:
        epsilon: Float, added to the mean square.
        unit_offset: If `True` the normalized input is multiplied with
            `1 + scale` (Gemma's convention, scale starts at zero), otherwise
            with `scale`.
    """

    @ops.custom_gradient
    def rms_norm(x, scale):
        inv = ops.rsqrt(ops.mean(ops.square(x), axis=-1, keepdims=True) + epsilon)
        xhat = x * inv
        factor = 1.0 + scale if unit_offset else scale

        def grad(*args, upstream=None):
            dy = _cotangent(args, upstream)
            dxhat = dy * scale
            dot = ops.mean(dxhat * xhat, axis=-1, keepdims=True)
            return inv * (dxhat - xhat * dot), _sum_leading(dy * xhat)

        return xhat * factor, grad

    return rms_norm


class RMSNorm(keras.layers.Layer):
    """RMS normalization of the last axis with a learned scale."""

    def __init__(self, epsilon=1e-6, unit_offset=False, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.unit_offset = unit_offset
        self._norm = make_rms_norm(epsilon, unit_offset)

    def build(self, input_shape):
        start = "zeros" if self.unit_offset else "ones"
        self.scale = self.add_weight(shape=(input_shape[-1],), initializer=start, name="scale")

    def call(self, inputs):
        return self._norm(inputs, _read(self.scale))


@ops.custom_gradient
def parametric_swish(x, beta):
    """`x * sigmoid(beta * x)` with one `beta` per channel (last axis)."""
    s = ops.sigmoid(beta * x)

    def grad(*args, upstream=None):
        dy = _cotangent(args, upstream)
        slope = s * (1.0 - s)
        dx = dy * (s + beta * x * slope)
        d_beta = _sum_leading(dy * ops.square(x) * slope)
        return dx, d_beta

    return x * s, grad


@ops.custom_gradient
def swiglu(packed):
    """SwiGLU of a packed projection.

    Args:
        packed: `(..., 2 * units)`; the first half holds the values, the second
            half the gates.

    Returns:
        `(..., units)`, `values * silu(gates)`.
    """
    value, gate = ops.split(packed, 2, axis=-1)
    s = ops.sigmoid(gate)
    act = gate * s

    def grad(*args, upstream=None):
        dy = _cotangent(args, upstream)
        d_value = dy * act
        d_gate = dy * value * s * (1.0 + gate * (1.0 - s))
        return ops.concatenate([d_gate, d_value], axis=-1)

    return value * act, grad


class SwiGLUFeedForward(keras.layers.Layer):
    """Transformer feed-forward block: packed projection, SwiGLU, projection."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        width = input_shape[-1]
        self.w_in = self.add_weight(shape=(width, 2 * self.units), name="w_in")
        self.w_out = self.add_weight(shape=(self.units, width), name="w_out")

    def call(self, inputs):
        return ops.matmul(swiglu(ops.matmul(inputs, self.w_in)), self.w_out)


class GatedResidual(keras.layers.Layer):
    """Highway connection `t * h + (1 - t) * x` with `t = sigmoid(gate)`.

    The gate logits have the channels of `x` or a last axis of size one, in which
    case one gate serves all the channels of a position.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._mix = ops.custom_gradient(self._mix_rule)

    def _mix_rule(self, x, h, gate):
        t = ops.sigmoid(gate)
        # the complement by its own sigmoid, 1 - t loses digits
        carry = ops.sigmoid(-gate)

        def grad(*args, upstream=None):
            dy = _cotangent(args, upstream)
            d_t = dy * (h - x)
            if gate.shape[-1] == 1:
                d_t = ops.sum(d_t, axis=-1, keepdims=True)
            return dy * carry, dy * t, d_t * t * carry

        return t * h + carry * x, grad

    def call(self, x, h, gate):
        return self._mix(x, h, gate)


@ops.custom_gradient
def _weight_norm_matmul(x, v, g):
    # x (..., in), v (in, units), g (units,): every column of v has its own length g
    length = ops.sqrt(ops.sum(ops.square(v), axis=0))
    v_unit = v / length
    y = ops.matmul(x, v_unit * g)

    def grad(*args, upstream=None):
        dy = _cotangent(args, upstream)
        rows = ops.reshape(x, (-1, v.shape[0]))
        d_w = ops.matmul(ops.transpose(rows), ops.reshape(dy, (-1, v.shape[1])))
        d_g = ops.sum(v_unit * d_w, axis=0)
        # the part of the gradient along v does not change its direction
        radial = v_unit * ops.sum(v_unit * d_w)
        d_v = (g / length) * (d_w - radial)
        return ops.matmul(dy, ops.transpose(v_unit * g)), d_v, d_g

    return y, grad


class WeightNormDense(keras.layers.Layer):
    """Dense layer with weight normalization (Salimans & Kingma, 2016)."""

    def __init__(self, units, use_bias=True, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias

    def build(self, input_shape):
        self.v = self.add_weight(
            shape=(input_shape[-1], self.units), initializer="random_normal", name="v"
        )
        self.g = self.add_weight(shape=(self.units,), initializer="ones", name="g")
        if self.use_bias:
            self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")

    def call(self, inputs):
        y = _weight_norm_matmul(inputs, _read(self.v), _read(self.g))
        return y + self.bias if self.use_bias else y
