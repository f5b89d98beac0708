"""From the grower to the vase: a florist's cooler, its orders, and how long the flowers will last."""
from functools import partial
from typing import NamedTuple, Sequence

import jax
import jax.numpy as jnp
from jax import lax

# Which colour of rose (row) may fill an order for which (column) when it runs short.
#                 red    pink   white  cream
SUBSTITUTES = jnp.array([
    [True, True, False, False],
    [True, True, True, False],
    [False, False, True, True],
    [False, True, True, True],
])


class Cooler(NamedTuple):
    keep: jax.Array    # (ages - 1,) share of the stems of an age that are still good a day later
    shelf: jax.Array   # (ages,) stems of each age on the first morning


@jax.custom_vjp
def cooler_days(cooler: Cooler, deliveries):
    """Let the cooler run for some days.

    Every day the stems grow a day older (the oldest are thrown out) and the day's delivery is put in front.

    Returns the stems in the cooler on each evening and the stems thrown out on each day, both shaped like
    ``deliveries`` (days,).
    """
    return _cooler_fwd(cooler, deliveries)[0]


def _cooler_fwd(cooler, deliveries):
    def day(shelf, arriving):
        aged = jnp.concatenate([arriving[None], shelf[:-1] * cooler.keep])
        return aged, (aged, shelf[-1])

    _, (shelves, thrown) = lax.scan(day, cooler.shelf, deliveries)
    return (shelves.sum(axis=1), thrown), (cooler, shelves)


def _cooler_bwd(saved, g):
    cooler, shelves = saved
    g_total, g_thrown = g

    def back(carry, inp):
        g_shelf, g_keep = carry
        g_evening, g_out, shelf = inp
        g_aged = g_shelf + g_evening
        g_keep = g_keep + g_aged[1:] * shelf[:-1]
        g_before = jnp.concatenate([g_aged[1:] * cooler.keep, g_out[None]])
        return (g_before, g_keep), g_aged[0]

    zero = (jnp.zeros_like(cooler.shelf), jnp.zeros_like(cooler.keep))
    (g_shelf, g_keep), g_deliveries = lax.scan(back, zero, (g_total, g_thrown, shelves), reverse=True)
    return Cooler(keep=g_keep, shelf=g_shelf), g_deliveries


cooler_days.defvjp(_cooler_fwd, _cooler_bwd)


PLENTY = 1e6


@jax.custom_vjp
def fill_orders(stock, orders):
    """Stems handed out and orders that stay open.

    Each colour's stock is divided among the orders that it may fill in proportion to their size, and nobody gets more
    than was ordered.  A colour that nobody can use today would serve the first order for it in full.

    Parameters
    ----------
    stock, orders : (..., 4)
        Stems of each colour in the cooler and asked for; leading axes are shops or days.

    Returns
    -------
    dict with "filled" and "open", each (..., 4) and by the colour that was ordered.
    """
    return _fill_fwd(stock, orders)[0]


def _fill_fwd(stock, orders):
    table = SUBSTITUTES.astype(orders.dtype)
    wanted = orders @ table.T
    idle = jnp.where(stock > 0, PLENTY, 0.0)
    rate = jnp.where(wanted > 0, stock / jnp.where(wanted > 0, wanted, 1.0), idle)
    cover = rate @ table
    filled = orders * jnp.minimum(cover, 1.0)
    return {"filled": filled, "open": orders - filled}, (orders, wanted, rate, cover, table)


def _fill_bwd(saved, g):
    orders, wanted, rate, cover, table = saved
    g_filled = g["filled"] - g["open"]
    g_orders = g["open"] + g_filled * jnp.minimum(cover, 1.0)
    g_cover = jnp.where(cover < 1.0, g_filled * orders, 0.0)
    g_rate = g_cover @ table.T
    g_stock = jnp.where(wanted > 0, g_rate / jnp.where(wanted > 0, wanted, 1.0), 0.0)
    return g_stock, g_orders - (g_stock * rate) @ table


fill_orders.defvjp(_fill_fwd, _fill_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def still_fresh(days, celsius, q10, steep, half_days=9.0):
    """Share of the blooms that are still fresh.

    A Hill curve of the age, of steepness ``steep`` (1 or more), which is one half after ``half_days`` at 4 degrees; the
    flowers age ``q10`` times as fast for every ten degrees more.  Below half a degree they age no slower.
    """
    age = days * q10 ** ((jnp.maximum(celsius, 0.5) - 4.0) / 10.0) / half_days
    return 1.0 / (1.0 + age**steep)


@still_fresh.defjvp
def _still_fresh_jvp(half_days, primals, tangents):
    days, celsius, q10, steep = primals
    d_days, d_celsius, d_q10, d_steep = tangents
    over = (jnp.maximum(celsius, 0.5) - 4.0) / 10.0
    pace = q10**over / half_days
    age = days * pace
    fresh = 1.0 / (1.0 + age**steep)
    d_over = jnp.where(celsius > 0.5, d_celsius, 0.0) / 10.0
    d_age = pace * d_days + age * (jnp.log(q10) * d_over + over * d_q10 / q10)
    log_age = jnp.log(jnp.where(age > 0, age, 1.0))
    d_power = steep * age ** (steep - 1.0) * d_age + age**steep * log_age * d_steep
    return fresh, -(fresh**2) * d_power


def make_van_warming(door_open: Sequence[bool], minutes: float = 10.0, limit: float = 8.0):
    """Model of the delivery round.

    ``door_open`` says for each interval of ``minutes`` whether the van was being unloaded; the load then warms six
    times as fast.  The function that is returned takes the load's temperature at the start (boxes,), the outside
    temperature (intervals,) and the time constant of the closed van in minutes (boxes,), and gives the temperatures
    after each interval (intervals, boxes) and the degree minutes above ``limit`` of each box.
    """
    speed = jnp.where(jnp.asarray(door_open), 6.0, 1.0)

    def run(start, outside, tau):
        def step(load, inp):
            air, fast = inp
            gain = -jnp.expm1(-minutes * fast / tau)
            after = load + gain * (air - load)
            return after, (after, load)

        _, (trace, before) = lax.scan(step, start, (outside, speed))
        return trace, before

    @jax.custom_vjp
    def van_warming(start, outside, tau):
        trace, _ = run(start, outside, tau)
        return trace, minutes * jnp.maximum(trace - limit, 0.0).sum(axis=0)

    def fwd(start, outside, tau):
        trace, before = run(start, outside, tau)
        over = minutes * jnp.maximum(trace - limit, 0.0).sum(axis=0)
        return (trace, over), (trace, before, outside, tau)

    def bwd(saved, g):
        trace, before, outside, tau = saved
        g_trace, g_over = g
        g_trace = g_trace + minutes * g_over * (trace > limit)

        def back(carry, inp):
            g_load, g_tau = carry
            g_here, load, air, fast = inp
            g_after = g_load + g_here
            stay = jnp.exp(-minutes * fast / tau)
            g_gain = g_after * (air - load)
            g_tau = g_tau - g_gain * stay * minutes * fast / tau**2
            return (g_after * stay, g_tau), jnp.sum(g_after * (1.0 - stay))

        zero = jnp.zeros_like(trace[0])
        (g_start, g_tau), g_outside = lax.scan(back, (zero, jnp.zeros_like(tau)), (g_trace, before, outside, speed),
                                               reverse=True)
        return g_start, g_outside, g_tau

    van_warming.defvjp(fwd, bwd)
    return van_warming


if __name__ == "__main__":
    cooler = Cooler(jnp.array([0.98, 0.9, 0.7]), jnp.array([40.0, 30.0, 20.0, 5.0]))
    print(cooler_days(cooler, jnp.array([50.0, 0.0, 60.0])))
    print(fill_orders(jnp.array([10.0, 20.0, 5.0, 8.0]), jnp.array([25.0, 5.0, 10.0, 0.0])))
    print(still_fresh(5.0, 20.0, 2.6, 4.0))
