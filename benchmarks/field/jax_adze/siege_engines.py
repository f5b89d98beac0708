"""Reconstruction models for pre-gunpowder artillery.

Used by the experimental-archaeology group to fit measured casts of the three
full-scale replicas (a counterweight trebuchet, a two-armed torsion engine and
a traction engine hauled by a crew) to a handful of physical parameters.

The module is organised by subsystem:

* torsion skeins      -- ``skein_torque`` reads the measured torque table;
* traction crews      -- ``make_hauling_crew`` builds the rope-pull model;
* release and flight  -- ``release_range`` (vacuum) and ``stone_flight`` (drag);
* fitting             -- ``cast_residuals`` and ``fit_step``.

Units are SI unless a name says otherwise.  Angles are in radians, with the
elevation of a cast measured from the horizontal.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

GRAVITY = 9.80665
STONE_DENSITY = 2400.0
SPHERE_DRAG_COEFFICIENT = 0.47
SEA_LEVEL_DENSITY = 1.225
SCALE_HEIGHT = 8500.0
TWIST_STEP = 0.25
ROOT_FLOOR = 1e-12

# Measured on the oxen-sinew skein of replica B, newton metres per bundle,
# at twists of 0, 0.25, 0.5 ... radians from slack.
SINEW_TABLE = np.array([0.0, 210.0, 455.0, 760.0, 1160.0, 1690.0, 2380.0, 3260.0])


class Counterweight(NamedTuple):
    """Geometry of the beam and box of a counterweight engine."""

    box_mass: jnp.ndarray
    drop: jnp.ndarray
    efficiency: jnp.ndarray
    sling_angle: jnp.ndarray
    axle_height: jnp.ndarray


class TorsionEngine(NamedTuple):
    torque_table: jnp.ndarray
    bundle_scale: jnp.ndarray
    arm_inertia: jnp.ndarray
    arm_length: jnp.ndarray


def stone_mass(diameter):
    """Mass of a dressed limestone ball of the given diameter."""
    return STONE_DENSITY * jnp.pi * diameter**3 / 6.0


def drag_per_density(diameter):
    """Drag factor ``Cd A / (2 m)``; multiply by air density to get 1/m."""
    area = 0.25 * jnp.pi * diameter**2
    return 0.5 * SPHERE_DRAG_COEFFICIENT * area / stone_mass(diameter)


def standard_density(altitude):
    return SEA_LEVEL_DENSITY * jnp.exp(-altitude / SCALE_HEIGHT)


# ---------------------------------------------------------------------------
# Torsion skeins
# ---------------------------------------------------------------------------


def _locate(twist, n_knots):
    magnitude = jnp.abs(twist) / TWIST_STEP
    left = jnp.clip(jnp.floor(magnitude).astype(jnp.int32), 0, n_knots - 2)
    return left, magnitude - left


@jax.custom_vjp
def skein_torque(twist, table, scale):
    """Restoring torque of twisted skeins.

    The table lists the torque at multiples of ``TWIST_STEP`` and is read
    linearly; past the last entry the last segment is continued.  A skein
    wound the other way answers with the opposite torque.

    Parameters
    ----------
    twist : array, shape (bundles, samples)
        Signed twist of each bundle along the recorded stroke.
    table : array, shape (knots,)
        Torque at the knots.  The first entry is that of the slack skein, zero.
    scale : array, shape (bundles,)
        Thickness correction for each bundle.

    Returns
    -------
    array, shape (bundles, samples)
    """
    left, frac = _locate(twist, table.shape[0])
    reading = (1.0 - frac) * table[left] + frac * table[left + 1]
    return scale[:, None] * jnp.sign(twist) * reading


def _skein_torque_fwd(twist, table, scale):
    left, frac = _locate(twist, table.shape[0])
    low, high = table[left], table[left + 1]
    reading = (1.0 - frac) * low + frac * high
    side = jnp.sign(twist)
    saved = (left, frac, side, reading, high - low, table, scale)
    return scale[:, None] * side * reading, saved


def _skein_torque_bwd(saved, g):
    left, frac, side, reading, rise, table, scale = saved
    weighted = g * scale[:, None]
    g_twist = weighted * rise / TWIST_STEP
    g_table = jnp.zeros_like(table)
    g_table = g_table.at[left].add(weighted * (1.0 - frac))
    g_table = g_table.at[left + 1].add(weighted * frac)
    g_scale = jnp.sum(g * side * reading, axis=1)
    return g_twist, g_table, g_scale


skein_torque.defvjp(_skein_torque_fwd, _skein_torque_bwd)


def stroke_energy(engine: TorsionEngine, start, stop, samples=48):
    """Work given up by every bundle between two twists (trapezium rule).

    ``start`` and ``stop`` have one value per bundle; the two arms of an engine
    are wound in opposite senses, so half of them are usually negative.
    """
    fraction = jnp.linspace(0.0, 1.0, samples)
    twist = start[:, None] + (stop - start)[:, None] * fraction
    torque = skein_torque(twist, engine.torque_table, engine.bundle_scale)
    step = (stop - start) / (samples - 1)
    inner = torque[:, 1:-1].sum(axis=1) + 0.5 * (torque[:, 0] + torque[:, -1])
    return -inner * step


def torsion_muzzle_speed(engine: TorsionEngine, start, stop, mass):
    energy = jnp.sum(stroke_energy(engine, start, stop))
    inertia = 2.0 * engine.arm_inertia + mass * engine.arm_length**2
    return engine.arm_length * jnp.sqrt(2.0 * energy / inertia)


# ---------------------------------------------------------------------------
# Traction crews
# ---------------------------------------------------------------------------


def make_hauling_crew(rope_of_person, n_ropes):
    """Build the pull model for a crew with a fixed rope assignment.

    Args:
      rope_of_person: integer sequence, the rope each person holds.  Several
        people normally share one rope.
      n_ropes: number of ropes on the short arm.

    Returns:
      A function ``rope_pull(strength, readiness, grip_limit)``.
    """
    rope_of_person = jnp.asarray(rope_of_person, dtype=jnp.int32)

    def gather_ropes(effort):
        per_rope = jnp.zeros(effort.shape[:-1] + (n_ropes,), effort.dtype)
        return per_rope.at[..., rope_of_person].add(effort)

    @jax.custom_vjp
    def rope_pull(strength, readiness, grip_limit):
        # strength (people,), readiness (casts, people), grip_limit scalar
        raw = gather_ropes(strength * readiness)
        return grip_limit * jnp.tanh(raw / grip_limit)

    def forward(strength, readiness, grip_limit):
        raw = gather_ropes(strength * readiness)
        level = jnp.tanh(raw / grip_limit)
        return grip_limit * level, (strength, readiness, grip_limit, raw, level)

    def backward(saved, g):
        strength, readiness, grip_limit, raw, level = saved
        slope = 1.0 - level * level
        g_effort = (g * slope)[..., rope_of_person]
        g_strength = jnp.sum(g_effort * readiness, axis=0)
        g_readiness = g_effort * strength
        g_limit = jnp.sum(g * (level - slope * raw / grip_limit))
        return g_strength, g_readiness, g_limit

    rope_pull.defvjp(forward, backward)
    return rope_pull


def hauling_energy(rope_pull, strength, readiness, grip_limit, stroke):
    """Energy delivered to the beam on every cast."""
    return stroke * jnp.sum(rope_pull(strength, readiness, grip_limit), axis=-1)


# ---------------------------------------------------------------------------
# Release and flight
# ---------------------------------------------------------------------------


@jax.custom_jvp
def release_range(speed, elevation, height):
    """Distance to the ground in vacuum of a stone let go at ``height`` >= 0."""
    vertical = speed * jnp.sin(elevation)
    root = jnp.sqrt(jnp.maximum(vertical**2 + 2.0 * GRAVITY * height, ROOT_FLOOR))
    return speed * jnp.cos(elevation) * (vertical + root) / GRAVITY


@release_range.defjvp
def _release_range_jvp(primals, tangents):
    speed, elevation, height = primals
    d_speed, d_elevation, d_height = tangents
    sine, cosine = jnp.sin(elevation), jnp.cos(elevation)
    vertical = speed * sine
    inside = vertical**2 + 2.0 * GRAVITY * height
    root = jnp.sqrt(jnp.maximum(inside, ROOT_FLOOR))
    live = jnp.where(inside > ROOT_FLOOR, 1.0 / root, 0.0)
    airtime = (vertical + root) / GRAVITY
    distance = speed * cosine * airtime

    d_vertical = sine * d_speed + speed * cosine * d_elevation
    d_root = live * (vertical * d_vertical + GRAVITY * d_height)
    d_horizontal = cosine * d_speed - speed * sine * d_elevation
    d_distance = d_horizontal * airtime + speed * cosine * (d_vertical + d_root) / GRAVITY
    return distance, d_distance


def _accelerate(velocity, drag, density):
    speed = jnp.sqrt(jnp.sum(velocity**2, axis=-1, keepdims=True))
    fall = jnp.array([0.0, GRAVITY], velocity.dtype)
    return -drag[:, None] * density * speed * velocity - fall


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def stone_flight(dt, velocity, drag, density):
    """March a volley of stones through air, one density per time step.

    ``velocity`` (stones, 2) holds the horizontal and vertical components at
    release, ``drag`` (stones,) the factor from ``drag_per_density`` and
    ``density`` (steps,) the effective air density met during each step of length
    ``dt``: that of the air, lessened while the stone is in the lee of the wall.
    Returns displacement (stones, 2) and velocity (stones, 2) after the march.
    """
    def advance(carry, rho):
        place, speed = carry
        place = place + dt * speed
        speed = speed + dt * _accelerate(speed, drag, rho)
        return (place, speed), None

    (place, last), _ = jax.lax.scan(advance, (jnp.zeros_like(velocity), velocity), density)
    return place, last


def _stone_flight_fwd(dt, velocity, drag, density):
    def advance(carry, rho):
        place, speed = carry
        nxt = speed + dt * _accelerate(speed, drag, rho)
        return (place + dt * speed, nxt), speed

    (place, last), history = jax.lax.scan(
        advance, (jnp.zeros_like(velocity), velocity), density
    )
    return (place, last), (history, drag, density)


def _stone_flight_bwd(dt, saved, cotangents):
    history, drag, density = saved
    g_place, g_last = cotangents

    def retreat(carry, inputs):
        lam, g_drag = carry
        velocity, rho = inputs
        speed = jnp.sqrt(jnp.sum(velocity**2, axis=-1))
        along = jnp.sum(lam * velocity, axis=-1)
        pull = -dt * speed * along
        unit = velocity / jnp.maximum(speed, 1e-9)[:, None]
        resist = drag * rho
        through = lam - dt * resist[:, None] * (
            speed[:, None] * lam + along[:, None] * unit
        )
        return (through + dt * g_place, g_drag + rho * pull), jnp.sum(drag * pull)

    start = (g_last, jnp.zeros_like(drag))
    (g_velocity, g_drag), g_density = jax.lax.scan(
        retreat, start, (history[::-1], density)
    )
    return g_velocity, g_drag, g_density[::-1]


stone_flight.defvjp(_stone_flight_fwd, _stone_flight_bwd)


# ---------------------------------------------------------------------------
# Fitting
# ---------------------------------------------------------------------------


def counterweight_speed(engine: Counterweight, mass):
    """Launch speed from the energy of the falling box."""
    energy = engine.efficiency * engine.box_mass * GRAVITY * engine.drop
    return jnp.sqrt(2.0 * energy / mass)


def cast_residuals(engine: Counterweight, diameters, measured):
    """Relative misfit of the vacuum range against taped distances."""
    speed = counterweight_speed(engine, stone_mass(diameters))
    modelled = release_range(speed, engine.sling_angle, engine.axle_height)
    return (modelled - measured) / measured


def climb_densities(site_altitude, rise_rate, steps, dt):
    """Air density along a nominal climb above the site."""
    times = dt * jnp.arange(steps)
    return standard_density(site_altitude + rise_rate * times)


def in_lee(density, lee_steps, exposure=0.4):
    """Effective density with the first ``lee_steps`` steps behind the rampart."""
    sheltered = jnp.arange(density.shape[0]) < lee_steps
    return jnp.where(sheltered, exposure * density, density)


def drag_miss(velocity, diameters, density, target, dt=0.05):
    """Squared miss distance at the end of the march."""
    place, _ = stone_flight(dt, velocity, drag_per_density(diameters), density)
    return jnp.mean(jnp.sum((place - target) ** 2, axis=-1))


def fit_step(engine: Counterweight, diameters, measured, rate):
    """One gradient step over every field of the engine."""
    def objective(candidate):
        return jnp.mean(cast_residuals(candidate, diameters, measured) ** 2)

    value, grads = jax.value_and_grad(objective)(engine)
    moved = jax.tree_util.tree_map(lambda p, g: p - rate * p**2 * g, engine, grads)
    return moved, value


if __name__ == "__main__":
    replica = Counterweight(
        box_mass=jnp.array(6000.0),
        drop=jnp.array(3.1),
        efficiency=jnp.array(0.55),
        sling_angle=jnp.array(0.72),
        axle_height=jnp.array(7.5),
    )
    balls = jnp.array([0.36, 0.40, 0.44])
    taped = jnp.array([205.0, 168.0, 131.0])
    for _ in range(5):
        replica, misfit = fit_step(replica, balls, taped, 0.05)
        print("misfit", float(misfit))

    palintone = TorsionEngine(
        jnp.asarray(SINEW_TABLE), jnp.array([1.0, 1.05]), jnp.array(9.0), jnp.array(1.6)
    )
    print(
        "torsion speed",
        torsion_muzzle_speed(palintone, jnp.array([1.6, -1.6]), jnp.array([0.4, -0.4]), 4.0),
    )
    pull = make_hauling_crew([0, 0, 1, 1, 2, 2, 2], 3)
    print("crew energy", hauling_energy(pull, jnp.full(7, 310.0), jnp.ones((2, 7)), 800.0, 2.2))
    air = in_lee(climb_densities(120.0, 9.0, 60, 0.05), 8)
    print("miss", drag_miss(jnp.array([[30.0, 28.0], [26.0, 31.0], [33.0, 22.0]]), balls, air,
                            jnp.array([90.0, 40.0])))
