"""Water budget of a summit canal: locks, paddles, pounds and back-pumping.

SI units (m, m2, m3, s), power in kW. A *pound* is the level stretch of water between two locks.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

GRAVITY = 9.81
STILL = 0.02        # m of head; below it the paddle's flow is taken linear in the head


class Chamber(NamedTuple):
    """A lock chamber. `batter` is the widening of the chamber per metre of rise (0 for plumb
    walls, 0.05 to 0.3 for the old turf-sided locks)."""
    length: jax.Array
    width: jax.Array
    batter: jax.Array = 0.0


class Pound(NamedTuple):
    area: jax.Array      # water surface at datum, m2
    bank: jax.Array      # growth of the surface per m of level, m2/m


def _saving(side_ponds, ratio):
    # n side ponds, each `ratio` times as large as the chamber
    return side_ponds * ratio / (1.0 + ratio * (side_ponds + 1))


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def lockage_water(chamber, rise, ratio, side_ponds=0):
    """Water that one lockage draws from the upper pound.

    chamber: Chamber; rise: height between the levels; ratio: area of one side pond over that
    of the chamber; side_ponds: how many ponds are worked (0 if none).
    """
    mean_width = chamber.width + chamber.batter * rise
    return chamber.length * mean_width * rise * (1 - _saving(side_ponds, ratio))


@lockage_water.defjvp
def _lockage_jvp(side_ponds, primals, tangents):
    chamber, rise, ratio = primals
    d_chamber, d_rise, d_ratio = tangents
    mean_width = chamber.width + chamber.batter * rise
    section = mean_width * rise
    drawn = 1 - _saving(side_ponds, ratio)
    d_section = mean_width * d_rise + rise * (d_chamber.width + rise * d_chamber.batter)
    d_saving = side_ponds / (1.0 + ratio * (side_ponds + 1)) ** 2 * d_ratio
    volume = chamber.length * section * drawn
    d_volume = (d_chamber.length * section * drawn
                + chamber.length * d_section * drawn
                - chamber.length * section * d_saving)
    return volume, d_volume


def _fit(ct, like):
    """Sum a cotangent down to the shape of `like`."""
    extra = ct.ndim - jnp.ndim(like)
    ct = ct.sum(tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(jnp.shape(like)) if n == 1 and ct.shape[i] != 1)
    return ct.sum(axes, keepdims=True)


def _paddle_root(head):
    """sign(h) sqrt|h|, linear within STILL, and its slope."""
    calm = jnp.abs(head) < STILL
    big = jnp.where(calm, STILL, jnp.abs(head))
    root = jnp.where(calm, head / STILL ** 0.5, jnp.sign(head) * jnp.sqrt(big))
    return root, jnp.where(calm, STILL ** -0.5, 0.5 / jnp.sqrt(big))


@jax.custom_vjp
def paddle_flow(upper, lower, opening):
    """Flow through drowned paddles, negative when the lower side stands higher.

    The levels and the openings (m2, discharge coefficient included) broadcast
    against each other, e.g. levels (T, 1) against openings (P,).
    """
    root, _ = _paddle_root(upper - lower)
    return opening * (2 * GRAVITY) ** 0.5 * root


def _paddle_fwd(upper, lower, opening):
    return paddle_flow(upper, lower, opening), (upper, lower, opening)


def _paddle_bwd(saved, g):
    upper, lower, opening = saved
    root, slope = _paddle_root(upper - lower)
    c = (2 * GRAVITY) ** 0.5
    d_head = g * opening * c * slope
    return _fit(d_head, upper), _fit(-d_head, lower), _fit(g * c * root, opening)


paddle_flow.defvjp(_paddle_fwd, _paddle_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def settle_pounds(level, inflow, draw, pound, dt=900.0):
    """Levels (T, P) of P pounds after each of T steps.

    level (P,) at the beginning; inflow, draw (T, P) in m3/s; pound.area and pound.bank (P,).
    """
    def step(h, q):
        h = h + dt * q / (pound.area + pound.bank * h)
        return h, h
    return jax.lax.scan(step, level, inflow - draw)[1]


def _levels_fwd(level, inflow, draw, pound, dt):
    levels = settle_pounds(level, inflow, draw, pound, dt)
    return levels, (levels, inflow - draw, pound)


def _levels_bwd(dt, saved, g):
    levels, net, pound = saved

    def back(carry, inp):
        lam, d_area, d_bank = carry
        ct, h, q = inp
        lam = lam + ct
        surface = pound.area + pound.bank * h
        d_surface = -lam * dt * q / surface ** 2
        carry = (lam + d_surface * pound.bank, d_area + d_surface, d_bank + d_surface * h)
        return carry, lam * dt / surface

    zero = jnp.zeros_like(g[0])
    (d_level, d_area, d_bank), d_net = jax.lax.scan(back, (zero, zero, zero), (g, levels, net),
                                                    reverse=True)
    return d_level, d_net, -d_net, Pound(d_area, d_bank)


settle_pounds.defvjp(_levels_fwd, _levels_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def backpump_power(flow, lift, curves, pump, span=(0.0, 1.0)):
    """Power in kW of the pumps that lift water back to the summit.

    flow, lift: (N,); curves: (K, M) efficiencies (above 0) of K pump types at M evenly spaced flows
    over `span`, read linearly and held beyond the ends; pump: (N,) integer types.
    """
    eta, *_ = _efficiency(flow, curves, pump, span)
    return GRAVITY * flow * lift / eta


def _efficiency(flow, curves, pump, span):
    lo, hi = span
    cells = curves.shape[1] - 1
    place = (flow - lo) / (hi - lo) * cells
    inside = (place > 0) & (place < cells)
    place = jnp.clip(place, 0, cells)
    left = jnp.clip(jnp.floor(place).astype(int), 0, cells - 1)
    frac = place - left
    a, b = curves[pump, left], curves[pump, left + 1]
    slope = jnp.where(inside, (b - a) * cells / (hi - lo), 0.0)
    return a + frac * (b - a), slope, left, frac


def _pump_fwd(flow, lift, curves, pump, span):
    return backpump_power(flow, lift, curves, pump, span), (flow, lift, curves, pump)


def _pump_bwd(span, saved, g):
    flow, lift, curves, pump = saved
    eta, slope, left, frac = _efficiency(flow, curves, pump, span)
    d_eta = -g * GRAVITY * flow * lift / eta ** 2
    d_curves = jnp.zeros_like(curves).at[pump, left].add(d_eta * (1 - frac))
    d_curves = d_curves.at[pump, left + 1].add(d_eta * frac)
    return (g * GRAVITY * lift / eta + d_eta * slope, g * GRAVITY * flow / eta, d_curves, None)


backpump_power.defvjp(_pump_fwd, _pump_bwd)


def summit_day(level, chamber, boats, opening, pound, dt=900.0):
    """One day on the summit pound: boats (T,) lockages per step, feeder reservoir at 4.2 m."""
    draw = boats * lockage_water(chamber, 2.4, 1.0, 2) / dt
    feed = paddle_flow(jnp.full_like(boats, 4.2), jnp.broadcast_to(level, boats.shape), opening)
    return settle_pounds(level, feed[:, None], draw[:, None], pound, dt)


def main():
    pound = Pound(jnp.array([24000.0]), jnp.array([3000.0]))
    chamber = Chamber(22.0, 4.4, 0.1)
    boats = jnp.array([0.0, 1.0, 2.0, 1.0])
    print(summit_day(jnp.array([1.8]), chamber, boats, 0.05, pound))


if __name__ == "__main__":
    main()
