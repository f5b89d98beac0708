"""Rotations, projections and distances."""
from functools import partial

import jax
import jax.numpy as jnp


def _unbroadcast(g, shape):
    """Sum ``g`` down to ``shape``."""
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=axes, keepdims=True) if axes else g


# -- unit vectors ------------------------------------------------------------------

@partial(jax.custom_jvp, nondiff_argnums=(1,))
def unit_vectors(x, axis=-1):
    """Scale ``x`` to unit Euclidean length along ``axis``."""
    return x / jnp.linalg.norm(x, axis=axis, keepdims=True)


@unit_vectors.defjvp
def _unit_vectors_jvp(axis, primals, tangents):
    (x,), (dx,) = primals, tangents
    n = jnp.linalg.norm(x, axis=axis, keepdims=True)
    u = x / n
    along = jnp.sum(u * dx, axis=-1, keepdims=True)
    return u, (dx - u * along) / n


# -- quaternions -------------------------------------------------------------------

@jax.custom_vjp
def quat_rotate(q: "*#batch 4", v: "*#batch 3") -> "*batch 3":
    """Rotate vectors by quaternions stored as (w, x, y, z).

    Leading dimensions broadcast. ``q`` is used as is (not normalised here).
    """
    w, u = q[..., :1], q[..., 1:]
    t = 2.0 * jnp.cross(u, v)
    return v + w * t + jnp.cross(u, t)


def _qr_fwd(q, v):
    return quat_rotate(q, v), (q, v)


def _qr_bwd(res, g):
    q, v = res
    w, u = q[..., :1], q[..., 1:]
    c = 2.0 * jnp.cross(u, v)
    # t enters as  w t + u x t
    gt = w * g + jnp.cross(g, u)
    gw = jnp.sum(g * c, -1, keepdims=True)
    gu = jnp.cross(c, g) + 2.0 * jnp.cross(v, gt)
    gv = g + 2.0 * jnp.cross(gt, u)
    gq = jnp.concatenate([jnp.broadcast_to(gw, gu.shape[:-1] + (1,)), gu], -1)
    return _unbroadcast(gq, q.shape), _unbroadcast(gv, v.shape)


quat_rotate.defvjp(_qr_fwd, _qr_bwd)


# -- pinhole camera ----------------------------------------------------------------

@jax.custom_vjp
def project_points(points, rot, trans, intr):
    """Project world points to pixels.

    Args:
        points: world coordinates, ``(n, 3)``.
        rot: world-to-camera rotation matrix, ``(3, 3)``.
        trans: translation, ``(3,)``.
        intr: dict of scalars ``fx, fy, cx, cy``.

    Returns:
        Pixel coordinates ``(n, 2)``.
    """
    cam = points @ rot.T + trans
    x, y, z = cam[:, 0], cam[:, 1], cam[:, 2]
    return jnp.stack([intr["fx"] * x / z + intr["cx"], intr["fy"] * y / z + intr["cy"]], -1)


def _proj_fwd(points, rot, trans, intr):
    return project_points(points, rot, trans, intr), (points, rot, trans, intr)


def _proj_bwd(res, g):
    points, rot, trans, intr = res
    cam = points @ rot.T + trans
    x, y, z = cam[:, 0], cam[:, 1], cam[:, 2]
    gu, gv = g[:, 0], g[:, 1]
    gx = gu * intr["fx"] / z
    gy = gv * intr["fy"] / z
    gz = -(gx * x + gy * y) / z
    gcam = jnp.stack([gx, gy, gz], -1)
    gintr = {
        "fx": jnp.sum(gu * x / z),
        "fy": jnp.sum(gv * y / z),
        "cx": jnp.sum(gu),
        "cy": jnp.sum(gv),
    }
    grot = jnp.einsum("ni,nj->ij", points, gcam)
    return gcam @ rot, grot, gcam.sum(0), gintr


project_points.defvjp(_proj_fwd, _proj_bwd)


def reprojection_error(points, rot, trans, intr, observed, visible):
    r = project_points(points, rot, trans, intr) - observed
    return jnp.sum(jnp.where(visible[:, None], r**2, 0.0)) / jnp.maximum(visible.sum(), 1)


# -- sphere ------------------------------------------------------------------------

@jax.custom_jvp
def angular_separation(lon1, lat1, lon2, lat2):
    """Great-circle distance (radians) by the Vincenty formula; all in radians."""
    num, den, _ = _vincenty(lon1, lat1, lon2, lat2)
    return jnp.arctan2(num, den)


def _vincenty(lon1, lat1, lon2, lat2):
    dl = lon2 - lon1
    s1, c1, s2, c2 = jnp.sin(lat1), jnp.cos(lat1), jnp.sin(lat2), jnp.cos(lat2)
    sd, cd = jnp.sin(dl), jnp.cos(dl)
    a = c2 * sd
    b = c1 * s2 - s1 * c2 * cd
    return jnp.hypot(a, b), s1 * s2 + c1 * c2 * cd, (s1, c1, s2, c2, sd, cd)


@angular_separation.defjvp
def _angsep_jvp(primals, tangents):
    dlon1, dlat1, dlon2, dlat2 = tangents
    num, den, (s1, c1, s2, c2, sd, cd) = _vincenty(*primals)
    # d cos(sep) = -sin(sep) d sep
    dcos = (c1 * s2 - s1 * c2 * cd) * dlat1 + (s1 * c2 - c1 * s2 * cd) * dlat2
    dcos = dcos - c1 * c2 * sd * (dlon2 - dlon1)
    return jnp.arctan2(num, den), -dcos / num


# -- SO(3) -------------------------------------------------------------------------

def hat(w):
    z = jnp.zeros_like(w[..., 0])
    x, y, t = w[..., 0], w[..., 1], w[..., 2]
    return jnp.stack([
        jnp.stack([z, -t, y], -1), jnp.stack([t, z, -x], -1), jnp.stack([-y, x, z], -1)
    ], -2)


def _rodrigues_coeffs(w):
    th2 = jnp.sum(w * w, -1)[..., None, None]
    small = th2 < 1e-2
    s = jnp.where(small, 1.0, th2)
    th = jnp.sqrt(s)
    A = jnp.where(small, 1 - th2 / 6 + th2**2 / 120 - th2**3 / 5040, jnp.sin(th) / th)
    B = jnp.where(small, 0.5 - th2 / 24 + th2**2 / 720 - th2**3 / 40320, (1 - jnp.cos(th)) / s)
    C = jnp.where(small, 1 / 6 - th2 / 120 + th2**2 / 5040, (th - jnp.sin(th)) / (th * s))
    return A, B, C


@jax.custom_jvp
def so3_exp(w):
    """Rotation matrices (..., 3, 3) from rotation vectors (..., 3)."""
    A, B, _ = _rodrigues_coeffs(w)
    W = hat(w)
    return jnp.eye(3, dtype=w.dtype) + A * W + B * (W @ W)


@so3_exp.defjvp
def _so3_exp_jvp(primals, tangents):
    (w,), (dw,) = primals, tangents
    _, B, C = _rodrigues_coeffs(w)
    R = so3_exp(w)
    W = hat(w)
    Jl = jnp.eye(3, dtype=w.dtype) + B * W + C * (W @ W)
    return R, hat(jnp.einsum("...ij,...j->...i", Jl, dw)) @ R


# -- segments ----------------------------------------------------------------------

def _foot(p, a, b):
    ab = b - a
    t = jnp.sum((p - a) * ab, -1) / jnp.sum(ab * ab, -1)
    t = jnp.clip(t, 0.0, 1.0)[..., None]
    return t, p - (a + t * ab)


@jax.custom_jvp
def point_segment_distance(p, a, b):
    # p, a, b: (..., dim) -> (...)
    _, v = _foot(p, a, b)
    return jnp.sqrt(jnp.sum(v * v, -1))


@point_segment_distance.defjvp
def _psd_jvp(primals, tangents):
    p, a, b = primals
    dp, da, db = tangents
    t, v = _foot(p, a, b)
    dist = jnp.sqrt(jnp.sum(v * v, -1))
    # the foot is optimal, so t may be held fixed
    dv = dp - t * da - (1.0 - t) * db
    return dist, jnp.sum(v * dv, -1) / dist


if __name__ == "__main__":
    w = jnp.array([[0.1, 0.4, -0.3], [0.0, 0.0, 0.0]])
    print(so3_exp(w))
    print(jax.jacobian(so3_exp)(w).shape)
    print(point_segment_distance(jnp.ones(3), jnp.zeros(3), jnp.array([2.0, 0.0, 0.0])))
