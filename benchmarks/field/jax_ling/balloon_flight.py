"""Flight mechanics of hot-air balloons for trajectory fitting.

The module covers what we need to reconstruct competition flights from logger
files: buoyancy of an envelope whose hot gas is split into stacked cells, heat
loss of the fabric between two burner pulses, the flow through the parachute
vent, and the drift over ground in a wind sounding given on equidistant levels.

Everything is written in SI units; temperatures are absolute.  The functions
are used under ``jax.jit`` inside a least-squares fit with a few hundred flights
per batch, hence the derivatives are spelled out rather than traced: the
sounding lookups and the long burner logs dominated the compile time.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

GRAVITY = 9.80665
GAS_CONSTANT_AIR = 287.053
SEA_LEVEL_PRESSURE = 101325.0
SEA_LEVEL_TEMPERATURE = 288.15
LAPSE_RATE = 0.0065
PRESSURE_EXPONENT = 5.2559

VENT_DISCHARGE = 0.62
VENT_SOFT_PRESSURE = 0.5  # Pa, keeps the orifice law differentiable at rest
MAX_FABRIC_TEMPERATURE = 397.0


class BurnerParams(NamedTuple):
    """Thermal constants of one envelope."""

    time_constant: jax.Array  # s
    gain: jax.Array  # K per unit of burner valve opening and step


class FlightLog(NamedTuple):
    burns: jax.Array  # (steps,)
    ambient: jax.Array  # (steps,)
    altitude: jax.Array  # (steps,)


# ---------------------------------------------------------------------------
# Standard atmosphere
# ---------------------------------------------------------------------------


def ambient_pressure(altitude):
    """Barometric pressure of the standard troposphere."""
    base = 1.0 - LAPSE_RATE * altitude / SEA_LEVEL_TEMPERATURE
    return SEA_LEVEL_PRESSURE * base**PRESSURE_EXPONENT


def ambient_temperature(altitude, offset=0.0):
    return SEA_LEVEL_TEMPERATURE + offset - LAPSE_RATE * altitude


def air_density(pressure, temperature):
    return pressure / (GAS_CONSTANT_AIR * temperature)


def celsius(kelvin):
    return kelvin - 273.15


# ---------------------------------------------------------------------------
# Buoyancy
# ---------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Envelope:
    """Stacked-cell description of an envelope.

    Attributes:
        cell_names: One label per cell, crown first.
        isa_offset: Deviation of the day's temperature from the standard, K.
    """

    cell_names: tuple[str, ...] = ("crown", "equator", "mouth")
    isa_offset: float = 0.0

    def bind(self):
        """Return ``net_lift(volumes, temperatures, altitude)`` for this day."""

        offset = self.isa_offset

        @jax.custom_vjp
        def net_lift(volumes, temperatures, altitude):
            """Gross lift in newtons.

            Args:
                volumes: Gas volume of the cells, ``[cells]``.
                temperatures: Gas temperature per flight and cell,
                    ``[flights, cells]``.
                altitude: Height above sea level, ``[flights]``.

            Returns:
                Lift of every flight, ``[flights]``.
            """
            pressure = ambient_pressure(altitude)
            outside = air_density(pressure, ambient_temperature(altitude, offset))
            inside = air_density(pressure[:, None], temperatures)
            return GRAVITY * jnp.sum(volumes * (outside[:, None] - inside), axis=-1)

        def net_lift_fwd(volumes, temperatures, altitude):
            pressure = ambient_pressure(altitude)
            outside_t = ambient_temperature(altitude, offset)
            outside = air_density(pressure, outside_t)
            inside = air_density(pressure[:, None], temperatures)
            deficit = outside[:, None] - inside
            lift = GRAVITY * jnp.sum(volumes * deficit, axis=-1)
            saved = (volumes, temperatures, altitude, outside, inside, outside_t, deficit)
            return lift, saved

        def net_lift_bwd(saved, lift_bar):
            volumes, temperatures, altitude, outside, inside, outside_t, deficit = saved
            weight = GRAVITY * lift_bar

            # cells are shared by all flights
            volumes_bar = jnp.mean(deficit, axis=0) * jnp.sum(weight)

            temperatures_bar = weight[:, None] * volumes * inside / temperatures

            log_slope = -PRESSURE_EXPONENT * LAPSE_RATE / (
                SEA_LEVEL_TEMPERATURE - LAPSE_RATE * altitude
            )
            outside_slope = outside * (log_slope + LAPSE_RATE / outside_t)
            inside_slope = inside * log_slope[:, None]
            altitude_bar = weight * jnp.sum(
                volumes * (outside_slope[:, None] - inside_slope), axis=-1
            )
            return volumes_bar, temperatures_bar, altitude_bar

        net_lift.defvjp(net_lift_fwd, net_lift_bwd)
        return net_lift


# ---------------------------------------------------------------------------
# Envelope heat balance
# ---------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def pulse_response(step, burner, start, burns, ambient):
    """Gas temperature after every step of a burner log.

    Parameters
    ----------
    step : float
        Sampling interval of the log in seconds.
    burner : BurnerParams
    start : scalar
        Temperature before the first sample.
    burns, ambient : (steps,)
        Valve opening and outside temperature.

    Returns
    -------
    (steps,) array
    """
    keep = jnp.exp(-step / burner.time_constant)

    def advance(gas, sample):
        burn, outside = sample
        gas = outside + (gas - outside) * keep + burner.gain * burn
        return gas, gas

    _, path = jax.lax.scan(advance, start, (burns, ambient))
    return path


@pulse_response.defjvp
def _pulse_response_jvp(step, primals, tangents):
    burner, start, burns, ambient = primals
    d_burner, d_start, d_burns, d_ambient = tangents
    path = pulse_response(step, burner, start, burns, ambient)

    keep = jnp.exp(-step / burner.time_constant)
    d_keep = keep * step / burner.time_constant**2 * d_burner.time_constant
    before = jnp.concatenate([jnp.reshape(start, (1,)), path[:-1]])
    source = (
        (1.0 - keep) * d_ambient
        + (before - ambient) * d_keep
        + burner.gain * d_burns
        + d_burner.gain * burns
    )

    def advance(d_gas, d_source):
        d_gas = keep * d_gas + d_source
        return d_gas, d_gas

    _, d_path = jax.lax.scan(advance, d_start, source)
    return path, d_path


# ---------------------------------------------------------------------------
# Vent
# ---------------------------------------------------------------------------


def _orifice(head):
    """head / (head^2 + s^2)^(1/4), an odd square root."""
    return head / (head * head + VENT_SOFT_PRESSURE**2) ** 0.25


@jax.custom_vjp
def vent_exhaust(areas, head, density):
    """Volume flow through all open vents; negative when air is drawn in.

    areas (vents,), head (n,) in Pa, density (n,) of the gas at the crown.
    """
    return VENT_DISCHARGE * jnp.sum(areas) * jnp.sqrt(2.0 / density) * _orifice(head)


def _vent_exhaust_fwd(areas, head, density):
    return vent_exhaust(areas, head, density), (areas, head, density)


def _vent_exhaust_bwd(saved, flow_bar):
    areas, head, density = saved
    opening = jnp.sum(areas)
    speed = jnp.sqrt(2.0 / density)
    root = _orifice(head)
    soft = head * head + VENT_SOFT_PRESSURE**2
    root_slope = soft**-0.25 * (1.0 - 0.5 * head * head / soft)

    areas_bar = jnp.full_like(areas, VENT_DISCHARGE * jnp.sum(flow_bar * speed * root))
    head_bar = flow_bar * VENT_DISCHARGE * opening * speed * root_slope
    density_bar = -0.5 * flow_bar * VENT_DISCHARGE * opening * speed * root / density
    return areas_bar, head_bar, density_bar


vent_exhaust.defvjp(_vent_exhaust_fwd, _vent_exhaust_bwd)


# ---------------------------------------------------------------------------
# Drift
# ---------------------------------------------------------------------------


def _level_lookup(altitude, spacing, levels):
    """Lower level and fraction above it; the sounding is held outside its range."""
    place = jnp.clip(altitude / spacing, 0.0, levels - 1.0)
    lower = jnp.minimum(jnp.floor(place).astype(jnp.int32), levels - 2)
    return lower, place - lower


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def ground_path(spacing, step, origin, sounding, altitude):
    """Position over ground for a balloon carried by the wind.

    ``sounding`` holds (east, north) speeds on levels ``spacing`` metres apart,
    the lowest at the ground, so it is of shape (levels, 2).  Below the first and
    over the last level the nearest one is used.  ``altitude`` is the logger
    trace of shape (samples,), the result (samples, 2).
    """
    lower, frac = _level_lookup(altitude, spacing, sounding.shape[0])
    frac = frac[:, None]
    wind = (1.0 - frac) * sounding[lower] + frac * sounding[lower + 1]
    return origin + step * jnp.cumsum(wind, axis=0)


def _ground_path_fwd(spacing, step, origin, sounding, altitude):
    return ground_path(spacing, step, origin, sounding, altitude), (sounding, altitude)


def _ground_path_bwd(spacing, step, saved, path_bar):
    sounding, altitude = saved
    lower, frac = _level_lookup(altitude, spacing, sounding.shape[0])
    wind_bar = step * jnp.flip(jnp.cumsum(jnp.flip(path_bar, 0), axis=0), 0)

    sounding_bar = jnp.zeros_like(sounding)
    sounding_bar = sounding_bar.at[lower].add((1.0 - frac)[:, None] * wind_bar)
    sounding_bar = sounding_bar.at[lower + 1].add(frac[:, None] * wind_bar)

    shear = (sounding[lower + 1] - sounding[lower]) / spacing
    altitude_bar = jnp.sum(shear * wind_bar, axis=-1)
    return jnp.sum(path_bar, axis=0), sounding_bar, altitude_bar


ground_path.defvjp(_ground_path_fwd, _ground_path_bwd)


# ---------------------------------------------------------------------------
# Fitting
# ---------------------------------------------------------------------------


def fit_sounding(log_altitude, fixes, spacing, step, levels, rate=1e-4, rounds=60):
    """Estimate a sounding from GPS fixes by plain gradient descent."""
    sounding = jnp.zeros((levels, 2))

    def misfit(table):
        path = ground_path(spacing, step, fixes[0], table, log_altitude)
        return jnp.mean((path - fixes) ** 2) / 1e4

    for _ in range(rounds):
        sounding = sounding - rate * jax.grad(misfit)(sounding)
    return sounding


def pilot_objective(params, log: FlightLog, sounding, target):
    """Distance to a target plus a penalty on overheating of the crown."""
    gas = pulse_response(1.0, params["burner"], params["start"], log.burns, log.ambient)
    height = log.altitude + params["climb"] * jnp.arange(log.altitude.shape[0])
    path = ground_path(300.0, 1.0, jnp.zeros(2), sounding, height)
    too_hot = jnp.maximum(gas - MAX_FABRIC_TEMPERATURE, 0.0)
    return jnp.sum((path[-1] - target) ** 2) / 1e6 + jnp.sum(too_hot**2)


def demo():
    lift = Envelope(isa_offset=4.0).bind()
    volumes = jnp.array([900.0, 1300.0, 350.0])
    gas = jnp.array([[372.0, 366.0, 351.0], [361.0, 355.0, 346.0]])
    height = jnp.array([450.0, 1800.0])
    print("lift [N]", lift(volumes, gas, height))

    log = FlightLog(
        burns=jnp.where(jnp.arange(120) % 20 < 4, 1.0, 0.0),
        ambient=jnp.full((120,), 285.0),
        altitude=jnp.linspace(0.0, 1400.0, 120),
    )
    params = {
        "burner": BurnerParams(jnp.asarray(95.0), jnp.asarray(3.4)),
        "start": jnp.asarray(360.0),
        "climb": jnp.asarray(0.5),
    }
    sounding = jnp.array([[1.0, 0.5], [3.0, 1.5], [5.5, 1.0], [7.0, -1.0]])
    value, grads = jax.value_and_grad(pilot_objective)(
        params, log, sounding, jnp.array([350.0, 100.0])
    )
    print("objective", value)
    print("climb sensitivity", grads["climb"])
    print("vent", vent_exhaust(jnp.array([2.5, 0.4]), jnp.array([-8.0, 30.0]), jnp.array([0.97, 0.95])))


if __name__ == "__main__":
    demo()
