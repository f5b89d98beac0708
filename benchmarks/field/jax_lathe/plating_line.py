"""Digital twin of a rack electroplating line.

Flight bars carry racks of parts through a plating tank and a row of
counter-current rinses.  The twin predicts how the rectifier's current divides
between the parts on a rack, how thick the deposit becomes, and how much bath
is carried into the rinses; its parameters are fitted to X-ray fluorescence
readings and to conductivity probes.

Units: A, A/dm2, s, dm, ohm, micrometre, g/l and l/min.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Dict, Mapping, Optional, Tuple

import jax
import jax.numpy as jnp

FARADAY = 96485.332
# cm of metal from A/dm2: 1 A/dm2 is 0.01 A/cm2, and 1 cm is 1e4 micrometre
TO_MICROMETRE = 0.01 * 1.0e4


@dataclass(frozen=True)
class Metal:
    """Deposited metal: g/mol, electrons per ion, g/cm3."""

    molar_mass: float
    valence: int
    density: float


METALS: Dict[str, Metal] = {
    "silver": Metal(107.868, 1, 10.49),
    "gold_cyanide": Metal(196.967, 1, 19.30),
    "copper_cyanide": Metal(63.546, 1, 8.96),
    "copper_acid": Metal(63.546, 2, 8.96),
    "nickel": Metal(58.693, 2, 8.91),
    "zinc": Metal(65.38, 2, 7.14),
    "rhodium": Metal(102.906, 3, 12.41),
    "chromium": Metal(51.996, 6, 7.19),
}


# -- current distribution ------------------------------------------------------

@jax.custom_vjp
def rack_currents(bath, distance, total, loaded):
    """Division of the rectifier current between the positions of each rack.

    A position is a conductor of resistance ``resistivity * distance +
    polarisation``, all positions of a rack in parallel.  Positions that are
    not loaded draw nothing.

    Args:
      bath: dict with ``resistivity``, a scalar, and ``polarisation``, one
        value per position, shape (positions,).
      distance: anode to cathode, shape (racks, positions).
      total: rectifier current per rack, shape (racks,).
      loaded: bool, shape (racks, positions).

    Returns:
      Current per position in A, shape (racks, positions).
    """
    return _rack_fwd(bath, distance, total, loaded)[0]


def _rack_fwd(bath, distance, total, loaded):
    path = bath["resistivity"] * distance + bath["polarisation"]
    conductance = jnp.where(loaded, 1.0 / path, 0.0)
    whole = jnp.sum(conductance, axis=-1, keepdims=True)
    whole = jnp.where(whole > 0.0, whole, 1.0)
    share = conductance / whole
    return share * total[:, None], (bath["resistivity"], distance, total, path, whole, share)


def _rack_bwd(res, ct):
    resistivity, distance, total, path, whole, share = res
    d_total = jnp.sum(ct * share, axis=-1)
    d_conductance = (ct - d_total[:, None]) * total[:, None] / whole
    d_path = -d_conductance / path ** 2
    d_bath = {"resistivity": jnp.sum(d_path * distance),
              "polarisation": jnp.sum(d_path, axis=0)}
    return d_bath, resistivity * d_path, d_total, None


rack_currents.defvjp(_rack_fwd, _rack_bwd)


# -- thickness -----------------------------------------------------------------

@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def deposit_thickness(metal, dt, density, peak, knee):
    """Deposit after a run of rectifier steps (micrometre).

    Parameters
    ----------
    metal : str
        Key into ``METALS``.
    dt : float
        Duration of one step.
    density : (steps, parts)
        Current density in A/dm2.
    peak : ()
        Cathode efficiency at low current density, 0 to 1.
    knee : (parts,)
        Current density at which the efficiency has fallen to half its peak;
        the better a part is agitated the higher.

    Returns
    -------
    (parts,)
    """
    return _thickness_fwd(metal, dt, density, peak, knee)[0]


def _volume_per_charge(spec: Metal) -> float:
    return spec.molar_mass / (FARADAY * spec.density)


def _thickness_fwd(metal, dt, density, peak, knee):
    spec = METALS[metal]
    rate = _volume_per_charge(spec) / spec.valence * TO_MICROMETRE * dt
    load = density / knee
    useful = density / (1.0 + load ** 2)
    grown = rate * peak * jnp.sum(useful, axis=0)
    return grown, (density, peak, knee, load, grown)


def _thickness_bwd(metal, dt, res, ct):
    density, peak, knee, load, grown = res
    spec = METALS[metal]
    rate = _volume_per_charge(spec) * TO_MICROMETRE * dt
    bent = (1.0 + load ** 2) ** 2
    d_density = rate * peak * ct * (1.0 - load ** 2) / bent
    d_knee = rate * peak * ct * jnp.sum(2.0 * load ** 3 / bent, axis=0)
    d_peak = jnp.sum(ct * grown) / peak
    return d_density, d_peak, d_knee


deposit_thickness.defvjp(_thickness_fwd, _thickness_bwd)


# -- rinsing -------------------------------------------------------------------

def _rinse_matrix(carry, flow):
    """Balance matrix of one line of rinses; carry is (tanks + 1,)."""
    tanks = carry.shape[0] - 1
    main = jnp.diag(flow + carry[1:])
    if tanks == 1:
        return main
    below = jnp.diag(jnp.broadcast_to(carry[1:-1], (tanks - 1,)), -1)
    above = jnp.diag(jnp.full((tanks - 1,), flow), 1)
    return main - below - above


@jax.custom_vjp
def rinse_cascade(carry, flow, bath, feed):
    """Steady concentrations of a counter-current rinse.

    Work goes from the bath through tank 1 to tank n, taking ``carry[j]`` l/min
    of tank j along (``carry[0]`` from the bath); water goes the other way::

        carry[j-1] c[j-1] + flow c[j+1] = (flow + carry[j]) c[j]

    with c[0] = bath and c[n+1] = feed.  carry has n + 1 entries, the others
    are scalars; the result has n entries, tank 1 first.
    """
    return _rinse_fwd(carry, flow, bath, feed)[0]


def _rinse_fwd(carry, flow, bath, feed):
    matrix = _rinse_matrix(carry, flow)
    source = jnp.zeros(carry.shape[0] - 1, carry.dtype)
    source = source.at[0].add(carry[0] * bath).at[-1].add(flow * feed)
    level = jnp.linalg.solve(matrix, source)
    return level, (matrix, level, carry, flow, bath, feed)


def _rinse_bwd(res, ct):
    matrix, level, carry, flow, bath, feed = res
    price = jnp.linalg.solve(matrix.T, ct)
    onward = jnp.concatenate([price[1:], jnp.zeros(1, price.dtype)])
    upstream = jnp.concatenate([level[1:], jnp.reshape(feed, (1,)).astype(level.dtype)])
    d_carry = jnp.concatenate([price[:1] * bath, (onward - price) * level])
    d_flow = jnp.sum(price * (upstream - level))
    return d_carry, d_flow, price[0] * carry[0], price[-1] * flow


rinse_cascade.defvjp(_rinse_fwd, _rinse_bwd)


def rinse_ratio(levels, bath):
    """Dilution reached in the last tank."""
    return bath / levels[-1]


# -- the line ------------------------------------------------------------------

@dataclass
class LineSettings:
    metal: str = "silver"
    step_seconds: float = 30.0
    ripple: float = 0.0


class PlatingLine:
    """Rack model from rectifier set point to thickness.

    Parameters live in a nested dict so that ``jax.grad`` gives the same
    nesting back::

        {"bath": {"resistivity", "polarisation"},
         "cathode": {"peak", "knee"},
         "rinse": {"carry", "feed"}}
    """

    def __init__(self, positions: int, settings: Optional[LineSettings] = None):
        self.positions = positions
        self.settings = settings or LineSettings()

    def init(self, tanks: int = 3) -> Dict[str, Dict[str, jax.Array]]:
        return {
            "bath": {"resistivity": jnp.asarray(0.6),
                     "polarisation": jnp.full((self.positions,), 0.15)},
            "cathode": {"peak": jnp.asarray(0.97),
                        "knee": jnp.full((self.positions,), 6.0)},
            "rinse": {"carry": jnp.full((tanks + 1,), 0.12), "feed": jnp.asarray(0.02)},
        }

    def densities(self, params, distance, area, programme, loaded):
        """(steps, racks, positions) A/dm2 for a rectifier programme (steps, racks)."""
        def one(total):
            return rack_currents(params["bath"], distance, total, loaded) / area
        return jax.vmap(one)(programme)

    def thickness(self, params: Mapping, distance, area, programme, loaded):
        density = self.densities(params, distance, area, programme, loaded)
        settings = self.settings
        per_rack = [
            deposit_thickness(settings.metal, settings.step_seconds, density[:, r],
                              params["cathode"]["peak"], params["cathode"]["knee"])
            for r in range(distance.shape[0])
        ]
        return jnp.stack(per_rack)

    def drag_out(self, params, flow, bath_strength):
        return rinse_cascade(params["rinse"]["carry"], flow, bath_strength,
                             params["rinse"]["feed"])

    def misfit(self, params, plan, readings):
        """Squared misfit of thickness at measured parts plus log misfit of the probes."""
        grown = self.thickness(params, plan["distance"], plan["area"],
                               plan["programme"], plan["loaded"])
        gap = jnp.where(readings["measured"], grown - readings["thickness"], 0.0)
        levels = self.drag_out(params, plan["flow"], plan["strength"])
        probe = jnp.log(levels) - jnp.log(readings["levels"])
        count = jnp.maximum(jnp.sum(readings["measured"]), 1)
        return jnp.sum(gap ** 2) / count + 0.1 * jnp.mean(probe ** 2)

    def fit(self, params, plan, readings, steps: int = 20, rate: float = 1e-3):
        slope = jax.jit(jax.grad(self.misfit))
        for _ in range(steps):
            grads = slope(params, plan, readings)
            params = jax.tree_util.tree_map(lambda p, g: p - rate * g, params, grads)
        return params


def even_rack(line: PlatingLine, params, distance, area, total, loaded,
              steps: int = 30, rate: float = 1e-3) -> Tuple[jax.Array, jax.Array]:
    """Shift the positions so that current density is even over the loaded ones."""
    def unevenness(d):
        density = rack_currents(params["bath"], d, total, loaded) / area
        n = jnp.maximum(jnp.sum(loaded, axis=-1, keepdims=True), 1)
        mean = jnp.sum(density, axis=-1, keepdims=True) / n
        return jnp.sum(jnp.where(loaded, (density - mean) ** 2, 0.0))

    for _ in range(steps):
        distance = distance - rate * jax.grad(unevenness)(distance)
    return distance, unevenness(distance)


if __name__ == "__main__":
    line = PlatingLine(positions=4)
    params = line.init()
    distance = jnp.array([[1.8, 2.0, 2.1, 1.7], [2.2, 2.0, 1.9, 1.9]])
    loaded = jnp.ones((2, 4), bool)
    programme = jnp.full((10, 2), 6.0)
    area = jnp.full((2, 4), 0.8)
    print("thickness", line.thickness(params, distance, area, programme, loaded))
    print("rinse", line.drag_out(params, jnp.asarray(4.0), jnp.asarray(45.0)))
    nickel = PlatingLine(4, LineSettings(metal="nickel", step_seconds=60.0))
    print("nickel", nickel.thickness(params, distance, area, programme, loaded))
    moved, left = even_rack(line, params, distance, area, jnp.array([6.0, 6.0]), loaded)
    print("even", moved, left)
