"""Point and column terms of the flowline model (SI units unless said otherwise)."""

import numpy as np
import tensorflow as tf

GLEN_EXPONENT = 3.0
STRAIN_FLOOR = 1e-4  # 1/a
GAS_CONSTANT = 8.314
RHO_ICE = 0.917  # Mg m^-3
RHO_CRITICAL = 0.550


def _fold(grad, like):
    """Sum `grad` down to the (static) shape of `like`."""
    extra = grad.shape.rank - like.shape.rank
    if extra:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    axes = [i for i, n in enumerate(like.shape) if n == 1 and grad.shape[i] != 1]
    return tf.reduce_sum(grad, axis=axes, keepdims=True) if axes else grad


@tf.custom_gradient
def glen_viscosity(strain_rate, rate_factor):
    """Effective viscosity of ice, shallow-shelf form.

    Args:
      strain_rate: `[..., 3]`, components (exx, eyy, exy), 1/a.
      rate_factor: Glen's A, positive, any shape that broadcasts against the
        leading dims of `strain_rate` (one value per column, per member, ...).

    Returns:
      `[...]` viscosity `0.5 A^(-1/n) (e2 + e0^2)^((1-n)/2n)` with
      `e2 = exx^2 + eyy^2 + exx eyy + exy^2`.
    """
    n = GLEN_EXPONENT
    exx, eyy, exy = tf.unstack(strain_rate, axis=-1)
    second = exx * exx + eyy * eyy + exx * eyy + exy * exy + STRAIN_FLOOR**2
    eta = 0.5 * tf.pow(rate_factor, -1.0 / n) * tf.pow(second, (1.0 - n) / (2.0 * n))

    def grad(upstream):
        scaled = upstream * eta
        d_second = scaled * ((1.0 - n) / (2.0 * n)) / second
        d_strain = tf.stack(
            [d_second * (2.0 * exx + eyy), d_second * (2.0 * eyy + exx), 2.0 * d_second * exy],
            axis=-1,
        )
        return _fold(d_strain, strain_rate), _fold(-scaled / (n * rate_factor), rate_factor)

    return eta, grad


def make_budd_sliding(m=1.0 / 3.0, speed_floor=1e-2):
    """Power-law basal traction; floating nodes carry none."""

    @tf.custom_gradient
    def traction(velocity, friction, floating):
        grounded = tf.cast(tf.logical_not(floating), velocity.dtype)
        speed2 = tf.reduce_sum(velocity * velocity, axis=-1) + speed_floor**2
        power = tf.pow(speed2, 0.5 * (m - 1.0))
        beta = friction * power * grounded
        out = -beta[..., tf.newaxis] * velocity

        def grad(up):
            along = tf.reduce_sum(up * velocity, axis=-1)
            d_vel = -beta[..., tf.newaxis] * (
                up + ((m - 1.0) * along / speed2)[..., tf.newaxis] * velocity
            )
            d_friction = -power * along
            return d_vel, _fold(d_friction, friction), None

        return out, grad

    return traction


@tf.custom_gradient
def firn_density(depth, surface_density, temperature, accumulation):
    """Herron-Langway density profile, Mg m^-3.

    `depth` is `[B, Z]` in metres; `surface_density` (below 0.55), `temperature`
    (K) and `accumulation` (m w.e. per year) are `[B]`.  Above the 0.55 horizon
    the first-stage rate applies, beneath it the second-stage one.
    """
    rt = GAS_CONSTANT * temperature
    k0 = 11.0 * tf.exp(-10160.0 / rt)
    k1 = 575.0 * tf.exp(-21400.0 / rt) / tf.sqrt(accumulation)
    logit0 = tf.math.log(surface_density / (RHO_ICE - surface_density))
    logit_c = float(np.log(RHO_CRITICAL / (RHO_ICE - RHO_CRITICAL)))
    horizon = (logit_c - logit0) / (RHO_ICE * k0)

    col = lambda v: v[:, tf.newaxis]
    below = depth > col(horizon)
    shallow = RHO_ICE * col(k0) * depth + col(logit0)
    deep = RHO_ICE * col(k1) * (depth - col(horizon)) + logit_c
    fraction = tf.sigmoid(tf.where(below, deep, shallow))

    def grad(upstream):
        d_logit = upstream * RHO_ICE * fraction * (1.0 - fraction)
        zero = tf.zeros_like(d_logit)
        d_shallow = tf.where(below, zero, d_logit)
        d_deep = tf.where(below, d_logit, zero)

        d_depth = RHO_ICE * (d_shallow * col(k0) + d_deep * col(k1))
        d_k0 = RHO_ICE * tf.reduce_sum(d_shallow * depth + d_deep * col(k1 * horizon / k0), axis=1)
        d_k1 = RHO_ICE * tf.reduce_sum(d_deep * (depth - col(horizon)), axis=1)
        d_logit0 = tf.reduce_sum(d_shallow, axis=1)

        d_surface = d_logit0 * RHO_ICE / (surface_density * (RHO_ICE - surface_density))
        d_temp = (d_k0 * k0 * 10160.0 + d_k1 * k1 * 21400.0) / (rt * temperature)
        d_acc = -0.5 * d_k1 * k1 / accumulation
        return d_depth, d_surface, d_temp, d_acc

    return RHO_ICE * fraction, grad


class GlacierHypsometry:
    """Elevation bands of one glacier outline."""

    def __init__(self, elevations, accumulation_cap=None):
        self.elevations = tf.convert_to_tensor(elevations)
        self.accumulation_cap = accumulation_cap

    def specific_balance(self, ela, gradients, area):
        z = tf.cast(self.elevations, ela.dtype)
        cap = self.accumulation_cap

        @tf.custom_gradient
        def balance(ela, gradients, area):
            above = z - ela[..., tf.newaxis]
            ablating = above < 0.0
            slope = tf.where(ablating, gradients[..., :1], gradients[..., 1:])
            rate = slope * above
            if cap is None:
                live = tf.ones_like(rate)
            else:
                live = tf.cast(rate < cap, rate.dtype)
                rate = tf.minimum(rate, tf.cast(cap, rate.dtype))
            total = tf.reduce_sum(area, axis=-1, keepdims=True)
            mean = tf.reduce_sum(rate * area, axis=-1, keepdims=True) / total

            def grad(up):
                up = up[..., tf.newaxis]
                d_rate = up * area / total * live
                d_area = up * (rate - mean) / total
                in_abl = tf.cast(ablating, d_rate.dtype)
                d_grad = tf.stack(
                    [
                        tf.reduce_sum(d_rate * above * in_abl, axis=-1),
                        tf.reduce_sum(d_rate * above * (1.0 - in_abl), axis=-1),
                    ],
                    axis=-1,
                )
                d_ela = -tf.reduce_sum(d_rate * slope, axis=-1)
                return _fold(d_ela, ela), _fold(d_grad, gradients), _fold(d_area, area)

            return tf.squeeze(mean, -1), grad

        return balance(ela, gradients, area)
