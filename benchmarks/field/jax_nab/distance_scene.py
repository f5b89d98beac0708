"""Implicit shapes for fitting small scenes to depth images."""
from functools import partial

import jax
import jax.numpy as jnp

FAR = 1e3


# Quilez' quadratic blend. a, b: distances, k: blend width (> 0), all broadcast.
# op: "union", "intersection" or "carve" (a without b).


def _blend_core(a, b, k):
    h = jnp.clip(0.5 + 0.5 * (b - a) / k, 0.0, 1.0)
    return b + h * (a - b) - k * h * (1.0 - h), h


def _operands(a, b, op):
    """Signs that reduce every operation to a blended minimum."""
    if op == "union":
        return 1.0, 1.0, 1.0
    if op == "intersection":
        return -1.0, -1.0, -1.0
    if op == "carve":
        return -1.0, 1.0, -1.0
    raise ValueError(op)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def soft_boolean(a, b, k, op="union"):
    sa, sb, so = _operands(a, b, op)
    return so * _blend_core(sa * a, sb * b, k)[0]


@soft_boolean.defjvp
def _soft_boolean_jvp(op, primals, tangents):
    a, b, k = primals
    ta, tb, tk = tangents
    sa, sb, so = _operands(a, b, op)
    d, h = _blend_core(sa * a, sb * b, k)
    tangent = so * (sa * h * ta + sb * (1.0 - h) * tb) - h * (1.0 - h) * tk
    return so * d, tangent


@jax.custom_jvp
def segment_tube(points, start, end, radius):
    """Signed distance to a capsule.

    points (..., 3), start and end (3,) or broadcastable to points,
    radius broadcastable to points without the last axis.
    """
    return _tube(points, start, end)[0] - radius


def _tube(points, start, end):
    axis = end - start
    rel = points - start
    len2 = (axis * axis).sum(-1)
    h = (rel * axis).sum(-1) / jnp.where(len2 > 0, len2, 1.0)
    h = jnp.clip(h, 0.0, 1.0)[..., None]
    off = rel - h * axis
    d2 = (off * off).sum(-1)
    dist = jnp.where(d2 > 0, jnp.sqrt(jnp.where(d2 > 0, d2, 1.0)), 0.0)
    return dist, off, h


@segment_tube.defjvp
def _segment_tube_jvp(primals, tangents):
    points, start, end, radius = primals
    tp, ts, te, tr = tangents
    dist, off, h = _tube(points, start, end)
    normal = off / jnp.where(dist > 0, dist, 1.0)[..., None]
    foot = (1.0 - h) * ts + h * te
    return dist - radius, (normal * (tp - foot)).sum(-1) - tr


@jax.custom_gradient
def ball_depth(origins, directions, centre, radius):
    """Ray parameter of the first hit of a ball in front of the camera.

    Args:
      origins: ``(n, 3)``, outside or inside the ball.
      directions: ``(n, 3)``, of any length.
      centre: ``(3,)``.
      radius: scalar.

    Returns:
      ``(n,)``; ``FAR`` for rays that miss.
    """
    rel = origins - centre
    a = (directions * directions).sum(-1)
    b = (rel * directions).sum(-1)
    c = (rel * rel).sum(-1) - radius ** 2
    disc = b * b - a * c
    root = jnp.sqrt(jnp.where(disc > 0, disc, 1.0))
    near, far = (-b - root) / a, (-b + root) / a
    t = jnp.where(near > 0, near, far)
    hit = (disc > 0) & (t > 0)

    def pullback(g):
        g = jnp.where(hit, g, 0.0)
        normal = rel + t[:, None] * directions
        facing = (normal * directions).sum(-1)
        facing = jnp.where(hit, facing, 1.0)
        d_origin = -(g / facing)[:, None] * normal
        d_dir = d_origin * jnp.where(hit, t, 0.0)[:, None]
        d_radius = -(g * radius / root).sum()
        return d_origin, d_dir, -d_origin.sum(0), d_radius

    return jnp.where(hit, t, FAR), pullback


class Scene:
    """A limb (tube) joined to, or carved by, a second limb."""

    def __init__(self, op="union"):
        self.op = op

    def __call__(self, params, points):
        first = segment_tube(points, params["a0"], params["a1"], params["ra"])
        second = segment_tube(points, params["b0"], params["b1"], params["rb"])
        return soft_boolean(first, second, params["k"], self.op)


def depth_loss(params, origins, directions, measured, valid):
    depth = ball_depth(origins, directions, params["centre"], params["radius"])
    err = jnp.where(valid, depth - measured, 0.0)
    return (err * err).sum() / jnp.maximum(valid.sum(), 1)
