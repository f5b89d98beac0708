"""Procedure planning for the fabrication shop: cooling times, preheat, weld groups.

The planner works on welding procedure sheets.  A sheet holds one heat input,
one preheat and one plate thickness per run, and the quantities here are what
the engineer tunes against: the cooling time between 800 and 500 degrees, the
preheat asked for by the steel's carbon equivalent, the temperature the moving
arc leaves at thermocouple positions, and the throat stress of the finished
weld group under an eccentric load.

Units are those of the shop floor: mm, s, kJ/mm for heat input, W for arc
power, degrees Celsius, N and MPa.  All functions take float32 or float64.

References
----------
EN 1011-2:2001 annexes C and D; D. Rosenthal, Trans. ASME 68 (1946) 849;
O. Blodgett, *Design of Welded Structures*, section 7.4.
"""

from __future__ import annotations

from functools import partial
from typing import Dict, NamedTuple, Tuple

import jax
import jax.numpy as jnp

# thermal properties of a ferritic steel, averaged over the range that matters
CONDUCTIVITY = 0.040          # W / (mm K)
DIFFUSIVITY = 8.0             # mm^2 / s
N_IMAGES = 3                  # mirror sources on each side of the plate

# (two-dimensional, three-dimensional) shape factors, EN 1011-2 table D.1
SHAPE_FACTORS: Dict[str, Tuple[float, float]] = {
    "bead_on_plate": (1.0, 1.0),
    "butt": (0.9, 0.9),
    "corner_fillet": (0.9, 0.67),
    "tee_fillet": (0.60, 0.67),
}

# arc efficiency by process number of ISO 4063
ARC_EFFICIENCY = {111: 0.80, 121: 1.00, 135: 0.80, 136: 0.80, 141: 0.60}


class Steel(NamedTuple):
    """Ladle analysis in mass per cent, one entry per heat of steel."""

    c: jax.Array
    mn: jax.Array
    mo: jax.Array
    cr: jax.Array
    cu: jax.Array
    ni: jax.Array


class WeldGroup(NamedTuple):
    """Straight runs of one joint, seen in the plane of the faying surface."""

    mid: jax.Array        # (runs, 2) middle of each run
    length: jax.Array     # (runs,)


def heat_input(volts, amps, speed, process: int = 135):
    """Heat input in kJ/mm; speed in mm/s."""
    return ARC_EFFICIENCY[process] * volts * amps / (1000.0 * speed)


# ---------------------------------------------------------------------------
# cooling time
# ---------------------------------------------------------------------------

def _inverse_gaps(preheat):
    return 1.0 / (500.0 - preheat), 1.0 / (800.0 - preheat)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def cooling_time(joint, q, preheat, thickness):
    """Cooling time from 800 to 500 degrees, in seconds.

    The plate counts as thin when heat flow is two-dimensional, that is when
    the thin-plate formula yields the longer time of the two.

    Parameters
    ----------
    joint : str
        One of the keys of ``SHAPE_FACTORS``.
    q : array
        Heat input, 0.5 to 4 kJ/mm.
    preheat : array
        Preheat or interpass temperature, 0 to 250 degrees.
    thickness : array
        Plate thickness, 4 to 80 mm.
    """
    f2, f3 = SHAPE_FACTORS[joint]
    near, far = _inverse_gaps(preheat)
    thin = (4300.0 - 4.3 * preheat) * 1e5 * (q / thickness) ** 2 \
        * (near ** 2 - far ** 2) * f2
    thick = (6700.0 - 5.0 * preheat) * q * (near - far) * f3
    return jnp.maximum(thin, thick)


@cooling_time.defjvp
def _cooling_time_jvp(joint, primals, tangents):
    q, preheat, thickness = primals
    dq, dpreheat, dthickness = tangents
    f2, f3 = SHAPE_FACTORS[joint]
    near, far = _inverse_gaps(preheat)

    thin_lead = (4300.0 - 4.3 * preheat) * 1e5 * f2
    thin_shape = (q / thickness) ** 2
    thin_gap = near ** 2 - far ** 2
    thin = thin_lead * thin_shape * thin_gap

    thick_lead = (6700.0 - 5.0 * preheat) * f3
    thick_gap = near - far
    thick = thick_lead * q * thick_gap

    thin_dot = 2.0 * thin * (dq / q - dthickness / thickness) \
        + thin_lead * thin_shape * 2.0 * (near ** 3 - far ** 3) * dpreheat
    thick_dot = thick * dq / q \
        + thick_lead * q * (near ** 2 - far ** 2) * dpreheat \
        - 5.0 * f3 * q * thick_gap * dpreheat

    is_thin = thin > thick
    return jnp.where(is_thin, thin, thick), jnp.where(is_thin, thin_dot, thick_dot)


def transition_thickness(q, preheat):
    """Thickness at which the two cooling formulas meet (equal shape factors)."""
    near, far = _inverse_gaps(preheat)
    lead = (4300.0 - 4.3 * preheat) / (6700.0 - 5.0 * preheat)
    return jnp.sqrt(lead * 1e5 * q * (near + far))


# ---------------------------------------------------------------------------
# preheat
# ---------------------------------------------------------------------------

def carbon_equivalent(steel: Steel):
    """CET of EN 1011-2, in per cent."""
    return steel.c + (steel.mn + steel.mo) / 10.0 \
        + (steel.cr + steel.cu) / 20.0 + steel.ni / 40.0


@jax.custom_vjp
def required_preheat(steel, thickness, hydrogen, q, ambient):
    """Preheat after EN 1011-2 method B, never below the shop's own temperature.

    Args:
      steel: ``Steel`` with entries of shape (heats,).
      thickness: plate thickness per heat, shape (heats,), mm.
      hydrogen: diffusible hydrogen in ml per 100 g, a scalar of the consumable.
      q: heat input of the procedure, a scalar in kJ/mm.
      ambient: shop temperature, a scalar.

    Returns:
      Degrees Celsius, shape (heats,).
    """
    return _preheat_fwd(steel, thickness, hydrogen, q, ambient)[0]


def _preheat_fwd(steel, thickness, hydrogen, q, ambient):
    cet = carbon_equivalent(steel)
    wall = jnp.tanh(thickness / 35.0)
    asked = 697.0 * cet + 160.0 * wall + 62.0 * hydrogen ** 0.35 \
        + (53.0 * cet - 32.0) * q - 328.0
    return jnp.maximum(asked, ambient), (cet, wall, hydrogen, q, asked > ambient)


def _preheat_bwd(res, ct):
    cet, wall, hydrogen, q, heated = res
    live = jnp.where(heated, ct, 0.0)
    d_cet = live * (697.0 + 53.0 * q)
    d_steel = Steel(c=d_cet, mn=d_cet / 10.0, mo=d_cet / 10.0,
                    cr=d_cet / 20.0, cu=d_cet / 20.0, ni=d_cet / 40.0)
    d_thickness = live * (160.0 / 35.0) * (1.0 - wall ** 2)
    d_hydrogen = jnp.sum(live) * 62.0 * 0.35 * hydrogen ** (0.35 - 1.0)
    d_q = jnp.sum(live * (53.0 * cet - 32.0))
    d_ambient = jnp.sum(jnp.where(heated, 0.0, ct))
    return d_steel, d_thickness, d_hydrogen, d_q, d_ambient


required_preheat.defvjp(_preheat_fwd, _preheat_bwd)


# ---------------------------------------------------------------------------
# temperature field of the travelling arc
# ---------------------------------------------------------------------------

@jax.custom_gradient
def plate_temperature(points, power, speed, thickness, ambient):
    """Quasi-steady temperature at thermocouples in a plate of finite thickness.

    ``points`` is (n, 3): distance ahead of the arc (negative behind it),
    distance to the side, and depth below the surface being welded, between 0
    and ``thickness``.  The insulated faces are met with mirror sources at
    depths ``2 m thickness``.  Power in W, speed in mm/s; the four last
    arguments are scalars.
    """
    order = jnp.arange(-N_IMAGES, N_IMAGES + 1)[:, None].astype(points.dtype)
    ahead, side, depth = points[:, 0], points[:, 1], points[:, 2]
    below = depth[None, :] + 2.0 * order * thickness
    radius = jnp.sqrt(ahead ** 2 + side ** 2 + below ** 2)
    half = speed / (2.0 * DIFFUSIVITY)
    strength = 1.0 / (2.0 * jnp.pi * CONDUCTIVITY)
    kernel = jnp.exp(-half * (ahead + radius)) / radius
    rise = strength * power * jnp.sum(kernel, axis=0)

    def pull(ct):
        scale = strength * power * ct
        by_radius = -kernel * (1.0 / radius + half)
        unit = by_radius / radius
        d_ahead = scale * jnp.sum(unit * ahead - half * kernel, axis=0)
        d_side = scale * jnp.sum(unit * side, axis=0)
        d_depth = scale * jnp.sum(unit * below, axis=0)
        d_points = jnp.stack([d_ahead, d_side, d_depth], axis=1)
        d_power = jnp.sum(ct * strength * jnp.sum(kernel, axis=0))
        d_speed = -jnp.sum(scale * jnp.sum(kernel * (ahead + radius), axis=0)) \
            / (2.0 * DIFFUSIVITY)
        offset = 2.0 * order
        d_thickness = jnp.sum(
            scale * jnp.sum(unit * offset * (offset * thickness), axis=0))
        return d_points, d_power, d_speed, d_thickness, jnp.sum(ct)

    return ambient + rise, pull


# ---------------------------------------------------------------------------
# weld groups
# ---------------------------------------------------------------------------

@jax.custom_vjp
def run_stress(group, load, load_point, throat):
    """Throat stress at the middle of every run, elastic vector method.

    group: WeldGroup; load: (2,) N; load_point: (2,) mm; throat: scalar mm.
    Returns (runs,) MPa.
    """
    return _run_stress_fwd(group, load, load_point, throat)[0]


def _run_stress_fwd(group, load, load_point, throat):
    mid, length = group
    area = jnp.sum(length)
    centroid = length @ mid / area
    arm = mid - centroid
    polar = jnp.sum(length * jnp.sum(arm ** 2, axis=1) + length ** 3 / 12.0)
    lever = load_point - centroid
    moment = lever[0] * load[1] - lever[1] * load[0]
    turn = jnp.stack([-arm[:, 1], arm[:, 0]], axis=1)
    flow = load / area + moment / polar * turn
    size = jnp.sqrt(jnp.sum(flow ** 2, axis=1))
    res = (group, load, throat, area, centroid, arm, polar, lever, moment, turn, flow, size)
    return size / throat, res


def _run_stress_bwd(res, ct):
    group, load, throat, area, centroid, arm, polar, lever, moment, turn, flow, size = res
    mid, length = group
    tiny = jnp.finfo(size.dtype).tiny
    d_throat = -jnp.sum(ct * size) / throat ** 2
    d_flow = (ct / (throat * jnp.maximum(size, tiny)))[:, None] * flow

    d_load = jnp.sum(d_flow, axis=0) / area
    d_area = -jnp.sum(d_flow @ load) / area ** 2

    d_ratio = jnp.sum(d_flow * turn)
    d_turn = moment / polar * d_flow
    d_arm = jnp.stack([d_turn[:, 1], -d_turn[:, 0]], axis=1)
    d_moment = d_ratio / polar
    d_polar = -d_ratio * moment / polar ** 2

    d_lever = d_moment * jnp.stack([load[1], -load[0]])
    d_load = d_load + d_moment * jnp.stack([-lever[1], lever[0]])

    d_arm = d_arm + 2.0 * d_polar * length[:, None] * arm
    d_length = d_polar * (jnp.sum(arm ** 2, axis=1) + length ** 2 / 4.0)

    d_centroid = -jnp.sum(d_arm, axis=0) - d_lever
    d_mid = d_arm + length[:, None] * d_centroid / area
    d_length = d_length + mid @ d_centroid / area
    d_area = d_area - d_centroid @ centroid / area
    return WeldGroup(d_mid, d_length + d_area), d_load, d_lever, d_throat


run_stress.defvjp(_run_stress_fwd, _run_stress_bwd)


def channel_group(width: float, height: float) -> WeldGroup:
    """Three runs around a channel section."""
    mid = jnp.array([[width / 2, 0.0], [0.0, height / 2], [width / 2, height]])
    return WeldGroup(mid, jnp.array([width, height, width]))


# ---------------------------------------------------------------------------
# planner
# ---------------------------------------------------------------------------

class ProcedurePlanner:
    """Chooses heat input and preheat so that cooling time meets a target."""

    def __init__(self, joint: str = "butt", target: float = 12.0, rate: float = 0.02):
        self.joint = joint
        self.target = target
        self.rate = rate

    def cost(self, sheet, thickness):
        t85 = cooling_time(self.joint, sheet["q"], sheet["preheat"], thickness)
        effort = 1e-4 * jnp.sum(sheet["preheat"] ** 2)
        return jnp.sum((jnp.log(t85) - jnp.log(self.target)) ** 2) + effort

    def plan(self, thickness, steps: int = 40):
        sheet = {"q": jnp.full_like(thickness, 1.5), "preheat": jnp.full_like(thickness, 60.0)}
        scale = {"q": 1.0, "preheat": 400.0}
        step = jax.jit(jax.grad(self.cost))
        for _ in range(steps):
            slope = step(sheet, thickness)
            sheet = {k: sheet[k] - self.rate * scale[k] * slope[k] for k in sheet}
        return sheet


def arc_fit(points, readings, power, speed, thickness, ambient, steps: int = 20):
    """Effective arc power from thermocouple readings, Gauss-Newton on one unknown."""
    for _ in range(steps):
        model = plate_temperature(points, power, speed, thickness, ambient)
        slope = jax.grad(lambda p: jnp.sum(
            (plate_temperature(points, p, speed, thickness, ambient) - readings) ** 2))(power)
        curve = 2.0 * jnp.sum(((model - ambient) / power) ** 2)
        power = power - slope / curve
    return power


if __name__ == "__main__":
    planner = ProcedurePlanner()
    print(planner.plan(jnp.array([8.0, 15.0, 40.0])))
    s355 = Steel(*(jnp.array(v) for v in
                   ([0.16, 0.18], [1.4, 1.5], [0.02, 0.05], [0.1, 0.3], [0.1, 0.2], [0.1, 0.4])))
    print(required_preheat(s355, jnp.array([20.0, 50.0]), jnp.array(5.0),
                           jnp.array(1.5), jnp.array(15.0)))
    couples = jnp.array([[-10.0, 4.0, 0.0], [-20.0, 6.0, 0.0]])
    print(plate_temperature(couples, jnp.array(2500.0), jnp.array(5.0),
                            jnp.array(12.0), jnp.array(20.0)))
    print(run_stress(channel_group(80.0, 150.0), jnp.array([0.0, -20e3]),
                     jnp.array([220.0, 75.0]), jnp.array(5.0)))
