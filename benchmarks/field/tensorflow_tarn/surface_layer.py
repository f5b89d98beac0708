"""Thermodynamic and surface-layer diagnostics for the column emulator.

All routines are pure TensorFlow, accept ``float32`` or ``float64`` and carry
analytic gradients, because the taped versions were the memory bottleneck of
the variational assimilation runs.
"""

from __future__ import annotations

import math
from typing import Optional, Tuple

import tensorflow as tf

R_DRY = 287.05  # J kg-1 K-1
GRAVITY = 9.80665  # m s-2
VIRTUAL = 0.608
PSYCHRO = 6.6e-4  # K-1
PSYCHRO_SLOPE = 1.15e-3  # K-1


def _fit(grad: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Sum ``grad`` down to the (broadcastable) shape of ``like``."""
    extra = len(grad.shape) - len(like.shape)
    if extra > 0:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    axes = [i for i, d in enumerate(like.shape) if d == 1 and grad.shape[i] != 1]
    return tf.reduce_sum(grad, axis=axes, keepdims=True) if axes else grad


def _saturation(t: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Bolton saturation vapour pressure (hPa) and its slope, ``t`` in deg C."""
    es = 6.112 * tf.exp(17.67 * t / (t + 243.5))
    return es, es * 17.67 * 243.5 / tf.square(t + 243.5)


@tf.custom_gradient
def wet_bulb_temperature(t_air: tf.Tensor, rel_humidity: tf.Tensor, pressure: tf.Tensor):
    r"""Ventilated wet-bulb temperature from the psychrometric equation.

    Solves

    .. math:: e_s(T_w) - A(T_w)\, p\, (T - T_w) = r\, e_s(T),
              \qquad A(T_w) = A_0 (1 + 0.00115\, T_w)

    by Newton's method; the gradient comes from the implicit function theorem
    at the solution and does not differentiate the iterations.

    Parameters
    ----------
    t_air : tf.Tensor
        Dry-bulb temperature in deg C, from -20 to 45.
    rel_humidity : tf.Tensor
        Relative humidity as a fraction in (0, 1].
    pressure : tf.Tensor
        Station pressure in hPa.  The three arguments broadcast.

    Returns
    -------
    tf.Tensor
        Wet-bulb temperature in deg C, of the broadcast shape.
    """
    es_air, slope_air = _saturation(t_air)
    vapour = rel_humidity * es_air
    tw = t_air + tf.zeros_like(vapour * pressure)

    def parts(tw):
        es, slope = _saturation(tw)
        coef = PSYCHRO * (1.0 + PSYCHRO_SLOPE * tw)
        resid = es - coef * pressure * (t_air - tw) - vapour
        d_resid = slope + coef * pressure - PSYCHRO * PSYCHRO_SLOPE * pressure * (t_air - tw)
        return resid, d_resid, coef

    for _ in range(12):
        resid, d_resid, _ = parts(tw)
        tw = tw - resid / d_resid

    def grad(upstream):
        _, d_resid, coef = parts(tw)
        lam = upstream / d_resid
        d_t = lam * (coef * pressure + rel_humidity * slope_air)
        d_rh = lam * es_air
        d_p = lam * coef * (t_air - tw)
        return _fit(d_t, t_air), _fit(d_rh, rel_humidity), _fit(d_p, pressure)

    return tw, grad


@tf.custom_gradient
def stability_corrections(zeta: tf.Tensor):
    """Integrated Businger-Dyer stability functions.

    Parameters
    ----------
    zeta : tf.Tensor
        Monin-Obukhov stability parameter ``z / L`` of any shape.  Negative
        values are unstable, positive ones stable.

    Returns
    -------
    psi_m, psi_h : tuple of tf.Tensor
        Corrections of the momentum and heat profiles.  On the unstable side,
        with ``x = (1 - 16 zeta) ** (1/4)``::

            psi_m = 2 ln((1 + x)/2) + ln((1 + x**2)/2) - 2 atan(x) + pi/2
            psi_h = 2 ln((1 + x**2)/2)

        and on the stable side both equal ``-5 zeta``.

    Notes
    -----
    Uses ``d psi / d zeta = (1 - phi(zeta)) / zeta`` with ``phi_m = 1/x`` and
    ``phi_h = 1/x**2``, rearranged so that it stays finite near neutral.  At
    ``zeta == 0`` (a kink) the stable slope is returned.
    """
    unstable = zeta < 0.0
    x = tf.pow(1.0 - 16.0 * tf.minimum(zeta, tf.zeros_like(zeta)), 0.25)
    x2 = tf.square(x)
    log_heat = tf.math.log(0.5 * (1.0 + x2))
    psi_m = 2.0 * tf.math.log(0.5 * (1.0 + x)) + log_heat - 2.0 * tf.atan(x) + 0.5 * math.pi
    psi_h = 2.0 * log_heat
    linear = -5.0 * zeta

    def grad(up_m, up_h):
        # zeta = (1 - x^4) / 16, so (1 - 1/x) / zeta = -16 / (x (1 + x) (1 + x^2))
        slope_m = -16.0 / (x * (1.0 + x) * (1.0 + x2))
        slope_h = -16.0 / (x2 * (1.0 + x2))
        return tf.where(unstable, up_m * slope_m + up_h * slope_h, -5.0 * (up_m + up_h))

    return (tf.where(unstable, psi_m, linear), tf.where(unstable, psi_h, linear)), grad


@tf.custom_gradient
def _thickness(temperature, pressure_half, humidity):
    tv = temperature * (1.0 + VIRTUAL * humidity)
    log_ratio = tf.math.log(pressure_half[..., 1:] / pressure_half[..., :-1])
    scale = R_DRY / GRAVITY

    def grad(upstream):
        d_temp = scale * upstream * log_ratio
        d_hum = scale * upstream * log_ratio * temperature * VIRTUAL
        d_log = scale * upstream * tv
        zero = tf.zeros_like(d_log[..., :1])
        below = tf.concat([zero, d_log], axis=-1)
        above = tf.concat([d_log, zero], axis=-1)
        d_p = (below - above) / pressure_half
        return _fit(d_temp, temperature), _fit(d_p, pressure_half), _fit(d_hum, humidity)

    return scale * tv * log_ratio, grad


def layer_thickness(
    temperature: tf.Tensor,
    pressure_half: tf.Tensor,
    humidity: Optional[tf.Tensor] = None,
) -> tf.Tensor:
    """Hypsometric thickness of model layers.

    Parameters
    ----------
    temperature : tf.Tensor, shape (..., nlev)
        Layer-mean temperature in K, model top first.
    pressure_half : tf.Tensor, shape (nlev + 1,) or (..., nlev + 1)
        Interface pressure, increasing downwards, strictly positive.
    humidity : tf.Tensor, shape (..., nlev), optional
        Specific humidity in kg/kg, used for the virtual temperature
        ``T (1 + 0.608 q)``.  Dry air when omitted.

    Returns
    -------
    tf.Tensor, shape (..., nlev)
        Thickness in m.
    """
    if humidity is None:
        humidity = tf.zeros_like(temperature)
    return _thickness(temperature, pressure_half, humidity)


def geopotential_height(temperature, pressure_half, humidity=None, surface=0.0):
    """Height of the layer tops above ``surface``, integrated upwards."""
    dz = layer_thickness(temperature, pressure_half, humidity)
    return surface + tf.cumsum(dz, axis=-1, reverse=True)
