"""Charged particles: in vacuum (pusher) and through membranes (GHK)."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

FARADAY = 96485.33212
GAS = 8.314462618


class Pushed(NamedTuple):
    velocity: jax.Array
    energy: jax.Array


def _like(g, ref):
    """Sum a cotangent down to the shape of a broadcast field."""
    if g.shape == ref.shape:
        return g
    g = g.sum(axis=tuple(range(g.ndim - ref.ndim)))
    keep = tuple(i for i in range(ref.ndim) if ref.shape[i] == 1)
    return g.sum(axis=keep, keepdims=True) if keep else g


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def boris_push(vel, e_field, b_field, dt, charge_to_mass=1.0):
    """One Boris step: half electric kick, magnetic rotation, half kick.

    Parameters
    ----------
    vel : (..., 3)
    e_field, b_field : (..., 3)
        Fields at the particles; a single vector (3,) is a uniform field.
    dt, charge_to_mass : float

    Returns
    -------
    Pushed
        ``velocity`` (..., 3) after the step and ``energy`` (...), the kinetic
        energy per unit mass after the step.
    """
    return _boris_fwd(vel, e_field, b_field, dt, charge_to_mass)[0]


def _boris_fwd(vel, e_field, b_field, dt, charge_to_mass):
    h = 0.5 * charge_to_mass * dt
    minus = vel + h * e_field
    t = h * b_field
    s = 2.0 * t / (1.0 + jnp.sum(t * t, axis=-1, keepdims=True))
    prime = minus + jnp.cross(minus, t)
    new = minus + jnp.cross(prime, s) + h * e_field
    out = Pushed(new, 0.5 * jnp.sum(new * new, axis=-1))
    return out, (minus, prime, e_field, b_field)


def _boris_bwd(dt, charge_to_mass, res, ct):
    minus, prime, e_field, b_field = res
    h = 0.5 * charge_to_mass * dt
    t = h * b_field
    norm = 1.0 + jnp.sum(t * t, axis=-1, keepdims=True)
    s = 2.0 * t / norm
    g = ct.velocity

    g_prime = jnp.cross(s, g)
    g_s = jnp.cross(g, prime)
    g_minus = g + g_prime + jnp.cross(t, g_prime)
    g_t = jnp.cross(g_prime, minus)
    g_t = g_t + 2.0 * (g_s - s * jnp.sum(t * g_s, axis=-1, keepdims=True)) / norm
    g_e = h * (g + g_minus)
    return g_minus, _like(g_e, e_field), _like(h * g_t, b_field)


boris_push.defvjp(_boris_fwd, _boris_bwd)


def trace(vel, pos, field_fn, dt, steps, charge_to_mass=1.0):
    """Leapfrog trajectories; ``field_fn(pos) -> (E, B)``."""

    def step(carry, _):
        v, x = carry
        e, b = field_fn(x)
        out = boris_push(v, e, b, dt, charge_to_mass)
        x = x + dt * out.velocity
        return (out.velocity, x), (x, out.energy)

    return jax.lax.scan(step, (vel, pos), None, length=steps)[1]


# -- membranes ---------------------------------------------------------------

def _bern(x):
    """x / (exp(x) - 1)"""
    zero = x == 0
    return jnp.where(zero, 1.0, x / jnp.expm1(jnp.where(zero, 1.0, x)))


def _bern_slope(x):
    small = jnp.abs(x) < 0.1
    xs = jnp.where(small, x, 0.0)
    series = -0.5 + xs / 6.0 - xs**3 / 180.0 + xs**5 / 5040.0 - xs**7 / 151200.0
    xl = jnp.where(small, 1.0, x)
    return jnp.where(small, series, _bern(xl) * (1.0 / xl + 1.0 / jnp.expm1(-xl)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def ghk_current(voltage, c_in, c_out, permeability=1.0, valence=1, temperature=310.15):
    """Goldman-Hodgkin-Katz current density of one ion.

    Parameters
    ----------
    voltage : membrane potential in volts, inside minus outside; any sign, zero included
    c_in, c_out : concentrations, mol/m^3
    permeability : m/s
    valence : int, not zero
    temperature : kelvin

    All but ``valence`` broadcast.
    """
    u = valence * voltage * FARADAY / (GAS * temperature)
    return permeability * valence * FARADAY * (c_in * _bern(-u) - c_out * _bern(u))


@ghk_current.defjvp
def _ghk_jvp(valence, primals, tangents):
    v, ci, co, p, temp = primals
    dv, dci, dco, dp, dtemp = tangents
    u = valence * v * FARADAY / (GAS * temp)
    du = valence * FARADAY / (GAS * temp) * (dv - v * dtemp / temp)
    out_rate, in_rate = _bern(-u), _bern(u)
    drive = ci * out_rate - co * in_rate
    ddrive = dci * out_rate - dco * in_rate - (ci * _bern_slope(-u) + co * _bern_slope(u)) * du
    return p * valence * FARADAY * drive, valence * FARADAY * (dp * drive + p * ddrive)
