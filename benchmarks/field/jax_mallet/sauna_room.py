"""Reduced-order model of a wood or electrically heated sauna.

The room is split in three parts which are coupled only loosely:

* the stone pile of the heater, a handful of lumped layers that are charged by
  the heater and quenched by ladles of water;
* the air column, logged by a mast of thermocouples and interpolated to the
  heights of the benches;
* the bather, for whom an apparent temperature and an equivalent thermal dose
  are computed.

The parameters are calibrated against logged sessions by gradient descent, so
that all four pieces carry derivatives that are cheap to evaluate on the logger
board (no tape through the time loop, no gathers through ``searchsorted``).

Temperatures are in degrees Celsius, heights in metres, power in kW, time in
minutes unless a name says otherwise.
"""

import functools
from typing import Dict, NamedTuple, Sequence

import jax
import jax.numpy as jnp
import numpy as np

ROOM_AIR = 20.0            # dressing-room air that the stones relax to
BOILING = 100.0            # stones below this do not flash the water
QUENCH_PER_LADLE = 0.045   # fraction of the superheat removed per decilitre

MAGNUS_A = 17.625
MAGNUS_B = 243.04
MAGNUS_C = 0.61094         # kPa

SKIN_TEMPERATURE = 36.5
SKIN_VAPOUR = 6.1          # kPa, wet skin
LEWIS = 16.5               # K / kPa
CONVECTION = 3.1           # W m-2 K-1 (m/s)^-0.6
STILL_AIR = 0.15           # m/s, natural draught along a seated body
REFERENCE_FILM = 12.0      # W m-2 K-1

DOSE_REFERENCE = 43.0
RATE_ABOVE = 0.5
RATE_BELOW = 0.25
LN_ABOVE = float(np.log(RATE_ABOVE))

MAST_HEIGHTS = (0.1, 0.6, 1.1, 1.7, 2.2)
BENCH_HEIGHTS = (0.45, 0.95, 1.45)


class StoneParams(NamedTuple):
    """Lumped stone layers, bottom to top."""

    share: jnp.ndarray      # (layers,) K per kW and step
    retention: jnp.ndarray  # (layers,) fraction of the excess kept per step
    start: jnp.ndarray      # (layers,)


class BatherParams(NamedTuple):
    airspeed: jnp.ndarray
    insulation: jnp.ndarray


# --------------------------------------------------------------------------
# Stones
# --------------------------------------------------------------------------


def _stone_step(state, power, water, share, retention):
    superheat = jnp.maximum(state - BOILING, 0.0)
    kept = ROOM_AIR + retention * (state - ROOM_AIR)
    return kept + power * share - QUENCH_PER_LADLE * water * superheat


@jax.custom_vjp
def stone_temperatures(power, water, share, retention, start):
    """Temperatures of the stone layers after every step.

    Args:
      power: heater power per step, ``(steps,)``.
      water: decilitres of water thrown in the step, ``(steps,)``.
      share: temperature rise per kW and step for every layer, ``(layers,)``.
      retention: per-layer retention factor in (0, 1), ``(layers,)``.
      start: initial layer temperatures, ``(layers,)``.

    Returns:
      Array ``(steps, layers)``.
    """

    def step(state, inputs):
        nxt = _stone_step(state, inputs[0], inputs[1], share, retention)
        return nxt, nxt

    return jax.lax.scan(step, start, (power, water))[1]


def _stone_temperatures_fwd(power, water, share, retention, start):
    temps = stone_temperatures(power, water, share, retention, start)
    before = jnp.concatenate([start[None], temps[:-1]], axis=0)
    return temps, (power, water, share, retention, before)


def _stone_temperatures_bwd(res, g):
    power, water, share, retention, before = res
    hot = (before > BOILING).astype(before.dtype)

    def back(carry, inputs):
        g_t, p, w, s, h = inputs
        lam = g_t + carry
        grads = (
            jnp.sum(lam * share),
            -QUENCH_PER_LADLE * jnp.sum(lam * h * (s - BOILING)),
            lam * p,
            lam * (s - ROOM_AIR),
        )
        return lam * (retention - QUENCH_PER_LADLE * w * h), grads

    g_start, (g_power, g_water, g_share, g_ret) = jax.lax.scan(
        back, jnp.zeros_like(share), (g, power, water, before, hot), reverse=True)
    return g_power, g_water, g_share.sum(0), g_ret.sum(0), g_start


stone_temperatures.defvjp(_stone_temperatures_fwd, _stone_temperatures_bwd)


# --------------------------------------------------------------------------
# Air column
# --------------------------------------------------------------------------


def _locate(mast, heights):
    low = jnp.clip(jnp.searchsorted(mast, heights, side="right") - 1,
                   0, mast.shape[0] - 2)
    gap = mast[low + 1] - mast[low]
    raw = (heights - mast[low]) / gap
    return low, gap, raw


@jax.custom_vjp
def bench_air_temperature(mast, column, heights):
    """Air temperature at given heights from a mast of thermocouples.

    The column is taken as piecewise linear between thermocouples and constant
    below the lowest and above the highest.

    Parameters
    ----------
    mast : (knots,) ascending thermocouple heights
    column : (time, knots) readings
    heights : (spots,) heights wanted, in any order

    Returns
    -------
    (time, spots)
    """
    low, _, raw = _locate(mast, heights)
    frac = jnp.clip(raw, 0.0, 1.0)
    return column[:, low] * (1.0 - frac) + column[:, low + 1] * frac


def _bench_fwd(mast, column, heights):
    return bench_air_temperature(mast, column, heights), (mast, column, heights)


def _bench_bwd(res, g):
    mast, column, heights = res
    low, gap, raw = _locate(mast, heights)
    frac = jnp.clip(raw, 0.0, 1.0)
    inside = ((raw > 0.0) & (raw < 1.0)).astype(column.dtype)

    zeros = jnp.zeros_like(column)
    g_column = (zeros.at[:, low].set(g * (1.0 - frac))
                + zeros.at[:, low + 1].set(g * frac))

    g_frac = jnp.sum(g * (column[:, low + 1] - column[:, low]), axis=0) * inside
    g_heights = g_frac / gap
    g_mast = (jnp.zeros_like(mast)
              .at[low].add(g_frac * (frac - 1.0) / gap)
              .at[low + 1].add(-g_frac * frac / gap))
    return g_mast, g_column, g_heights


bench_air_temperature.defvjp(_bench_fwd, _bench_bwd)


# --------------------------------------------------------------------------
# Bather
# --------------------------------------------------------------------------


def saturation_pressure(temp):
    """Magnus formula, kPa."""
    return MAGNUS_C * jnp.exp(MAGNUS_A * temp / (temp + MAGNUS_B))


def _film(airspeed):
    return CONVECTION * (STILL_AIR + airspeed) ** 0.6


@jax.custom_jvp
def apparent_heat(temp, rel_humidity, airspeed):
    """Apparent temperature on wet skin; all three broadcast elementwise."""
    film = _film(airspeed)
    vapour = rel_humidity * saturation_pressure(temp)
    load = film * ((temp - SKIN_TEMPERATURE) + LEWIS * (vapour - SKIN_VAPOUR))
    return temp + load / REFERENCE_FILM


def _apparent_dtemp(t, ans, temp, rel_humidity, airspeed):
    slope = (saturation_pressure(temp) * MAGNUS_A * MAGNUS_B
             / (temp + MAGNUS_B) ** 2)
    gain = 1.0 + LEWIS * rel_humidity * slope
    return t * (1.0 + _film(airspeed) * gain / REFERENCE_FILM)


def _apparent_dhumidity(t, ans, temp, rel_humidity, airspeed):
    return t * LEWIS * saturation_pressure(temp) * _film(airspeed) / REFERENCE_FILM


def _apparent_dspeed(t, ans, temp, rel_humidity, airspeed):
    return t * 0.6 * (ans - temp) / (STILL_AIR + airspeed)


apparent_heat.defjvps(_apparent_dtemp, _apparent_dhumidity, _apparent_dspeed)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def session_heat_dose(skin, step=1.0, axis=-1):
    """Cumulative equivalent minutes at 43 C along ``axis``.

    A minute at ``T`` counts ``R ** (43 - T)`` minutes, with ``R`` one half from
    43 C upwards and one quarter below. ``skin`` may have any rank, for example
    (bathers, sites, time).
    """
    rate = jnp.where(skin >= DOSE_REFERENCE, RATE_ABOVE, RATE_BELOW)
    return jnp.sum(step * rate ** (DOSE_REFERENCE - skin), axis=axis)


def _dose_fwd(skin, step, axis):
    rate = jnp.where(skin >= DOSE_REFERENCE, RATE_ABOVE, RATE_BELOW)
    minutes = step * rate ** (DOSE_REFERENCE - skin)
    return jnp.sum(minutes, axis=axis), minutes


def _dose_bwd(step, axis, minutes, g):
    return (-LN_ABOVE * jnp.expand_dims(g, axis) * minutes,)


session_heat_dose.defvjp(_dose_fwd, _dose_bwd)


# --------------------------------------------------------------------------
# Session
# --------------------------------------------------------------------------


class SaunaSession:
    """One logged evening: couples stones, air and bathers."""

    def __init__(self, mast: Sequence[float] = MAST_HEIGHTS,
                 benches: Sequence[float] = BENCH_HEIGHTS, step: float = 1.0):
        self.mast = jnp.asarray(mast)
        self.benches = jnp.asarray(benches)
        self.step = step

    def init(self, layers: int = 4) -> Dict[str, NamedTuple]:
        ramp = jnp.linspace(0.6, 1.0, layers)
        return {
            "stones": StoneParams(share=1.1 * ramp,
                                  retention=0.985 - 0.01 * ramp,
                                  start=60.0 + 120.0 * ramp),
            "bather": BatherParams(airspeed=jnp.asarray(0.1),
                                   insulation=jnp.asarray(0.08)),
        }

    def stones(self, params, power, water):
        p = params["stones"]
        return stone_temperatures(power, water, p.share, p.retention, p.start)

    def felt(self, params, column, humidity):
        """(time, benches) apparent temperature from the mast and a hygrometer."""
        air = bench_air_temperature(self.mast, column, self.benches)
        return apparent_heat(air, humidity[:, None], params["bather"].airspeed)

    def dose(self, params, column, humidity):
        """Equivalent minutes per bench."""
        felt = self.felt(params, column, humidity)
        skin = SKIN_TEMPERATURE + params["bather"].insulation * (felt - SKIN_TEMPERATURE)
        return session_heat_dose(skin.T, self.step, -1)

    def misfit(self, params, log):
        top = self.stones(params, log["power"], log["water"])[:, -1]
        felt = self.felt(params, log["column"], log["humidity"])
        return (jnp.mean((top - log["stone_probe"]) ** 2)
                + 0.1 * jnp.mean((felt - log["votes"]) ** 2)
                + 1e-3 * jnp.sum(self.dose(params, log["column"], log["humidity"])))


def synthetic_log(steps=30, seed=0):
    """A made-up evening of ``steps`` minutes."""
    rng = np.random.default_rng(seed)
    water = np.where(np.arange(steps) % 7 == 3, 2.0, 0.0)
    air = 35.0 + 12.0 * np.asarray(MAST_HEIGHTS) ** 1.3
    return {
        "power": jnp.asarray(6.0 + rng.normal(0, 0.3, steps)),
        "water": jnp.asarray(water),
        "column": jnp.asarray(air + rng.normal(0, 0.5, (steps, len(MAST_HEIGHTS)))),
        "humidity": jnp.asarray(rng.uniform(0.1, 0.35, steps)),
        "stone_probe": jnp.asarray(180.0 + rng.normal(0, 4.0, steps)),
        "votes": jnp.asarray(rng.uniform(45, 70, (steps, len(BENCH_HEIGHTS)))),
    }


def calibrate(session, log, rounds=5, rate=1e-8):
    params = session.init()
    grad = jax.jit(jax.value_and_grad(session.misfit))
    for _ in range(rounds):
        value, g = grad(params, log)
        params = jax.tree_util.tree_map(lambda p, d: p - rate * d, params, g)
    return params, value


if __name__ == "__main__":
    fitted, loss = calibrate(SaunaSession(), synthetic_log())
    print("misfit", float(loss))
    print("retention", fitted["stones"].retention)
