"""Carrying-capacity model of a suspended mussel farm.

A farm is a block of parallel longlines.  Water enters each line at its
upstream end and passes ``S`` stations; every station carries a number of
droppers (culture ropes).  The model has four parts:

* depletion of seston along a line (``food_along_row``),
* filtration by the droppers hung at the stations (``dropper_intake``),
* the split of filtered matter into ingestion and pseudofaeces
  (``ingestion_split``),
* loss of whole clumps from overloaded lines (``make_drop_off``).

Units: seston in mg/L, lengths in cm, temperature in degrees C, masses in kg,
flushing in L per step and station demand in L per step.

The pieces are differentiated many thousand times by the site-fitting code, so
they carry their own derivatives: the depletion scan keeps only the
concentrations, and the intake keeps no per-dropper temporaries.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

REFERENCE_LENGTH_CM = 5.0
SMALL_DEMAND = 1e-2


class MusselTraits(NamedTuple):
    """Physiology shared by all droppers of a stock (all scalars)."""

    clear_max: jax.Array    # L per step of a reference mussel
    allometry: jax.Array    # exponent on length
    temp_opt: jax.Array     # degrees C
    width_cold: jax.Array   # thermal width below the optimum
    width_hot: jax.Array    # thermal width above the optimum


def blue_mussel(dtype=jnp.float32):
    """Traits close to those of *Mytilus edulis* in the Limfjord."""
    return MusselTraits(*(jnp.asarray(v, dtype) for v in (4.2, 1.85, 15.0, 8.5, 5.0)))


# ---------------------------------------------------------------------------
# Depletion along a longline
# ---------------------------------------------------------------------------


def _mean_factor(k):
    """Mean of exp(-k s) over s in [0, 1]."""
    series = 1.0 - k / 2.0 + k**2 / 6.0 - k**3 / 24.0
    safe = jnp.where(jnp.abs(k) < SMALL_DEMAND, 1.0, k)
    return jnp.where(jnp.abs(k) < SMALL_DEMAND, series, -jnp.expm1(-safe) / safe)


def _mean_factor_slope(k):
    series = -0.5 + k / 3.0 - k**2 / 8.0 + k**3 / 30.0
    safe = jnp.where(jnp.abs(k) < SMALL_DEMAND, 1.0, k)
    exact = (jnp.exp(-safe) + jnp.expm1(-safe) / safe) / safe
    return jnp.where(jnp.abs(k) < SMALL_DEMAND, series, exact)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def food_along_row(inflow, demand, flushing):
    """Seston seen by each station of each line.

    Parameters
    ----------
    inflow : (R,) array
        Concentration at the upstream end of each of the ``R`` lines.
    demand : (R, S) array
        Clearance by the station, same volume unit as `flushing`.
    flushing : float
        Water passing a station per step.  Static.

    Returns
    -------
    food : (R, S) array
        Concentration averaged over the station.
    outflow : (R,) array
        Concentration leaving the line.
    """
    food, outflow, _ = _deplete(inflow, demand / flushing)
    return food, outflow


def _deplete(inflow, k):
    def station(conc, k_s):
        return conc * jnp.exp(-k_s), (conc * _mean_factor(k_s), conc)

    outflow, (food, conc) = lax.scan(station, inflow, k.T)
    return food.T, outflow, conc.T


def _food_fwd(inflow, demand, flushing):
    k = demand / flushing
    food, outflow, conc = _deplete(inflow, k)
    return (food, outflow), (conc, k)


def _food_bwd(flushing, res, cts):
    conc, k = res
    g_food, g_out = cts

    def station(adj, xs):
        g, c, k_s = xs
        decay = jnp.exp(-k_s)
        g_k = g * c * _mean_factor_slope(k_s) - adj * c * decay
        return g * _mean_factor(k_s) + adj * decay, g_k

    g_inflow, g_k = lax.scan(station, g_out, (g_food.T, conc.T, k.T), reverse=True)
    return g_inflow, g_k.T / flushing


food_along_row.defvjp(_food_fwd, _food_bwd)


# ---------------------------------------------------------------------------
# Filtration by droppers
# ---------------------------------------------------------------------------


def _thermal_width(traits, temp):
    return jnp.where(temp > traits.temp_opt, traits.width_hot, traits.width_cold)


def _thermal(traits, temp):
    z = (temp - traits.temp_opt) / _thermal_width(traits, temp)
    return jnp.exp(-(z**2))


@jax.custom_vjp
def dropper_intake(traits, food, temp, length, station):
    """Matter filtered per step by a mussel of each dropper.

    ``food`` and ``temp`` hold one value per station (``(N,)``); ``length`` and
    the integer table ``station`` one per dropper (``(D,)``).  Several droppers
    may hang at one station.  The thermal response is a bell with a different
    width on the warm side of the optimum.
    """
    size = (length / REFERENCE_LENGTH_CM) ** traits.allometry
    return traits.clear_max * size * (food * _thermal(traits, temp))[station]


def _intake_fwd(traits, food, temp, length, station):
    return dropper_intake(traits, food, temp, length, station), (traits, food, temp, length, station)


def _intake_bwd(res, g):
    traits, food, temp, length, station = res
    rel = length / REFERENCE_LENGTH_CM
    size = rel**traits.allometry
    bell = _thermal(traits, temp)
    supply = food * bell

    per_dropper = g * size * supply[station]                   # (D,)
    g_clear = jnp.sum(per_dropper)
    g_allometry = traits.clear_max * jnp.sum(per_dropper * jnp.log(rel))
    g_length = traits.clear_max * per_dropper * traits.allometry / length

    g_supply = jnp.zeros_like(food).at[station].add(g * traits.clear_max * size)
    g_food = g_supply * bell

    # thermal bell
    offset = temp - traits.temp_opt
    pull = g_supply * supply                                   # (N,)
    warm = offset > 0
    g_temp = -2.0 * pull * offset / traits.width_cold**2
    g_width = 2.0 * pull * offset**2
    g_traits = MusselTraits(
        clear_max=g_clear,
        allometry=g_allometry,
        temp_opt=-jnp.sum(g_temp),
        width_cold=jnp.sum(jnp.where(warm, 0.0, g_width)) / traits.width_cold**3,
        width_hot=jnp.sum(jnp.where(warm, g_width, 0.0)) / traits.width_hot**3,
    )
    return g_traits, g_food, g_temp, g_length, None


dropper_intake.defvjp(_intake_fwd, _intake_bwd)


# ---------------------------------------------------------------------------
# Ingestion and pseudofaeces
# ---------------------------------------------------------------------------


@jax.custom_jvp
def ingestion_split(filtered, threshold, capacity):
    """Ingested and rejected share of the filtered matter.

    Everything is eaten up to ``threshold``; beyond it ingestion saturates
    towards ``capacity`` (> threshold) and the remainder becomes pseudofaeces.
    """
    spare = capacity - threshold
    u = jnp.maximum(filtered - threshold, 0.0) / spare
    ingested = jnp.where(filtered > threshold, threshold - spare * jnp.expm1(-u), filtered)
    return ingested, filtered - ingested


@ingestion_split.defjvp
def _ingestion_jvp(primals, tangents):
    filtered, threshold, capacity = primals
    d_filtered, d_threshold, d_capacity = tangents
    out = ingestion_split(filtered, threshold, capacity)
    spare = capacity - threshold
    u = jnp.maximum(filtered - threshold, 0.0) / spare
    fade = jnp.exp(-u)
    d_ingested = (
        fade * d_filtered
        + u * fade * d_threshold
        + (1.0 - fade - u * fade) * d_capacity
    )
    return out, (d_ingested, d_filtered - d_ingested)


# ---------------------------------------------------------------------------
# Drop-off
# ---------------------------------------------------------------------------


def make_drop_off(hung, softness=0.4):
    """Build the drop-off rule for a farm layout.

    Args:
        hung: boolean (R, S); where a dropper is hung.
        softness: width, in kg, of the transition around the line's limit.

    Returns:
        ``retained_mass(mass, limit) -> (kept, dropped)``.
    """
    hung = jnp.asarray(hung)

    @jax.custom_gradient
    def retained_mass(mass, limit):
        # mass (R, S), limit (R,)  ->  kept (R, S), dropped (R,)
        live = hung.astype(mass.dtype)
        load = jnp.sum(mass * live, axis=1)
        hold = jax.nn.sigmoid((limit - load) / softness)
        kept = mass * live * hold[:, None]
        dropped = load * (1.0 - hold)

        def grad(cts):
            g_kept, g_dropped = cts
            gate = hold * (1.0 - hold) / softness
            through = jnp.sum(g_kept * mass * live, axis=1)
            g_load = g_dropped * (1.0 - hold + load * gate) - through * gate
            g_mass = live * (g_kept * hold[:, None] + g_load[:, None])
            g_limit = through * gate
            return g_mass, g_limit

        return (kept, dropped), grad

    return retained_mass


# ---------------------------------------------------------------------------
# A farm
# ---------------------------------------------------------------------------


class LonglineFarm:
    """Layout of a farm plus one growth step.

    ``station`` maps each of the D droppers to the flattened station index
    ``row * S + column``.
    """

    def __init__(self, rows, stations, station, flushing, softness=0.4):
        self.rows, self.stations = rows, stations
        self.station = jnp.asarray(station, jnp.int32)
        self.flushing = float(flushing)
        hung = jnp.zeros(rows * stations, bool).at[self.station].set(True)
        self.retain = make_drop_off(hung.reshape(rows, stations), softness)

    def demand(self, traits, temp, length, count):
        unit = dropper_intake(traits, jnp.ones_like(temp), temp, length, self.station)
        total = jax.ops.segment_sum(unit * count, self.station, self.rows * self.stations)
        return total.reshape(self.rows, self.stations)

    def ingestion(self, traits, inflow, temp, length, count, threshold, capacity):
        demand = self.demand(traits, temp, length, count)
        food, outflow = food_along_row(inflow, demand, self.flushing)
        filtered = dropper_intake(traits, food.ravel(), temp, length, self.station)
        eaten, rejected = ingestion_split(filtered, threshold, capacity)
        return eaten, rejected, outflow

    def harvest(self, traits, inflow, temp, length, count, threshold, capacity, limit):
        """Standing stock after drop-off and the seabed deposit of each line."""
        eaten, rejected, _ = self.ingestion(traits, inflow, temp, length, count, threshold, capacity)
        mass = jax.ops.segment_sum(
            count * (1e-5 * length**3 + 1e-4 * eaten), self.station, self.rows * self.stations
        ).reshape(self.rows, self.stations)
        kept, dropped = self.retain(mass, limit)
        deposit = jax.ops.segment_sum(count * rejected, self.station // self.stations, self.rows)
        return jnp.sum(kept), dropped + 1e-4 * deposit


def farm_profit(params, farm, temp, price=1.1, clean_up=0.3):
    stock, deposit = farm.harvest(
        params["traits"], params["inflow"], temp, params["length"], params["count"],
        params["threshold"], params["capacity"], params["limit"],
    )
    return price * stock - clean_up * jnp.sum(deposit)


if __name__ == "__main__":
    farm = LonglineFarm(2, 3, station=[0, 1, 1, 2, 3, 4, 5, 5], flushing=9000.0)
    parameters = dict(
        traits=blue_mussel(),
        inflow=jnp.array([2.4, 2.1]),
        length=jnp.linspace(3.0, 6.5, 8),
        count=jnp.full(8, 600.0),
        threshold=jnp.asarray(6.0),
        capacity=jnp.asarray(14.0),
        limit=jnp.array([2.0, 2.5]),
    )
    water = jnp.array([12.0, 12.5, 13.0, 16.5, 17.0, 17.5])
    value, slope = jax.value_and_grad(farm_profit)(parameters, farm, water)
    print("profit", value)
    print("per trait", slope["traits"])
