"""Differentiable shots on a billiards table.

A shot is struck (``cue_strike``), slides and rolls on the cloth
(``ClothModel.travel``), comes off cushions (``cushion_rebound``) or is followed
along the unfolded table (``fold_across``).  Used to search aim, tip position
and speed with gradients and to calibrate cloth and cushions from tracked balls.

Frame: y along the shot, x to the right, z up.  Ball radius and masses are those
of a 2 1/4 inch pool set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Dict, NamedTuple

import jax
import jax.numpy as jnp

GRAVITY = 9.81
BALL_RADIUS = 0.028575
BALL_MASS = 0.1701
BALL_INERTIA = 0.4 * BALL_MASS * BALL_RADIUS**2
TABLE_LENGTH = 2.54
TABLE_WIDTH = 1.27
SOFTEST_RETURN = 0.35     # restitution never drops under this value


class Strike(NamedTuple):
    """What the cue gives to the ball."""

    speed: jax.Array
    roll: jax.Array       # spin about x, rad/s, positive is follow
    masse: jax.Array      # spin about y
    side: jax.Array       # spin about z


class Cushion(NamedTuple):
    restitution: jax.Array
    fading: jax.Array     # loss of restitution per m/s
    grip: jax.Array       # share of the tangential speed taken by the rubber


# ---------------------------------------------------------------------------
# the cue
# ---------------------------------------------------------------------------


def _depth(across, above):
    """Distance of the struck point from the plane through the centre."""
    return jnp.sqrt(BALL_RADIUS**2 - across**2 - above**2)


def _impulse(cue_speed, across, above, elevation, cue_mass):
    depth = _depth(across, above)
    s, c = jnp.sin(elevation), jnp.cos(elevation)
    lever = across**2 + (above * c) ** 2 + (depth * s) ** 2 - 2.0 * above * depth * c * s
    stiffness = 1.0 + BALL_MASS / cue_mass + 2.5 * lever / BALL_RADIUS**2
    return 2.0 * BALL_MASS * cue_speed / stiffness, stiffness, depth


def _outputs(impulse, depth, across, above, elevation):
    s, c = jnp.sin(elevation), jnp.cos(elevation)
    return Strike(
        speed=impulse * c / BALL_MASS,
        roll=impulse * (above * c - depth * s) / BALL_INERTIA,
        masse=impulse * across * s / BALL_INERTIA,
        side=-impulse * across * c / BALL_INERTIA,
    )


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def cue_strike(cue_speed, across, above, elevation, cue_mass=0.54):
    """Speed and spin of a ball struck off centre.

    Parameters
    ----------
    cue_speed : array
        Speed of the cue at contact, m/s.
    across, above : array
        Offset of the tip from the centre of the ball, m, as seen along the cue
        axis; within the miscue limit of half a radius.
    elevation : array
        Inclination of the cue in radians, from 0 for a level cue to about 1.3
        for a masse.
    cue_mass : float
        Static.

    Returns
    -------
    Strike
        With fields of the broadcast shape.
    """
    impulse, _, depth = _impulse(cue_speed, across, above, elevation, cue_mass)
    return _outputs(impulse, depth, across, above, elevation)


@cue_strike.defjvp
def _cue_strike_jvp(cue_mass, primals, tangents):
    cue_speed, across, above, elevation = primals
    d_speed, d_across, d_above, d_elevation = tangents
    impulse, stiffness, depth = _impulse(*primals, cue_mass)
    s, c = jnp.sin(elevation), jnp.cos(elevation)
    out = _outputs(impulse, depth, across, above, elevation)

    arm = above * c - depth * s        # offset seen from the table
    d_arm = d_above * c - (above * s + depth * c) * d_elevation
    d_lever = 2.0 * (across * d_across + arm * d_arm)
    d_impulse = impulse * (
        d_speed / cue_speed - 2.5 * d_lever / (BALL_RADIUS**2 * stiffness)
    )

    d_cos = -s * d_elevation
    d_sin = c * d_elevation
    return out, Strike(
        speed=(d_impulse * c + impulse * d_cos) / BALL_MASS,
        roll=(d_impulse * arm + impulse * d_arm) / BALL_INERTIA,
        masse=(d_impulse * across * s + impulse * (d_across * s + across * d_sin))
        / BALL_INERTIA,
        side=-(d_impulse * across * c + impulse * (d_across * c + across * d_cos))
        / BALL_INERTIA,
    )


# ---------------------------------------------------------------------------
# cushions
# ---------------------------------------------------------------------------


@jax.custom_vjp
def cushion_rebound(velocity, normal, cushion: Cushion):
    """Velocity ``[..., 2]`` after contact with rubber of inward ``normal``.

    ``normal`` has the shape of ``velocity``; balls that move away from the
    cushion keep their velocity.  Restitution fades with the normal speed down
    to ``SOFTEST_RETURN``.  The fields of ``cushion`` are scalars.
    """
    return _rebound(velocity, normal, cushion)[0]


def _rebound(velocity, normal, cushion):
    inward = jnp.sum(velocity * normal, axis=-1, keepdims=True)
    hits = inward < 0.0
    faded = cushion.restitution + cushion.fading * inward
    lively = faded > SOFTEST_RETURN
    bounce = jnp.where(lively, faded, SOFTEST_RETURN)
    along = velocity - inward * normal
    after = (1.0 - cushion.grip) * along - bounce * inward * normal
    return jnp.where(hits, after, velocity), (inward, hits, lively, bounce, along)


def _cushion_rebound_fwd(velocity, normal, cushion):
    out, parts = _rebound(velocity, normal, cushion)
    return out, (velocity, normal, cushion, parts)


def _cushion_rebound_bwd(saved, ct):
    velocity, normal, cushion, (inward, hits, lively, bounce, along) = saved
    struck = jnp.where(hits, ct, 0.0)
    keep = 1.0 - cushion.grip
    ct_normal_speed = jnp.sum(struck * normal, axis=-1, keepdims=True)
    ct_bounce = jnp.where(lively, -inward * ct_normal_speed, 0.0)
    ct_inward = -(keep + bounce) * ct_normal_speed + ct_bounce * cushion.fading
    ct_velocity = jnp.where(hits, keep * ct, ct) + ct_inward * normal
    ct_normal = -(keep + bounce) * inward * struck + ct_inward * velocity
    return (
        ct_velocity,
        ct_normal,
        Cushion(
            restitution=jnp.sum(ct_bounce),
            fading=jnp.sum(ct_bounce * inward),
            grip=-jnp.sum(struck * along),
        ),
    )


cushion_rebound.defvjp(_cushion_rebound_fwd, _cushion_rebound_bwd)


# ---------------------------------------------------------------------------
# unfolded table
# ---------------------------------------------------------------------------


@jax.custom_jvp
def fold_across(reach, span):
    """Fold a straight run back onto the table.

    A ball that has run ``reach`` metres from the head cushion on an endless row
    of mirrored tables of length ``span`` is at this distance from the head
    cushion on the real one.  Bank shots of any number of rails; runs towards the
    head cushion have negative reach.
    """
    lap = jnp.mod(reach, 2.0 * span)
    return span - jnp.abs(lap - span)


@fold_across.defjvp
def _fold_across_jvp(primals, tangents):
    reach, span = primals
    d_reach, d_span = tangents
    lap = jnp.mod(reach, 2.0 * span)
    outbound = lap < span
    place = jnp.where(outbound, lap, 2.0 * span - lap)
    return place, jnp.where(outbound, d_reach, 2.0 * d_span - d_reach)


def bank_position(start, heading, distance, table):
    """Where a ball is after ``distance`` when cushions are perfect mirrors.

    start [n, 2], heading [n] radians from the long axis, distance [n] or scalar;
    ``table`` has keys ``width`` and ``length``.
    """
    x = start[:, 0] + distance * jnp.sin(heading)
    y = start[:, 1] + distance * jnp.cos(heading)
    return jnp.stack(
        [fold_across(x, table["width"]), fold_across(y, table["length"])], axis=-1
    )


# ---------------------------------------------------------------------------
# cloth
# ---------------------------------------------------------------------------


@dataclass
class ClothModel:
    """Cloth with sliding and rolling friction."""

    gravity: float = GRAVITY

    def init(self) -> Dict[str, jax.Array]:
        return {"slide": jnp.asarray(0.2), "roll": jnp.asarray(0.01)}

    def build(self):
        gravity = self.gravity

        @jax.custom_gradient
        def travel(speed, surface_speed, slide, roll):
            # speed of the centre and spin times radius, both [n]; two frictions
            slip = speed - surface_speed
            rolling = (5.0 * speed + 2.0 * surface_speed) / 7.0
            seconds = 2.0 * jnp.abs(slip) / (7.0 * slide * gravity)
            skid = 0.5 * (speed + rolling) * seconds
            glide = rolling * jnp.abs(rolling) / (2.0 * roll * gravity)

            def pullback(ct):
                ct_seconds = 0.5 * ct * (speed + rolling)
                ct_slip = ct_seconds * 2.0 * jnp.sign(slip) / (7.0 * slide * gravity)
                ct_rolling = 0.5 * ct * seconds + ct * jnp.abs(rolling) / (roll * gravity)
                ct_speed = 0.5 * ct * seconds + ct_slip + 5.0 / 7.0 * ct_rolling
                ct_surface = 2.0 / 7.0 * ct_rolling - ct_slip
                return (
                    ct_speed,
                    ct_surface,
                    -jnp.sum(ct * skid) / slide,
                    -jnp.sum(ct * glide) / roll,
                )

            return skid + glide, pullback

        return travel

    def stopping_distance(self, params, strike: Strike):
        """Distance along the line of aim at which the ball comes to rest."""
        surface = strike.roll * BALL_RADIUS
        return self.build()(strike.speed, surface, params["slide"], params["roll"])


def lag_error(aim: Dict[str, jax.Array], cloth_params, table):
    """Squared distance from the head cushion after a lag up and down the table.

    ``aim`` holds arrays ``[n]``: cue_speed, across, above, elevation.
    """
    strike = cue_strike(aim["cue_speed"], aim["across"], aim["above"], aim["elevation"])
    reach = ClothModel().stopping_distance(cloth_params, strike)
    return jnp.mean(jnp.square(fold_across(reach, table["length"])))


if __name__ == "__main__":
    aim = {
        "cue_speed": jnp.array([1.1, 1.4, 2.6]),
        "across": jnp.array([0.0, 0.004, -0.006]),
        "above": jnp.array([0.0, 0.003, 0.005]),
        "elevation": jnp.array([0.05, 0.2, 0.6]),
    }
    table = {"width": jnp.asarray(TABLE_WIDTH), "length": jnp.asarray(TABLE_LENGTH)}
    print(jax.value_and_grad(lag_error)(aim, ClothModel().init(), table))
    print(bank_position(jnp.array([[0.3, 0.5], [0.9, 1.0]]), jnp.array([0.4, -0.7]), 6.0, table))
    rubber = Cushion(jnp.asarray(0.9), jnp.asarray(0.05), jnp.asarray(0.15))
    v = jnp.array([[1.0, -2.0], [0.5, 1.5]])
    n = jnp.array([[0.0, 1.0], [0.0, 1.0]])
    print(cushion_rebound(v, n, rubber))
