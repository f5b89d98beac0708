"""Numerics for a bicycle wheel building bench.

The bench plucks every spoke with a small solenoid, records its tone and turns
the tone into a tension.  Three kinds of quantity are fitted together:

* the geometry of hub and rim (spoke lengths to order, bracing angles),
* the tone of each spoke as a taut string,
* the lateral runout of the rim caused by the scatter of the tensions.

Everything is differentiable because the truing planner minimises the runout
and the unevenness together over quarter turns of the nipples.

Units: millimetres, newtons, kilograms, hertz unless a name says otherwise.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

STEEL_DENSITY = 7.85e-6      # kg / mm^3
STEEL_MODULUS = 2.0e5        # N / mm^2
NIPPLE_PITCH = 25.4 / 56.0   # mm of thread per turn
DEFAULT_GAUGE = 1.8          # mm, butted mid section
RIGHT, LEFT = 0, 1


class HubGeometry(NamedTuple):
    """Measurements of a hub and its rim.

    erd is one number for the wheel.  The other three are given per flange
    (right, left) as vectors of two entries, or as one number when the hub is
    symmetric.
    """

    erd: jax.Array
    flange_diameter: jax.Array
    flange_offset: jax.Array
    hole_diameter: jax.Array


def alternate_sides(n_spokes: int) -> np.ndarray:
    """Side table of an ordinary wheel: right, left, right, left, ..."""
    return np.arange(n_spokes) % 2


def triplet_sides(n_spokes: int) -> np.ndarray:
    """Side table of a 2:1 laced rear wheel: two drive spokes, then one other."""
    if n_spokes % 3:
        raise ValueError("triplet lacing needs a multiple of three spokes")
    return np.where(np.arange(n_spokes) % 3 == 2, LEFT, RIGHT)


def linear_mass(gauge_mm: float = DEFAULT_GAUGE) -> float:
    """Mass per millimetre of a round steel spoke, in kg / mm."""
    return STEEL_DENSITY * math.pi * gauge_mm**2 / 4.0


def spoke_stiffness(length: jax.Array, gauge_mm: float = DEFAULT_GAUGE) -> jax.Array:
    """Axial stiffness in N / mm."""
    return STEEL_MODULUS * math.pi * gauge_mm**2 / 4.0 / length


def _fold_to(x: jax.Array, shape: tuple) -> jax.Array:
    """Add up the axes of `x` that broadcasting from `shape` created."""
    extra = x.ndim - len(shape)
    x = jnp.sum(x, axis=tuple(range(extra))) if extra else x
    keep = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return jnp.sum(x, axis=keep, keepdims=True) if keep else x


# ---------------------------------------------------------------------------
# Lengths to order
# ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def spoke_length(hub: HubGeometry, n_spokes: int, crosses: int) -> jax.Array:
    """Length of the spokes of each flange, elbow to nipple seat.

    Parameters
    ----------
    hub : HubGeometry
        Measurements; the fields broadcast against each other.
    n_spokes : int
        Spokes in the whole wheel, both flanges.
    crosses : int
        0 for radial lacing, 3 for an ordinary touring wheel.

    Returns
    -------
    jax.Array
        One length per flange.
    """
    return _spoke_length_fwd(hub, n_spokes, crosses)[0]


def _lacing_angle(n_spokes: int, crosses: int) -> float:
    return 4.0 * math.pi * crosses / n_spokes


def _spoke_length_fwd(hub, n_spokes, crosses):
    rim_radius = 0.5 * hub.erd
    flange_radius = 0.5 * hub.flange_diameter
    cosine = math.cos(_lacing_angle(n_spokes, crosses))
    span = jnp.sqrt(
        rim_radius**2
        + flange_radius**2
        + hub.flange_offset**2
        - 2.0 * rim_radius * flange_radius * cosine
    )
    return span - 0.5 * hub.hole_diameter, (hub, span)


def _spoke_length_bwd(n_spokes, crosses, kept, g):
    hub, span = kept
    rim_radius = 0.5 * hub.erd
    flange_radius = 0.5 * hub.flange_diameter
    cosine = math.cos(_lacing_angle(n_spokes, crosses))
    per_span = g / span
    d_rim = per_span * (rim_radius - flange_radius * cosine)
    d_flange = per_span * (flange_radius - rim_radius * cosine)
    grads = HubGeometry(
        erd=0.5 * d_rim,
        flange_diameter=0.5 * d_flange,
        flange_offset=per_span * hub.flange_offset,
        hole_diameter=-0.5 * g,
    )
    folded = [_fold_to(d, jnp.shape(p)) for d, p in zip(grads, hub)]
    return (HubGeometry(*folded),)


spoke_length.defvjp(_spoke_length_fwd, _spoke_length_bwd)


# ---------------------------------------------------------------------------
# Tones
# ---------------------------------------------------------------------------


@jax.custom_jvp
def spoke_pitch(tension, length, mass_per_mm, side):
    """Fundamental tone of every spoke in hertz.

    `tension` has an entry per spoke, `length` an entry per flange, and `side`
    is the integer table that says on which flange a spoke hangs.  Slack spokes
    (tension zero or less) do not sound and report zero.
    """
    # one newton is 1e3 kg mm / s^2, so the wave speed comes out in mm / s
    taut = tension > 0
    safe = jnp.where(taut, tension, 1.0)
    speed = jnp.sqrt(1.0e3 * safe / mass_per_mm)
    return jnp.where(taut, speed / (2.0 * length[side]), 0.0)


@spoke_pitch.defjvp
def _spoke_pitch_jvp(primals, tangents):
    tension, length, mass_per_mm, side = primals
    d_tension, d_length, d_mass, _ = tangents
    tone = spoke_pitch(tension, length, mass_per_mm, side)
    taut = tension > 0
    safe = jnp.where(taut, tension, 1.0)
    relative = (
        0.5 * d_tension / safe
        - d_length[side] / length[side]
        - 0.5 * d_mass / mass_per_mm
    )
    return tone, jnp.where(taut, tone * relative, 0.0)


def tension_from_tone(tone, length, side, gauge_mm=DEFAULT_GAUGE):
    """Inverse of the tone law, for a first guess."""
    return linear_mass(gauge_mm) * 1e-3 * (2.0 * length[side] * tone) ** 2


# ---------------------------------------------------------------------------
# Evenness
# ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def tension_unevenness(tension: jax.Array, side: jax.Array, n_sides: int = 2) -> jax.Array:
    """Standard deviation over mean of the tensions of each flange.

    Args:
        tension: tension of each spoke, shape (spokes,).
        side: flange of each spoke, integers in [0, n_sides).  Any lacing may
            be given (alternate, 2:1 triplet, one flange only, ...).
        n_sides: number of flanges.

    Returns:
        Array of shape (n_sides,).  A flange of perfectly equal spokes gives 0.
    """
    return _unevenness_fwd(tension, side, n_sides)[0]


def _unevenness_fwd(tension, side, n_sides):
    ones = jnp.ones_like(tension)
    count = jnp.maximum(jax.ops.segment_sum(ones, side, n_sides), 1.0)
    mean = jax.ops.segment_sum(tension, side, n_sides) / count
    centred = tension - mean[side]
    spread = jnp.sqrt(jax.ops.segment_sum(centred**2, side, n_sides) / count)
    safe_mean = jnp.where(mean == 0, 1.0, mean)
    return spread / safe_mean, (centred, spread, safe_mean, side)


def _unevenness_bwd(n_sides, kept, g):
    centred, spread, mean, side = kept
    per_side = centred.shape[0] / n_sides
    safe_spread = jnp.where(spread > 0, spread, 1.0)
    through_spread = g / (safe_spread * mean * per_side)
    through_mean = g * spread / (mean**2 * per_side)
    d_tension = centred * through_spread[side] - through_mean[side]
    return d_tension, None


tension_unevenness.defvjp(_unevenness_fwd, _unevenness_bwd)


# ---------------------------------------------------------------------------
# Runout of the rim
# ---------------------------------------------------------------------------


def beam_influence(n_spokes: int, decay: float = 1.6, skew: float = 0.0) -> np.ndarray:
    """Lateral influence of one newton at spoke 0 on the rim at every spoke.

    The rim acts as a ring on an elastic bed.  `skew` tilts the response in the
    direction of rotation: the trailing and leading spokes of a disc brake
    wheel brace the rim differently, so its response is not even.
    """
    ahead = np.arange(n_spokes)
    signed = np.where(ahead > n_spokes // 2, ahead - n_spokes, ahead)
    distance = np.abs(signed) / decay
    even = np.exp(-distance) * (np.cos(distance) + np.sin(distance))
    odd = np.exp(-distance) * np.sin(signed / decay)
    return 1.0e-3 * (even + skew * odd)


class RimModel:
    """Linear rim: runout is the ring convolution of pulls with an influence.

    The influence curve is kept as a parameter of the fit, starting from
    `beam_influence`.
    """

    def __init__(self, side: np.ndarray, skew: float = 0.0):
        self.side = np.asarray(side)
        self.influence = jnp.asarray(beam_influence(len(side), skew=skew))
        self.runout = self.build(len(side))

    @staticmethod
    def build(n_spokes: int):
        """Make the ring convolution for a wheel of `n_spokes`."""
        here = np.arange(n_spokes)
        offset = (here[:, None] - here[None, :]) % n_spokes

        @jax.custom_vjp
        def runout(pull, influence):
            """runout[i] = sum_j influence[(i - j) mod n] * pull[j]"""
            return influence[offset] @ pull

        def runout_fwd(pull, influence):
            return runout(pull, influence), (pull, influence)

        def runout_bwd(kept, g):
            pull, influence = kept
            d_pull = influence[offset] @ g
            d_influence = jnp.zeros_like(influence).at[offset].add(
                g[:, None] * pull[None, :]
            )
            return d_pull, d_influence

        runout.defvjp(runout_fwd, runout_bwd)
        return runout

    def lateral(self, tension, bracing):
        """Rim offset (mm) from the tensions and the bracing sine per flange."""
        sign = jnp.where(self.side == RIGHT, 1.0, -1.0)
        pull = sign * tension * bracing[self.side]
        return self.runout(pull - jnp.mean(pull), self.influence)


def truing_cost(turns, tension, rim: RimModel, lengths, bracing, weight=0.1):
    """Objective of the planner over nipple turns (one entry per spoke)."""
    stiffness = spoke_stiffness(lengths)[rim.side]
    tightened = tension + 0.25 * stiffness * NIPPLE_PITCH * turns
    flat = jnp.sum(rim.lateral(tightened, bracing) ** 2)
    even = jnp.sum(tension_unevenness(tightened, rim.side, 2))
    return flat + weight * even


def plan_turns(tension, rim, lengths, bracing, steps=20, rate=0.02):
    """Plain descent on the nipple turns."""
    slope = jax.jit(jax.grad(partial(truing_cost, rim=rim, lengths=lengths, bracing=bracing)))
    turns = jnp.zeros_like(tension)
    for _ in range(steps):
        turns = turns - rate * slope(turns, tension)
    return turns


if __name__ == "__main__":
    hub = HubGeometry(
        erd=jnp.asarray(602.0),
        flange_diameter=jnp.asarray([45.0, 44.0]),
        flange_offset=jnp.asarray([18.5, 34.0]),
        hole_diameter=jnp.asarray([2.6, 2.6]),
    )
    lengths = spoke_length(hub, 24, 2)
    side = triplet_sides(24)
    rng = np.random.default_rng(7)
    tension = jnp.asarray(900.0 + 60.0 * rng.standard_normal(24))
    print("lengths", lengths)
    print("tones", spoke_pitch(tension, lengths, jnp.asarray(linear_mass()), side))
    rim = RimModel(side, skew=0.2)
    bracing = hub.flange_offset / lengths
    print("turns", plan_turns(tension, rim, lengths, bracing))
