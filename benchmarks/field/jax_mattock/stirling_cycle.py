"""Ideal-isothermal and quasi-steady Stirling machine analysis in JAX.

The code follows the usual five-cell layout of a kinematic Stirling engine

    compression | cooler | regenerator | heater | expansion

and is used for sizing free-piston and alpha-type prototypes by gradient
descent on dead volumes, phase angle, regenerator porosity and seal gaps.

Everything is SI: volumes in m^3, pressures in Pa, temperatures in K, mass in
kg.  Crank angle tables hold one full revolution, the end point excluded.

References used while writing:
    Urieli & Berchowitz, "Stirling Cycle Engine Analysis" (1984)
    Martin, "Labyrinth packings", The Engineer 85 (1908)
    Schmidt, Z. VDI 15 (1871)
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

R_HELIUM = 2077.1
R_HYDROGEN = 4124.2
R_AIR = 287.05

CELLS = ("compression", "cooler", "regenerator", "heater", "expansion")
COMPRESSION, COOLER, REGENERATOR, HEATER, EXPANSION = range(5)

# Floor under p_hi^2 - p_lo^2 (Pa^2); seals carry a few Pa of ripple at least.
_HEAD_FLOOR = 1.0


class AlphaGeometry(NamedTuple):
    """Geometry of an alpha machine; all entries are differentiable."""

    swept_compression: jax.Array
    swept_expansion: jax.Array
    clearance_compression: jax.Array
    clearance_expansion: jax.Array
    cooler: jax.Array
    regenerator: jax.Array
    heater: jax.Array
    phase: jax.Array


class RegeneratorMatrix(NamedTuple):
    """State and transfer constants of a stacked-screen regenerator.

    start:   initial screen temperatures, cold end first
    uptake:  share of the gas/screen temperature difference taken by a screen
             during one time slice (heat capacity ratio times effectiveness)
    slip:    share of that difference the gas still has behind the screen
    """

    start: jax.Array
    uptake: jax.Array
    slip: jax.Array


def crank_angles(n):
    return jnp.linspace(0.0, 2.0 * jnp.pi, n, endpoint=False)


def alpha_volumes(geometry: AlphaGeometry, angles):
    """Cell volumes over a revolution.  (n_angles,) -> (n_angles, 5)"""
    g = geometry
    vc = g.clearance_compression + 0.5 * g.swept_compression * (1.0 + jnp.cos(angles))
    ve = g.clearance_expansion + 0.5 * g.swept_expansion * (
        1.0 + jnp.cos(angles + g.phase)
    )
    ones = jnp.ones_like(angles)
    return jnp.stack(
        [vc, g.cooler * ones, g.regenerator * ones, g.heater * ones, ve], axis=-1
    )


def cell_temperatures(t_cold, t_hot):
    """Five cell temperatures, with the log-mean value for the regenerator."""
    t_reg = (t_hot - t_cold) / jnp.log(t_hot / t_cold)
    return jnp.stack([t_cold, t_cold, t_reg, t_hot, t_hot])


# --------------------------------------------------------------------------
# Schmidt pressure
# --------------------------------------------------------------------------


@jax.custom_vjp
def schmidt_pressure(volumes, temperatures, mass, gas_constant):
    """Instantaneous pressure of an isothermal machine.

    Parameters
    ----------
    volumes : array, (..., n_cells)
        Gas volume of each cell; leading axes are crank angle and, where
        several machines are swept together, machine.
    temperatures : array, (n_cells,)
    mass : scalar
        Charge of working gas.
    gas_constant : scalar

    Returns
    -------
    array, (...)
    """
    return mass * gas_constant / jnp.sum(volumes / temperatures, axis=-1)


def _schmidt_fwd(volumes, temperatures, mass, gas_constant):
    spread = jnp.sum(volumes / temperatures, axis=-1)
    p = mass * gas_constant / spread
    return p, (volumes, temperatures, mass, gas_constant, spread, p)


def _schmidt_bwd(res, g):
    volumes, temperatures, mass, gas_constant, spread, p = res
    d_spread = -g * p / spread
    d_volumes = d_spread[..., None] / temperatures
    cells = -d_spread[..., None] * volumes / temperatures**2
    d_temperatures = cells.reshape(-1, temperatures.shape[0]).sum(axis=0)
    d_mass = gas_constant * jnp.sum(g / spread)
    d_gas = mass * jnp.sum(g / spread)
    return d_volumes, d_temperatures, d_mass, d_gas


schmidt_pressure.defvjp(_schmidt_fwd, _schmidt_bwd)


# --------------------------------------------------------------------------
# Indicator diagram
# --------------------------------------------------------------------------


def _pv_sum(pressure, volume):
    p_mid = 0.5 * (pressure + jnp.roll(pressure, -1, axis=-1))
    dv = jnp.roll(volume, -1, axis=-1) - volume
    return jnp.sum(p_mid * dv, axis=-1)


@jax.custom_vjp
def indicator_area(pressure, volume):
    """Area enclosed by the indicator diagram, J per cycle.

    ``pressure`` and ``volume`` hold one revolution on their last axis; the
    diagram is closed from the last sample to the first.  One diagram or a
    stack of diagrams (one per cylinder) may be given.
    """
    return _pv_sum(pressure, volume)


def _indicator_fwd(pressure, volume):
    return _pv_sum(pressure, volume), (pressure, volume)


def _central(a):
    """Half the difference of the two neighbours on the closed loop."""
    return 0.5 * (jnp.roll(a, -1, axis=0) - jnp.roll(a, 1, axis=0))


def _indicator_bwd(res, g):
    pressure, volume = res
    g = jnp.expand_dims(g, -1)
    return g * _central(volume), -g * _central(pressure)


indicator_area.defvjp(_indicator_fwd, _indicator_bwd)


# --------------------------------------------------------------------------
# Seal leakage between the working space and the buffer space
# --------------------------------------------------------------------------


def _martin(p_hi, p_lo, area, temperature, gas_constant, teeth):
    head = jnp.maximum(p_hi**2 - p_lo**2, _HEAD_FLOOR)
    packing = teeth + jnp.log(p_hi / p_lo)
    return area * jnp.sqrt(head / (packing * gas_constant * temperature))


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def seal_leakage(p_work, p_buffer, area, temperature, teeth=6, gas_constant=R_HELIUM):
    """Mass flow through a labyrinth piston seal after Martin (kg/s).

    Args:
      p_work: working-space pressure over the cycle, [n_angles].
      p_buffer: buffer-space pressure over the cycle, [n_angles].
      area: annular gap area, scalar.
      temperature: gas temperature in the gap, scalar.
      teeth: number of throttlings.
      gas_constant: J/(kg K).

    Returns:
      Flow [n_angles], positive when gas leaves the working space and negative
      when the buffer feeds it back.
    """
    forward = p_work >= p_buffer
    p_hi = jnp.maximum(p_work, p_buffer)
    p_lo = jnp.minimum(p_work, p_buffer)
    flow = _martin(p_hi, p_lo, area, temperature, gas_constant, teeth)
    return jnp.where(forward, flow, -flow)


def _seal_fwd(p_work, p_buffer, area, temperature, teeth, gas_constant):
    flow = seal_leakage(p_work, p_buffer, area, temperature, teeth, gas_constant)
    return flow, (p_work, p_buffer, area, temperature, flow)


def _seal_bwd(teeth, gas_constant, res, g):
    p_work, p_buffer, area, temperature, flow = res
    p_hi = jnp.maximum(p_work, p_buffer)
    p_lo = jnp.minimum(p_work, p_buffer)
    head = p_hi**2 - p_lo**2
    live = head > _HEAD_FLOOR
    head = jnp.maximum(head, _HEAD_FLOOR)
    packing = teeth + jnp.log(p_hi / p_lo)
    weighted = g * flow
    d_hi = weighted * (jnp.where(live, p_hi / head, 0.0) - 0.5 / (packing * p_hi))
    d_lo = weighted * (0.5 / (packing * p_lo) - jnp.where(live, p_lo / head, 0.0))
    d_area = jnp.sum(weighted) / area
    d_temperature = -0.5 * jnp.sum(weighted) / temperature
    return d_hi, d_lo, d_area, d_temperature


seal_leakage.defvjp(_seal_fwd, _seal_bwd)


# --------------------------------------------------------------------------
# Regenerator blow
# --------------------------------------------------------------------------


def _blow(matrix, inlet):
    def slice_step(screens, gas_in):
        def screen_step(gas, row):
            screen, uptake, slip = row
            gap = gas - screen
            return screen + slip * gap, (screen + uptake * gap, gas)

        gas_out, (new_screens, gas_at) = jax.lax.scan(
            screen_step, gas_in, (screens, matrix.uptake, matrix.slip)
        )
        return new_screens, (gas_out, gas_at, screens)

    last, (outlet, gas_at, screens_at) = jax.lax.scan(slice_step, matrix.start, inlet)
    return outlet, last, gas_at, screens_at


@jax.custom_vjp
def regenerator_blow(matrix: RegeneratorMatrix, inlet):
    """March one blow through the screens; gas enters at screen 0.

    Gives the outlet temperature for every time slice of ``inlet`` and the
    screen temperatures at the end of the blow.
    """
    outlet, last, _, _ = _blow(matrix, inlet)
    return outlet, last


def _blow_fwd(matrix, inlet):
    outlet, last, gas_at, screens_at = _blow(matrix, inlet)
    return (outlet, last), (matrix, gas_at, screens_at)


def _blow_bwd(res, cotangents):
    matrix, gas_at, screens_at = res
    g_outlet, g_last = cotangents

    def slice_back(carry, row):
        lam_screens, acc_uptake, acc_slip = carry
        g_out, gas, screens = row

        def screen_back(lam_gas, r):
            lam_screen, uptake, slip, gap = r
            to_screen = (1.0 - slip) * lam_gas + (1.0 - uptake) * lam_screen
            to_gas = slip * lam_gas + uptake * lam_screen
            return to_gas, (to_screen, lam_screen * gap, lam_gas * gap)

        lam_in, (lam_screens, d_uptake, d_slip) = jax.lax.scan(
            screen_back,
            g_out,
            (lam_screens, matrix.uptake, matrix.slip, gas - screens),
            reverse=True,
        )
        return (lam_screens, acc_uptake + d_uptake, acc_slip + d_slip), lam_in

    zeros = jnp.zeros_like(matrix.uptake)
    (d_start, d_uptake, d_slip), d_inlet = jax.lax.scan(
        slice_back, (g_last, zeros, zeros), (g_outlet, gas_at, screens_at), reverse=True
    )
    return RegeneratorMatrix(d_start, d_uptake, d_slip), d_inlet


regenerator_blow.defvjp(_blow_fwd, _blow_bwd)


# --------------------------------------------------------------------------
# Machine model
# --------------------------------------------------------------------------


@dataclasses.dataclass
class AlphaEngine:
    """An alpha engine at fixed speed, with a lumped seal and regenerator."""

    geometry: AlphaGeometry
    gas_constant: float = R_HELIUM
    teeth: int = 6
    speed_hz: float = 25.0
    n_angles: int = 72

    def cycle(self, t_cold, t_hot, mass):
        angles = crank_angles(self.n_angles)
        volumes = alpha_volumes(self.geometry, angles)
        temps = cell_temperatures(jnp.asarray(t_cold), jnp.asarray(t_hot))
        p = schmidt_pressure(volumes, temps, mass, self.gas_constant)
        return volumes, p

    def power(self, t_cold, t_hot, mass):
        volumes, p = self.cycle(t_cold, t_hot, mass)
        moving = jnp.stack([volumes[:, COMPRESSION], volumes[:, EXPANSION]])
        work = indicator_area(jnp.stack([p, p]), moving)
        return self.speed_hz * jnp.sum(work)

    def leak_loss(self, t_cold, t_hot, mass, gap_area):
        _, p = self.cycle(t_cold, t_hot, mass)
        buffer = jnp.full_like(p, jnp.mean(p))
        flow = seal_leakage(p, buffer, gap_area, t_cold, self.teeth, self.gas_constant)
        return jnp.mean(jnp.abs(flow))

    def regenerator_loss(self, matrix, hot_inlet, cold_inlet):
        """Mean temperature defect at the two ends after a pair of blows."""
        out_hot, screens = regenerator_blow(matrix, hot_inlet)
        back = RegeneratorMatrix(screens[::-1], matrix.uptake[::-1], matrix.slip[::-1])
        out_cold, _ = regenerator_blow(back, cold_inlet)
        return jnp.mean(out_hot - cold_inlet) + jnp.mean(hot_inlet - out_cold)


def default_geometry():
    cc = 1e-6
    return AlphaGeometry(
        *[jnp.asarray(v) for v in (60 * cc, 60 * cc, 4 * cc, 4 * cc, 13 * cc, 22 * cc, 16 * cc)],
        phase=jnp.asarray(jnp.pi / 2),
    )


if __name__ == "__main__":
    engine = AlphaEngine(default_geometry())
    print("power (W):", engine.power(320.0, 900.0, 3e-4))
    print("leak (kg/s):", engine.leak_loss(320.0, 900.0, 3e-4, 2e-7))
    slope = jax.grad(lambda a: engine.leak_loss(320.0, 900.0, 3e-4, a))(2e-7)
    print("dleak/darea:", slope)
    screens = RegeneratorMatrix(
        jnp.linspace(320.0, 900.0, 12), jnp.full(12, 0.03), jnp.full(12, 0.4)
    )
    print("defect:", engine.regenerator_loss(screens, jnp.full(8, 900.0), jnp.full(8, 320.0)))
