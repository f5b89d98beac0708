"""Periodic spaces, rotations and per-segment reductions for particle systems."""

from functools import partial

import jax
import jax.numpy as jnp


@jax.custom_jvp
def transform(box, coords):
    """Maps fractional coordinates to real ones, ``coords @ box.T``.

    The derivative with respect to ``coords`` is deliberately *not* that of this
    map: a tangent of ``coords`` is passed through unchanged, as if ``coords``
    were already real coordinates, so that forces come out in real space. The
    derivative with respect to ``box`` is the ordinary one, at fixed fractional
    coordinates.

    Args:
      box: scalar, ``(d,)`` or ``(d, d)``.
      coords: ``(..., d)``.
    """
    return _apply_box(box, coords)


def _apply_box(box, coords):
    ndim = jnp.ndim(box)
    if ndim in (0, 1):
        return coords * box
    if ndim == 2:
        return jnp.einsum("ij,...j->...i", box, coords)
    raise ValueError(f"a box has at most two axes, not {ndim}")


@transform.defjvp
def _transform_jvp(primals, tangents):
    box, coords = primals
    dbox, dcoords = tangents
    return transform(box, coords), dcoords + _apply_box(dbox, coords)


def _unbroadcast(x, shape):
    x = jnp.sum(x, axis=tuple(range(x.ndim - len(shape))))
    keep = tuple(i for i, n in enumerate(shape) if n == 1)
    return jnp.sum(x, axis=keep, keepdims=True)


def _dot(a, b):
    return jnp.sum(a * b, axis=-1, keepdims=True)


@jax.custom_vjp
def quaternion_rotate(q, v):
    w, u = q[..., :1], q[..., 1:]
    return v + 2.0 * w * jnp.cross(u, v) + 2.0 * (u * _dot(u, v) - v * _dot(u, u))


def _quaternion_rotate_fwd(q, v):
    return quaternion_rotate(q, v), (q, v)


def _quaternion_rotate_bwd(res, g):
    q, v = res
    w, u = q[..., :1], q[..., 1:]
    dw = 2.0 * _dot(g, jnp.cross(u, v))
    du = 2.0 * w * jnp.cross(v, g) + 2.0 * (_dot(g, u) * v + _dot(u, v) * g - 2.0 * _dot(g, v) * u)
    dv = g + 2.0 * w * jnp.cross(g, u) + 2.0 * (u * _dot(u, g) - g * _dot(u, u))
    dq = jnp.concatenate([dw, du], axis=-1)
    return _unbroadcast(dq, q.shape), _unbroadcast(dv, v.shape)


quaternion_rotate.defvjp(_quaternion_rotate_fwd, _quaternion_rotate_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def safe_norm(x, axis=-1, keepdims=False):
    """Euclidean norm along an axis, with the subgradient 0 at the origin."""
    return jnp.sqrt(jnp.sum(jnp.square(x), axis=axis, keepdims=keepdims))


@safe_norm.defjvp
def _safe_norm_jvp(axis, keepdims, primals, tangents):
    (x,), (dx,) = primals, tangents
    norm = safe_norm(x, axis, True)
    positive = norm > 0
    unit = jnp.where(positive, x / jnp.where(positive, norm, 1.0), 0.0)
    dnorm = jnp.sum(unit * dx, axis=axis, keepdims=keepdims)
    return safe_norm(x, axis, keepdims), dnorm


def segment_mean(data, segment_ids, num_segments):
    ones = jnp.ones(segment_ids.shape, data.dtype)
    count = jax.ops.segment_sum(ones, segment_ids, num_segments)
    count = jnp.maximum(count, 1.0).reshape((-1,) + (1,) * (data.ndim - 1))

    @jax.custom_gradient
    def mean(rows):
        sums = jax.ops.segment_sum(rows, segment_ids, num_segments)

        def grad(g):
            return jnp.take(g, segment_ids, axis=0)

        return sums / count, grad

    return mean(data)


def pool_nodes(graph, num_graphs):
    return {
        "nodes": segment_mean(graph["nodes"], graph["graph_ids"], num_graphs),
        "size": jax.ops.segment_sum(jnp.ones_like(graph["graph_ids"]), graph["graph_ids"], num_graphs),
    }


@jax.custom_gradient
def dihedral_angle(p0, p1, p2, p3):
    """Signed torsion angle about the bond from ``p1`` to ``p2``.

    Parameters
    ----------
    p0, p1, p2, p3 : jax.Array
        Positions of one shape, ``(..., 3)``, no three consecutive ones in line.

    Returns
    -------
    jax.Array
        Angle in radians, in ``(-pi, pi]``, of shape ``(...)``.
    """
    f = p0 - p1
    b = p1 - p2
    h = p3 - p2
    m = jnp.cross(f, b)
    n = jnp.cross(h, b)
    b_len = jnp.sqrt(_dot(b, b))
    sin = _dot(jnp.cross(n, m), b) / b_len
    cos = _dot(m, n)
    angle = jnp.arctan2(sin, cos)[..., 0]

    def grad(g):
        g = g[..., None]
        m_hat = m / _dot(m, m)
        n_hat = n / _dot(n, n)
        d0 = -b_len * m_hat
        d3 = b_len * n_hat
        d1 = -d0 + _dot(f, b) / b_len * m_hat
        d2 = -d3 + _dot(h, b) / b_len * n_hat
        return g * d0, g * d1, g * d2, g * d3

    return angle, grad
