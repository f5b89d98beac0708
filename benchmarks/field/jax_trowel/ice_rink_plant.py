"""Thermal terms of an indoor ice rink: pad, plant and light.

Used to tune the pad set points of a community rink against logged slab
temperatures and compressor meters.  Three of the terms carry their own
derivative rules: the freezing time of a flood, the slab temperatures along the
brine headers, and what the hall lights leave in the ice.

SI units apart from depth (mm), temperature (deg C) and freezing time (hours).
"""
from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Callable, Dict, NamedTuple, Sequence

import jax
import jax.numpy as jnp
import numpy as np

ICE_CONDUCTIVITY = 2.2        # W/(m K)
ICE_DENSITY = 917.0           # kg/m3
LATENT_HEAT = 333.6e3         # J/kg
WATER_HEAT = 4186.0           # J/(kg K)
BRINE_HEAT = 3550.0           # J/(kg K)
STEFAN_BOLTZMANN = 5.670374e-8
PAD_RESISTANCE = 0.012        # m2 K/W, surface of the ice to brine

# absorption of the ice by the age of the sheet, 1/m
SHEET_EXTINCTION = {"fresh": 2.1, "week": 3.3, "season": 5.8}


@dataclass(frozen=True)
class HallClimate:
    """Air and ceiling of the hall."""

    air: float = 8.0
    ceiling: float = 6.0
    humidity: float = 0.65
    emissivity_ice: float = 0.97
    emissivity_ceiling: float = 0.9


def saturation_pressure_ice(t):
    """Magnus formula over ice, Pa."""
    return 611.15 * jnp.exp(22.452 * t / (272.55 + t))


def saturation_pressure_water(t):
    return 610.94 * jnp.exp(17.625 * t / (243.04 + t))


def radiant_flux(climate: HallClimate, ice_temperature, low_e_ceiling: bool = False):
    """Heat radiated from the ceiling to the ice, W/m2."""
    eps_c = 0.1 if low_e_ceiling else climate.emissivity_ceiling
    series = 1.0 / climate.emissivity_ice + 1.0 / eps_c - 1.0
    t_c = climate.ceiling + 273.15
    t_i = ice_temperature + 273.15
    return STEFAN_BOLTZMANN * (t_c**4 - t_i**4) / series


def convective_flux(climate: HallClimate, ice_temperature, h: float = 3.4):
    """Sensible and latent heat from the air, W/m2."""
    sensible = h * (climate.air - ice_temperature)
    vapour = climate.humidity * saturation_pressure_water(climate.air)
    latent = 0.0174 * h * (vapour - saturation_pressure_ice(ice_temperature))
    return sensible + jnp.maximum(latent, 0.0)


# -- resurfacing ------------------------------------------------------------


@jax.custom_jvp
def flood_freeze_hours(depth, brine, water, film):
    """Hours for a flood to go solid on the sheet.

    Plank's solution for a slab frozen from below: the layer of ``depth`` mm
    gives up its latent heat and the sensible heat of ``water`` (deg C, above
    zero) through the ice already made and the ``film`` coefficient in
    W/(m2 K) of the pad, to a ``brine`` below zero.
    """
    metres = depth * 1e-3
    heat = ICE_DENSITY * (LATENT_HEAT + WATER_HEAT * water)
    path = metres / (2.0 * ICE_CONDUCTIVITY) + 1.0 / film
    return heat * metres * path / (-brine) / 3600.0


def _freeze_by_depth(t, hours, depth, brine, water, film):
    metres = depth * 1e-3
    heat = ICE_DENSITY * (LATENT_HEAT + WATER_HEAT * water)
    return t * heat * (metres / ICE_CONDUCTIVITY + 1.0 / film) / (-brine) / 3.6e6


def _freeze_by_film(t, hours, depth, brine, water, film):
    path = depth * 1e-3 / (2.0 * ICE_CONDUCTIVITY) + 1.0 / film
    return -t * hours / (path * film**2)


flood_freeze_hours.defjvps(
    _freeze_by_depth,
    lambda t, hours, depth, brine, water, film: -t * hours / brine,
    lambda t, hours, depth, brine, water, film: t
    * hours
    * WATER_HEAT
    / (LATENT_HEAT + WATER_HEAT * water),
    _freeze_by_film,
)


# -- brine ------------------------------------------------------------------


class Brine(NamedTuple):
    inlet: jax.Array   # deg C, one per circuit
    flow: jax.Array    # kg/s, one per circuit


def make_pad(circuit_of_zone: Sequence[int], circuits: int) -> Callable:
    """Build the slab model of a pad.

    ``circuit_of_zone`` says, zone by zone, which of the ``circuits`` cools it.
    The returned ``zone_surface(flux, area, brine)`` takes the heat flux on the
    zones in W/m2, shape (zones,), their areas in m2 and a :class:`Brine`; it
    gives the ice surface temperature of each zone.  The brine in a circuit is
    taken at its outlet, warmed by all of the heat it picked up.
    """
    table = np.asarray(circuit_of_zone, dtype=np.int32)
    if table.min() < 0 or table.max() >= circuits:
        raise ValueError("a zone names a circuit that the header lacks")

    def outlet(flux, area, brine):
        heat = jnp.zeros((circuits,), flux.dtype).at[table].add(flux * area)
        return heat, brine.inlet + heat / (brine.flow * BRINE_HEAT)

    @jax.custom_vjp
    def zone_surface(flux, area, brine):
        _, out = outlet(flux, area, brine)
        return flux * PAD_RESISTANCE + out[table]

    def fwd(flux, area, brine):
        heat, out = outlet(flux, area, brine)
        return flux * PAD_RESISTANCE + out[table], (flux, area, brine, heat)

    def bwd(res, g):
        flux, area, brine, heat = res
        capacity = brine.flow * BRINE_HEAT
        g_out = jnp.zeros((circuits,), g.dtype).at[table].set(g)
        g_heat = (g_out / capacity)[table]
        d_brine = Brine(inlet=g_out, flow=-g_out * heat / (capacity * brine.flow))
        return g * PAD_RESISTANCE + g_heat * area, g_heat * flux, d_brine

    zone_surface.defvjp(fwd, bwd)
    return zone_surface


# -- light ------------------------------------------------------------------


class LightBudget(NamedTuple):
    """Outcome of one pass of light through the sheet, W/m2."""

    absorbed: jax.Array   # as the layers
    at_paint: jax.Array   # layers' shape without the layer axis
    returned: jax.Array


def _light_terms(thickness, extinction, incoming, surface, paint, axis):
    optical = jnp.cumsum(thickness * extinction, axis=axis)
    below = jnp.exp(-optical)
    above = jnp.concatenate(
        [
            jnp.ones_like(jax.lax.slice_in_dim(below, 0, 1, axis=axis)),
            jax.lax.slice_in_dim(below, 0, below.shape[axis] - 1, axis=axis),
        ],
        axis=axis,
    )
    bottom = jax.lax.index_in_dim(below, below.shape[axis] - 1, axis, keepdims=False)
    entering = incoming * (1.0 - surface)
    return above, below, bottom, entering


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def sheet_light(thickness, extinction, incoming, surface, paint, axis=0):
    """Where the light of the hall ends.

    Beer-Lambert down through the layers along ``axis``; ``surface`` is the
    reflectance at the top and ``paint`` that of the white paint beneath.  What
    the paint throws back leaves without being absorbed again.
    ``incoming``, ``surface`` and ``paint`` have the layers' shape with the
    layer axis taken out.
    """
    above, below, bottom, entering = _light_terms(
        thickness, extinction, incoming, surface, paint, axis
    )
    return LightBudget(
        absorbed=jnp.expand_dims(entering, axis) * (above - below),
        at_paint=entering * (1.0 - paint) * bottom,
        returned=incoming * surface + entering * paint * bottom,
    )


def _sheet_light_fwd(thickness, extinction, incoming, surface, paint, axis):
    out = sheet_light(thickness, extinction, incoming, surface, paint, axis)
    return out, (thickness, extinction, incoming, surface, paint)


def _sheet_light_bwd(axis, res, g: LightBudget):
    thickness, extinction, incoming, surface, paint = res
    above, below, bottom, entering = _light_terms(*res, axis)
    floor = g.at_paint * (1.0 - paint) + g.returned * paint
    d_entering = jnp.sum(g.absorbed * (above - below), axis=axis) + floor * bottom
    following = jnp.concatenate(
        [
            jax.lax.slice_in_dim(g.absorbed, 1, g.absorbed.shape[axis], axis=axis),
            jnp.expand_dims(floor, axis),
        ],
        axis=axis,
    )
    d_optical = -below * (following - g.absorbed) * jnp.expand_dims(entering, axis)
    d_step = jnp.flip(jnp.cumsum(jnp.flip(d_optical, axis), axis=axis), axis)
    return (
        d_step * extinction,
        d_step * thickness,
        d_entering * (1.0 - surface) + g.returned * surface,
        -d_entering * incoming + g.returned * incoming,
        (g.returned - g.at_paint) * entering * bottom,
    )


sheet_light.defvjp(_sheet_light_fwd, _sheet_light_bwd)


# -- the rink ---------------------------------------------------------------


@dataclass
class Rink:
    """A rink with its zones and header."""

    circuit_of_zone: Sequence[int]
    circuits: int
    area: jax.Array
    climate: HallClimate = field(default_factory=HallClimate)

    def __post_init__(self):
        self.zone_surface = make_pad(self.circuit_of_zone, self.circuits)

    def flux(self, ice_temperature, light):
        return (
            radiant_flux(self.climate, ice_temperature)
            + convective_flux(self.climate, ice_temperature)
            + light
        )

    def surface(self, brine: Brine, light, sweeps: int = 6):
        """Fixed number of sweeps between the flux and the surface temperature."""
        t = jnp.full(self.area.shape, -4.0)
        for _ in range(sweeps):
            t = self.zone_surface(self.flux(t, light), self.area, brine)
        return t


def set_point_loss(brine: Brine, rink: Rink, sheet: Dict[str, jax.Array], wanted):
    budget = sheet_light(
        sheet["thickness"], sheet["extinction"], sheet["lamps"],
        sheet["surface"], sheet["paint"], 0,
    )
    light = budget.absorbed.sum(axis=0) + budget.at_paint
    skating = rink.surface(brine, light)
    wait = flood_freeze_hours(0.4, brine.inlet, 55.0, 1.0 / PAD_RESISTANCE)
    pumping = 2e-3 * jnp.sum(brine.flow**3)
    return jnp.mean((skating - wanted) ** 2) + 0.2 * jnp.mean(wait) + pumping


def tune(brine: Brine, rink: Rink, sheet, wanted, steps: int = 30, rate: float = 0.05):
    value_and_grad = jax.value_and_grad(set_point_loss)
    for _ in range(steps):
        value, slope = value_and_grad(brine, rink, sheet, wanted)
        brine = jax.tree.map(lambda p, s: p - rate * s, brine, slope)
    return brine, value


if __name__ == "__main__":
    rink = Rink([0, 0, 1, 1, 2, 2], 3, jnp.full((6,), 260.0))
    sheet = {
        "thickness": jnp.full((4, 6), 0.008),
        "extinction": jnp.full((4, 6), SHEET_EXTINCTION["week"]),
        "lamps": jnp.full((6,), 11.0),
        "surface": jnp.full((6,), 0.06),
        "paint": jnp.full((6,), 0.82),
    }
    start = Brine(inlet=jnp.full((3,), -8.5), flow=jnp.full((3,), 9.0))
    tuned, value = tune(start, rink, sheet, jnp.full((6,), -5.0))
    print(tuned.inlet, float(value))
