"""Forward-model pieces for survey images."""
from typing import Callable, Tuple

import tensorflow as tf


def _jinc(x: tf.Tensor, terms: int = 9) -> Tuple[tf.Tensor, tf.Tensor]:
    """``2 J1(x) / x`` and its derivative, with the power series around the origin."""
    near = tf.abs(x) < 0.5
    xs = tf.where(near, x, tf.zeros_like(x))
    q = -tf.square(0.5 * xs)
    term = tf.ones_like(x)
    value, slope_over_x = tf.zeros_like(x), tf.zeros_like(x)
    for k in range(terms):
        value += term
        # J2(x) / (x / 2)^2 has the same terms, each over k + 2
        slope_over_x -= 0.5 * term / (k + 2.0)
        term *= q / ((k + 1.0) * (k + 2.0))
    xl = tf.where(near, tf.ones_like(x), x)
    j0, j1 = tf.math.special.bessel_j0(xl), tf.math.special.bessel_j1(xl)
    far = 2.0 * j1 / xl
    far_slope = 2.0 * (j0 - far) / xl
    return tf.where(near, value, far), tf.where(near, slope_over_x * xs, far_slope)


@tf.custom_gradient
def annular_airy(x: tf.Tensor, obscuration: tf.Tensor):
    r"""Diffraction pattern of a circular aperture with a central obstruction.

    With :math:`\mathrm{jinc}(u) = 2 J_1(u) / u` the amplitude is

    .. math:: A = \frac{\mathrm{jinc}(x) - e^2\,\mathrm{jinc}(e x)}{1 - e^2}

    and the intensity is :math:`A^2`, one on the axis.

    For the obscuration we use :math:`(u J_1(u))' = u J_0(u)`, which turns its
    derivative into :math:`\partial A/\partial e = 2 e (A - J_0(e x)) / (1 - e^2)`;
    no further series is needed.

    Args:
        x: Reduced radius :math:`\pi D \theta / \lambda`, any shape, zero included.
        obscuration: Scalar linear obscuration, ``0 <= e < 1``.

    Returns:
        Intensity of the shape of ``x``.
    """
    e = obscuration
    clear = 1.0 - tf.square(e)
    outer, d_outer = _jinc(x)
    inner, d_inner = _jinc(e * x)
    amplitude = (outer - tf.square(e) * inner) / clear

    def grad(upstream):
        g = 2.0 * upstream * amplitude
        g_x = g * (d_outer - e**3 * d_inner) / clear
        g_e = tf.reduce_sum(g * (amplitude - tf.math.special.bessel_j0(e * x)))
        return g_x, 2.0 * e / clear * g_e

    return tf.square(amplitude), grad


@tf.custom_gradient
def coadd_exposures(flux, ivar):
    # exposures on axis 0, dead pixels have ivar 0
    total = tf.reduce_sum(ivar, axis=0)
    coadd = tf.math.divide_no_nan(tf.reduce_sum(ivar * flux, axis=0), total)

    def grad(d_coadd, d_total):
        scaled = tf.math.divide_no_nan(d_coadd, total)
        return scaled * ivar, scaled * (flux - coadd)

    return (coadd, total), grad


def make_magnitude_limit_cut(width: float) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Hard 0/1 cut ``mag < limit``; backward is by design that of ``sigmoid((limit - mag) / width)``, a surrogate."""

    @tf.custom_gradient
    def cut(mag, limit):
        detected = tf.cast(mag < limit, mag.dtype)

        def grad(upstream):
            p = tf.sigmoid((limit - mag) / width)
            g = upstream * p * (1.0 - p) / width
            return -g, tf.reduce_sum(g)

        return detected, grad

    return cut


magnitude_limit_cut = make_magnitude_limit_cut(0.1)


def expected_counts(mag, limit, bins):
    """Detected sources per magnitude bin (scalar limit)."""
    seen = magnitude_limit_cut(mag, limit)
    which = tf.searchsorted(bins, tf.stop_gradient(mag))
    return tf.math.unsorted_segment_sum(seen, which, tf.size(bins) + 1)
