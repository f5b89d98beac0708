"""Colour-flow front end: clutter rejection, lag-one velocity, display mapping."""
from __future__ import annotations

import math

import numpy as np
import tensorflow as tf


class WallFilter:
    """Polynomial regression wall filter along slow time.

    Removes the weighted least squares polynomial from every ensemble, so that
    slowly moving tissue is suppressed before the velocity estimate.

    Args:
      times: pulse times, shape ``(T,)``. May be staggered (non-uniform PRI).
      order: degree of the polynomial that is removed; ``order < T``.
      weights: positive confidence of each pulse in the fit, shape ``(T,)``.
        Defaults to equal weights.

    Call arguments:
      x: real tensor ``(..., T)``; call once for I and once for Q.

    Returns:
      The residual of the fit, same shape as ``x``.
    """

    def __init__(self, times, order: int = 1, weights=None):
        t = np.asarray(times, dtype=np.float64)
        t = (t - t.mean()) / max(np.ptp(t), 1e-12)
        basis = np.vander(t, order + 1, increasing=True)
        w = np.ones_like(t) if weights is None else np.asarray(weights, dtype=np.float64)
        gram = basis.T @ (w[:, None] * basis)
        fit = np.linalg.solve(gram, basis.T * w[None, :])
        self._projector = np.eye(t.size) - basis @ fit

    def _project(self, x):
        return tf.einsum("ts,...s->...t", tf.constant(self._projector, x.dtype), x)

    def __call__(self, x):
        @tf.custom_gradient
        def reject(x):
            # linear: nothing to save, run the cotangent through the projector
            return self._project(x), lambda dy: self._project(dy)

        return reject(tf.convert_to_tensor(x))


def lag_one_flow(i: tf.Tensor, q: tf.Tensor, axis: int = -1) -> tuple[tf.Tensor, tf.Tensor]:
    r"""Kasai autocorrelation estimate of Doppler phase and power.

    With :math:`z_t = i_t + j q_t` the phase is
    :math:`\arg \sum_t \bar z_t z_{t+1}` and the power
    :math:`\frac1T \sum_t |z_t|^2`, both taken along ``axis``.

    Args:
        i: In-phase samples, at least two along ``axis``.
        q: Quadrature samples, same shape as ``i``.
        axis: The slow-time axis, negative values allowed.

    Returns:
        ``(phase, power)`` with ``axis`` removed. The phase lies in
        :math:`(-\pi, \pi]`; ensembles whose lag-one sum vanishes have none
        and must not be passed. Both outputs are differentiable in ``i``
        and ``q``.
    """

    @tf.custom_gradient
    def flow(i, q):
        n = tf.shape(i)[axis]
        first, last = tf.range(n - 1), tf.range(1, n)
        i0, i1 = tf.gather(i, first, axis=axis), tf.gather(i, last, axis=axis)
        q0, q1 = tf.gather(q, first, axis=axis), tf.gather(q, last, axis=axis)
        re = tf.reduce_sum(i0 * i1 + q0 * q1, axis, keepdims=True)
        im = tf.reduce_sum(i0 * q1 - q0 * i1, axis, keepdims=True)
        phase = tf.squeeze(tf.atan2(im, re), axis)
        power = tf.reduce_mean(i * i + q * q, axis)

        def pad(x, before):
            rank = x.shape.rank
            widths = [[0, 0]] * rank
            widths[axis % rank] = [1, 0] if before else [0, 1]
            return tf.pad(x, widths)

        def grad(d_phase, d_power):
            g = tf.expand_dims(d_phase, axis) / (re * re + im * im)
            d_re, d_im = -g * im, g * re
            scale = 2.0 * tf.expand_dims(d_power, axis) / tf.cast(n, i.dtype)
            di = pad(d_re * i1 + d_im * q1, False) + pad(d_re * i0 - d_im * q0, True)
            dq = pad(d_re * q1 - d_im * i1, False) + pad(d_re * q0 + d_im * i0, True)
            return di + scale * i, dq + scale * q

        return (phase, power), grad

    return flow(i, q)


def log_compress(envelope, dynamic_range=60.0):
    """Grey level in [0, 1] of a positive envelope (frames, depth, lines), in dB below each frame's own peak."""

    @tf.custom_gradient
    def compress(env):
        peak = tf.reduce_max(env, axis=(-2, -1), keepdims=True)
        db = (20.0 / math.log(10.0)) * tf.math.log(env / peak)
        grey = tf.clip_by_value(1.0 + db / dynamic_range, 0.0, 1.0)

        def grad(dy):
            visible = tf.cast(db >= -dynamic_range, dy.dtype)
            return dy * visible * (20.0 / (math.log(10.0) * dynamic_range)) / env

        return grey, grad

    return compress(envelope)


class FlowMap(tf.keras.layers.Layer):
    """(B, depth, lines, T, 2) IQ -> velocity and display power."""

    def __init__(self, times, nyquist, order=1, weights=None, dynamic_range=60.0, **kw):
        super().__init__(**kw)
        self.wall = WallFilter(times, order, weights)
        self.nyquist = nyquist
        self.dynamic_range = dynamic_range

    def call(self, iq):
        phase, power = lag_one_flow(self.wall(iq[..., 0]), self.wall(iq[..., 1]))
        shown = log_compress(tf.sqrt(power + 1e-12), self.dynamic_range)
        return tf.stack([self.nyquist * phase / math.pi, shown], -1)
