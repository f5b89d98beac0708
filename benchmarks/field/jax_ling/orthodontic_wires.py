"""Mechanics of fixed orthodontic appliances.

Treatment simulators move teeth in small increments: wires deflected between
brackets exert forces, brackets pass them to teeth as a force and a moment at the
centre of resistance, and the arch form says how much room the teeth have.  We fit
wire constants and bracket placements to scanned arches, so all of it has to be
differentiable and cheap.

Length in millimetres, force in newtons, moments in newton millimetres.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

QUADRATURE_NODES = 64
SMALL_DISTANCE = 1e-9

# Universal numbering of a lower arch without third molars, right to left.
LOWER_TEETH = ("31", "30", "29", "28", "27", "26", "25", "24", "23", "22", "21", "20", "19", "18")

Params = dict[str, Any]


class WireCurve(NamedTuple):
    """Loading curve of a superelastic wire.

    austenite, plateau, martensite: stiffness of the three branches (N/mm).
    onset, finish: deflection at which the plateau begins and ends (mm).
    """

    austenite: jax.Array
    plateau: jax.Array
    martensite: jax.Array
    onset: jax.Array
    finish: jax.Array


def niti_014() -> WireCurve:
    return WireCurve(*(jnp.asarray(v) for v in (2.1, 0.12, 1.3, 0.45, 2.2)))


def niti_018() -> WireCurve:
    return WireCurve(*(jnp.asarray(v) for v in (4.6, 0.25, 2.4, 0.40, 1.9)))


def stainless(stiffness: float) -> WireCurve:
    """A linear wire: all three branches alike."""
    k = jnp.asarray(stiffness)
    return WireCurve(k, k, k, jnp.asarray(0.5), jnp.asarray(1.0))


# -- wire -----------------------------------------------------------------------


def _branch_lengths(size, curve: WireCurve):
    first = jnp.minimum(size, curve.onset)
    second = jnp.clip(size - curve.onset, 0.0, curve.finish - curve.onset)
    third = jnp.maximum(size - curve.finish, 0.0)
    return first, second, third


@jax.custom_jvp
def archwire_force(deflection, curve: WireCurve):
    """Restoring force of a wire, odd in the deflection (labial is positive).

    The curve is linear up to ``onset``, almost flat up to ``finish`` and stiffens
    afterwards.  `deflection` can have any shape.
    """
    size = jnp.abs(deflection)
    first, second, third = _branch_lengths(size, curve)
    return jnp.sign(deflection) * (
        curve.austenite * first + curve.plateau * second + curve.martensite * third
    )


@archwire_force.defjvp
def archwire_force_jvp(primals, tangents):
    deflection, curve = primals
    d_deflection, d_curve = tangents
    size = jnp.abs(deflection)
    side = jnp.sign(deflection)
    first, second, third = _branch_lengths(size, curve)
    force = side * (
        curve.austenite * first + curve.plateau * second + curve.martensite * third
    )

    on_plateau = size > curve.onset
    beyond = size > curve.finish
    stiffness = jnp.where(
        beyond, curve.martensite, jnp.where(on_plateau, curve.plateau, curve.austenite)
    )
    d_force = stiffness * d_deflection
    d_force += side * (
        first * d_curve.austenite + second * d_curve.plateau + third * d_curve.martensite
    )
    # moving a knot exchanges one stiffness for the next
    d_force += jnp.where(on_plateau, curve.austenite - curve.plateau, 0.0) * d_curve.onset
    d_force += jnp.where(beyond, curve.plateau - curve.martensite, 0.0) * d_curve.finish
    return force, d_force


# -- brackets -------------------------------------------------------------------


@jax.custom_vjp
def bracket_wrench(points, forces, centres, owner):
    """Collect the loads of brackets, tubes and hooks on the teeth.

    Args:
      points: (attachments, 3) where each force acts.
      forces: (attachments, 3).
      centres: (teeth, 3) centres of resistance.
      owner: int (attachments,), tooth each attachment is bonded to; molars often
        carry several.

    Returns:
      Resultant force and moment, each (teeth, 3).
    """
    teeth = centres.shape[0]
    arms = points - centres[owner]
    total = jax.ops.segment_sum(forces, owner, num_segments=teeth)
    moment = jax.ops.segment_sum(jnp.cross(arms, forces), owner, num_segments=teeth)
    return total, moment


def _bracket_wrench_fwd(points, forces, centres, owner):
    out = bracket_wrench(points, forces, centres, owner)
    return out, (points - centres[owner], forces, owner, centres.shape[0])


def _bracket_wrench_bwd(saved, cotangents):
    arms, forces, owner, teeth = saved
    total_bar, moment_bar = cotangents
    twist = moment_bar[owner]
    forces_bar = total_bar[owner] + jnp.cross(twist, arms)
    arms_bar = jnp.cross(forces, twist)
    centres_bar = -jax.ops.segment_sum(arms_bar, owner, num_segments=total_bar.shape[0])
    owner_bar = np.zeros(owner.shape, dtype=jax.dtypes.float0)
    return arms_bar, forces_bar, centres_bar, owner_bar


bracket_wrench.defvjp(_bracket_wrench_fwd, _bracket_wrench_bwd)


# -- arch form ------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def arch_perimeter(width, depth, power, nodes=QUADRATURE_NODES):
    """Length of the arch y = depth (1 - |2x/width|^power), midpoint rule.

    width, depth and power are (patients,) arrays.
    """
    u = (jnp.arange(nodes) + 0.5) / nodes
    slope = (2.0 * depth * power / width)[:, None] * u ** (power[:, None] - 1.0)
    return width * jnp.mean(jnp.sqrt(1.0 + slope**2), axis=1)


def _arch_perimeter_fwd(width, depth, power, nodes):
    return arch_perimeter(width, depth, power, nodes), (width, depth, power)


def _arch_perimeter_bwd(nodes, saved, length_bar):
    width, depth, power = (v[:, None] for v in saved)
    u = (jnp.arange(nodes) + 0.5) / nodes
    shape = 2.0 / width * u ** (power - 1.0)
    slope = depth * power * shape
    root = jnp.sqrt(1.0 + slope**2)
    lean = slope / root

    width_bar = length_bar * jnp.mean(root - lean * slope, axis=1)
    depth_bar = length_bar * jnp.mean(width * lean * power * shape, axis=1)
    power_bar = length_bar * jnp.mean(
        width * lean * depth * shape * (1.0 + power * jnp.log(u)), axis=1
    )
    return width_bar, depth_bar, power_bar


arch_perimeter.defvjp(_arch_perimeter_fwd, _arch_perimeter_bwd)


# -- alignment score ------------------------------------------------------------


def make_alignment_score(teeth: int):
    """Build the mean contact displacement for arches of ``teeth`` teeth.

    The returned function takes ``mesial`` and ``distal`` contact points, both
    (patients, teeth, 2), and ``present`` (patients, teeth), 1 for a tooth and 0
    for a gap.  A contact counts when both neighbours are there.
    """
    contacts = teeth - 1

    def _parts(mesial, distal, present):
        gap = mesial[:, 1:] - distal[:, :-1]
        dist = jnp.sqrt(jnp.sum(gap * gap, axis=-1) + SMALL_DISTANCE)
        pair = ((present[:, 1:] > 0) & (present[:, :-1] > 0)).astype(dist.dtype)
        return gap, dist, pair

    @jax.custom_vjp
    def contact_displacement(mesial, distal, present):
        _, dist, pair = _parts(mesial, distal, present)
        return jnp.sum(dist * pair, axis=1) / jnp.maximum(jnp.sum(pair, axis=1), 1.0)

    def forward(mesial, distal, present):
        gap, dist, pair = _parts(mesial, distal, present)
        score = jnp.sum(dist * pair, axis=1) / jnp.maximum(jnp.sum(pair, axis=1), 1.0)
        return score, (gap, dist, pair, present)

    def backward(saved, score_bar):
        gap, dist, pair, present = saved
        share = score_bar[:, None] * pair / contacts
        gap_bar = (share / dist)[..., None] * gap
        mesial_bar = jnp.pad(gap_bar, ((0, 0), (1, 0), (0, 0)))
        distal_bar = -jnp.pad(gap_bar, ((0, 0), (0, 1), (0, 0)))
        return mesial_bar, distal_bar, jnp.zeros_like(present)

    contact_displacement.defvjp(forward, backward)
    return contact_displacement


# -- treatment step -------------------------------------------------------------


class Appliance:
    """Wire, brackets and tooth supports of one arch."""

    def __init__(self, curve: WireCurve, owner, teeth: int):
        self.curve = curve
        self.owner = jnp.asarray(owner)
        self.teeth = teeth
        self.score = make_alignment_score(teeth)

    def init(self, key) -> Params:
        k1, k2 = jax.random.split(key)
        return {
            "wire": self.curve,
            "offset": 0.1 * jax.random.normal(k1, (self.owner.shape[0],)),
            "mobility": 0.02 + 0.01 * jax.random.uniform(k2, (self.teeth,)),
        }

    def loads(self, params, points, normals, centres):
        """Force and moment on all teeth for the present wire position."""
        deflection = jnp.sum(points * normals, axis=-1) - params["offset"]
        force = -archwire_force(deflection, params["wire"])
        return bracket_wrench(points, force[:, None] * normals, centres, self.owner)

    def step(self, params, points, normals, centres):
        force, moment = self.loads(params, points, normals, centres)
        shift = params["mobility"][:, None] * force
        return centres + shift, points + shift[self.owner], moment


def discrepancy(widths, present, arch):
    """Tooth material less room, (patients,). Positive means crowding."""
    need = jnp.sum(widths * present, axis=1)
    return need - arch_perimeter(arch["width"], arch["depth"], arch["power"])


def planning_loss(params, appliance: Appliance, scan, arch, widths):
    centres, points, moment = appliance.step(
        params, scan["points"], scan["normals"], scan["centres"]
    )
    flat = centres[None, :, :2]
    present = scan["present"][None]
    half = 0.5 * widths[0][:, None] * scan["tangents"]
    score = appliance.score(flat - half, flat + half, present)
    room = discrepancy(widths, present, arch)
    return jnp.mean(score) + 0.01 * jnp.mean(moment**2) + 0.1 * jnp.mean(room**2)


def _demo():
    teeth = 6
    owner = jnp.array([0, 0, 1, 2, 3, 4, 5, 5])
    key = jax.random.PRNGKey(3)
    k1, k2, k3 = jax.random.split(key, 3)
    appliance = Appliance(niti_014(), owner, teeth)
    params = appliance.init(k1)
    scan = {
        "points": jax.random.normal(k2, (8, 3)),
        "normals": jnp.tile(jnp.array([0.0, 1.0, 0.0]), (8, 1)),
        "centres": jax.random.normal(k3, (teeth, 3)) * 0.4
        + jnp.arange(teeth)[:, None] * jnp.array([6.0, 0.0, 0.0]),
        "present": jnp.array([1.0, 1.0, 1.0, 0.0, 1.0, 1.0]),
        "tangents": jnp.tile(jnp.array([1.0, 0.0]), (teeth, 1)),
    }
    arch = {
        "width": jnp.array([52.0]),
        "depth": jnp.array([26.0]),
        "power": jnp.array([2.4]),
    }
    widths = jnp.full((1, teeth), 6.2)
    loss, grads = jax.value_and_grad(planning_loss)(params, appliance, scan, arch, widths)
    print("loss", loss)
    print("wire gradient", grads["wire"])


if __name__ == "__main__":
    _demo()
