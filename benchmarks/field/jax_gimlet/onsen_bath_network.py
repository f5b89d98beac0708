"""Hot-spring bath house: blending, pipes, silica scale and overflow basins.

A ryokan draws water from several springs of different temperature, blends it into the baths, sends the used water back along
buried pipes, and lets the surplus run down a stair of stone basins to the river.  Everything here is meant to be fitted to the
caretaker's log with gradients, so the four working formulas carry hand-written derivatives (the autodiff of the day-by-day loops
was slow to compile on the little box in the boiler room).

Temperatures are in degrees C, flows in litres per minute, lengths in metres.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

WATER_HEAT = 69.8      # W per (L/min) per K
POOL_LEAK = 0.4        # L/min of equivalent exchange with the air over an open bath
STALL_FLOW = 1e-3      # below this a pipe is taken to stand still


class ScaleParams(NamedTuple):
    growth: jax.Array      # mm per day at full free bore
    ceiling: jax.Array     # mm, thickness at which growth stops
    brush: jax.Array       # share of the layer that one brushing removes


def _collapse(grad, shape):
    """Sum ``grad`` down to ``shape`` (undo numpy broadcasting)."""
    extra = grad.ndim - len(shape)
    grad = jnp.sum(grad, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return jnp.sum(grad, axis=axes, keepdims=True)


# --- blending -----------------------------------------------------------------------------------------------------------------

@jax.custom_vjp
def bath_blend(flows, temps, air):
    """Steady temperature of each bath.

    flows: (..., springs), litres per minute out of each spring, zero when a tap is closed
    temps: (springs,) when all baths get the same water, or (..., springs) when the lines cool differently
    air:   scalar, or one value per bath
    """
    flows, temps = jnp.broadcast_arrays(flows, temps)
    heat = jnp.sum(flows * temps, axis=-1) + POOL_LEAK * air
    return heat / (jnp.sum(flows, axis=-1) + POOL_LEAK)


def _blend_fwd(flows, temps, air):
    flows, temps, air = jnp.asarray(flows), jnp.asarray(temps), jnp.asarray(air)
    out = bath_blend(flows, temps, air)
    return out, (flows, temps, air, out)


def _blend_bwd(res, g):
    flows, temps, air, out = res
    wide, warm = jnp.broadcast_arrays(flows, temps)
    per_litre = g / (jnp.sum(wide, axis=-1) + POOL_LEAK)
    d_flow = per_litre[..., None] * (warm - out[..., None])
    d_temp = per_litre[..., None] * wide
    d_air = POOL_LEAK * per_litre
    return _collapse(d_flow, flows.shape), _collapse(d_temp, temps.shape), _collapse(d_air, air.shape)


bath_blend.defvjp(_blend_fwd, _blend_bwd)


# --- buried pipes -------------------------------------------------------------------------------------------------------------

@partial(jax.custom_jvp, nondiff_argnums=(4,))
def return_line(inlet, ground, flow, loss, length=30.0):
    """Outlet temperature of a buried pipe with heat loss ``loss`` (W per metre per K).

    ``flow`` is signed: the night flush runs the pipe the other way round and is logged as a negative number; ``inlet`` is then
    the temperature at whichever end the water goes in.
    """
    size = jnp.maximum(jnp.abs(flow), STALL_FLOW)
    return ground + (inlet - ground) * jnp.exp(-loss * length / (WATER_HEAT * size))


@return_line.defjvp
def _return_line_jvp(length, primals, tangents):
    inlet, ground, flow, loss = primals
    d_inlet, d_ground, d_flow, d_loss = tangents
    size = jnp.maximum(jnp.abs(flow), STALL_FLOW)
    units = loss * length / (WATER_HEAT * size)
    keep = jnp.exp(-units)
    d_units = length * d_loss / (WATER_HEAT * size)
    d_units = d_units - jnp.where(jnp.abs(flow) > STALL_FLOW, units * d_flow / size, 0.0)
    out = ground + (inlet - ground) * keep
    return out, keep * d_inlet + (1.0 - keep) * d_ground - (inlet - ground) * keep * d_units


# --- silica scale -------------------------------------------------------------------------------------------------------------

def _scale_day(thick, day, params):
    step, brushed = day
    grown = thick + step * params.growth * (1.0 - thick / params.ceiling)
    off = jnp.where(brushed, params.brush * grown, 0.0)
    return grown - off, (thick, grown, off)


@jax.custom_vjp
def scale_growth(params, start, steps, brushed):
    """Thickness after every interval and the millimetres brushed off in it.

    ``steps`` holds the days between visits (need not be even), ``brushed`` the booleans of the log.  Returns two arrays (T,).
    """
    _, (_, grown, off) = lax.scan(lambda c, d: _scale_day(c, d, params), start, (steps, brushed))
    return grown - off, off


def _scale_fwd(params, start, steps, brushed):
    _, (before, grown, off) = lax.scan(lambda c, d: _scale_day(c, d, params), start, (steps, brushed))
    return (grown - off, off), (params, before, grown, steps, brushed)


def _scale_bwd(res, cots):
    params, before, grown, steps, brushed = res

    def back(carry, day):
        lam, acc = carry
        g_thick, g_off, thick, full, step, was = day
        g_after = g_thick + lam
        g_full = jnp.where(was, (1.0 - params.brush) * g_after + params.brush * g_off, g_after)
        acc = ScaleParams(
            acc.growth + g_full * step * (1.0 - thick / params.ceiling),
            acc.ceiling + g_full * step * params.growth * thick / params.ceiling**2,
            acc.brush + jnp.where(was, full * (g_off - g_after), 0.0))
        return (g_full * (1.0 - step * params.growth / params.ceiling), acc), \
            g_full * params.growth * (1.0 - thick / params.ceiling)

    zero = jnp.zeros_like(before[0])
    carry = (zero, ScaleParams(zero, zero, zero))
    (lam, acc), d_steps = lax.scan(back, carry, (*cots, before, grown, steps, brushed), reverse=True)
    return acc, lam, d_steps, None


scale_growth.defvjp(_scale_fwd, _scale_bwd)


# --- the stair of basins ------------------------------------------------------------------------------------------------------

def _stair(level, inflow, brim, leak):
    """One time step down the stair; returns the new levels, what leaves the last basin, and which basins ran over."""
    levels, ran_over = [], []
    water = inflow
    for i in range(brim.shape[0]):
        fill = level[i] + water
        over = jnp.maximum(fill - brim[i], 0.0)
        levels.append(fill - over)
        ran_over.append(fill > brim[i])
        water = (1.0 - leak) * over
    return jnp.stack(levels), water, jnp.stack(ran_over)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def basin_spill(inflow, level, brim, leak=0.0):
    """Litres that reach the river in each step: inflow (T,), level and brim (basins,).  Returns (T,)."""
    def step(lev, q):
        lev, spill, _ = _stair(lev, q, brim, leak)
        return lev, spill
    return lax.scan(step, level, inflow)[1]


def _spill_fwd(inflow, level, brim, leak):
    def step(lev, q):
        lev, spill, flags = _stair(lev, q, brim, leak)
        return lev, (spill, flags)
    _, (spill, flags) = lax.scan(step, level, inflow)
    return spill, (flags, level)


def _spill_bwd(leak, res, g):
    flags, level = res
    basins = level.shape[0]

    def back(carry, now):
        g_level, g_brim = carry
        g_water, over = now
        for i in reversed(range(basins)):
            g_over = (1.0 - leak) * g_water
            g_brim = g_brim.at[i].add(jnp.where(over[i], -g_over, 0.0))
            g_water = jnp.where(over[i], g_over, g_level[i])
            g_level = g_level.at[i].set(g_water)
        return (g_level, g_brim), g_water

    start = (jnp.zeros_like(level), jnp.zeros_like(level))
    (g_level, g_brim), g_inflow = lax.scan(back, start, (g, flags), reverse=True)
    return g_inflow, g_level, g_brim


basin_spill.defvjp(_spill_fwd, _spill_bwd)


if __name__ == "__main__":
    print(bath_blend(jnp.array([[12.0, 3.0], [0.0, 5.0]]), jnp.array([61.0, 18.0]), 9.0))
    print(basin_spill(jnp.array([30.0, 80.0, 20.0]), jnp.array([10.0, 0.0]), jnp.array([50.0, 40.0])))
