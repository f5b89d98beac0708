"""Tree-ring standardisation and cross-dating for differentiable chronologies."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

MIN_OVERLAP = 3


def _sum_like(grad, x):
    """Reduce `grad` to the shape that `x` had before broadcasting."""
    target = tf.shape(x)
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=target, s1=tf.shape(grad))
    return tf.reshape(tf.reduce_sum(grad, axis=axes), target)


@tf.custom_gradient
def hugershoff_curve(age, coeffs):
    """Hugershoff growth curve, `a * age**b * exp(-c * age) + d`.

    Args:
      age: `[..., T]` cambial ages in years, strictly positive.
      coeffs: `[..., 4]` holding `(a, b, c, d)` in the last axis. The leading
        axes of `age` and `coeffs` broadcast against each other, so one age
        axis may be shared by all the series of a stand, or one curve by all
        the ages of several trees.

    Returns:
      `[..., T]` expected ring widths, in the unit of `a` and `d`.
    """
    a, b, c, d = (coeffs[..., k : k + 1] for k in range(4))
    log_age = tf.math.log(age)
    shape = tf.exp(b * log_age - c * age)
    curve = a * shape + d

    def grad(upstream):
        scaled = upstream * a * shape
        d_age = scaled * (b / age - c)
        per_coeff = [upstream * shape, scaled * log_age, -scaled * age, upstream]
        d_coeffs = tf.stack([tf.reduce_sum(g, axis=-1) for g in per_coeff], axis=-1)
        return _sum_like(d_age, age), _sum_like(d_coeffs, coeffs)

    return curve, grad


def master_correlation(series, master, present, lag=0):
    """Correlation of dated series with the master; `lag` shifts the master to later years.

    series [S, T], master [T], present [S, T] bool -> [S]
    """
    keep = tf.cast(present, series.dtype)
    count = tf.maximum(tf.reduce_sum(keep, axis=-1, keepdims=True), MIN_OVERLAP)

    def centre(x):
        return keep * (x - tf.reduce_sum(keep * x, axis=-1, keepdims=True) / count)

    @tf.custom_gradient
    def correlate(series, master):
        shifted = tf.roll(master, shift=lag, axis=0)
        x, y = centre(series), centre(shifted[tf.newaxis, :])
        xx = tf.reduce_sum(x * x, axis=-1, keepdims=True)
        yy = tf.reduce_sum(y * y, axis=-1, keepdims=True)
        norm = tf.math.rsqrt(xx * yy)
        r = tf.reduce_sum(x * y, axis=-1, keepdims=True) * norm

        def grad(upstream):
            g = upstream[:, tf.newaxis]
            d_series = g * (y * norm - r * x / xx)
            d_master = tf.reduce_sum(g * (x * norm - r * y / yy), axis=0)
            return d_series, tf.roll(d_master, shift=lag, axis=0)

        return r[:, 0], grad

    return correlate(series, master)


@dataclasses.dataclass(frozen=True)
class RingStandardizer:
    kind: str = "ratio"
    floor: float = 0.05

    def __post_init__(self):
        if self.kind not in ("ratio", "difference", "log"):
            raise ValueError(f"unknown index kind {self.kind!r}")

    def __call__(self, width, curve):
        return self.index(tf.convert_to_tensor(width), tf.convert_to_tensor(curve))

    def index(self, width, curve):
        floor = tf.cast(self.floor, width.dtype)

        @tf.custom_gradient
        def ring_index(width, curve):
            c = tf.maximum(curve, floor)
            above = tf.cast(curve > floor, width.dtype)
            if self.kind == "ratio":
                out = width / c
                partial_w, partial_c = 1.0 / c, -above * out / c
            elif self.kind == "difference":
                out = width - curve
                partial_w, partial_c = tf.ones_like(out), -tf.ones_like(out)
            else:
                w = tf.maximum(width, floor)
                out = tf.math.log(w) - tf.math.log(c)
                partial_w = tf.cast(width > floor, width.dtype) / w
                partial_c = -above / c

            def grad(upstream):
                return (
                    _sum_like(upstream * partial_w, width),
                    _sum_like(upstream * partial_c, curve),
                )

            return out, grad

        return ring_index(width, curve)


def expressed_population_signal(rbar, n_series):
    n = tf.cast(n_series, rbar.dtype)
    return n * rbar / (n * rbar + 1.0 - rbar)
