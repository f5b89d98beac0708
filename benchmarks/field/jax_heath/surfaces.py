"""Geometry and shading primitives for the inverse renderer."""
from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int


def _dot(a, b):
    return jnp.sum(a * b, axis=-1)


# ------------------------------------------------------------------ meshes --

def _corners(verts: Float[Array, "V 3"], faces: Int[Array, "F 3"]):
    a, b, c = verts[faces[:, 0]], verts[faces[:, 1]], verts[faces[:, 2]]
    return b - a, c - a


@jax.custom_vjp
def vertex_normals(verts: Float[Array, "V 3"], faces: Int[Array, "F 3"]) -> Float[Array, "V 3"]:
    """Area-weighted unit normals at the vertices.

    Rows of ``faces`` that are filled with -1 are padding. Vertices that no
    face uses get a zero normal.
    """
    return _vertex_normals_fwd(verts, faces)[0]


def _vertex_normals_fwd(verts, faces):
    e1, e2 = _corners(verts, faces)
    used = (faces[:, 0] >= 0)[:, None]
    fn = jnp.where(used, jnp.cross(e1, e2), 0.0)
    vn = jnp.zeros_like(verts).at[faces.reshape(-1)].add(jnp.repeat(fn, 3, axis=0))
    length = jnp.sqrt(jnp.sum(vn**2, axis=-1, keepdims=True))
    inv = jnp.where(length > 0, 1.0 / jnp.where(length > 0, length, 1.0), 0.0)
    unit = vn * inv
    return unit, (verts, faces, unit, inv)


def _vertex_normals_bwd(res, g):
    verts, faces, unit, inv = res
    g_vn = inv * (g - unit * _dot(unit, g)[:, None])
    used = (faces[:, 0] >= 0)[:, None]
    g_fn = jnp.where(used, g_vn[faces].sum(axis=1), 0.0)
    e1, e2 = _corners(verts, faces)
    g1, g2 = jnp.cross(e2, g_fn), jnp.cross(g_fn, e1)
    per_corner = jnp.stack([-(g1 + g2), g1, g2], axis=1)
    d_verts = jnp.zeros_like(verts).at[faces].add(per_corner)
    return d_verts, None


vertex_normals.defvjp(_vertex_normals_fwd, _vertex_normals_bwd)


@jax.custom_jvp
def solid_angle(tri: Float[Array, "*b 3 3"], eye: Float[Array, "*b 3"]) -> Float[Array, "*b"]:
    """Signed solid angle of triangles seen from ``eye`` (Van Oosterom & Strackee).

    ``tri[..., i, :]`` is the i-th corner; ``eye`` must not lie in a triangle's
    plane. Leading axes broadcast.
    """
    num, den, *_ = _oosterom(tri, eye)
    return 2.0 * jnp.arctan2(num, den)


def _oosterom(tri, eye):
    ray = tri - eye[..., None, :]
    a, b, c = ray[..., 0, :], ray[..., 1, :], ray[..., 2, :]
    la, lb, lc = (jnp.sqrt(_dot(v, v)) for v in (a, b, c))
    num = _dot(a, jnp.cross(b, c))
    den = la * lb * lc + _dot(a, b) * lc + _dot(a, c) * lb + _dot(b, c) * la
    return num, den, (a, b, c), (la, lb, lc)


@solid_angle.defjvp
def _solid_angle_jvp(primals, tangents):
    tri, eye = primals
    tri_dot, eye_dot = tangents
    num, den, (a, b, c), (la, lb, lc) = _oosterom(tri, eye)
    ray_dot = tri_dot - eye_dot[..., None, :]

    def corner(u, v, w, lu, lv, lw, du):
        # (u, v, w) is an even permutation of the corners, only u moves
        dlu = _dot(u, du) / lu
        dnum = _dot(du, jnp.cross(v, w))
        dden = dlu * (lv * lw + _dot(v, w)) + _dot(du, v) * lw + _dot(du, w) * lv
        return dnum, dden

    n0, d0 = corner(a, b, c, la, lb, lc, ray_dot[..., 0, :])
    n1, d1 = corner(b, c, a, lb, lc, la, ray_dot[..., 1, :])
    n2, d2 = corner(c, a, b, lc, la, lb, ray_dot[..., 2, :])
    num_dot, den_dot = n0 + n1 + n2, d0 + d1 + d2
    tangent = 2.0 * (den * num_dot - num * den_dot) / (num**2 + den**2)
    return 2.0 * jnp.arctan2(num, den), tangent


# ------------------------------------------------------------------ curves --

def _binom(n: int) -> np.ndarray:
    row = [1.0]
    for k in range(n):
        row.append(row[-1] * (n - k) / (k + 1))
    return np.array(row)


def _bernstein(t: Float[Array, "m"], n: int) -> Float[Array, "m n+1"]:
    k = np.arange(n + 1)
    return (_binom(n) * t[:, None] ** k * (1.0 - t[:, None]) ** (n - k)).astype(t.dtype)


def _bernstein_slope(t, n):
    low = _bernstein(t, n - 1)
    return n * (jnp.pad(low, ((0, 0), (1, 0))) - jnp.pad(low, ((0, 0), (0, 1))))


@jax.custom_vjp
def rational_bezier(
    ctrl: Float[Array, "*b n+1 d"], weights: Float[Array, "n+1"], t: Float[Array, "m"]
) -> Float[Array, "*b m d"]:
    """Points on rational Bezier curves.

    ``weights`` are positive, need not sum to anything and are shared by the
    curves in the batch; all ones gives the polynomial curve. ``t`` in [0, 1].
    The degree is at least 1.
    """
    return _rational_bezier_fwd(ctrl, weights, t)[0]


def _rational_bezier_fwd(ctrl, weights, t):
    basis = _bernstein(t, ctrl.shape[-2] - 1)
    total = basis @ weights
    blend = basis * weights / total[:, None]
    pts = blend @ ctrl
    return pts, (ctrl, weights, t, basis, total, blend, pts)


def _rational_bezier_bwd(res, g):
    ctrl, weights, t, basis, total, blend, pts = res
    slope = _bernstein_slope(t, ctrl.shape[-2] - 1)
    # <g, P_i - C(t)>, summed over the batch of curves
    lift = jnp.einsum("...md,...id->...mi", g, ctrl) - _dot(g, pts)[..., None]
    lift = lift.reshape((-1,) + lift.shape[-2:]).sum(axis=0)
    d_ctrl = jnp.einsum("mi,...md->...id", blend, g)
    d_weights = jnp.sum(basis * lift, axis=0)
    d_t = jnp.sum(slope * weights * lift, axis=-1) / total
    return d_ctrl, d_weights, d_t


rational_bezier.defvjp(_rational_bezier_fwd, _rational_bezier_bwd)


# ----------------------------------------------------------------- shading --

@jax.custom_jvp
def ggx_lobe(cos_h, roughness):
    """GGX / Trowbridge-Reitz normal distribution.

    ``cos_h`` is n.h in [-1, 1], the lobe is zero on the back side; the
    ``roughness`` in (0, 1] is perceptual (alpha = roughness squared).
    """
    a2 = roughness**4
    q = cos_h**2 * (a2 - 1.0) + 1.0
    return jnp.where(cos_h > 0, a2 / (jnp.pi * q**2), 0.0)


def _ggx_d_cos(dot, ans, cos_h, roughness):
    a2 = roughness**4
    q = cos_h**2 * (a2 - 1.0) + 1.0
    return dot * 4.0 * a2 * (1.0 - a2) * cos_h / (jnp.pi * q**3)


def _ggx_d_roughness(dot, ans, cos_h, roughness):
    a2 = roughness**4
    q = cos_h**2 * (a2 - 1.0) + 1.0
    return dot * ans * (1.0 - 2.0 * a2 * cos_h**2 / q) * 4.0 / roughness


ggx_lobe.defjvps(_ggx_d_cos, _ggx_d_roughness)


def specular_image(normals, half, roughness):
    """(H, W, 3) normals and half vectors, (H, W) or scalar roughness."""
    return ggx_lobe(_dot(normals, half), roughness)
