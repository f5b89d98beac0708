"""Building blocks of a learned image and signal codec: transforms and rate terms."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, Sequence

import tensorflow as tf

SCALE_MIN = 0.11
MASS_MIN = 1e-30
_SQRT2 = math.sqrt(2.0)


class Pyramid(NamedTuple):
    """Coarse band, and the detail bands from fine to coarse."""

    coarse: tf.Tensor
    details: Sequence[tf.Tensor]


def _split(x):
    return x[:, 0::2], x[:, 1::2]


def _interleave(even, odd):
    shape = tf.shape(even)
    stacked = tf.stack([even, odd], axis=2)
    return tf.reshape(stacked, tf.concat([[shape[0], 2 * shape[1]], shape[2:]], axis=0))


def make_haar_analysis(levels: int = 2, *, orthonormal: bool = True):
    """Haar filter bank over the time axis of `(batch, time, channels)`.

    The time axis must be divisible by `2 ** levels`.

    Args:
        levels: how many times the low band is split.
        orthonormal: keeps energy, with both bands divided by sqrt(2). If False, the low band
            is the mean of a pair and the high band half its difference, so that the coarse band
            is a thumbnail of the signal, in the signal's range.

    Returns:
        A function from the signal to the tuple `(coarse, detail_1, ..., detail_levels)`.
    """
    analysis_gain = 1.0 / _SQRT2 if orthonormal else 0.5
    synthesis_gain = 1.0 / _SQRT2 if orthonormal else 1.0

    @tf.custom_gradient
    def analysis(x):
        details = []
        low = x
        for _ in range(levels):
            even, odd = _split(low)
            details.append(analysis_gain * (even - odd))
            low = analysis_gain * (even + odd)

        def grad(d_low, *d_details):
            acc = d_low
            for d_high in reversed(d_details):
                acc = _interleave(
                    synthesis_gain * (acc + d_high), synthesis_gain * (acc - d_high)
                )
            return acc

        return (low, *details), grad

    return analysis


def haar_synthesis(pyramid: Pyramid, *, orthonormal: bool = True):
    """Inverse of `make_haar_analysis` with the same option."""
    gain = 1.0 / _SQRT2 if orthonormal else 1.0
    low = pyramid.coarse
    for high in reversed(pyramid.details):
        low = _interleave(gain * (low + high), gain * (low - high))
    return low


thumbnail_bands = make_haar_analysis(levels=3, orthonormal=False)


def _interval_mass(lower, upper):
    # P(lower < Z < upper) of a standard normal, evaluated in the left tail
    flip = tf.where(lower + upper > 0, -tf.ones_like(lower), tf.ones_like(lower))
    low, high = tf.minimum(flip * lower, flip * upper), tf.maximum(flip * lower, flip * upper)
    return 0.5 * (tf.math.erfc(-high / _SQRT2) - tf.math.erfc(-low / _SQRT2))


def _density(z):
    return tf.exp(-0.5 * tf.square(z)) / math.sqrt(2.0 * math.pi)


@tf.custom_gradient
def gaussian_symbol_bits(y, mean, scale):
    """Bits for symbols under a Gaussian integrated over a bin of width one.

    Args:
        y: latents `(batch, height, width, channels)`; with or without noise, not rounded here.
        mean: predicted by the hyper decoder, the shape of `y`.
        scale: `(channels,)`, positive. Values under `SCALE_MIN` are replaced by it, and get no
            gradient.

    Returns:
        Bits for each symbol, the shape of `y`. Symbols less likely than `MASS_MIN` are charged as
        if they had that probability, and are constant there.
    """
    bounded = tf.maximum(scale, tf.constant(SCALE_MIN, scale.dtype))
    upper = (y - mean + 0.5) / bounded
    lower = (y - mean - 0.5) / bounded
    interval = _interval_mass(lower, upper)
    mass = tf.maximum(interval, tf.constant(MASS_MIN, y.dtype))
    bits = -tf.math.log(mass) / math.log(2.0)

    def grad(d_bits):
        d_bits = tf.where(interval > MASS_MIN, d_bits, tf.zeros_like(d_bits))
        outer = -d_bits / (mass * math.log(2.0) * bounded)
        at_upper, at_lower = _density(upper), _density(lower)
        d_y = outer * (at_upper - at_lower)
        d_scale = tf.reduce_sum(outer * (lower * at_lower - upper * at_upper), axis=[0, 1, 2])
        d_scale = tf.where(scale > SCALE_MIN, d_scale, tf.zeros_like(d_scale))
        return d_y, -d_y, d_scale

    return bits, grad


@dataclasses.dataclass
class RateDistortion:
    """Lagrangian of a codec: `lam * mse + bits per position`."""

    lam: float = 0.01
    preview_weight: float = 0.0

    def __call__(self, original, decoded, latents, mean, scale):
        positions = tf.cast(tf.reduce_prod(tf.shape(latents)[:3]), latents.dtype)
        rate = tf.reduce_sum(gaussian_symbol_bits(latents, mean, scale)) / positions
        loss = rate + self.lam * tf.reduce_mean(tf.square(original - decoded))
        if self.preview_weight:
            coarse = thumbnail_bands(decoded - original)[0]
            loss += self.preview_weight * tf.reduce_mean(tf.square(coarse))
        return loss
