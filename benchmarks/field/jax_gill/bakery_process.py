"""Dough and oven models behind the recipe optimiser of the bakery."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

LN10 = 2.302585092994046


@dataclass(frozen=True)
class OvenSettings:
    reference: float = 93.3  # deg C, gelatinisation reference
    method: str = "exact"  # "exact": linear temperature between readings; "trapezoid": linear rate


# --------------------------------------------------------------- sourdough
@functools.partial(jax.custom_jvp, nondiff_argnums=(5,))
def starter_rate(temp, b, c, t_min, t_max, root=False):
    """Growth rate of a starter after Ratkowsky, ``(b (T - Tmin) (1 - exp(c (T - Tmax))))**2``.

    All arguments broadcast; nothing grows outside of ``(t_min, t_max)``.  With ``root``
    (static) the square root of the rate is returned, on which the laboratory regresses.
    """
    s = _root_rate(temp, b, c, t_min, t_max)
    return s if root else s * s


def _alive(temp, t_min, t_max):
    return (temp > t_min) & (temp < t_max)


def _root_rate(temp, b, c, t_min, t_max):
    alive = _alive(temp, t_min, t_max)
    below = jnp.where(alive, temp - t_max, -1.0)
    return jnp.where(alive, -b * (temp - t_min) * jnp.expm1(c * below), 0.0)


@starter_rate.defjvp
def _starter_jvp(root, primals, tangents):
    temp, b, c, t_min, t_max = primals
    dtemp, db, dc, dt_min, dt_max = tangents
    alive = _alive(temp, t_min, t_max)
    below = jnp.where(alive, temp - t_max, -1.0)
    above = temp - t_min
    brake = -jnp.expm1(c * below)
    slope = -jnp.exp(c * below)
    ds = (
        above * brake * db
        + b * brake * (dtemp - dt_min)
        + b * above * slope * (below * dc + c * (dtemp - dt_max))
    )
    ds = jnp.where(alive, ds, 0.0)
    s = _root_rate(temp, b, c, t_min, t_max)
    if root:
        return s, ds
    return s * s, 2.0 * s * ds


# -------------------------------------------------------------------- oven
def _phi(x):
    """``expm1(x) / x`` and its derivative."""
    small = jnp.abs(x) < 0.5
    safe = jnp.where(small, 1.0, x)
    term, value, slope = jnp.ones_like(x), jnp.ones_like(x), jnp.zeros_like(x)
    for k in range(1, 14):  # term = x**(k-1) / (k+1)!
        term = term / (k + 1.0) if k == 1 else term * x / (k + 1.0)
        slope = slope + k * term
        value = value + term * x
    e = jnp.expm1(safe)
    far_value = e / safe
    far_slope = (jnp.exp(safe) - far_value) / safe
    return jnp.where(small, value, far_value), jnp.where(small, slope, far_slope)


def make_bake_value(lengths, settings=OvenSettings()):
    """Build the bake-value integral of a batch of core-temperature curves.

    Args:
        lengths: number of readings of every curve; later columns are padding.
        settings: oven settings.

    Returns:
        ``bake_value(temp, times, z)`` for temp ``[B, T]`` (deg C), times ``[T]`` or ``[B, T]``
        (minutes) and z scalar or ``[B, 1]``; it gives the equivalent minutes at the reference
        temperature, ``[B]``.
    """
    lengths = jnp.asarray(lengths)

    def _reduce_to(x, like):
        extra = tuple(range(x.ndim - jnp.ndim(like)))
        x = jnp.sum(x, axis=extra)
        kept = tuple(i for i, n in enumerate(jnp.shape(like)) if n == 1 and x.shape[i] != 1)
        return jnp.sum(x, axis=kept, keepdims=True) if kept else x

    @jax.custom_gradient
    def bake_value(temp, times, z):
        live = jnp.arange(temp.shape[1] - 1) < lengths[:, None] - 1
        rate = jnp.exp(LN10 * (temp - settings.reference) / z)
        left, right = rate[:, :-1], rate[:, 1:]
        dt = jnp.where(live, jnp.diff(times, axis=-1), 0.0)
        x = LN10 * jnp.diff(temp, axis=1) / z
        if settings.method == "exact":
            phi, dphi = _phi(x)
            mean = left * phi
        else:
            mean = 0.5 * (left + right)

        def grad(g):
            g_mean = g[:, None] * dt
            g_dt = jnp.where(live, g[:, None] * mean, 0.0)
            if settings.method == "exact":
                g_u0 = g_mean * left * (phi - dphi)
                g_u1 = g_mean * left * dphi
            else:
                g_u0, g_u1 = 0.5 * g_mean * left, 0.5 * g_mean * right
            # u = ln(10) (temp - reference) / z
            g_u = jnp.pad(g_u0, ((0, 0), (0, 1))) + jnp.pad(g_u1, ((0, 0), (1, 0)))
            d_temp = g_u * LN10 / z
            d_z = -g_u * LN10 * (temp - settings.reference) / z**2
            d_times = jnp.pad(g_dt, ((0, 0), (1, 0))) - jnp.pad(g_dt, ((0, 0), (0, 1)))
            return d_temp, _reduce_to(d_times, times), _reduce_to(d_z, z)

        return jnp.sum(dt * mean, axis=1), grad

    return bake_value


# ------------------------------------------------------------------ recipe
@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def dough_hydration(amounts, water, flour, basis="flour"):
    """Hydration of doughs from the composition of their ingredients.

    Args:
        amounts: kilograms of each ingredient, ``[..., I]``.
        water: water share of the ingredients, ``[I]``.
        flour: flour share of the ingredients (1 for flours, 0.5 for a liquid levain), ``[I]``.
        basis: static; water per ``"flour"`` (baker's percentage), per ``"dry"`` matter, or
            per ``"total"`` weight of the dough.
    """
    return _sum(amounts * water) / _base(amounts, water, flour, basis)


def _sum(x):
    return jnp.sum(x, axis=-1)


def _base(amounts, water, flour, basis):
    per_kilo = {"flour": flour, "dry": 1.0 - water, "total": jnp.ones_like(water)}[basis]
    return _sum(amounts * per_kilo)


@dough_hydration.defjvp
def _hydration_jvp(basis, primals, tangents):
    amounts, water, flour = primals
    d_amounts, d_water, d_flour = tangents
    base = _base(amounts, water, flour, basis)
    ratio = _sum(amounts * water) / base
    d_num = _sum(d_amounts * water + amounts * d_water)
    d_base = _base(d_amounts, water, flour, basis)
    if basis == "flour":
        d_base = d_base + _sum(amounts * d_flour)
    return ratio, (d_num - ratio * d_base) / base
