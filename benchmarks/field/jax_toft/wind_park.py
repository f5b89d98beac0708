"""Yield terms for wind park layout studies.

Turbines are indexed by the last axis everywhere.  A "flow case" is one
(direction, speed) bin of the site's wind rose.
"""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

HOURS_PER_YEAR = 8766.0
_MODES = ("rss", "sum", "max")


@dataclass(frozen=True)
class Fleet:
    """Turbine types that are available to a layout, and which one stands where."""
    knots: tuple            # hub wind speeds of the power table [m/s], ascending
    type_ids: tuple         # type of each turbine, len N

    def power(self, table, wind):
        return rotor_power(self.knots, table, wind, np.asarray(self.type_ids))


def _bracket(knots, wind):
    k = jnp.asarray(knots, dtype=wind.dtype)
    lo = jnp.clip(jnp.searchsorted(k, wind, side="right") - 1, 0, k.shape[0] - 2)
    width = k[lo + 1] - k[lo]
    running = (wind >= k[0]) & (wind < k[-1])
    return lo, width, (wind - k[lo]) / width, running


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def rotor_power(knots, table, wind, type_ids):
    """Electrical power of each turbine, linear between the knots of its type's curve.

    Args:
      knots: static ascending tuple of K wind speeds; the first is cut-in, the last cut-out.
      table: (T, K) power of each turbine type at the knots.
      wind: (..., N) or (..., 1) hub-height wind speed.
      type_ids: (N,) integer row of `table` for each turbine; types repeat in a park.

    Returns:
      (..., N) power, zero below cut-in and from cut-out on.
    """
    lo, _, t, running = _bracket(knots, wind)
    p = table[type_ids, lo] * (1.0 - t) + table[type_ids, lo + 1] * t
    return jnp.where(running, p, 0.0)


def _rotor_power_fwd(knots, table, wind, type_ids):
    return rotor_power(knots, table, wind, type_ids), (table, wind, type_ids)


def _rotor_power_bwd(knots, res, g):
    table, wind, type_ids = res
    lo, width, t, running = (jnp.broadcast_to(a, g.shape) for a in _bracket(knots, wind))
    g = jnp.where(running, g, 0.0)
    rows = jnp.broadcast_to(type_ids, g.shape)
    d_table = jnp.zeros_like(table)
    d_table = d_table.at[rows, lo].add(g * (1.0 - t))
    d_table = d_table.at[rows, lo + 1].add(g * t)
    d_wind = g * (table[rows, lo + 1] - table[rows, lo]) / width
    if wind.shape[-1] != g.shape[-1]:     # one wind for all turbines
        d_wind = d_wind.sum(axis=-1, keepdims=True)
    return d_table, d_wind, None


rotor_power.defvjp(_rotor_power_fwd, _rotor_power_bwd)


def gaussian_pair_deficit(downwind, crosswind, ct, growth=0.04, diameter=1.0):
    """Bastankhah-type deficit of turbine j seen at turbine i, (N, N)."""
    s = growth * jnp.maximum(downwind, 0.0) / diameter + 0.3
    c = 1.0 - jnp.sqrt(jnp.clip(1.0 - ct / (8.0 * s ** 2), 1e-6, 1.0))
    return c * jnp.exp(-0.5 * (crosswind / (s * diameter)) ** 2)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def superpose_wakes(pair, upstream, mode="rss"):
    """Combine pairwise deficits (..., N, N), receiver first, over the upstream turbines.

    `upstream[i, j]` is true where j stands upwind of i. mode: "rss", "sum" or "max".
    Deficits are non-negative; a free-standing turbine has deficit 0.
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {_MODES}, got {mode!r}")
    d = jnp.where(upstream, pair, 0.0)
    if mode == "rss":
        return jnp.sqrt(jnp.sum(d * d, axis=-1))
    if mode == "sum":
        return jnp.sum(d, axis=-1)
    return jnp.max(d, axis=-1)


def _superpose_fwd(pair, upstream, mode):
    total = superpose_wakes(pair, upstream, mode)
    return total, (pair, upstream, total)


def _superpose_bwd(mode, res, g):
    pair, upstream, total = res
    if mode == "rss":
        weight = pair / jnp.where(total > 0, total, 1.0)[..., None]
    else:
        weight = jnp.ones_like(pair)
    return jnp.where(upstream, g[..., None] * weight, 0.0), None


superpose_wakes.defvjp(_superpose_fwd, _superpose_bwd)


@jax.custom_vjp
def sector_energy(freq, power, availability):
    # freq (S, V) weights, power (S, V, N), availability () or (N,)
    mean = jnp.tensordot(freq / freq.sum(), power, axes=2)
    return HOURS_PER_YEAR * availability * mean


def _sector_energy_fwd(freq, power, availability):
    total = freq.sum()
    mean = jnp.tensordot(freq / total, power, axes=2)
    return HOURS_PER_YEAR * availability * mean, (freq, power, availability, total, mean)


def _sector_energy_bwd(res, g):
    freq, power, availability, total, mean = res
    gm = HOURS_PER_YEAR * availability * g
    d_freq = jnp.tensordot(power - mean, gm, axes=1) / total
    d_power = (freq / total)[..., None] * gm
    d_avail = HOURS_PER_YEAR * g * mean
    if jnp.ndim(availability) == 0:
        d_avail = d_avail.sum()
    return d_freq, d_power, d_avail


sector_energy.defvjp(_sector_energy_fwd, _sector_energy_bwd)


def park_loss(pair, upstream, free_wind, table, fleet, mode="rss"):
    deficit = superpose_wakes(pair, upstream, mode)
    waked = fleet.power(table, free_wind * (1.0 - deficit))
    free = fleet.power(table, free_wind * jnp.ones_like(deficit))
    return 1.0 - waked.sum(-1) / free.sum(-1)
