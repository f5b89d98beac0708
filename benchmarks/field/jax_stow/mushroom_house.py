"""Growing-house model for button mushrooms (Agaricus bisporus).

Covers the three phases the controller plans over: spawn run in the tunnels,
ventilation after airing, and the flushes picked from the shelves.  Everything is
written for calibration by gradient descent against house logs, so each phase has
a closed derivative next to its forward model.

Hours and days as named; carbon dioxide in ppm, air flow in m3/h, yields in kg/m2.
"""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

OUTDOOR_PPM = 420.0

# substrate cardinal temperatures: start, optimum from, optimum to, death
STRAINS = {
    "white_a15": np.array([6.0, 23.5, 26.0, 34.0]),
    "brown_heirloom": np.array([7.0, 22.5, 25.5, 33.0]),
    "bitorquis": np.array([12.0, 28.0, 31.0, 38.0]),
}


# ---------------------------------------------------------------- spawn run


def _growth_rate(temperature, cardinal):
    """Relative mycelial growth rate, a trapezoid over temperature."""
    start, low, high, death = cardinal
    up = (temperature - start) / (low - start)
    down = (death - temperature) / (death - high)
    return jnp.clip(jnp.minimum(jnp.minimum(up, down), 1.0), 0.0, 1.0)


@jax.custom_vjp
def colonised_share(temperature, cardinal, hours_needed, steepness):
    """Colonised share of the substrate at the end of every hour.

    Parameters
    ----------
    temperature : array (trays, hours)
        Bed temperature log.
    cardinal : array (4,)
        Start, low optimum, high optimum and death temperature of the strain.
    hours_needed : scalar
        Hours at the optimum after which 63 % is colonised.
    steepness : scalar
        Weibull exponent, above 1.

    Returns
    -------
    array (trays, hours)
    """
    rate = _growth_rate(temperature, cardinal)
    progress = jnp.cumsum(rate, axis=1) / hours_needed
    return -jnp.expm1(-(progress**steepness))


def _colonised_fwd(temperature, cardinal, hours_needed, steepness):
    rate = _growth_rate(temperature, cardinal)
    progress = jnp.cumsum(rate, axis=1) / hours_needed
    left = jnp.exp(-(progress**steepness))
    return 1.0 - left, (temperature, cardinal, hours_needed, steepness, progress, left)


def _colonised_bwd(res, ct):
    temperature, cardinal, hours_needed, steepness, progress, left = res
    start, low, high, death = cardinal
    d_power = ct * left
    d_progress = d_power * steepness * progress ** (steepness - 1.0)
    begun = progress > 0.0
    log_progress = jnp.log(jnp.where(begun, progress, 1.0))
    d_steepness = jnp.sum(d_power * progress**steepness * log_progress)
    d_hours = -jnp.sum(d_progress * progress) / hours_needed
    later = jnp.flip(jnp.cumsum(jnp.flip(d_progress, axis=1), axis=1), axis=1)
    d_rate = later / hours_needed

    rise = (temperature > start) & (temperature < low)
    fall = (temperature > high) & (temperature < death)
    g_rise = jnp.where(rise, d_rate, 0.0)
    g_fall = jnp.where(fall, d_rate, 0.0)
    span_up, span_down = low - start, death - high
    d_temperature = g_rise / span_up - g_fall / span_down
    d_cardinal = jnp.stack(
        [
            jnp.sum(g_rise * (temperature - low)) / span_up**2,
            -jnp.sum(g_rise * (temperature - start)) / span_up**2,
            jnp.sum(g_fall * (death - temperature)) / span_down**2,
            jnp.sum(g_fall * (temperature - high)) / span_down**2,
        ]
    )
    return d_temperature, d_cardinal, d_hours, d_steepness


colonised_share.defvjp(_colonised_fwd, _colonised_bwd)


def casing_hour(temperature, strain, hours_needed=190.0, steepness=2.4, ready=0.95):
    """First hour in which a tray can be cased, or the log length."""
    share = colonised_share(
        temperature,
        jnp.asarray(STRAINS[strain]),
        jnp.asarray(hours_needed),
        jnp.asarray(steepness),
    )
    done = share >= ready
    return jnp.where(jnp.any(done, axis=1), jnp.argmax(done, axis=1), share.shape[1])


# ---------------------------------------------------------------- ventilation


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def carbon_dioxide_trace(room, initial, release, fan, dt):
    """Carbon dioxide of the growing rooms, explicit steps of ``dt`` hours.

    ``room`` is a dict with ``volume`` (rooms,), ``leak`` (rooms,) and the scalar
    ``outdoor``.  ``initial`` is (rooms,); ``release`` (ppm m3/h given off by the
    beds) and ``fan`` are (steps, rooms).  The returned trace is (steps + 1, rooms)
    and begins with ``initial``.
    """

    def step(ppm, drive):
        given, blown = drive
        loss = (blown + room["leak"]) * (ppm - room["outdoor"])
        ppm = ppm + dt / room["volume"] * (given - loss)
        return ppm, ppm

    _, trace = jax.lax.scan(step, initial, (release, fan))
    return jnp.concatenate([initial[None], trace], axis=0)


def _trace_fwd(room, initial, release, fan, dt):
    trace = carbon_dioxide_trace(room, initial, release, fan, dt)
    return trace, (room, release, fan, trace)


def _trace_bwd(dt, res, ct):
    room, release, fan, trace = res
    per_step = dt / room["volume"]
    exchange = fan + room["leak"]

    def step(adjoint, inputs):
        ct_before, swap = inputs
        before = ct_before + adjoint * (1.0 - per_step * swap)
        return before, adjoint

    d_initial, adjoint = jax.lax.scan(step, ct[-1], (ct[:-1], exchange), reverse=True)
    excess = trace[:-1] - room["outdoor"]
    pushed = adjoint * per_step
    d_fan = -pushed * excess
    net = release - exchange * excess
    d_room = {
        "volume": -jnp.sum(pushed * net, axis=0) / room["volume"],
        "leak": jnp.sum(d_fan, axis=0),
        "outdoor": jnp.sum(pushed * exchange),
    }
    return d_room, d_initial, pushed, d_fan


carbon_dioxide_trace.defvjp(_trace_fwd, _trace_bwd)


def plan_fans(room, initial, release, setpoint, dt=0.25, steps=60, rate=4.0):
    """Fan programme that follows ``setpoint`` with little blowing."""

    def cost(raw):
        fan = jax.nn.softplus(raw)
        trace = carbon_dioxide_trace(room, initial, release, fan, dt)
        miss = (trace[1:] - setpoint) / 100.0
        return jnp.mean(miss**2) + 1e-5 * jnp.mean(fan**2)

    raw = jnp.full(release.shape, 50.0)
    slope = jax.jit(jax.grad(cost))
    for _ in range(steps):
        raw = raw - rate * slope(raw)
    return jax.nn.softplus(raw)


# ---------------------------------------------------------------- flushes


class Flushing(NamedTuple):
    """Shape of the cropping curve.

    The first flush carries ``first_yield``; every later one is ``decline`` times
    the one before.  Peaks are ``period`` days apart and ``width`` days wide.
    """

    first_yield: jax.Array
    decline: jax.Array
    first_day: jax.Array
    period: jax.Array
    width: jax.Array


def _pulse(days, shape, flush):
    lag = (days - shape.first_day - flush * shape.period) / shape.width
    return lag, jnp.exp(-0.5 * lag**2) / (shape.width * jnp.sqrt(2.0 * jnp.pi))


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def daily_pick(days, shape, flushes=2):
    """Expected pick per day.  ``flushes`` counts flushes kept before cook-out."""
    total = jnp.zeros_like(days)
    for flush in range(flushes):
        _, pulse = _pulse(days, shape, flush)
        total = total + shape.first_yield * shape.decline**flush * pulse
    return total


@daily_pick.defjvp
def _daily_pick_jvp(flushes, primals, tangents):
    days, shape = primals
    d_days, d_shape = tangents
    total = jnp.zeros_like(days)
    d_total = jnp.zeros_like(days)
    for flush in range(flushes):
        lag, pulse = _pulse(days, shape, flush)
        share = shape.decline**flush
        crop = shape.first_yield * share
        total = total + crop * pulse
        d_crop = d_shape.first_yield * share
        if flush > 0:
            d_crop = d_crop + shape.first_yield * shape.decline ** (flush - 1) * d_shape.decline
        d_lag = (
            d_days - d_shape.first_day - flush * d_shape.period - lag * d_shape.width
        ) / shape.width
        d_pulse = -pulse * (lag * d_lag + d_shape.width / shape.width)
        d_total = d_total + d_crop * pulse + crop * d_pulse
    return total, d_total


@dataclass
class PickLog:
    """Observed picks of one house."""

    days: np.ndarray
    picked: np.ndarray
    flushes: int = 2

    def misfit(self, shape):
        predicted = daily_pick(jnp.asarray(self.days), shape, self.flushes)
        return jnp.sum((predicted - jnp.asarray(self.picked)) ** 2)


def calibrate(log, shape, steps=100, rate=0.01):
    slope = jax.jit(jax.grad(log.misfit))
    for _ in range(steps):
        shape = jax.tree_util.tree_map(lambda p, g: p - rate * g, shape, slope(shape))
    return shape


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    beds = jnp.asarray(24.0 + 3.0 * rng.standard_normal((5, 336)))
    print("case at hour", casing_hour(beds, "white_a15"))

    room = {
        "volume": jnp.array([420.0, 420.0, 610.0]),
        "leak": jnp.array([20.0, 25.0, 30.0]),
        "outdoor": jnp.asarray(OUTDOOR_PPM),
    }
    release = jnp.full((48, 3), 6.0e4)
    fans = plan_fans(room, jnp.full(3, 2500.0), release, 1200.0)
    print("fan programme", fans[::12])

    shape = Flushing(*(jnp.asarray(v) for v in (14.0, 0.7, 19.0, 8.0, 1.4)))
    days = np.arange(14.0, 36.0)
    seen = np.asarray(daily_pick(jnp.asarray(days), shape)) + 0.1 * rng.standard_normal(days.size)
    print(calibrate(PickLog(days, seen), shape._replace(decline=jnp.asarray(0.6))))
