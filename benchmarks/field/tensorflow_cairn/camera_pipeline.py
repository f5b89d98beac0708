"""Differentiable pieces of a raw-to-display pipeline.

Images are channels-last, scene linear unless a docstring says otherwise.
"""
from __future__ import annotations

import dataclasses
from typing import Callable, Sequence

import numpy as np
import tensorflow as tf

# d(pure hue colour)/d(6 h) in each of the six sextants, columns r, g, b
_SEXTANT_SLOPES = np.array(
    [
        [0.0, 1.0, 0.0],
        [-1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0],
        [0.0, -1.0, 0.0],
        [1.0, 0.0, 0.0],
        [0.0, 0.0, 1.0],
    ]
)


def _pure_hue(h6: tf.Tensor) -> tf.Tensor:
    rgb = tf.stack([tf.abs(h6 - 3.0) - 1.0, 2.0 - tf.abs(h6 - 2.0), 2.0 - tf.abs(h6 - 4.0)], axis=-1)
    return tf.clip_by_value(rgb, 0.0, 1.0)


@tf.RegisterGradient("PiecewiseHSVToRGB")
def _hsv_to_rgb_grad(op: tf.Operation, grad: tf.Tensor) -> tf.Tensor:
    """Backward pass for ``tf.image.hsv_to_rgb``, which TensorFlow marks as not differentiable.

    rgb = v * (1 - s * (1 - pure(h))), hue in [0, 1), saturation and value in [0, 1]. The pure hue is piecewise linear
    with one moving channel per sextant; at a sextant boundary the derivative of the sextant above is used.
    """
    hsv = op.inputs[0]
    h, s, v = tf.unstack(hsv, axis=-1)
    h6 = 6.0 * h
    pure = _pure_hue(h6)
    slope = tf.gather(tf.constant(_SEXTANT_SLOPES, hsv.dtype), tf.clip_by_value(tf.cast(tf.floor(h6), tf.int32), 0, 5))
    d_h = 6.0 * v * s * tf.reduce_sum(grad * slope, axis=-1)
    d_s = v * tf.reduce_sum(grad * (pure - 1.0), axis=-1)
    d_v = tf.reduce_sum(grad * (1.0 - s[..., tf.newaxis] * (1.0 - pure)), axis=-1)
    return tf.stack([d_h, d_s, d_v], axis=-1)


@tf.function
def hsv_to_rgb(hsv: tf.Tensor) -> tf.Tensor:
    """``tf.image.hsv_to_rgb`` with a usable gradient."""
    with tf.compat.v1.get_default_graph().gradient_override_map({"HSVToRGB": "PiecewiseHSVToRGB"}):
        return tf.image.hsv_to_rgb(hsv)


def jitter_hue(hsv: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    """Rotate the hue by ``shift`` turns (one value per image) and return RGB."""
    h = tf.math.floormod(hsv[..., :1] + tf.reshape(shift, [-1, 1, 1, 1]), 1.0)
    return hsv_to_rgb(tf.concat([h, hsv[..., 1:]], axis=-1))


def make_gamut_compressor(
    threshold: Sequence[float] = (0.815, 0.803, 0.880),
    limit: Sequence[float] = (1.147, 1.264, 1.312),
    power: float = 1.0,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Build a gamut compressor in the manner of the ACES reference gamut compression.

    Distances from the achromatic axis, ``d = (ac - rgb) / ac`` with ``ac = max(r, g, b)``, are left alone below the
    threshold and rolled off above it so that ``limit`` lands on the gamut boundary. Pixels whose largest channel is not
    positive pass through unchanged.

    Args:
        threshold: Per channel (cyan, magenta, yellow) start of the roll-off, in (0, 1).
        limit: Per channel distance that is mapped to 1, greater than 1.
        power: Aggressiveness of the knee, at least 1. 1 is a Reinhard knee, ACES 1.3 uses 1.2.

    Returns:
        A function of an ``(..., 3)`` image. Pixels in which several channels tie for the maximum share the achromatic
        part of the gradient equally, like ``tf.reduce_max``.
    """
    thr = np.asarray(threshold, np.float64)
    lim = np.asarray(limit, np.float64)
    scl = (lim - thr) / (((1.0 - thr) / (lim - thr)) ** -power - 1.0) ** (1.0 / power)

    @tf.custom_gradient
    def compress(rgb: tf.Tensor):
        t, s = tf.constant(thr, rgb.dtype), tf.constant(scl, rgb.dtype)
        ac = tf.reduce_max(rgb, axis=-1, keepdims=True)
        active = ac > 0
        safe = tf.where(active, ac, tf.ones_like(ac))
        dist = (ac - rgb) / safe
        over = tf.nn.relu(dist - t) / s
        base = 1.0 + tf.pow(over, power)
        squeezed = tf.where(dist > t, t + s * over * tf.pow(base, -1.0 / power), dist)
        out = tf.where(active, ac - squeezed * safe, rgb)

        def grad(upstream: tf.Tensor) -> tf.Tensor:
            knee = tf.where(dist > t, 1.0 / tf.square(base), tf.ones_like(base))
            own = upstream * knee
            through_ac = tf.reduce_sum(upstream * (1.0 - squeezed - knee * (1.0 - dist)), axis=-1, keepdims=True)
            is_max = tf.cast(tf.equal(rgb, ac), rgb.dtype)
            share = is_max / tf.reduce_sum(is_max, axis=-1, keepdims=True)
            return tf.where(active, own + share * through_ac, upstream)

        return out, grad

    return compress


@dataclasses.dataclass(frozen=True)
class FalloffModel:
    """Radial lens falloff, gain(r) = 1 + a_1 r^2 + a_2 r^4 + ...

    Attributes:
        undo: Divide by the gain (flat-field a photograph) rather than multiply (simulate the lens).
        floor: Smallest gain that is divided by; below it the gain is held at ``floor`` and does not move.
    """

    undo: bool = False
    floor: float = 0.05

    @staticmethod
    def _offsets(image: tf.Tensor, centre: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        height, width = image.shape[1], image.shape[2]
        half = 0.5 * float(np.hypot(height, width))
        x = (tf.range(width, dtype=image.dtype) + 0.5 - 0.5 * width) / half - centre[0]
        y = (tf.range(height, dtype=image.dtype) + 0.5 - 0.5 * height) / half - centre[1]
        return x[tf.newaxis, :], y[:, tf.newaxis]

    def correct(self, image: tf.Tensor, coeffs: tf.Tensor, centre: tf.Tensor) -> tf.Tensor:
        """Apply the falloff to a batch.

        Args:
            image: ``(batch, height, width, channels)``.
            coeffs: ``(order,)`` shared by the channels or ``(order, channels)``.
            centre: Optical centre ``(x, y)`` relative to the middle of the frame, in half diagonals.
        """

        @tf.custom_gradient
        def _correct(image, coeffs, centre):
            x, y = self._offsets(image, centre)
            r2 = (x * x + y * y)[..., tf.newaxis]
            shared = len(coeffs.shape) == 1
            table = coeffs[:, tf.newaxis] if shared else coeffs
            powers = [tf.pow(r2, k + 1) for k in range(table.shape[0])]
            gain = 1.0 + tf.add_n([powers[k] * table[k] for k in range(table.shape[0])])
            held = gain < self.floor
            if self.undo:
                used = tf.where(held, tf.cast(self.floor, gain.dtype), gain)
                out = image / used
            else:
                used = gain
                out = image * used

            def grad(upstream):
                if self.undo:
                    d_image = upstream / used
                    d_gain = -tf.reduce_sum(upstream * out, axis=0) / used
                    d_gain = tf.where(held, tf.zeros_like(d_gain), d_gain)
                else:
                    d_image = upstream * used
                    d_gain = tf.reduce_sum(upstream * image, axis=0)
                d_table = tf.stack([tf.reduce_sum(d_gain * p, axis=[0, 1]) for p in powers])
                d_coeffs = tf.reduce_sum(d_table, axis=1) if shared else d_table
                slope = table[0] * tf.ones_like(r2)
                for k in range(1, table.shape[0]):
                    slope += (k + 1) * powers[k - 1] * table[k]
                d_r2 = tf.reduce_sum(d_gain * slope, axis=-1)
                d_centre = -2.0 * tf.stack([tf.reduce_sum(d_r2 * x), tf.reduce_sum(d_r2 * y)])
                return d_image, d_coeffs, d_centre

            return out, grad

        return _correct(image, coeffs, centre)


def soft_proof(image: tf.Tensor, coeffs: tf.Tensor, centre: tf.Tensor, knee: float = 1.2) -> tf.Tensor:
    """Flat-field a linear photograph and bring it into the display gamut."""
    flat = FalloffModel(undo=True).correct(image, coeffs, centre)
    return make_gamut_compressor(power=knee)(flat)
