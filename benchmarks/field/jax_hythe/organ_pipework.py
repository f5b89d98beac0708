"""Differentiable helpers for laying out and regulating the flue pipework of an organ.

The routines here are used by the layout notebook to fit scales (diameters, cut-ups,
mouth widths) to a target temperament, to balance the wind system against the stops
that a player is likely to draw, and to shape the response of the swell shades.

Conventions
-----------
* lengths in metres, pressures in pascal, levels in decibel,
* arrays of pipes run over the last axis,
* a "rank" is one row of pipes, a "stop" may call on several ranks.
"""

from __future__ import annotations

import functools
from typing import NamedTuple, Sequence

import jax
import jax.numpy as jnp
import numpy as np

GAS_CONSTANT_AIR = 287.05
HEAT_RATIO = 1.4
AIR_DENSITY = 1.2
KELVIN = 273.15

OPEN_END_COEFFICIENT = 0.3     # times the diameter
MOUTH_COEFFICIENT = 0.73       # times cross section over the square root of mouth area
SILENCE_DB = -120.0
NEWTON_STEPS = 40

LN10_OVER_10 = float(np.log(10.0) / 10.0)


class PipeScale(NamedTuple):
    """Dimensions of a rank; every field has one entry per pipe."""

    length: jax.Array
    diameter: jax.Array
    mouth_width: jax.Array
    cutup: jax.Array


def speed_of_sound(celsius):
    return jnp.sqrt(HEAT_RATIO * GAS_CONSTANT_AIR * (celsius + KELVIN))


def _end_corrections(scale: PipeScale):
    """Open-end and mouth corrections (both in metres) of every pipe."""
    mouth_area = scale.mouth_width * scale.cutup
    section = 0.25 * jnp.pi * scale.diameter ** 2
    at_mouth = MOUTH_COEFFICIENT * section / jnp.sqrt(mouth_area)
    at_top = OPEN_END_COEFFICIENT * scale.diameter
    return at_top, at_mouth


# --------------------------------------------------------------------------------------
# pitch
# --------------------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def pipe_pitch(scale: PipeScale, celsius, stopped: bool = False):
    """Fundamental frequency of flue pipes.

    Parameters
    ----------
    scale : PipeScale
        Fields of shape ``(n_pipes,)``.
    celsius : float or array broadcastable against the fields
        Temperature of the wind.
    stopped : bool
        True for pipes closed by a stopper (Gedackt, Bourdon), which sound an octave
        below an open pipe of the same length and have no open end.

    Returns
    -------
    array of shape ``(n_pipes,)``, in hertz.
    """
    at_top, at_mouth = _end_corrections(scale)
    if stopped:
        return speed_of_sound(celsius) / (4.0 * (scale.length + at_mouth))
    return speed_of_sound(celsius) / (2.0 * (scale.length + at_mouth + at_top))


@pipe_pitch.defjvp
def _pipe_pitch_jvp(stopped, primals, tangents):
    scale, celsius = primals
    d_scale, d_celsius = tangents
    pitch = pipe_pitch(scale, celsius, stopped)

    at_top, at_mouth = _end_corrections(scale)
    effective = scale.length + at_mouth + (0.0 if stopped else at_top)

    d_mouth = at_mouth * (
        2.0 * d_scale.diameter / scale.diameter
        - 0.5 * d_scale.mouth_width / scale.mouth_width
        - 0.5 * d_scale.cutup / scale.cutup
    )
    d_effective = d_scale.length + d_mouth + OPEN_END_COEFFICIENT * d_scale.diameter
    relative = 0.5 * d_celsius / (celsius + KELVIN) - d_effective / effective
    return pitch, pitch * relative


def cents_off(scale, celsius, target_hz, stopped=False):
    return 1200.0 * jnp.log2(pipe_pitch(scale, celsius, stopped) / target_hz)


def tuning_loss(ranks, celsius, targets):
    """Sum of squared cents over ranks.

    Args:
      ranks: dict name -> (PipeScale, stopped).
      celsius: temperature of the room.
      targets: dict name -> target frequencies.
    """
    total = 0.0
    for name, (scale, stopped) in ranks.items():
        total = total + jnp.mean(cents_off(scale, celsius, targets[name], stopped) ** 2)
    return total


# --------------------------------------------------------------------------------------
# wind
# --------------------------------------------------------------------------------------


def _demand(root, conductance, leak):
    return conductance * root + leak * root ** 2


def _settle(supply, conductance, trunk, leak):
    """Newton iteration on the square root of the chest pressure."""

    def body(_, root):
        flow = _demand(root, conductance, leak)
        slope = conductance + 2.0 * leak * root
        value = root ** 2 + trunk * flow ** 2 - supply
        return root - value / (2.0 * root + 2.0 * trunk * flow * slope)

    return jax.lax.fori_loop(0, NEWTON_STEPS, body, jnp.sqrt(supply))


@jax.custom_vjp
def chest_pressure(openings, supply, wind):
    """Steady pressure in a windchest while a chord is held.

    The reservoir delivers ``supply`` at rest; the trunk drops ``trunk * flow**2``, and
    the flow is that of all open toe holes plus a leak proportional to the pressure.

    openings: (chords, pipes) with values in [0, 1], how far each pallet is open
    supply: (chords,)
    wind: {"toe_area": (pipes,), "trunk": (), "leak": ()}
    """
    conductance = openings @ wind["toe_area"] * jnp.sqrt(2.0 / AIR_DENSITY)
    return _settle(supply, conductance, wind["trunk"], wind["leak"]) ** 2


def _chest_fwd(openings, supply, wind):
    pressure = chest_pressure(openings, supply, wind)
    return pressure, (openings, wind, pressure)


def _chest_bwd(residuals, g):
    openings, wind, pressure = residuals
    speed = jnp.sqrt(2.0 / AIR_DENSITY)
    conductance = openings @ wind["toe_area"] * speed
    trunk, leak = wind["trunk"], wind["leak"]

    root = jnp.sqrt(pressure)
    flow = _demand(root, conductance, leak)
    flow_slope = 0.5 * conductance / root + leak
    stiffness = 1.0 + 2.0 * trunk * flow * flow_slope
    adjoint = g / stiffness

    g_flow = -2.0 * trunk * flow * adjoint
    g_conductance = g_flow * root
    g_openings = speed * g_conductance[:, None] * wind["toe_area"][None, :]
    g_wind = {
        "toe_area": speed * (g_conductance @ openings),
        "trunk": -jnp.sum(adjoint * flow ** 2),
        "leak": jnp.sum(g_flow * pressure),
    }
    return g_openings, adjoint, g_wind


chest_pressure.defvjp(_chest_fwd, _chest_bwd)


def sag_penalty(openings, supply, wind, tolerated=20.0):
    """Squared sag (Pa) in excess of what the voicer tolerates."""
    sag = supply - chest_pressure(openings, supply, wind)
    return jnp.mean(jnp.square(jnp.maximum(sag - tolerated, 0.0)))


# --------------------------------------------------------------------------------------
# registration
# --------------------------------------------------------------------------------------


def build_registration(stop_ranks: Sequence[Sequence[int]], n_ranks: int):
    """Level of a registration on an instrument with borrowed and compound stops.

    ``stop_ranks[s]`` lists the ranks that stop ``s`` plays; -1 pads shorter stops.
    Stops may borrow the same rank, and each then counts in full (it plays at another
    pitch).
    """
    table = np.asarray(stop_ranks, dtype=np.int32)
    present = table >= 0
    flat = np.where(present, table, 0)

    @jax.custom_vjp
    def level(rank_db, drawn):
        """Total level (combinations,) from rank levels (n_ranks,), drawn (combinations, stops)."""
        power = jnp.where(present, jnp.exp(LN10_OVER_10 * rank_db[flat]), 0.0).sum(-1)
        total = jnp.where(drawn, power, 0.0).sum(-1)
        sounding = total > 0.0
        return jnp.where(sounding, jnp.log(jnp.where(sounding, total, 1.0)) / LN10_OVER_10,
                         SILENCE_DB)

    def forward(rank_db, drawn):
        power = jnp.where(present, jnp.exp(LN10_OVER_10 * rank_db[flat]), 0.0)
        total = jnp.where(drawn, power.sum(-1), 0.0).sum(-1)
        return level(rank_db, drawn), (power, total, drawn)

    def backward(res, g):
        power, total, drawn = res
        scaled = jnp.where(total > 0.0, g / jnp.where(total > 0.0, total, 1.0), 0.0)
        per_stop = jnp.sum(jnp.where(drawn, scaled[:, None], 0.0), axis=0)
        contribution = power * per_stop[:, None]
        g_rank = jnp.zeros(n_ranks, power.dtype).at[flat.ravel()].add(contribution.ravel())
        return g_rank, None

    level.defvjp(forward, backward)
    return level


# --------------------------------------------------------------------------------------
# swell box
# --------------------------------------------------------------------------------------


def make_swell_box(stations):
    """Attenuation of a swell box against the position of the pedal.

    Args:
      stations: increasing pedal positions in [0, 1] at which the builder measured the
        box. Shades move little near the closed end, so builders usually crowd the
        stations there.

    Returns:
      ``attenuation(pedal, measured_db)``: piecewise linear in the pedal and held
      constant outside of the stations. ``pedal`` may have any shape.
    """
    stations = jnp.asarray(stations)
    last = stations.shape[0] - 2

    def locate(pedal):
        cell = jnp.clip(jnp.searchsorted(stations, pedal, side="right") - 1, 0, last)
        within = (pedal - stations[cell]) / (stations[cell + 1] - stations[cell])
        return cell, jnp.clip(within, 0.0, 1.0)

    @jax.custom_vjp
    def attenuation(pedal, measured_db):
        cell, within = locate(pedal)
        return (1.0 - within) * measured_db[cell] + within * measured_db[cell + 1]

    def attenuation_fwd(pedal, measured_db):
        return attenuation(pedal, measured_db), (pedal, measured_db)

    def attenuation_bwd(saved, g):
        pedal, measured_db = saved
        cell, within = locate(pedal)
        inside = (pedal > stations[0]) & (pedal < stations[-1])
        pitch = (stations[-1] - stations[0]) / (last + 1)
        rise = (measured_db[cell + 1] - measured_db[cell]) / pitch
        g_pedal = jnp.where(inside, g * rise, 0.0)
        g_measured = jnp.zeros_like(measured_db)
        g_measured = g_measured.at[cell].add(g * (1.0 - within))
        g_measured = g_measured.at[cell + 1].add(g * within)
        return g_pedal, g_measured

    attenuation.defvjp(attenuation_fwd, attenuation_bwd)
    return attenuation


class SwellDivision:
    """A division whose stops sit in a box with shades."""

    def __init__(self, stop_ranks, n_ranks, stations):
        self.level = build_registration(stop_ranks, n_ranks)
        self.box = make_swell_box(stations)

    def init(self, key):
        return {
            "rank_db": 60.0 + 4.0 * jax.random.normal(key, (self.n_ranks_hint(),)),
            "measured_db": jnp.array([-22.0, -17.0, -9.0, -4.0, 0.0]),
        }

    def n_ranks_hint(self):
        return 4

    def __call__(self, params, drawn, pedal):
        return self.level(params["rank_db"], drawn) + self.box(pedal, params["measured_db"])


if __name__ == "__main__":
    principal = PipeScale(
        length=jnp.array([1.18, 0.98, 0.72]),
        diameter=jnp.array([0.083, 0.071, 0.055]),
        mouth_width=jnp.array([0.062, 0.053, 0.041]),
        cutup=jnp.array([0.017, 0.0145, 0.011]),
    )
    print(pipe_pitch(principal, 18.0), pipe_pitch(principal, 18.0, True))

    division = SwellDivision([[0, -1, -1], [1, 2, -1], [1, 2, 3]], 4, [0.0, 0.08, 0.2, 0.5, 1.0])
    params = division.init(jax.random.PRNGKey(0))
    drawn = jnp.array([[True, False, True], [False, True, True]])
    pedal = jnp.array([0.15, 0.7])
    print(jax.grad(lambda p: jnp.sum(division(p, drawn, pedal)))(params))
