"""Steady Gaussian plume over flat terrain, differentiable in the emissions.

Used for inverting stack emissions from a monitor network; geometry is fixed, so
the dispersion widths are worked out once and kept out of the tape.
"""
import math
from typing import Optional

import numpy as np
import tensorflow as tf

__all__ = ["plume_concentration", "pasquill_sigma", "briggs_rise", "fit_emissions"]

# open-country class D (Briggs 1973)
_SY = (0.08, 1e-4)
_SZ = (0.06, 1.5e-3)


def _reduce_to(grad, like):
    """Sum ``grad`` over the axes along which ``like`` was broadcast."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(like), s1=tf.shape(grad))
    return tf.reshape(tf.reduce_sum(grad, axes), tf.shape(like))


def _open_country_sigmas(x):
    x = np.maximum(x, 1.0)
    return _SY[0] * x / np.sqrt(1 + _SY[1] * x), _SZ[0] * x / np.sqrt(1 + _SZ[1] * x)


def plume_concentration(
    rate: tf.Tensor,
    height: tf.Tensor,
    wind: tf.Tensor,
    source_xy: np.ndarray,
    receptors: np.ndarray,
    lid: Optional[float] = None,
) -> tf.Tensor:
    """Concentration at receptors downwind of a set of stacks.

    The ground reflects perfectly.  With a mixing lid the plume is also
    reflected there; the first order images on either side are kept.

    Parameters
    ----------
    rate : tf.Tensor, shape (S,)
        Emission of each stack, g/s.
    height : tf.Tensor, shape (S,)
        Effective release height in metres, ``0 < height < lid``.
    wind : tf.Tensor, scalar
        Wind speed in m/s, positive, blowing along +x.
    source_xy : ndarray, shape (S, 2)
        Stack positions in metres. Not differentiated.
    receptors : ndarray, shape (N, 3)
        Receptor positions ``x, y, z`` in metres. Not differentiated.
        Receptors upwind of a stack receive nothing from it.
    lid : float, optional
        Height of the inversion in metres. ``None`` (default) means an
        unbounded atmosphere.

    Returns
    -------
    tf.Tensor, shape (N,)
        Concentration in g/m^3, summed over stacks.
    """
    rate = tf.convert_to_tensor(rate)
    dtype = rate.dtype
    source_xy = np.asarray(source_xy, dtype=np.float64)
    receptors = np.asarray(receptors, dtype=np.float64)
    dx = receptors[:, None, 0] - source_xy[None, :, 0]
    dy = receptors[:, None, 1] - source_xy[None, :, 1]
    sy, sz = _open_country_sigmas(dx)
    lateral = np.where(dx > 0, np.exp(-0.5 * (dy / sy) ** 2) / (2 * math.pi * sy * sz), 0.0)
    lateral = tf.constant(lateral, dtype)
    inv_var = tf.constant(1.0 / sz**2, dtype)
    z = tf.constant(receptors[:, 2:3], dtype)
    shifts = () if lid is None else (-2.0 * lid, 2.0 * lid)

    def bell(d):
        return tf.exp(-0.5 * d * d * inv_var)

    @tf.custom_gradient
    def _plume(q, h, u):
        up, down = z - h, z + h
        e_up, e_down = bell(up), bell(down)
        vertical = e_up + e_down
        slope = (up * e_up - down * e_down) * inv_var
        for shift in shifts:
            up, down = z - h - shift, z + h - shift
            e_up, e_down = bell(up), bell(down)
            vertical += e_up + e_down
            slope += (up * e_up + down * e_down) * inv_var
        unit = lateral * vertical / u
        conc = tf.linalg.matvec(unit, q)

        def grad(g):
            dq = tf.linalg.matvec(unit, g, transpose_a=True)
            dh = q * tf.linalg.matvec(lateral * slope, g, transpose_a=True) / u
            du = -tf.reduce_sum(g * conc) / u
            return dq, dh, du

        return conc, grad

    return _plume(rate, tf.convert_to_tensor(height, dtype), tf.convert_to_tensor(wind, dtype))


@tf.custom_gradient
def pasquill_sigma(distance, coef, expo, stability):
    """Width ``coef[c] * distance ** expo[c]`` for positive distances and their integer stability classes ``c``."""
    a = tf.gather(coef, stability)
    b = tf.gather(expo, stability)
    xb = tf.pow(distance, b)
    sigma = a * xb

    def grad(upstream):
        n = tf.shape(coef)[0]
        by_class = lambda v: tf.math.unsorted_segment_sum(v, stability, n)
        return (
            upstream * sigma * b / distance,
            by_class(upstream * xb),
            by_class(upstream * sigma * tf.math.log(distance)),
            None,
        )

    return sigma, grad


@tf.custom_gradient
def briggs_rise(buoyancy, wind):
    # buoyancy flux > 0, m4/s3
    strong = buoyancy >= 55.0
    u = tf.maximum(wind, 1.0)
    f = tf.where(strong, 38.71 * tf.pow(buoyancy, 0.6), 21.425 * tf.pow(buoyancy, 0.75))
    rise = f / u

    def grad(g):
        power = tf.where(strong, tf.cast(0.6, f.dtype), tf.cast(0.75, f.dtype))
        db = g * rise * power / buoyancy
        dw = tf.where(wind >= 1.0, -g * rise / u, tf.zeros_like(rise))
        return _reduce_to(db, buoyancy), _reduce_to(dw, wind)

    return rise, grad


def fit_emissions(observed, stack_height, buoyancy, wind, source_xy, receptors, lid=None, steps=200, lr=0.05):
    """Least squares emission rates (log-parametrised) for fixed geometry."""
    log_q = tf.Variable(tf.zeros_like(stack_height))
    opt = tf.keras.optimizers.Adam(lr)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            h = stack_height + briggs_rise(buoyancy, wind)
            c = plume_concentration(tf.exp(log_q), h, wind, source_xy, receptors, lid=lid)
            loss = tf.reduce_mean(tf.math.squared_difference(c, observed))
        opt.apply_gradients([(tape.gradient(loss, log_q), log_q)])
    return tf.exp(log_q)
