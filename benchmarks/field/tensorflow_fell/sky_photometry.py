"""Differentiable photometry and lensing pieces for the survey forward model."""

from __future__ import annotations

import math

import tensorflow as tf

POGSON = 2.5 / math.log(10.0)

_SERIES_ORDER = 32
_SERIES_RADIUS = 0.3


def _spread_to_bands(values: tf.Tensor, band: tf.Tensor, num_bands: int) -> tf.Tensor:
    """Put per-source values back on the band axis."""
    flat = tf.reshape(values, [-1])
    index = tf.reshape(band, [-1, 1])
    return tf.tensor_scatter_nd_update(tf.zeros([num_bands], flat.dtype), index, flat)


@tf.custom_gradient
def luptitude(flux, softening, zero_point, band):
    r"""Inverse hyperbolic sine magnitudes (Lupton, Gunn & Szalay 1999).

    .. math:: m = z_k - \frac{2.5}{\ln 10}
              \left[\sinh^{-1}\frac{f}{2 b_k} + \ln b_k\right]

    Unlike the logarithmic magnitude this stays finite for zero and negative
    fluxes, which forced photometry produces all the time.

    Parameters
    ----------
    flux : tf.Tensor, shape (...,)
        Flux in units of the zero-point flux. May be negative.
    softening : tf.Tensor, shape (n_bands,)
        Softening parameter b of each band, positive.
    zero_point : tf.Tensor, shape (n_bands,)
        Calibration offset of each band, magnitudes.
    band : tf.Tensor of int32 or int64, shape (...,)
        Band of every measurement.

    Returns
    -------
    tf.Tensor, shape (...,)
        Asinh magnitudes.
    """
    b = tf.gather(softening, band)
    z = tf.gather(zero_point, band)
    mag = z - POGSON * (tf.asinh(flux / (2.0 * b)) + tf.math.log(b))
    num_bands = softening.shape[0]

    def grad(upstream):
        root = tf.sqrt(flux * flux + 4.0 * b * b)
        d_flux = -POGSON * upstream / root
        d_b = -POGSON * upstream * (1.0 - flux / root) / b
        return (
            d_flux,
            _spread_to_bands(d_b, band, num_bands),
            _spread_to_bands(upstream, band, num_bands),
            None,
        )

    return mag, grad


def _nfw_profile(x):
    """Return f(x) and df/dx of the projected NFW profile.

    With s = x^2 - 1 the profile is (1 - atan(sqrt(s)) / sqrt(s)) / s, continued
    to s < 0 with arcosh(1/x). Both forms cancel for s -> 0 and we switch to
    sum_k (-s)^k / (2k + 3) there.
    """
    s = x * x - 1.0
    near = tf.abs(s) < _SERIES_RADIUS
    s_far = tf.where(near, tf.ones_like(s), s)
    root = tf.sqrt(tf.abs(s_far))
    outer = tf.atan(root) / root
    inner = tf.math.log((1.0 + tf.where(s_far < 0, root, tf.zeros_like(root))) / x) / root
    g = tf.where(s_far < 0, inner, outer)
    x2 = tf.where(near, tf.ones_like(s), x * x)
    f_far = (1.0 - g) / s_far
    df_far = (3.0 * x2 * g - 2.0 * x2 - 1.0) / (tf.sqrt(x2) * s_far * s_far)

    s_near = tf.where(near, s, tf.zeros_like(s))
    f_near = tf.zeros_like(s)
    ds_near = tf.zeros_like(s)
    for k in reversed(range(_SERIES_ORDER)):
        ds_near = ds_near * s_near + f_near
        f_near = f_near * s_near + (-1.0) ** k / (2 * k + 3)
    df_near = 2.0 * x * ds_near
    return tf.where(near, f_near, f_far), tf.where(near, df_near, df_far)


class NFWLens(tf.Module):
    """A set of independent NFW halos, one row each."""

    def __init__(self, kappa_s, r_s, dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.log_kappa_s = tf.Variable(tf.math.log(tf.cast(kappa_s, dtype)))
        self.log_r_s = tf.Variable(tf.math.log(tf.cast(r_s, dtype)))

    @staticmethod
    def convergence(radius, r_s, kappa_s):
        """Convergence of each halo at its own sample radii.

        Args:
          radius: positive projected radii, shape [halos, samples].
          r_s: scale radii, shape [halos], same unit as `radius`.
          kappa_s: characteristic convergences, shape [halos].

        Returns:
          Tensor of shape [halos, samples].
        """

        @tf.custom_gradient
        def kappa(radius, r_s, kappa_s):
            scale = r_s[:, tf.newaxis]
            amp = 2.0 * kappa_s[:, tf.newaxis]
            x = radius / scale
            f, df = _nfw_profile(x)

            def grad(dy):
                d_x = dy * amp * df
                return (
                    d_x / scale,
                    -tf.reduce_sum(d_x * x, axis=1) / r_s,
                    2.0 * tf.reduce_sum(dy * f, axis=1),
                )

            return amp * f, grad

        return kappa(radius, r_s, kappa_s)

    def __call__(self, radius):
        return self.convergence(radius, tf.exp(self.log_r_s), tf.exp(self.log_kappa_s))


def calibration_step(flux, band, target, softening, zero_point, lr=1e-3):
    """One gradient step of the photometric self-calibration."""
    with tf.GradientTape() as tape:
        tape.watch([softening, zero_point])
        resid = luptitude(flux, softening, zero_point, band) - target
        loss = tf.reduce_mean(tf.square(resid))
    d_soft, d_zero = tape.gradient(loss, [softening, zero_point])
    return softening - lr * d_soft, zero_point - lr * d_zero, loss
