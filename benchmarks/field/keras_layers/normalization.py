from typing import Sequence, Union

import keras
from keras import ops


def _canonical_axes(axis, ndim):
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(sorted(a % ndim for a in axes))


def _average(x, axis):
    # ops.mean rounds float64 to float32 on some backends
    count = 1
    for a in axis:
        count *= x.shape[a]
    return ops.sum(x, axis=axis, keepdims=True) / count


def rms_norm(
    x,
    scale,
    axis: Union[int, Sequence[int]] = -1,
    epsilon: float = 1e-6,
):
    """Root-mean-square normalisation with a learned scale.

    Parameters
    ----------
    x : tensor
        Activations of any rank.
    scale : tensor
        Scale with one entry for each position of the normalised axes; its shape
        is the shape of ``x`` restricted to them, in ascending order.
    axis : int or sequence of int
        Axes over which the mean square is taken.
    epsilon : float
        Added to the mean square.

    Returns
    -------
    tensor
        Same shape as ``x``.
    """
    x = ops.convert_to_tensor(x)
    scale = ops.copy(scale)
    ndim = len(x.shape)
    axes = _canonical_axes(axis, ndim)
    others = tuple(a for a in range(ndim) if a not in axes)
    wide = tuple(x.shape[a] if a in axes else 1 for a in range(ndim))

    @ops.custom_gradient
    def _rms_norm(x, scale):
        w = ops.reshape(scale, wide)
        rstd = ops.rsqrt(_average(ops.square(x), axes) + epsilon)
        x_hat = x * rstd

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = upstream * w
            dx = rstd * (g - x_hat * _average(g * x_hat, axes))
            dw = upstream * x_hat
            if others:
                dw = ops.sum(dw, axis=others)
            return dx, ops.reshape(dw, scale.shape)

        return x_hat * w, grad

    return _rms_norm(x, scale)


def group_norm(x, gamma, beta, *, groups=4, epsilon=1e-5):
    x = ops.convert_to_tensor(x)
    gamma, beta = ops.copy(gamma), ops.copy(beta)
    channels = x.shape[-1]
    if channels % groups:
        raise ValueError(f"{channels} channels cannot form {groups} groups.")
    inner = tuple(x.shape)[1:]
    positions = 1
    for size in inner[:-1]:
        positions *= size
    grouped = (-1, positions, groups, channels // groups)
    full = (-1,) + inner
    lead = tuple(range(len(inner)))

    @ops.custom_gradient
    def normalize(x, gamma, beta):
        xg = ops.reshape(x, grouped)
        mean = _average(xg, (1, 3))
        centred = xg - mean
        var = _average(ops.square(centred), (1, 3))
        rstd = ops.rsqrt(var + epsilon)
        xg_hat = centred * rstd
        x_hat = ops.reshape(xg_hat, full)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            dgamma = ops.sum(upstream * x_hat, axis=lead)
            dbeta = ops.sum(upstream, axis=lead)
            g = ops.reshape(upstream, grouped)
            m1 = _average(g, (1, 3))
            m2 = _average(g * xg_hat, (1, 3))
            dx = ops.reshape(rstd * (g - m1 - xg_hat * m2), full) * gamma
            return dx, dgamma, dbeta

        return x_hat * gamma + beta, grad

    return normalize(x, gamma, beta)


class GroupNorm(keras.layers.Layer):
    """Group normalisation of channels-last inputs, see `group_norm`."""

    def __init__(self, groups=4, epsilon=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.groups = groups
        self.epsilon = epsilon

    def build(self, input_shape):
        c = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=c, initializer="ones")
        self.beta = self.add_weight(name="beta", shape=c, initializer="zeros")

    def call(self, inputs):
        return group_norm(
            inputs, self.gamma, self.beta, groups=self.groups, epsilon=self.epsilon
        )


class WeightStandardizedDense(keras.layers.Layer):
    """Dense layer whose kernel is standardised over its fan-in.

    Every column of the kernel is brought to mean 0 and variance ``1 / fan_in``,
    then multiplied by a learned gain.

    Args:
        units: Size of the output.
        use_bias: Whether to add a bias.
        epsilon: Added to the variance of a column.
    """

    def __init__(self, units, use_bias=True, epsilon=1e-4, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.use_bias = use_bias
        self.epsilon = epsilon

    def build(self, input_shape):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(input_shape[-1], self.units),
            initializer="glorot_uniform",
        )
        self.gain = self.add_weight(
            name="gain", shape=(self.units,), initializer="ones"
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias", shape=(self.units,), initializer="zeros"
            )

    def call(self, inputs):
        epsilon = self.epsilon

        @ops.custom_gradient
        def standardize(kernel, gain):
            fan_in = kernel.shape[0]
            mean = _average(kernel, (0,))
            centred = kernel - mean
            var = _average(ops.square(centred), (0,))
            rstd = ops.rsqrt(var + epsilon)
            k_hat = centred * rstd
            shrink = float(fan_in) ** -0.5

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                g = upstream * shrink
                d_gain = ops.sum(g * k_hat, axis=0)
                g = g * gain
                along = _average(g * k_hat, (0,))
                flat = _average(g, (0,))
                return rstd * (g - flat - k_hat * along), d_gain

            return k_hat * gain * shrink, grad

        kernel = standardize(ops.copy(self.kernel), ops.copy(self.gain))
        outputs = ops.einsum("...i,iu->...u", inputs, kernel)
        if self.bias is not None:
            outputs = outputs + self.bias
        return outputs

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "use_bias": self.use_bias,
            "epsilon": self.epsilon,
        }
