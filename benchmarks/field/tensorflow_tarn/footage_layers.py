"""Pooling and fusion heads for short video clips."""

import keras
import numpy as np
from keras import ops


def _cotangent(args, upstream):
    # jax hands the cotangent over by position, torch and tensorflow may name it
    return args[0] if upstream is None else upstream


def frame_mask(lengths, frames):
    """Bool table [clips, frames], true at frames that belong to the clip."""
    return np.arange(frames)[None, :] < np.asarray(lengths)[:, None]


def make_moment_pool(mask, floor=1e-3):
    """Weighted mean and deviation over the frames of a clip, per head.

    Args:
        mask: bool table [B, T]; a clip may be wholly padded (its output is 0).
        floor: least variance; below it the deviation is constant.

    Returns:
        Function of ``x`` [B, T, H, D] and ``scores`` [B, T, H], giving
        [B, H, 2 * D]: means first, then deviations.
    """
    mask = np.asarray(mask, bool)
    seen = mask.any(axis=1)

    @ops.custom_gradient
    def moment_pool(x, scores):
        keep = ops.convert_to_tensor(mask)[:, :, None]
        live = ops.cast(ops.convert_to_tensor(seen), x.dtype)[:, None, None]
        s = ops.where(keep, scores, ops.full_like(scores, -1e30))
        e = ops.where(keep, ops.exp(s - ops.max(s, axis=1, keepdims=True)), ops.zeros_like(s))
        a = e / ops.maximum(ops.sum(e, axis=1, keepdims=True), 1e-30)
        mean = ops.einsum("bth,bthd->bhd", a, x)
        dev = x - mean[:, None]
        var = ops.einsum("bth,bthd->bhd", a, ops.square(dev))
        std = ops.sqrt(ops.maximum(var, floor))
        out = ops.concatenate([mean, std], axis=-1) * live

        def grad(*args, upstream=None):
            g = _cotangent(args, upstream) * live
            width = x.shape[-1]
            g_mean, g_std = g[..., :width], g[..., width:]
            g_var = ops.where(var > floor, g_std / (2 * std), ops.zeros_like(var))
            through = g_mean[:, None] + 2 * g_var[:, None] * dev
            d_x = a[..., None] * through
            d_a = ops.sum(g_mean[:, None] * dev + g_var[:, None] * ops.square(dev), axis=-1)
            level = ops.sum(a * d_a, axis=1, keepdims=True)
            return d_x, a * (d_a - level)

        return out, grad

    return moment_pool


def make_motion_scale(lag=1, eps=1e-3):
    """Divide features by the RMS of their change over ``lag`` frames.

    The function takes ``x`` [B, T, C] and a ``gain`` [C]; the mean square is
    over the pairs of frames that lie ``lag`` apart, for each clip and channel.
    """

    @ops.custom_gradient
    def motion_scale(x, gain):
        step = x[:, lag:] - x[:, :-lag]
        power = ops.sum(ops.square(step), axis=1, keepdims=True) / step.shape[1] + eps
        inv = ops.rsqrt(power)
        out = x * inv * gain

        def grad(*args, upstream=None):
            g = _cotangent(args, upstream)
            pairs = x.shape[1] - 1
            d_gain = ops.sum(g * x * inv, axis=(0, 1))
            g = g * gain
            d_power = -0.5 * inv * inv * inv * ops.sum(g * x, axis=1, keepdims=True)
            d_step = step * (2.0 / pairs) * d_power
            later = ops.pad(d_step, ((0, 0), (lag, 0), (0, 0)))
            earlier = ops.pad(d_step, ((0, 0), (0, lag), (0, 0)))
            return g * inv + later - earlier, d_gain

        return out, grad

    return motion_scale


def make_factor_fusion(factors=1, eps=1e-2):
    """Factorised bilinear fusion of two streams.

    Parameters
    ----------
    factors : int
        Rank of each output unit; the products of its ``factors`` adjoining
        columns are summed.
    eps : float
        Rounds the signed square root near zero.

    Returns
    -------
    callable
        ``f(x, y, u, v)`` with x (B, I), y (B, J), u (I, O * factors) and
        v (J, O * factors); rows of the (B, O) result have unit length.
    """

    @ops.custom_gradient
    def factor_fusion(x, y, u, v):
        left, right = ops.matmul(x, u), ops.matmul(y, v)
        prod = ops.reshape(left * right, (x.shape[0], -1, factors))
        z = ops.sum(prod, axis=-1)
        size = ops.abs(z) + eps
        root = z * ops.rsqrt(size)
        norm = ops.sqrt(ops.sum(ops.square(root), axis=-1, keepdims=True) + 1e-12)
        out = root / norm

        def grad(*args, upstream=None):
            g = _cotangent(args, upstream)
            d_root = (g - out * ops.sum(g * out, axis=-1, keepdims=True)) / norm
            d_z = d_root * (0.5 * ops.abs(z) + eps) / (size * ops.sqrt(size))
            d_prod = ops.tile(d_z, (1, factors))
            d_left, d_right = d_prod * right, d_prod * left
            return (
                ops.matmul(d_left, ops.transpose(u)),
                ops.matmul(d_right, ops.transpose(v)),
                ops.matmul(ops.transpose(x), d_left),
                ops.matmul(ops.transpose(y), d_right),
            )

        return out, grad

    return factor_fusion


class FactorFusion(keras.layers.Layer):
    """Fuses appearance and sound vectors of a clip."""

    def __init__(self, units, factors=1, **kwargs):
        super().__init__(**kwargs)
        self.units, self.factors = units, factors
        self._rule = make_factor_fusion(factors)

    def build(self, input_shape):
        sight, sound = input_shape
        width = self.units * self.factors
        self.u = self.add_weight(name="u", shape=(sight[-1], width))
        self.v = self.add_weight(name="v", shape=(sound[-1], width))

    def call(self, inputs):
        sight, sound = inputs
        return self._rule(
            sight, sound, ops.convert_to_tensor(self.u), ops.convert_to_tensor(self.v)
        )
