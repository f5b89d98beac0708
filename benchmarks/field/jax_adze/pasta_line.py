"""Differentiable model of a dry-pasta line: press, pre-dryer, trays, store.

The plant model runs in four blocks, each usable on its own:

1. ``die_flow``          flow of dough through the inserts of a bronze die;
2. ``drying_march``      moisture of the extruded slab along the dryer;
3. ``tray_statistics``   per-tray moisture figures from the NIR scanner;
4. ``oswin_equilibrium`` moisture at which the packed product settles.

``LineParameters`` nests the parameters of the blocks, so that gradients of a
plant objective come back as the same tree.  Moisture is kg water per kg dry
solid throughout, pressure is MPa and lengths in the die are mm.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

DOUGH_MOISTURE = 0.45
TARGET_MOISTURE = 0.143
SLAB_NODES = 9
SPREAD_FLOOR = 1e-4
LOWEST_ACTIVITY = 0.02
HIGHEST_ACTIVITY = 0.97
REFERENCE_CELSIUS = 25.0


class DieParameters(NamedTuple):
    radius: jnp.ndarray       # (inserts,)
    land: jnp.ndarray         # (inserts,)
    consistency: jnp.ndarray  # MPa s^n
    index: jnp.ndarray        # flow behaviour index


class OswinParameters(NamedTuple):
    level: jnp.ndarray
    level_slope: jnp.ndarray
    exponent: jnp.ndarray
    exponent_slope: jnp.ndarray


class LineParameters(NamedTuple):
    die: DieParameters
    store: OswinParameters
    diffusivity: jnp.ndarray


class TrayReading(NamedTuple):
    mean: jnp.ndarray
    spread: jnp.ndarray
    wettest: jnp.ndarray


SEMOLINA_STORE = OswinParameters(
    level=jnp.array(0.112),
    level_slope=jnp.array(-4.5e-4),
    exponent=jnp.array(0.385),
    exponent_slope=jnp.array(8.0e-4),
)


def _fold(value, like):
    """Sum ``value`` down to the shape of ``like``."""
    shape = jnp.shape(like)
    extra = value.ndim - len(shape)
    if extra > 0:
        value = value.sum(axis=tuple(range(extra)))
    narrow = tuple(i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1)
    if narrow:
        value = value.sum(axis=narrow, keepdims=True)
    return value


# ---------------------------------------------------------------------------
# Press
# ---------------------------------------------------------------------------


@jax.custom_vjp
def die_flow(pressure, radius, land, consistency, index):
    """Volume flow of a power-law dough through cylindrical inserts.

    Args:
      pressure: pressure behind the die, scalar or one per insert.
      radius: bore radius of the inserts.
      land: land length of the inserts.
      consistency: consistency coefficient of the dough.
      index: flow behaviour index; 1 is a Newtonian dough, semolina at press
        temperature is around 0.35 to 0.5.

    Returns:
      Flow per insert, with the broadcast shape of the arguments.
    """
    wall = pressure * radius / (2.0 * land * consistency)
    return jnp.pi * radius**3 * index / (3.0 * index + 1.0) * wall ** (1.0 / index)


def _die_flow_fwd(pressure, radius, land, consistency, index):
    flow = die_flow(pressure, radius, land, consistency, index)
    return flow, (pressure, radius, land, consistency, index, flow)


def _die_flow_bwd(saved, g):
    pressure, radius, land, consistency, index, flow = saved
    wall = pressure * radius / (2.0 * land * consistency)
    carried = g * flow
    power = 1.0 / index
    g_pressure = carried * power / pressure
    g_radius = carried * (3.0 + power) / radius
    g_land = -carried * power / land
    g_consistency = -carried * power / consistency
    g_index = carried * (power - 3.0 / (3.0 * index + 1.0) - power * jnp.log(wall))
    return (
        _fold(g_pressure, pressure),
        _fold(g_radius, radius),
        _fold(g_land, land),
        _fold(g_consistency, consistency),
        _fold(g_index, index),
    )


die_flow.defvjp(_die_flow_fwd, _die_flow_bwd)


def die_output(die: DieParameters, pressure):
    """Flow of the whole die and the unevenness between its inserts."""
    flow = die_flow(pressure, die.radius, die.land, die.consistency, die.index)
    return jnp.sum(flow), jnp.std(flow) / jnp.mean(flow)


# ---------------------------------------------------------------------------
# Dryer
# ---------------------------------------------------------------------------


def _curvature(profile):
    """Second difference at every node but the surface one.

    The first node is the mid-plane of the slab, with its mirror image beyond.
    """
    centre = 2.0 * (profile[:, 1:2] - profile[:, 0:1])
    inner = profile[:, :-2] - 2.0 * profile[:, 1:-1] + profile[:, 2:]
    return jnp.concatenate([centre, inner], axis=1)


def _curvature_transpose(h):
    """Adjoint of ``_curvature``: (slabs, nodes - 1) to (slabs, nodes)."""
    own = jnp.pad(-2.0 * h, ((0, 0), (0, 1)))
    up = h.at[:, 0].multiply(2.0)
    up = jnp.pad(up, ((0, 0), (1, 0)))
    down = jnp.pad(h[:, 1:], ((0, 0), (0, 2)))
    return own + up + down


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def drying_march(mesh_ratio, profile, diffusivity, surface):
    """Explicit diffusion march of slabs with a prescribed surface moisture.

    Parameters
    ----------
    mesh_ratio : float
        Time step over squared node spacing.
    profile : (slabs, nodes)
        Moisture from mid-plane to surface when entering the dryer.
    diffusivity : (slabs,)
    surface : (steps,)
        Surface moisture set by the dryer climate, the same for all slabs.

    Returns
    -------
    final : (slabs, nodes)
    means : (steps, slabs)
        Node mean after each step.
    """
    (final, means), _ = _drying_march_fwd(mesh_ratio, profile, diffusivity, surface)
    return final, means


def _drying_march_fwd(mesh_ratio, profile, diffusivity, surface):
    number = (mesh_ratio * diffusivity)[:, None]

    def advance(state, edge):
        moved = state[:, :-1] + number * _curvature(state)
        rim = jnp.full((state.shape[0], 1), edge, state.dtype)
        nxt = jnp.concatenate([moved, rim], axis=1)
        return nxt, (state, jnp.mean(nxt, axis=1))

    final, (states, means) = jax.lax.scan(advance, profile, surface)
    return (final, means), (states, diffusivity)


def _drying_march_bwd(mesh_ratio, saved, cotangents):
    states, diffusivity = saved
    g_final, g_means = cotangents
    number = (mesh_ratio * diffusivity)[:, None]
    nodes = states.shape[-1]

    def retreat(carry, inputs):
        lam, g_number = carry
        state, g_mean = inputs
        lam = lam + g_mean[:, None] / nodes
        g_edge = jnp.sum(lam[:, -1])
        inside = lam[:, :-1]
        g_number = g_number + jnp.sum(inside * _curvature(state), axis=1)
        lam = jnp.pad(inside, ((0, 0), (0, 1))) + _curvature_transpose(number * inside)
        return (lam, g_number), g_edge

    start = (g_final, jnp.zeros_like(diffusivity))
    (g_profile, g_number), g_surface = jax.lax.scan(
        retreat, start, (states, g_means), reverse=True
    )
    return g_profile, mesh_ratio * g_number, g_surface


drying_march.defvjp(_drying_march_fwd, _drying_march_bwd)


def dryer_climate(inlet, outlet, steps):
    """Surface moisture falling along the dryer on a half cosine."""
    phase = 0.5 * (1.0 - jnp.cos(jnp.pi * jnp.arange(1, steps + 1) / steps))
    return inlet + (outlet - inlet) * phase


def checking_risk(final):
    """Moisture contrast between core and rim, the cause of hairline cracks."""
    return jnp.maximum(final[:, 0] - final[:, -1], 0.0) ** 2


# ---------------------------------------------------------------------------
# Trays
# ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def tray_statistics(moisture, present, axis=-1):
    """Mean, spread and wettest piece of every tray.

    ``present`` marks the scan positions that hold a piece; ``axis`` is the one
    along which positions run.  Empty trays read zero mean, the floor spread
    and zero wettest.  Equal wettest pieces share the sensitivity.
    """
    reading, _ = _tray_statistics_fwd(moisture, present, axis)
    return reading


def _tray_statistics_fwd(moisture, present, axis):
    weight = present.astype(moisture.dtype)
    count = jnp.maximum(jnp.sum(weight, axis=axis, keepdims=True), 1.0)
    mean = jnp.sum(weight * moisture, axis=axis, keepdims=True) / count
    offset = weight * (moisture - mean)
    variance = jnp.sum(offset**2, axis=axis, keepdims=True) / count
    spread = jnp.sqrt(variance + SPREAD_FLOOR**2)
    top = jnp.max(jnp.where(present, moisture, -jnp.inf), axis=axis, keepdims=True)
    filled = jnp.any(present, axis=axis, keepdims=True)
    peak = jnp.where(present & (moisture == top), 1.0, 0.0)
    peak = peak / jnp.maximum(jnp.sum(peak, axis=axis, keepdims=True), 1.0)
    wettest = jnp.where(filled, top, 0.0)
    reading = TrayReading(*(jnp.squeeze(v, axis) for v in (mean, spread, wettest)))
    return reading, (weight, count, offset, spread, peak)


def _tray_statistics_bwd(axis, saved, g):
    weight, count, offset, spread, peak = saved
    g_mean, g_spread, g_wettest = (jnp.expand_dims(v, axis) for v in g)
    positions = weight.shape[axis]
    g_moisture = g_mean * weight / count
    g_moisture = g_moisture + g_spread * offset / (positions * spread)
    g_moisture = g_moisture + g_wettest * peak
    return g_moisture, None


tray_statistics.defvjp(_tray_statistics_fwd, _tray_statistics_bwd)


def tray_penalty(moisture, present, target=TARGET_MOISTURE):
    """Plant objective: on target, even, and nothing wet enough to mould."""
    reading = tray_statistics(moisture, present, 1)
    off_target = (reading.mean - target) ** 2
    mould = jnp.maximum(reading.wettest - 0.155, 0.0) ** 2
    return jnp.sum(off_target + reading.spread**2 + 10.0 * mould)


# ---------------------------------------------------------------------------
# Store
# ---------------------------------------------------------------------------


@jax.custom_jvp
def oswin_equilibrium(store, activity, celsius):
    """Oswin isotherm with coefficients linear in temperature.

    Activity is held within the range of the isotherm, and the result does not
    depend on it beyond.
    """
    held = jnp.clip(activity, LOWEST_ACTIVITY, HIGHEST_ACTIVITY)
    warm = celsius - REFERENCE_CELSIUS
    level = store.level + store.level_slope * warm
    exponent = store.exponent + store.exponent_slope * warm
    return level * (held / (1.0 - held)) ** exponent


@oswin_equilibrium.defjvp
def _oswin_equilibrium_jvp(primals, tangents):
    store, activity, celsius = primals
    d_store, d_activity, d_celsius = tangents
    held = jnp.clip(activity, LOWEST_ACTIVITY, HIGHEST_ACTIVITY)
    free = (activity > LOWEST_ACTIVITY) & (activity < HIGHEST_ACTIVITY)
    warm = celsius - REFERENCE_CELSIUS
    level = store.level + store.level_slope * warm
    exponent = store.exponent + store.exponent_slope * warm
    odds = held / (1.0 - held)
    shape = odds**exponent

    d_level = d_store.level + d_store.level_slope * warm + store.level_slope * d_celsius
    d_exponent = (
        d_store.exponent + d_store.exponent_slope * warm + store.exponent_slope * d_celsius
    )
    d_log_odds = jnp.where(free, d_activity, 0.0) / (held * (1.0 - held))
    tangent = shape * d_level + level * shape * (
        jnp.log(odds) * d_exponent + exponent * d_log_odds
    )
    return level * shape, tangent


def shelf_gap(store: OswinParameters, activity, celsius, moisture):
    """Moisture still to be lost (positive) or gained in the warehouse."""
    return moisture - oswin_equilibrium(store, activity, celsius)


def line_objective(params: LineParameters, pressure, climate, humidity, celsius):
    output, unevenness = die_output(params.die, pressure)
    slabs = params.diffusivity.shape[0]
    fresh = jnp.full((slabs, SLAB_NODES), DOUGH_MOISTURE)
    final, means = drying_march(0.2, fresh, params.diffusivity, climate)
    settle = shelf_gap(params.store, humidity, celsius, means[-1])
    return (
        -0.01 * output
        + unevenness**2
        + jnp.sum(checking_risk(final))
        + jnp.sum(settle**2)
    )


if __name__ == "__main__":
    line = LineParameters(
        die=DieParameters(
            radius=jnp.array([0.85, 0.86, 0.84, 0.85]),
            land=jnp.array([4.0, 4.0, 4.2, 3.9]),
            consistency=jnp.array(0.03),
            index=jnp.array(0.45),
        ),
        store=SEMOLINA_STORE,
        diffusivity=jnp.array([1.0, 1.3, 0.8]),
    )
    climate = dryer_climate(0.36, 0.12, 40)
    value, grads = jax.value_and_grad(line_objective)(line, 0.9, climate, 0.55, 21.0)
    print("objective", float(value))
    print(grads)
    scan = np.random.default_rng(0).normal(0.143, 0.006, (4, 12))
    held = np.ones((4, 12), bool)
    print("tray penalty", float(tray_penalty(jnp.asarray(scan), jnp.asarray(held))))
