"""Layers for inertial gait recordings, (batch, time, channels)."""

import keras
from keras import ops


def _pick(x, index):
    """x[b, index[b, t], c] through a one-hot product, and the selector itself."""
    selector = ops.one_hot(index, x.shape[1], dtype=x.dtype)
    return ops.matmul(selector, x), selector


def make_time_warp(boundary="edge"):
    """Linear resampling of each recording at ``rate * t + offset``.

    Args:
        boundary: what lies outside of the recording. "edge" repeats the end samples, "wrap" treats it as
            periodic, "zero" is silence (the first sample past either end is a zero, too).

    Returns:
        ``time_warp(x, rate, offset)`` with x (batch, time, channels), rate and offset (batch,) in samples.
    """
    if boundary not in ("edge", "wrap", "zero"):
        raise ValueError(f"boundary {boundary!r}")

    def locate(position, n):
        low = ops.floor(position)
        step = ops.cast(low, "int32")
        if boundary == "wrap":
            return position - low, ops.mod(step, n), ops.mod(step + 1, n), None
        pair = (ops.clip(step, 0, n - 1), ops.clip(step + 1, 0, n - 1))
        if boundary == "edge":
            return position - low, *pair, None
        inside = (
            ops.logical_and(step >= 0, step < n)[..., None],
            ops.logical_and(step + 1 >= 0, step + 1 < n)[..., None],
        )
        return position - low, *pair, inside

    @ops.custom_gradient
    def time_warp(x, rate, offset):
        n = x.shape[1]
        clock = ops.arange(n, dtype=x.dtype)
        fraction, low, high, inside = locate(rate[:, None] * clock + offset[:, None], n)
        fraction = fraction[..., None]
        before, pick_low = _pick(x, low)
        after, pick_high = _pick(x, high)
        if inside is not None:
            pick_low = ops.where(inside[0], pick_low, 0.0)
            pick_high = ops.where(inside[1], pick_high, 0.0)
            before = ops.where(inside[0], before, 0.0)
            after = ops.where(inside[1], after, 0.0)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            spread = (1.0 - fraction) * pick_low + fraction * pick_high
            d_x = ops.matmul(ops.transpose(spread, (0, 2, 1)), upstream)
            d_position = ops.sum(upstream * (after - before), axis=-1)
            return d_x, ops.sum(d_position * clock, axis=1), ops.sum(d_position, axis=1)

        return before + fraction * (after - before), grad

    return time_warp


def make_cycle_norm(joint=False, ddof=0, epsilon=1e-5):
    """Standardises a gait cycle, then applies a gain and a bias per channel.

    Parameters
    ----------
    joint : bool
        Statistics over time and channels together; otherwise over time, for each channel.
    ddof : int
        The variance is the sum of squares over ``n - ddof``, as in ``numpy.var``.
    epsilon : float
        Added to the variance.
    """
    axes = (1, 2) if joint else (1,)

    @ops.custom_gradient
    def cycle_norm(x, gain, bias):
        n = x.shape[1] * (x.shape[2] if joint else 1)
        centred = x - ops.sum(x, axis=axes, keepdims=True) / n
        variance = ops.sum(ops.square(centred), axis=axes, keepdims=True) / (n - ddof)
        inverse = ops.rsqrt(variance + epsilon)
        unit = centred * inverse

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = upstream * gain
            level = ops.sum(g, axis=axes, keepdims=True) / n
            along = ops.sum(g * unit, axis=axes, keepdims=True) / n
            d_x = inverse * (g - level - unit * along)
            return d_x, ops.sum(upstream * unit, axis=(0, 1)), ops.sum(upstream, axis=(0, 1))

        return unit * gain + bias, grad

    return cycle_norm


class CycleNorm(keras.layers.Layer):
    def __init__(self, joint=False, ddof=0, epsilon=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.joint, self.ddof, self.epsilon = joint, ddof, epsilon
        self.rule = make_cycle_norm(joint, ddof, epsilon)

    def build(self, input_shape):
        channels = input_shape[-1]
        self.log_gain = self.add_weight(name="log_gain", shape=(channels,), initializer="zeros")
        self.bias = self.add_weight(name="bias", shape=(channels,), initializer="zeros")

    def call(self, x):
        return self.rule(x, ops.exp(self.log_gain), ops.reshape(self.bias, (-1,)))

    def get_config(self):
        return {
            **super().get_config(),
            "joint": self.joint,
            "ddof": self.ddof,
            "epsilon": self.epsilon,
        }


class LearnedAlignment(keras.layers.Layer):
    """Predicts rate and offset of each recording from its mean and resamples it onto the common cycle."""

    def __init__(self, boundary="edge", max_offset=4.0, **kwargs):
        super().__init__(**kwargs)
        self.warp = make_time_warp(boundary)
        self.max_offset = max_offset
        self.head = keras.layers.Dense(2, kernel_initializer="zeros")

    def build(self, input_shape):
        self.head.build((input_shape[0], input_shape[-1]))

    def call(self, x):
        raw = ops.tanh(self.head(ops.mean(x, axis=1)))
        return self.warp(x, 1.0 + 0.2 * raw[:, 0], self.max_offset * raw[:, 1])
