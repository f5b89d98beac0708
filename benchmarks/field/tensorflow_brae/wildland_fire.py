"""Surface fire behaviour (Rothermel 1972 / Albini 1976) for the gridded spread simulator.

SI-ish units throughout: loads in kg m-2, wind in m min-1, intensities in kJ m-2 min-1.  The gradients are written out by
hand because the calibration runs push ~10^7 cells through these four functions at every optimiser step.
"""
from typing import NamedTuple

import tensorflow as tf

__all__ = ["FuelBed", "moisture_damping", "blend_fuel_models", "surface_fire_spread", "limited_wind_factor"]

# Rothermel's cubic for the moisture damping coefficient
_ETA = (1.0, -2.59, 5.11, -3.52)
# Wind limit of Rothermel (1972), eq. 86
_WIND_CAP = 0.9


class FuelBed(NamedTuple):
    """Intermediate fuel-bed quantities; every field broadcasts against the cells."""

    intensity: tf.Tensor         # reaction intensity I_R
    flux_ratio: tf.Tensor        # propagating flux ratio xi
    bulk_density: tf.Tensor      # ovendry bulk density rho_b
    heating_number: tf.Tensor    # effective heating number eps
    ignition_heat: tf.Tensor     # heat of preignition Q_ig
    wind_coef: tf.Tensor         # C (beta/beta_op)^-E
    wind_exp: tf.Tensor          # B
    slope_coef: tf.Tensor        # 5.275 beta^-0.3


def _reduce_like(x, ref):
    """Sums ``x`` over the axes along which ``ref`` was broadcast to it."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(ref), s1=tf.shape(x))
    return tf.reshape(tf.reduce_sum(x, axes), tf.shape(ref))


@tf.custom_gradient
def moisture_damping(moisture, extinction):
    r = moisture / extinction
    _, c1, c2, c3 = _ETA
    eta = tf.where(r < 1.0, 1.0 + r * (c1 + r * (c2 + r * c3)), tf.zeros_like(r))

    def grad(dy):
        slope = tf.where(r < 1.0, c1 + r * (2.0 * c2 + r * (3.0 * c3)), tf.zeros_like(r))
        d_r = dy * slope / extinction
        return _reduce_like(d_r, moisture), _reduce_like(-d_r * r, extinction)

    return eta, grad


@tf.custom_gradient
def blend_fuel_models(table, primary, secondary, fraction):
    """Two-fuel-model blend of the rows of ``table`` [models, props]; ids and ``fraction`` are [cells]."""
    f = fraction[:, None]
    first = tf.gather(table, primary)
    second = tf.gather(table, secondary)

    def grad(dy):
        ids = tf.concat([primary, secondary], axis=0)
        rows = tf.concat([(1.0 - f) * dy, f * dy], axis=0)
        d_table = tf.tensor_scatter_nd_update(tf.zeros_like(table), ids[:, None], rows)
        d_fraction = tf.reduce_sum((second - first) * dy, axis=-1)
        return d_table, None, None, d_fraction

    return (1.0 - f) * first + f * second, grad


@tf.custom_gradient
def surface_fire_spread(bed, wind, slope):
    """Rate of spread of the heading surface fire.

        R = I_R xi (1 + phi_w + phi_s) / (rho_b eps Q_ig),   phi_w = C U^B,   phi_s = k tan^2(slope)

    Args:
      bed: `FuelBed`; each field is positive and of any shape that broadcasts with the cells (a scalar, one value per
        fuel model, one per cell, ...). `wind_exp` is above one.
      wind: midflame wind speed, >= 0. Calm cells (U = 0) are fine, in the gradients too.
      slope: terrain slope angle in radians, in [0, pi/2).

    Returns:
      The spread rate, of the broadcast shape of all ten inputs.
    """
    tan = tf.tan(slope)
    phi_w = bed.wind_coef * tf.pow(wind, bed.wind_exp)
    phi_s = bed.slope_coef * tan * tan
    base = bed.intensity * bed.flux_ratio / (bed.bulk_density * bed.heating_number * bed.ignition_heat)
    rate = base * (1.0 + phi_w + phi_s)

    def grad(dy):
        d_phi = dy * base
        d_rate = dy * rate
        d_bed = FuelBed(
            intensity=d_rate / bed.intensity,
            flux_ratio=d_rate / bed.flux_ratio,
            bulk_density=-d_rate / bed.bulk_density,
            heating_number=-d_rate / bed.heating_number,
            ignition_heat=-d_rate / bed.ignition_heat,
            wind_coef=d_phi * tf.pow(wind, bed.wind_exp),
            wind_exp=d_phi * tf.math.xlogy(phi_w, wind),
            slope_coef=d_phi * tan * tan,
        )
        d_wind = d_phi * bed.wind_coef * bed.wind_exp * tf.pow(wind, bed.wind_exp - 1.0)
        d_slope = d_phi * bed.slope_coef * 2.0 * tan * (1.0 + tan * tan)
        flat = [_reduce_like(d, x) for d, x in zip(d_bed, bed)]
        return flat + [_reduce_like(d_wind, wind), _reduce_like(d_slope, slope)]

    return rate, grad


def limited_wind_factor(wind, intensity, coef, exponent, limit=True):
    @tf.custom_gradient
    def factor(wind, intensity, coef, exponent):
        cap = _WIND_CAP * intensity
        u = tf.minimum(wind, cap) if limit else wind + tf.zeros_like(cap)
        phi = coef * tf.pow(u, exponent)

        def grad(dy):
            d_u = dy * coef * exponent * tf.pow(u, exponent - 1.0)
            if limit:
                d_cap = tf.where(wind > cap, d_u, tf.zeros_like(d_u))
            else:
                d_cap = tf.zeros_like(d_u)
            return (
                _reduce_like(d_u, wind),
                _reduce_like(_WIND_CAP * d_cap, intensity),
                _reduce_like(dy * tf.pow(u, exponent), coef),
                _reduce_like(dy * tf.math.xlogy(phi, u), exponent),
            )

        return phi, grad

    return factor(wind, intensity, coef, exponent)


if __name__ == "__main__":
    bed = FuelBed(*[tf.constant(v) for v in (9000.0, 0.05, 24.0, 0.9, 900.0, 0.002, 1.4, 20.0)])
    print(surface_fire_spread(bed, tf.constant([0.0, 60.0, 120.0]), tf.constant(0.2)))
