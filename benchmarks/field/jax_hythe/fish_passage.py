"""Hydraulics and biology of vertical-slot fishways.

A fishway is a flight of pools joined by slots.  The design loop changes slot widths and
sill heights until the water profile, the turbulence in each pool and the effort asked
of the target species all stay inside their limits, over a year of river flows.

Indices: ``t`` runs over flow records, ``i`` over slots counted from the upstream end.
There is one more water level than there are slots.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

GRAVITY = 9.81
WATER_DENSITY = 1000.0
SLOT_COEFFICIENT = 0.75
MIN_DEPTH = 0.05

DISSIPATION_LIMIT = {"salmon": 200.0, "trout": 150.0, "cyprinid": 110.0}


# ==================================================================================
# water profile
# ==================================================================================


def _slot_drop(flow, width, depth):
    velocity = flow / (SLOT_COEFFICIENT * width * depth)
    return velocity ** 2 / (2.0 * GRAVITY)


@jax.custom_vjp
def slot_levels(flow, tailwater, width, sill):
    """Water levels along the flight, marched from the tailwater upstream.

    flow, tailwater: [t]; width, sill: [i]
    returns levels [t, i + 1], forebay first and tailwater last.
    """
    return _march(flow, tailwater, width, sill)


def _march(flow, tailwater, width, sill):
    def climb(level, slot):
        w, s = slot
        above = level + _slot_drop(flow, w, jnp.maximum(level - s, MIN_DEPTH))
        return above, above

    _, levels = lax.scan(climb, tailwater, (width, sill), reverse=True)
    return jnp.concatenate([levels, tailwater[None]], axis=0).T


def _slot_levels_fwd(flow, tailwater, width, sill):
    levels = _march(flow, tailwater, width, sill)
    return levels, (flow, width, sill, levels)


def _slot_levels_bwd(saved, g):
    flow, width, sill, levels = saved

    def descend(carry, item):
        adjoint, g_flow = carry
        below, g_below, w, s = item
        depth = jnp.maximum(below - s, MIN_DEPTH)
        drop = _slot_drop(flow, w, depth)
        g_flow = g_flow + adjoint * 2.0 * drop / flow
        g_depth = jnp.where(below - s > MIN_DEPTH, -2.0 * adjoint * drop / depth, 0.0)
        g_w = jnp.sum(-2.0 * adjoint * drop / w)
        g_s = -jnp.sum(g_depth)
        return (adjoint + g_depth + g_below, g_flow), (g_w, g_s)

    start = (g[:, 0], jnp.zeros_like(flow))
    items = (levels[:, 1:].T, g[:, 1:].T, width, sill)
    (g_tail, g_flow), (g_width, g_sill) = lax.scan(descend, start, items)
    return g_flow, g_tail, g_width, g_sill


slot_levels.defvjp(_slot_levels_fwd, _slot_levels_bwd)


# ==================================================================================
# pool hydraulics
# ==================================================================================


class Pools(NamedTuple):
    """Plan and floor of every pool; pool ``i`` lies just below slot ``i``."""

    length: jax.Array
    breadth: jax.Array
    floor: jax.Array
    slot: jax.Array


class PoolState(NamedTuple):
    dissipation: jax.Array   # W / m3
    velocity: jax.Array      # m / s
    residence: jax.Array     # s


@jax.custom_vjp
def pool_hydraulics(flow, levels, pools):
    """Dissipated power, slot velocity and residence time of each pool.

    Args:
        flow: river flow passed through the ladder, m3/s, shape [t].
        levels: as returned by `slot_levels`, shape [t, i + 1].
        pools: `Pools`, fields of shape [i].

    Returns:
        `PoolState` with fields of shape [t, i].
    """
    return _pool_state(flow, levels, pools)


def _pool_state(flow, levels, pools):
    drop = levels[:, :-1] - levels[:, 1:]
    depth = levels[:, 1:] - pools.floor
    volume = pools.length * pools.breadth * depth
    q = flow[:, None]
    return PoolState(
        dissipation=WATER_DENSITY * GRAVITY * q * drop / volume,
        velocity=q / (pools.slot * depth),
        residence=volume / q,
    )


def _pool_fwd(flow, levels, pools):
    state = _pool_state(flow, levels, pools)
    return state, (flow, levels, pools, state)


def _pool_bwd(saved, ct):
    flow, levels, pools, state = saved
    q = flow[:, None]
    drop = levels[:, :-1] - levels[:, 1:]
    depth = levels[:, 1:] - pools.floor

    power = ct.dissipation * state.dissipation
    speed = ct.velocity * state.velocity
    stay = ct.residence * state.residence

    g_flow = jnp.sum((power + speed) / q - stay, axis=1)
    g_drop = ct.dissipation * WATER_DENSITY * GRAVITY * q / (pools.length * pools.breadth * depth)
    g_depth = (stay - power - speed) / depth

    g_levels = jnp.zeros_like(levels)
    g_levels = g_levels.at[:, :-1].add(g_drop)
    g_levels = g_levels.at[:, 1:].add(g_depth - g_drop)
    plan = jnp.sum(stay - power, axis=0)
    g_pools = Pools(
        length=plan / pools.length,
        breadth=plan / pools.breadth,
        floor=-jnp.sum(g_depth, axis=0),
        slot=-jnp.sum(speed, axis=0) / pools.slot,
    )
    return g_flow, g_levels, g_pools


pool_hydraulics.defvjp(_pool_fwd, _pool_bwd)


# ==================================================================================
# swimming
# ==================================================================================

SUSTAINED_LIMIT = 2.2      # body lengths per second at the reference temperature
BURST_LIMIT = 6.0
PROLONGED_SLOPE = 1.45     # log-seconds per body length per second
BURST_SLOPE = 0.55
LOG_SUSTAINED = math.log(12000.0)
REFERENCE_CELSIUS = 12.0


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def swim_endurance(speed, body_length, celsius, q10=1.6):
    """Log of the time (s) for which a fish holds a swimming speed.

    Constant below the sustained limit, falling with one slope in prolonged swimming and
    with another in burst swimming; continuous at both limits. Both limits scale with
    water temperature by ``q10`` per ten degrees.

    Parameters
    ----------
    speed : m/s, any shape
    body_length : m, broadcastable
    celsius : water temperature, broadcastable
    q10 : float
    """
    factor = q10 ** ((celsius - REFERENCE_CELSIUS) / 10.0)
    relative = speed / body_length
    low, high = SUSTAINED_LIMIT * factor, BURST_LIMIT * factor
    prolonged = jnp.clip(relative, low, high) - low
    burst = jnp.maximum(relative - high, 0.0)
    return LOG_SUSTAINED - PROLONGED_SLOPE * prolonged - BURST_SLOPE * burst


@swim_endurance.defjvp
def _swim_endurance_jvp(q10, primals, tangents):
    speed, body_length, celsius = primals
    d_speed, d_length, d_celsius = tangents
    out = swim_endurance(speed, body_length, celsius, q10)

    factor = q10 ** ((celsius - REFERENCE_CELSIUS) / 10.0)
    relative = speed / body_length
    low, high = SUSTAINED_LIMIT * factor, BURST_LIMIT * factor
    d_relative = (d_speed - relative * d_length) / body_length
    warming = math.log(q10) / 10.0 * d_celsius

    in_burst = relative > high
    swimming = relative > low
    slope = jnp.where(in_burst, BURST_SLOPE, PROLONGED_SLOPE)
    limit = jnp.where(in_burst, high, low)
    tangent = jnp.where(swimming, -slope * (d_relative - limit * warming), 0.0)
    return out, tangent + jnp.zeros_like(out)


def passage_margin(velocity, body_length, celsius, slot_length=0.6, ground_speed=0.5):
    """Log ratio of endurance to the time spent in the slot."""
    needed = math.log(slot_length / ground_speed)
    return swim_endurance(velocity + ground_speed, body_length, celsius) - needed


# ==================================================================================
# entrances
# ==================================================================================


def build_entrance_share(site_of, n_sites):
    """Share of migrants that each entrance of a site attracts.

    ``site_of`` [e] gives the site of each entrance. The pull of an open entrance is
    (discharge * jet velocity) ** exponent; closed entrances attract nothing, and at a
    site with every entrance closed all shares are zero.
    """
    site_of = jnp.asarray(site_of)

    def shares(discharge, velocity, exponent, is_open):
        momentum = jnp.where(is_open, discharge * velocity, 1.0)
        log_momentum = jnp.log(momentum)
        logit = jnp.where(is_open, exponent * log_momentum, -jnp.inf)
        top = jax.ops.segment_max(logit, site_of, num_segments=n_sites)
        top = jnp.where(jnp.isfinite(top), top, 0.0)
        pull = jnp.where(is_open, jnp.exp(logit - top[site_of]), 0.0)
        total = jax.ops.segment_sum(pull, site_of, num_segments=n_sites)
        return pull / jnp.where(total > 0.0, total, 1.0)[site_of], log_momentum

    @jax.custom_vjp
    def entrance_share(discharge, velocity, exponent, is_open):
        return shares(discharge, velocity, exponent, is_open)[0]

    def fwd(discharge, velocity, exponent, is_open):
        share, log_momentum = shares(discharge, velocity, exponent, is_open)
        return share, (discharge, velocity, exponent, is_open, share, log_momentum)

    def bwd(saved, g):
        discharge, velocity, exponent, is_open, share, log_momentum = saved
        mean = jax.ops.segment_sum(g * share, site_of, num_segments=n_sites)
        g_logit = share * (g - mean[site_of])
        g_log = exponent * g_logit
        g_discharge = jnp.where(is_open, g_log / jnp.where(is_open, discharge, 1.0), 0.0)
        g_velocity = jnp.where(is_open, g_log / jnp.where(is_open, velocity, 1.0), 0.0)
        return g_discharge, g_velocity, jnp.sum(g_logit * log_momentum), None

    entrance_share.defvjp(fwd, bwd)
    return entrance_share


# ==================================================================================
# design objective
# ==================================================================================


def design_penalty(design, flow, tailwater, celsius, species="trout", body_length=0.28):
    """Penalty of a design over a flow record.

    ``design`` is ``{"width": [i], "sill": [i], "pools": Pools}``.
    """
    levels = slot_levels(flow, tailwater, design["width"], design["sill"])
    state = pool_hydraulics(flow, levels, design["pools"]._replace(slot=design["width"]))
    rough = jax.nn.relu(state.dissipation / DISSIPATION_LIMIT[species] - 1.0)
    rest = jax.nn.relu(1.0 - state.residence / 20.0)
    tired = jax.nn.relu(-passage_margin(state.velocity, body_length, celsius[:, None]))
    return jnp.mean(rough ** 2) + jnp.mean(rest ** 2) + jnp.mean(tired ** 2)


if __name__ == "__main__":
    n = 6
    sill = jnp.linspace(2.0, 0.9, n)
    design = {
        "width": jnp.full((n,), 0.32),
        "sill": sill,
        "pools": Pools(jnp.full((n,), 2.8), jnp.full((n,), 2.1), sill - 0.3, jnp.full((n,), 0.3)),
    }
    flow = jnp.array([0.3, 0.42, 0.55])
    tail = jnp.array([1.7, 1.8, 1.95])
    value, grads = jax.value_and_grad(design_penalty)(design, flow, tail, jnp.array([8.0, 12.0, 17.0]))
    print(value, grads["width"])
    share = build_entrance_share([0, 0, 1, 1, 1], 2)
    print(share(jnp.array([1.2, 0.4, 2.0, 0.7, 0.0]), jnp.array([1.5, 2.0, 1.1, 1.8, 0.0]), 0.8,
                jnp.array([True, True, True, True, False])))
