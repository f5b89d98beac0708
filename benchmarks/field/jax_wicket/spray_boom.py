"""Field sprayer: nozzles, boom pattern, drift and the tank.

Used by the section controller study.  A boom carries nozzles at fixed places;
groups of nozzles form sections that are folded and lifted together, each with
its own height above the crop.  The controller chooses section pressures and
heights so that the deposit across the swath is flat while the part of the
spray lost to the wind stays small.  The tank model follows the strength of
the mix during refilling on the move.

Lengths in metres, pressures in bar, flows in litres per minute, droplet
diameters in micrometres, wind in metres per second.
"""

from functools import partial
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

REFERENCE_PRESSURE = 3.0     # bar, where nozzle sizes are rated
CHECK_VALVE = 0.5            # bar, diaphragm anti-drip valve closes below this
FAN_ANGLE = math.radians(110.0)
DROP_SCALE = 100.0           # um, droplets that a 1 m/s wind carries off
ISO_SIZES = {"orange": 0.4, "green": 0.6, "yellow": 0.8, "blue": 1.2, "red": 1.6}


def nozzle_places(n_nozzles, spacing=0.5):
    """Nozzle positions along the boom, centred on the tractor."""
    return (np.arange(n_nozzles) - 0.5 * (n_nozzles - 1)) * spacing


def section_table(widths):
    """Section index of each nozzle from the number of nozzles per section."""
    return np.repeat(np.arange(len(widths)), widths)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def nozzle_flow(pressure, rating, check=CHECK_VALVE):
    """Flow of hydraulic nozzles, ``rating * sqrt(pressure / 3 bar)``.

    The diaphragm valve shuts at `check` bar; a shut nozzle passes nothing and
    does not respond to small changes of pressure.  `pressure` and `rating`
    have the same shape or broadcast.
    """
    is_open = pressure > check
    safe = jnp.where(is_open, pressure, REFERENCE_PRESSURE)
    return jnp.where(is_open, rating * jnp.sqrt(safe / REFERENCE_PRESSURE), 0.0)


@nozzle_flow.defjvp
def _nozzle_flow_jvp(check, primals, tangents):
    pressure, rating = primals
    d_pressure, d_rating = tangents
    is_open = pressure > check
    safe = jnp.where(is_open, pressure, REFERENCE_PRESSURE)
    root = jnp.sqrt(safe / REFERENCE_PRESSURE)
    d_flow = root * d_rating + rating * root * d_pressure / (2.0 * safe)
    return nozzle_flow(pressure, rating, check), jnp.where(is_open, d_flow, 0.0)


def make_fan_deposit(stations, places, section, fan_angle=FAN_ANGLE):
    """Pattern of a boom on the ground.

    Args:
        stations: Places across the swath where the deposit is wanted, (S,).
        places: Nozzle places, (N,).
        section: Integer table, section of each nozzle, (N,).
        fan_angle: Full opening of the flat fans.

    Returns:
        A function of ``flow`` (N,) and ``height`` (number of sections,) giving
        the deposit rate at the stations (S,).  A fan lays down a triangle
        that reaches ``height * tan(fan_angle / 2)`` to either side and has the
        area of the flow.
    """
    stations = jnp.asarray(stations)
    places = jnp.asarray(places)
    section = jnp.asarray(section)
    opening = math.tan(0.5 * fan_angle)

    def triangle(height):
        reach = height[section] * opening
        distance = jnp.abs(stations[:, None] - places[None, :]) / reach
        return reach, distance, jnp.maximum(1.0 - distance, 0.0) / reach

    @jax.custom_vjp
    def fan_deposit(flow, height):
        return triangle(height)[2] @ flow

    def fwd(flow, height):
        reach, distance, kernel = triangle(height)
        return kernel @ flow, (flow, height, reach, distance, kernel)

    def bwd(kept, g):
        flow, height, reach, distance, kernel = kept
        inside = distance < 1.0
        d_kernel = jnp.where(inside, (2.0 * distance - 1.0) / reach**2, 0.0)
        d_reach = flow * (g @ d_kernel)
        d_height = jnp.zeros_like(height).at[section].set(opening * d_reach)
        return g @ kernel, d_height

    fan_deposit.defvjp(fwd, bwd)
    return fan_deposit


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def drift_fraction(exponent, diameter, share, wind):
    """Part of the sprayed volume that leaves with the wind.

    Parameters
    ----------
    exponent : float
        Steepness of the escape curve.  2.0 for open fields; hedged fields and
        shrouded booms are fitted with values from 1.2 to 3.5.
    diameter : array (classes,)
        Droplet class diameters.
    share : array (classes,)
        Volume in each class.
    wind : scalar
        Wind at boom height, positive.
    """
    ratio = diameter / (DROP_SCALE * wind)
    return jnp.sum(share * jnp.exp(-(ratio**exponent)))


@drift_fraction.defjvp
def _drift_fraction_jvp(exponent, primals, tangents):
    diameter, share, wind = primals
    d_diameter, d_share, d_wind = tangents
    ratio = diameter / (DROP_SCALE * wind)
    escape = jnp.exp(-(ratio**exponent))
    d_ratio = d_diameter / (DROP_SCALE * wind) - ratio * d_wind / wind
    slope = -2.0 * ratio ** (exponent - 1.0) * escape
    value = jnp.sum(share * escape)
    return value, jnp.sum(escape * d_share + share * slope * d_ratio)


def tank_rows(inlet, outflow):
    if inlet.shape != outflow.shape:
        raise ValueError("inlet and outflow must be given for the same minutes")
    return inlet, outflow


@jax.custom_vjp
def tank_concentration(tank, inlet, outflow):
    """Strength of the mix after each minute.

    tank is a dict with "volume" and "initial", each of shape (tanks,);
    inlet is the active mass added per minute and outflow the litres drawn per
    minute, both (minutes, tanks).  Level is held constant by the water valve.
    """
    return _tank_fwd(tank, inlet, outflow)[0]


def _tank_fwd(tank, inlet, outflow):
    volume = tank["volume"]

    def minute(strength, row):
        mass, drawn = row
        strength = strength + (mass - drawn * strength) / volume
        return strength, strength

    _, trace = lax.scan(minute, tank["initial"], tank_rows(inlet, outflow))
    before = jnp.concatenate([tank["initial"][None], trace[:-1]], axis=0)
    return trace, (volume, inlet, outflow, before)


def _tank_bwd(kept, g):
    volume, inlet, outflow, before = kept

    def minute(carry, row):
        g_t, mass, drawn, strength = row
        lam = g_t + carry
        d_mass = lam / volume
        d_volume = -lam * (mass - drawn * strength) / volume**2
        return lam * (1.0 - drawn / volume), (d_mass, -d_mass * strength, d_volume)

    rows = (g, inlet, outflow, before)
    d_initial, (d_inlet, d_outflow, d_volume) = lax.scan(
        minute, jnp.zeros_like(g[0]), rows, reverse=True
    )
    d_tank = {"volume": jnp.sum(d_volume, axis=0), "initial": d_initial}
    return d_tank, d_inlet, d_outflow


tank_concentration.defvjp(_tank_fwd, _tank_bwd)


def droplet_classes(n_classes=8, smallest=60.0, largest=600.0):
    """Geometric class centres and a log-normal share for a medium spray."""
    centres = np.geomspace(smallest, largest, n_classes)
    weight = np.exp(-0.5 * (np.log(centres / 240.0) / 0.55) ** 2)
    return jnp.asarray(centres), jnp.asarray(weight / weight.sum())


class Boom:
    """A boom with sections.

    Holds the tables; parameters travel in a dict with "pressure" (sections,)
    and "height" (sections,).
    """

    def __init__(self, widths=(4, 6, 4), spacing=0.5, colour="blue"):
        self.section = section_table(widths)
        self.places = nozzle_places(len(self.section), spacing)
        self.rating = ISO_SIZES[colour]
        edge = 0.5 * spacing * len(self.section)
        self.stations = np.linspace(-edge, edge, 8 * len(self.section) + 1)
        self.deposit = make_fan_deposit(self.stations, self.places, self.section)

    def pattern(self, params):
        pressure = params["pressure"][self.section]
        flow = nozzle_flow(pressure, jnp.full(pressure.shape, self.rating))
        return self.deposit(flow, params["height"])

    def unevenness(self, params):
        """Coefficient of variation across the inner four fifths of the swath."""
        inner = self.pattern(params)[len(self.stations) // 10: -(len(self.stations) // 10)]
        return jnp.std(inner) / jnp.mean(inner)

    def cost(self, params, wind, exponent=2.0, drift_weight=0.5):
        """Uneven deposit plus drift; finer droplets come with more pressure."""
        centres, share = droplet_classes()
        mean_pressure = jnp.mean(params["pressure"])
        finer = centres * (REFERENCE_PRESSURE / mean_pressure) ** 0.33
        faster = wind * (jnp.mean(params["height"]) / 0.5) ** 0.2
        lost = drift_fraction(exponent, finer, share, faster)
        return self.unevenness(params) + drift_weight * lost


def tune(boom, wind, steps=25, rate=0.02, exponent=2.0):
    """Short gradient descent on pressures and heights."""
    n_sections = int(boom.section.max()) + 1
    params = {"pressure": jnp.full((n_sections,), 3.0), "height": jnp.full((n_sections,), 0.55)}
    slope = jax.jit(jax.grad(partial(boom.cost, wind=wind, exponent=exponent)))
    for _ in range(steps):
        grads = slope(params)
        params = jax.tree_util.tree_map(lambda p, d: p - rate * d, params, grads)
    return params


if __name__ == "__main__":
    boom = Boom()
    tuned = tune(boom, wind=2.5)
    print({k: np.round(v, 3) for k, v in tuned.items()})
    tank = {"volume": jnp.asarray([800.0, 1200.0]), "initial": jnp.asarray([0.02, 0.015])}
    minutes = 30
    trace = tank_concentration(
        tank, jnp.full((minutes, 2), 0.3), jnp.full((minutes, 2), 22.0)
    )
    print(trace[-1])
