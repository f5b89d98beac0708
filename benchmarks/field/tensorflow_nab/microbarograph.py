"""Conditioning and array processing of microbarograph records (TensorFlow).

The records come as ``[batch, time]`` pressures in pascal or, for the array
functions, as Fourier coefficients ``[batch, sensor, frequency]``.
"""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

R_DRY = 287.05
G0 = 9.80665


@dataclass(frozen=True)
class ThinningSettings:
    """How a record is thinned before storage."""

    stride: int = 2
    edge: str = "zero"  # "zero", "symmetric" or "reflect"


def _to_shape(grad, like):
    """Sum ``grad`` down to the shape of ``like``."""
    extra = grad.shape.rank - like.shape.rank
    if extra > 0:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    axes = [i for i, n in enumerate(like.shape) if n == 1 and grad.shape[i] != 1]
    return tf.reduce_sum(grad, axis=axes, keepdims=True) if axes else grad


def _trend_basis(samples, degree):
    t = np.linspace(-1.0, 1.0, samples)
    return np.stack([t ** d for d in range(degree + 1)], axis=1)


def make_trend_remover(quality, degree=1):
    """Weighted polynomial detrending.

    Parameters
    ----------
    quality : array, shape (T,)
        Positive weight of each sample, for instance an inverse noise variance.
    degree : int
        Degree of the polynomial.

    Returns
    -------
    callable
        ``remove(record)``, ``record`` of shape (B, T).
    """
    quality = np.asarray(quality)
    basis = _trend_basis(quality.shape[0], degree)
    weighted = basis * quality[:, None]
    solver = np.linalg.solve(basis.T @ weighted, weighted.T)  # [degree + 1, T]

    @tf.custom_gradient
    def remove(record):
        fit = tf.constant(solver, record.dtype)
        poly = tf.constant(basis, record.dtype)

        def residual(x):
            coef = tf.einsum("dt,bt->bd", fit, x)
            return x - tf.einsum("td,bd->bt", poly, coef)

        def grad(upstream):
            # linear in the record: one more projection
            return residual(upstream)

        return residual(record), grad

    return remove


def make_thinner(settings=ThinningSettings()):
    """Low-pass and keep every ``settings.stride``-th sample.

    The returned ``thin(record, taps)`` takes ``record`` [B, T] and an odd number
    of ``taps`` [K] (not necessarily symmetric), K < T, and gives
    [B, (T - 1) // stride + 1]. The record is extended by K // 2 samples at both
    ends as ``settings.edge`` says.
    """
    stride, edge = settings.stride, settings.edge
    pad_mode = {"zero": "CONSTANT", "symmetric": "SYMMETRIC", "reflect": "REFLECT"}[edge]

    @tf.custom_gradient
    def thin(record, taps):
        width, length = taps.shape[0], record.shape[1]
        half = width // 2
        kept = (length - 1) // stride + 1
        span = (kept - 1) * stride + 1
        padded = tf.pad(record, [[0, 0], [half, half]], mode=pad_mode)
        views = tf.stack([padded[:, k:k + span:stride] for k in range(width)], axis=-1)
        out = tf.linalg.matvec(views, taps)

        def grad(upstream):
            g_taps = tf.einsum("bn,bnk->k", upstream, views)
            holes = tf.zeros(tf.concat([tf.shape(upstream), [stride - 1]], 0), upstream.dtype)
            comb = tf.concat([upstream[..., None], holes], axis=-1)
            comb = tf.reshape(comb, [-1, kept * stride])[:, :span]
            total = length + 2 * half
            g_pad = tf.add_n([
                taps[k] * tf.pad(comb, [[0, 0], [k, total - k - span]])
                for k in range(width)
            ])
            g_record = g_pad[:, half:half + length]
            if edge != "zero" and half > 0:
                skip = 1 if edge == "reflect" else 0
                head = tf.reverse(g_pad[:, :half], axis=[1])
                tail = tf.reverse(g_pad[:, half + length:], axis=[1])
                g_record += tf.pad(head, [[0, 0], [skip, length - half - skip]])
                g_record += tf.pad(tail, [[0, 0], [length - half, 0]])
            return g_record, g_taps

        return out, grad

    return thin


@tf.custom_gradient
def slowness_power(real, imag, xy, slowness, gain, alive, omega):
    """Beam power of an array for one trial slowness per event.

    :param real: real parts of the spectra, [B, S, F]
    :param imag: imaginary parts, [B, S, F]
    :param xy: sensor positions in km, [S, 2]
    :param slowness: trial slowness in s/km, [B, 2]
    :param gain: positive sensor weights, [S]; normalised over the live sensors
    :param alive: bool, [B, S]; an event without live sensors has zero power
    :param omega: angular frequencies, [F], not trained
    :returns: power, [B, F]
    """
    live = tf.cast(alive, real.dtype)
    weight = live * gain
    total = tf.reduce_sum(weight, axis=1, keepdims=True)
    safe = tf.where(total > 0, total, tf.ones_like(total))
    share = weight / safe
    delay = tf.linalg.matmul(slowness, xy, transpose_b=True)  # [B, S]
    phase = delay[:, :, None] * omega
    cos, sin = tf.cos(phase), tf.sin(phase)
    zr = real * cos - imag * sin
    zi = real * sin + imag * cos
    yr = tf.einsum("bs,bsf->bf", share, zr)
    yi = tf.einsum("bs,bsf->bf", share, zi)

    def grad(upstream):
        gr, gi = 2.0 * upstream * yr, 2.0 * upstream * yi
        inner = gr[:, None, :] * zr + gi[:, None, :] * zi
        centre = gr * yr + gi * yi
        g_share = tf.reduce_sum(inner - centre[:, None, :], axis=2)
        g_gain = tf.reduce_sum(live * g_share / safe, axis=0)
        g_zr = share[:, :, None] * gr[:, None, :]
        g_zi = share[:, :, None] * gi[:, None, :]
        g_real = g_zr * cos + g_zi * sin
        g_imag = g_zi * cos - g_zr * sin
        g_delay = tf.reduce_sum((g_zi * zr - g_zr * zi) * omega, axis=2)
        g_xy = tf.einsum("bs,bd->sd", g_delay, slowness)
        g_slow = tf.einsum("bs,sd->bd", g_delay, xy)
        return g_real, g_imag, g_xy, g_slow, g_gain, None, None

    return yr * yr + yi * yi, grad


def _phi(z):
    """(exp(z) - 1) / z and its derivative."""
    small = tf.abs(z) < 0.05
    zs = tf.where(small, tf.ones_like(z), z)
    value = tf.math.expm1(zs) / zs
    slope = (tf.exp(zs) - value) / zs
    value0 = 1 + z * (1 / 2 + z * (1 / 6 + z * (1 / 24 + z * (1 / 120 + z * (1 / 720 + z / 5040)))))
    slope0 = 1 / 2 + z * (1 / 3 + z * (1 / 8 + z * (1 / 30 + z * (1 / 144 + z * (1 / 840 + z / 5760)))))
    return tf.where(small, value0, value), tf.where(small, slope0, slope)


@tf.custom_gradient
def station_elevation(pressure, p_ref, t_ref, lapse):
    """Height in metres above the reference level from pressure in hPa, with
    temperature ``t_ref`` (K) there and the lapse rate in K/m, which may be zero
    (isothermal) or negative (inversion). The four arguments broadcast."""
    x = (R_DRY / G0) * tf.math.log(p_ref / pressure)
    z = -lapse * x
    value, slope = _phi(z)
    height = t_ref * x * value

    def grad(upstream):
        g_x = upstream * t_ref * tf.exp(z) * (R_DRY / G0)
        return (
            _to_shape(-g_x / pressure, pressure),
            _to_shape(g_x / p_ref, p_ref),
            _to_shape(upstream * x * value, t_ref),
            _to_shape(-upstream * t_ref * x * x * slope, lapse),
        )

    return height, grad


class ThinnedRecord(tf.keras.layers.Layer):
    """Detrend and thin a batch of records with trained taps."""

    def __init__(self, quality, taps=5, settings=ThinningSettings(), **kwargs):
        super().__init__(**kwargs)
        self.remove = make_trend_remover(quality)
        self.thin = make_thinner(settings)
        self.width = taps

    def build(self, input_shape):
        self.taps = self.add_weight(name="taps", shape=(self.width,), initializer="ones")

    def call(self, record):
        taps = tf.convert_to_tensor(self.taps)
        return self.thin(self.remove(record), taps / tf.reduce_sum(taps))
