"""Mueller calculus for a division-of-time polarimeter."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Bench(NamedTuple):
    """Trainable state of the bench."""

    plate_angles: jax.Array  # radians, one per retarder
    retardances: jax.Array  # radians, one per retarder
    zero_point: jax.Array  # angle of the reference mark of the camera
    frame_weights: jax.Array  # one per frame of the modulation cycle


# -- single elements ---------------------------------------------------------


@jax.custom_jvp
def retarder_mueller(theta, delta):
    """Mueller matrix of a linear retarder.

    :param theta: angle of the fast axis in radians, any shape.
    :param delta: retardance in radians, same shape.
    :returns: array of shape ``theta.shape + (4, 4)``.
    """
    return _retarder_entries(theta, delta)


def _rows(rows):
    return jnp.stack([jnp.stack(r, axis=-1) for r in rows], axis=-2)


def _retarder_entries(theta, delta):
    c, s = jnp.cos(2 * theta), jnp.sin(2 * theta)
    cd, sd = jnp.cos(delta), jnp.sin(delta)
    o, e = jnp.zeros_like(c), jnp.ones_like(c)
    mix = c * s * (1 - cd)
    return _rows(
        [
            [e, o, o, o],
            [o, c * c + s * s * cd, mix, -s * sd],
            [o, mix, s * s + c * c * cd, c * sd],
            [o, s * sd, -c * sd, cd],
        ]
    )


@retarder_mueller.defjvp
def _retarder_jvp(primals, tangents):
    theta, delta = primals
    d_theta, d_delta = tangents
    c, s = jnp.cos(2 * theta), jnp.sin(2 * theta)
    cd, sd = jnp.cos(delta), jnp.sin(delta)
    o = jnp.zeros_like(c)
    twist = 4 * c * s * (1 - cd)
    cross = 2 * (c * c - s * s) * sd
    by_theta = _rows(
        [
            [o, o, o, o],
            [o, -twist, cross, -2 * c * sd],
            [o, cross, twist, -2 * s * sd],
            [o, 2 * c * sd, 2 * s * sd, o],
        ]
    )
    by_delta = _rows(
        [
            [o, o, o, o],
            [o, -s * s * sd, c * s * sd, -s * cd],
            [o, c * s * sd, -c * c * sd, c * cd],
            [o, s * cd, -c * cd, -sd],
        ]
    )
    tangent = by_theta * d_theta[..., None, None] + by_delta * d_delta[..., None, None]
    return _retarder_entries(theta, delta), tangent


# -- a train of elements -----------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def propagate_train(beam, elements, double_pass=False):
    """Send beams through a train of elements.

    :param beam: Stokes vectors, ``(N, 4)``.
    :param elements: Mueller matrices in the order of travel, ``(K, 4, 4)``.
    :param double_pass: if set, a mirror behind the last element sends the light
        back and it meets the same matrices in the reverse order.
    """
    return _train_fwd(beam, elements, double_pass)[0]


def _itinerary(n_elements, double_pass):
    order = jnp.arange(n_elements)
    return jnp.concatenate([order, order[::-1]]) if double_pass else order


def _train_fwd(beam, elements, double_pass):
    order = _itinerary(elements.shape[0], double_pass)

    def step(s, k):
        return s @ elements[k].T, s

    out, incoming = lax.scan(step, beam, order)
    return out, (incoming, elements)


def _train_bwd(double_pass, res, g):
    incoming, elements = res
    order = _itinerary(elements.shape[0], double_pass)

    def step(carry, xs):
        bar, d_elements = carry
        k, s = xs
        d_elements = d_elements.at[k].add(bar.T @ s)
        return (bar @ elements[k], d_elements), None

    init = (g, jnp.zeros_like(elements))
    (d_beam, d_elements), _ = lax.scan(step, init, (order, incoming), reverse=True)
    return d_beam, d_elements


propagate_train.defvjp(_train_fwd, _train_bwd)


# -- readings ----------------------------------------------------------------


@jax.custom_jvp
def polarisation_angle(q, u, zero_point):
    """Angle of linear polarisation in [0, pi), counted from ``zero_point``.

    The three arguments broadcast against each other; ``q`` and ``u`` must not
    both be zero.
    """
    return jnp.mod(0.5 * jnp.arctan2(u, q) - zero_point, jnp.pi)


@polarisation_angle.defjvp
def _angle_jvp(primals, tangents):
    q, u, zero_point = primals
    dq, du, dz = tangents
    angle = polarisation_angle(q, u, zero_point)
    turn = 0.5 * (q * du - u * dq) / (q * q + u * u) - dz
    return angle, jnp.broadcast_to(turn, angle.shape)


@jax.custom_vjp
def stokes_from_frames(frames, analyser, weights):
    """Weighted least-squares Stokes vectors of a modulation cycle.

    :param frames: intensities, ``(pixels, K)``, ``K >= 4``.
    :param analyser: rows of the analyser matrix, ``(K, 4)``.
    :param weights: positive weight of each frame, ``(K,)``.
    :returns: Stokes vectors ``(pixels, 4)``.
    """
    return _frames_fwd(frames, analyser, weights)[0]


def _frames_fwd(frames, analyser, weights):
    weighted = weights[:, None] * analyser
    normal = analyser.T @ weighted
    stokes = jnp.linalg.solve(normal, weighted.T @ frames.T).T
    residual = frames - stokes @ analyser.T
    return stokes, (stokes, residual, analyser, weights, normal)


def _frames_bwd(res, g):
    stokes, residual, analyser, weights, normal = res
    adjoint = jnp.linalg.solve(normal, g.T).T
    seen = adjoint @ analyser.T
    d_frames = seen * weights
    d_analyser = -d_frames.T @ stokes
    d_weights = jnp.sum(seen * residual, axis=0)
    return d_frames, d_analyser, d_weights


stokes_from_frames.defvjp(_frames_fwd, _frames_bwd)


def measure_angles(bench: Bench, beams, frames_of):
    """Angles seen by the camera for ``beams``; ``frames_of`` makes the frames."""
    plates = retarder_mueller(bench.plate_angles, bench.retardances)
    out = propagate_train(beams, plates)
    frames, analyser = frames_of(out)
    stokes = stokes_from_frames(frames, analyser, bench.frame_weights)
    return polarisation_angle(stokes[:, 1], stokes[:, 2], bench.zero_point)
