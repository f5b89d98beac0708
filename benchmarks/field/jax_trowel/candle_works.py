"""Burn modelling for a small candle works.

The bench needs four things from a recipe before a trial pour is made: does
the wick lift enough wax for its flame, how large a pool the flame opens in the
jar, how much wax goes in each of the test burns of the house protocol, and how
strong the fragrance stands above the pool.  The recipe optimiser
(:func:`fit_recipe`) walks all of them by gradient, so each has its derivative
written out: the burns run over hundreds of jars and the taped versions were
slow to compile on the bench machine.

Units, unless told otherwise: lengths in millimetres, time in hours, wax in
grams, viscosity in mPa s, pressures in pascal.
"""
from __future__ import annotations

import dataclasses
import functools
import math
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

#: surface tension times the cosine of the contact angle, N/m
WETTING_TENSION = 0.0265
#: density of the molten wax, kg/m3
MELT_DENSITY = 772.0
GRAVITY = 9.80665
#: g/h carried by one capillary per m3/s of melt
FLOW_TO_GRAMS = MELT_DENSITY * 1e3 * 3600.0

WAX_TABLE = {
    #            melt C  viscosity  heat kJ/g
    "paraffin": (57.0, 3.4, 46.0),
    "soy": (50.0, 9.8, 38.4),
    "beeswax": (63.0, 7.1, 42.9),
    "rapeseed": (52.0, 8.6, 38.9),
    "stearin": (55.0, 6.0, 40.3),
}

# molar mass in g/mol and vapour pressure at 65 C in Pa
FRAGRANCE_NOTES = {
    "limonene": (136.2, 1480.0),
    "linalool": (154.3, 310.0),
    "eugenol": (164.2, 41.0),
    "vanillin": (152.1, 4.2),
    "galaxolide": (258.4, 1.9),
    "hexyl cinnamal": (216.3, 2.6),
}


@dataclasses.dataclass(frozen=True)
class Jar:
    """A container as the buyers list it."""

    name: str
    radius: float
    fill_height: float
    wicks: int = 1

    @property
    def volume_ml(self) -> float:
        return math.pi * self.radius**2 * self.fill_height * 1e-3


JARS = (
    Jar("votive", 23.0, 48.0),
    Jar("tumbler", 37.0, 75.0),
    Jar("bowl", 55.0, 60.0, wicks=3),
)


def heat_of_flame(grams_per_hour, wax: str = "soy"):
    """Flame power in watts for a given consumption."""
    return grams_per_hour * WAX_TABLE[wax][2] * 1e3 / 3600.0


# --------------------------------------------------------------------------
# wick
# --------------------------------------------------------------------------


@jax.custom_jvp
def wick_feed(pore, viscosity, rise):
    """Wax lifted by one capillary of the braid, in 1e-6 g/h.

    Lucas-Washburn flow at steady state against gravity,

        q = pi r^4 / (8 mu h) * (2 gamma cos(theta) / r  -  rho g h),

    and none at all where the column hangs higher than the capillary can hold.

    pore : capillary radius in micrometres
    viscosity : mPa s
    rise : height of the flame base above the pool, mm
    """
    r = pore * 1e-6
    mu = viscosity * 1e-3
    h = rise * 1e-3
    drive = 2.0 * WETTING_TENSION / r - MELT_DENSITY * GRAVITY * h
    lift = jnp.pi * r**4 / (8.0 * mu * h) * jnp.maximum(drive, 0.0)
    return lift * FLOW_TO_GRAMS * 1e6


def _holds(pore, rise):
    return 2.0 * WETTING_TENSION / (pore * 1e-6) > MELT_DENSITY * GRAVITY * rise * 1e-3


def _feed_by_pore(t, q, pore, viscosity, rise):
    r, mu, h = pore * 1e-6, viscosity * 1e-3, rise * 1e-3
    slope = jnp.pi / (8.0 * mu * h) * (
        6.0 * WETTING_TENSION * r**2 - 4.0 * MELT_DENSITY * GRAVITY * h * r**3
    )
    return t * jnp.where(_holds(pore, rise), slope, 0.0) * FLOW_TO_GRAMS


def _feed_by_rise(t, q, pore, viscosity, rise):
    r, mu, h = pore * 1e-6, viscosity * 1e-3, rise * 1e-3
    slope = -jnp.pi * r**3 * WETTING_TENSION / (4.0 * mu * h**2)
    return t * jnp.where(_holds(pore, rise), slope, 0.0) * FLOW_TO_GRAMS * 1e3


wick_feed.defjvps(
    _feed_by_pore,
    lambda t, q, pore, viscosity, rise: -t * q / viscosity,
    _feed_by_rise,
)


# --------------------------------------------------------------------------
# pool
# --------------------------------------------------------------------------


class PoolLaw(NamedTuple):
    """Settings of the pool law; plain numbers."""

    start_radius: float = 4.0
    start_depth: float = 6.0
    deepening: float = 0.35


def _free_radius(law: PoolLaw, spread, hours):
    return law.start_radius + spread * jnp.sqrt(hours)


def _pool_parts(law: PoolLaw, spread, hours, jar_radius):
    free = _free_radius(law, spread, hours)
    radius = jnp.minimum(free, jar_radius)
    depth = law.start_depth + law.deepening * jnp.maximum(free - jar_radius, 0.0)
    return free, radius, depth


def _pool_in_ml(mm3):
    return mm3 * 1e-3


def melt_pool_volume(spread, hours, jar_radius, law=PoolLaw()):
    """Molten wax in ml after ``hours`` of burning.

    All three of ``spread`` (mm per root hour), ``hours`` and ``jar_radius``
    are arrays of one shape, one entry per jar.
    """
    return _pool_in_ml(melt_pool(spread, hours, jar_radius, law))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def melt_pool(spread, hours, jar_radius, law):
    """Volume of the melt pool in mm^3.

    The pool spreads as the square root of time from the wick.  On reaching
    the glass it cannot widen; what the radius would have gained makes the pool
    deeper, ``law.deepening`` mm per mm.
    """
    _, radius, depth = _pool_parts(law, spread, hours, jar_radius)
    return jnp.pi * radius**2 * depth


def _melt_pool_fwd(spread, hours, jar_radius, law):
    free, radius, depth = _pool_parts(law, spread, hours, jar_radius)
    return jnp.pi * radius**2 * depth, (free, radius, depth, spread, hours, jar_radius)


def _melt_pool_bwd(law, saved, g):
    free, radius, depth, spread, hours, jar_radius = saved
    walled = free >= jar_radius
    d_radius = 2.0 * jnp.pi * radius * depth
    d_depth = jnp.pi * radius**2 * law.deepening
    d_free = g * jnp.where(walled, d_depth, d_radius)
    d_jar = g * jnp.where(walled, d_radius, 0.0)
    root = jnp.sqrt(hours)
    return d_free * root, d_free * spread * 0.5 / root, d_jar


melt_pool.defvjp(_melt_pool_fwd, _melt_pool_bwd)


# --------------------------------------------------------------------------
# test burns
# --------------------------------------------------------------------------


class WickState(NamedTuple):
    """Per-candle parameters of the burn, each of shape (candles,)."""

    base_rate: jax.Array
    mushrooming: jax.Array


def _burn_scan(wick, hours, trims):
    def session(crown, step):
        length, trim = step
        rate = wick.base_rate * (1.0 + crown)
        burned = rate * length
        return (1.0 - trim) * (crown + wick.mushrooming * burned), (burned, rate, crown)

    start = jnp.zeros_like(wick.base_rate)
    return jax.lax.scan(session, start, (hours, trims))


@jax.custom_vjp
def session_burns(wick: WickState, hours, trims):
    """Run the protocol of test burns.

    Parameters
    ----------
    wick : WickState
    hours : (sessions, candles)
        Length of each burn.
    trims : (sessions,)
        Share of the carbon crown that is cut off after each session; the same
        scissors for the whole bench.

    Returns
    -------
    burned : (sessions, candles)
        Wax gone in each session.
    crown : (candles,)
        What is left on the wicks at the end.
    """
    crown, (burned, _, _) = _burn_scan(wick, hours, trims)
    return burned, crown


def _session_burns_fwd(wick, hours, trims):
    crown, (burned, rates, crowns) = _burn_scan(wick, hours, trims)
    return (burned, crown), (wick, hours, trims, burned, rates, crowns)


def _session_burns_bwd(saved, cotangents):
    wick, hours, trims, burned, rates, crowns = saved
    g_burned, g_crown = cotangents

    def back(lam, step):
        gb, length, trim, eaten, rate, crown = step
        lam_s = lam * (1.0 - trim)
        d_trim = -jnp.sum(lam * (crown + wick.mushrooming * eaten))
        d_eaten = gb + lam_s * wick.mushrooming
        d_rate = d_eaten * length
        out = (d_eaten * rate, d_trim, d_rate * (1.0 + crown), lam_s * eaten)
        return lam_s + d_rate * wick.base_rate, out

    _, (d_hours, d_trims, d_base, d_mush) = jax.lax.scan(
        back, g_crown, (g_burned, hours, trims, burned, rates, crowns), reverse=True
    )
    return WickState(d_base.sum(axis=0), d_mush.sum(axis=0)), d_hours, d_trims


session_burns.defvjp(_session_burns_fwd, _session_burns_bwd)


# --------------------------------------------------------------------------
# fragrance
# --------------------------------------------------------------------------


def make_headspace(molar_mass) -> Callable:
    """Raoult headspace above a pool for a fixed palette of notes.

    molar_mass holds one entry per note, in g/mol.  The function that comes
    back takes loads in grams, shape (..., notes), and vapour pressures,
    shape (notes,), and gives the partial pressures weighted by mass,
    ``load_k p_k / sum_j(load_j / M_j)``.
    """
    mass = np.asarray(molar_mass, dtype=float)

    @jax.custom_gradient
    def headspace(load, pressure):
        moles = jnp.sum(load / mass, axis=-1, keepdims=True)
        partial = load * pressure / moles

        def pull(g):
            drag = jnp.sum(g * partial / mass, axis=-1, keepdims=True)
            d_load = (g * pressure - drag) / moles
            d_pressure = g * load / moles
            extra = tuple(range(d_pressure.ndim - 1))
            return d_load, d_pressure.sum(axis=extra)

        return partial, pull

    return headspace


def palette(names):
    """Columns of :data:`FRAGRANCE_NOTES` for the given names."""
    rows = np.array([FRAGRANCE_NOTES[n] for n in names])
    return rows[:, 0], rows[:, 1]


def throw_score(load, names, thresholds):
    """Log odour value summed over the notes; thresholds in g Pa/mol."""
    mass, pressure = palette(names)
    above = make_headspace(mass)(load, jnp.asarray(pressure))
    return jnp.sum(jnp.log1p(above / thresholds), axis=-1)


# --------------------------------------------------------------------------
# recipe search
# --------------------------------------------------------------------------


def recipe_loss(recipe, jar: Jar, names, thresholds):
    feed = wick_feed(recipe["pore"], recipe["viscosity"], recipe["rise"])
    lifted = feed * 1e-6 * recipe["strands"]
    pool = melt_pool_volume(recipe["spread"], recipe["hours"], jar.radius * jnp.ones(()))
    burned, crown = session_burns(
        WickState(lifted[None], recipe["mushrooming"][None]),
        jnp.full((6, 1), 4.0),
        jnp.full((6,), 0.8),
    )
    scent = throw_score(recipe["load"], names, thresholds)
    return (
        (pool / jar.volume_ml - 0.2) ** 2
        + 1e-3 * jnp.var(burned)
        + jnp.sum(crown**2)
        - 0.01 * scent
    )


def fit_recipe(recipe, jar: Jar, names, thresholds, steps: int = 20, rate: float = 1e-3):
    grad = jax.value_and_grad(recipe_loss)
    trace = []
    for _ in range(steps):
        value, slope = grad(recipe, jar, names, thresholds)
        recipe = jax.tree.map(lambda p, s: p - rate * jnp.clip(s, -1.0, 1.0), recipe, slope)
        trace.append(float(value))
    return recipe, trace


if __name__ == "__main__":
    notes = ("limonene", "linalool", "eugenol")
    first = {
        "pore": jnp.asarray(28.0),
        "viscosity": jnp.asarray(WAX_TABLE["soy"][1]),
        "rise": jnp.asarray(9.0),
        "strands": jnp.asarray(140.0),
        "spread": jnp.asarray(15.0),
        "hours": jnp.asarray(4.0),
        "mushrooming": jnp.asarray(0.02),
        "load": jnp.asarray([2.0, 3.0, 1.0]),
    }
    _, history = fit_recipe(first, JARS[1], notes, jnp.asarray([90.0, 40.0, 10.0]))
    print("loss", history[0], "->", history[-1])
