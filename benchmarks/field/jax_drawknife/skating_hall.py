"""Skating hall: what the plant room and the sharpening bench need.

Small differentiable models which the rink's scheduler calibrates against its loggers: the brine circuit, the heat that
comes down through the ice sheet, the dehumidifier above it, and -- because the ice temperature is set for the skaters
and not for the plant -- the bite of a hollow-ground blade.  SI units unless a name says otherwise.
"""
import functools
from typing import NamedTuple, Tuple

import jax
import jax.numpy as jnp
from jax import lax

LATENT = 2.501e6        # J/kg
CP_AIR = 1006.0         # J/(kg K)
PRESSURE = 101.325      # kPa


class Coil(NamedTuple):
    """Dehumidifier coil: air mass flow in kg/s and bypass factor (0: all the air touches the fins)."""
    flow: jax.Array
    bypass: jax.Array


# -- brine ------------------------------------------------------------------------------------------------------------

@jax.custom_vjp
def brine_march(start, retention, gain):
    """
    Brine temperature in every loop of the slab, step by step:

        T[t] = retention[t] * T[t-1] + gain[t],      T[-1] = start

    Parameters
    ----------
    start : (loops,)
    retention : (steps, loops)
        What the loop keeps over the step; it follows the pump, which is throttled at night.
    gain : (steps, loops)

    Returns
    -------
    (steps, loops)
    """
    return _march(start, retention, gain)


def _march(start, retention, gain):
    def step(temp, rg):
        temp = rg[0] * temp + rg[1]
        return temp, temp
    return lax.scan(step, start, (retention, gain))[1]


def _march_fwd(start, retention, gain):
    temps = _march(start, retention, gain)
    return temps, (start, retention, temps)


def _march_bwd(res, g):
    start, retention, temps = res

    def step(lam, rg):
        lam = rg[0] * lam + rg[1]
        return lam, lam

    _, lam = lax.scan(step, jnp.zeros_like(start), (retention, g), reverse=True)
    before = jnp.concatenate([start[None], temps[:-1]])
    return retention[0] * lam[0], lam * before, lam


brine_march.defvjp(_march_fwd, _march_bwd)


# -- sheet ------------------------------------------------------------------------------------------------------------

@jax.custom_jvp
def slab_flux(t_air, t_brine, thickness, conductivity, film):
    """Heat flux (W/m2) from the hall into the brine, through layers in series.

    thickness has the layers (paint, ice, concrete, ...) last and any number of places before; conductivity is one
    value per layer. t_air, t_brine and film (W/(m2 K)) are scalars or have one value per place.
    """
    return (t_air - t_brine) / (1.0 / film + jnp.sum(thickness / conductivity, axis=-1))


@slab_flux.defjvp
def _slab_flux_jvp(primals, tangents):
    t_air, t_brine, d, k, film = primals
    t_air_dot, t_brine_dot, d_dot, k_dot, film_dot = tangents
    r = 1.0 / film + jnp.sum(d / k, axis=-1)
    q = (t_air - t_brine) / r
    r_dot = jnp.sum((d_dot - d * k_dot / k) / k, axis=-1) - film_dot / film ** 2
    return q, (t_air_dot - t_brine_dot - q * r_dot) / r


# -- blade ------------------------------------------------------------------------------------------------------------

@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def bite_angle(width, radius, unit="rad"):
    """Angle between the ice and the flank of the hollow at the edge of a blade.

    The grinding wheel of ``radius`` leaves a circular hollow in a blade of ``width`` (same unit; about 3 mm, with radii
    of 6 to 25 mm). unit: "rad", "deg", or "percent" for the slope in percent, as sharpeners quote it.
    """
    theta = jnp.arcsin(0.5 * width / radius)
    if unit == "deg":
        return jnp.rad2deg(theta)
    if unit == "percent":
        return 100.0 * jnp.tan(theta)
    return theta


@bite_angle.defjvp
def _bite_angle_jvp(unit, primals, tangents):
    width, radius = primals
    w_dot, r_dot = tangents
    ratio = 0.5 * width / radius
    theta_dot = (0.5 * w_dot - ratio * r_dot) / (radius * jnp.sqrt(1.0 - ratio ** 2))
    scale = {"rad": 1.0, "deg": 180.0 / jnp.pi, "percent": 100.0}[unit]
    return bite_angle(width, radius, unit), scale * theta_dot


# -- air --------------------------------------------------------------------------------------------------------------

def saturation_ratio(t):
    """Humidity ratio (kg/kg) of saturated air at t degrees Celsius, and its slope."""
    e = 0.6108 * jnp.exp(17.27 * t / (t + 237.3))
    de = e * 17.27 * 237.3 / (t + 237.3) ** 2
    return 0.622 * e / (PRESSURE - e), 0.622 * PRESSURE * de / (PRESSURE - e) ** 2


def _shrink(g, like):
    """Sum g down to the shape of like."""
    g = jnp.sum(g, axis=tuple(range(g.ndim - jnp.ndim(like))))
    thin = tuple(i for i, n in enumerate(jnp.shape(like)) if n == 1 and g.shape[i] != 1)
    return jnp.sum(g, axis=thin, keepdims=True) if thin else g


@jax.custom_vjp
def coil_duty(coil: Coil, t_air, w_air, t_coil) -> Tuple[jax.Array, jax.Array]:
    """Heat taken out (W) and water drained (kg/s); a coil warmer than the dew point stays dry.

    All arguments broadcast against each other (hours of a day, alternatives of a coil, ...); both results have the full
    shape.
    """
    touched = coil.flow * (1.0 - coil.bypass)
    drain = touched * jnp.maximum(w_air - saturation_ratio(t_coil)[0], 0.0)
    heat = touched * CP_AIR * (t_air - t_coil) + LATENT * drain
    return heat, jnp.broadcast_to(drain, jnp.shape(heat))


def _coil_fwd(coil, t_air, w_air, t_coil):
    return coil_duty(coil, t_air, w_air, t_coil), (coil, t_air, w_air, t_coil)


def _coil_bwd(res, cotangents):
    coil, t_air, w_air, t_coil = res
    g_heat, g_drain = cotangents
    w_sat, slope = saturation_ratio(t_coil)
    excess = w_air - w_sat
    wet = (excess > 0).astype(g_heat.dtype)
    g_drain = g_drain + LATENT * g_heat
    touched = coil.flow * (1.0 - coil.bypass)
    g_touched = g_heat * CP_AIR * (t_air - t_coil) + g_drain * wet * excess
    g_sensible = g_heat * CP_AIR * touched
    g_excess = g_drain * wet * touched
    d_coil = Coil(_shrink(g_touched * (1.0 - coil.bypass), coil.flow), _shrink(-g_touched * coil.flow, coil.bypass))
    return (d_coil, _shrink(g_sensible, t_air), _shrink(g_excess, w_air),
            _shrink(-g_sensible - g_excess * slope, t_coil))


coil_duty.defvjp(_coil_fwd, _coil_bwd)


if __name__ == "__main__":
    day = jnp.full((24,), 8.0)
    heat, water = coil_duty(Coil(jnp.array(3.0), jnp.array(0.15)), day, jnp.full((24,), 0.006), jnp.array(1.0))
    print("heat", float(heat.sum()), "water", float(water.sum()) * 3600)
    print("flux", slab_flux(8.0, -9.0, jnp.array([0.03, 0.12]), jnp.array([2.2, 1.7]), 9.0))
