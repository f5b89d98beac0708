"""Rotations, periodic cells and pairwise interactions for small molecular systems."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def _reduce_to(g, shape):
    """Sum ``g`` down to ``shape`` (the transpose of numpy broadcasting)."""
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra)))
    keep = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=keep, keepdims=True)


# --- rotations --------------------------------------------------------------------------


@jax.custom_vjp
def quat_rotate(q, v):
    """Rotate vectors ``v`` (..., 3) by quaternions ``q`` (..., 4), scalar first.

    Leading dimensions broadcast, so one quaternion may act on a whole point cloud.  The
    quaternions are used as they come (normalise them first).
    """
    w, u = q[..., :1], q[..., 1:]
    c = jnp.cross(u, v)
    return v + 2.0 * (w * c + jnp.cross(u, c))


def _quat_rotate_fwd(q, v):
    return quat_rotate(q, v), (q, v)


def _quat_rotate_bwd(res, g):
    q, v = res
    w, u = q[..., :1], q[..., 1:]
    dot = lambda a, b: jnp.sum(a * b, axis=-1, keepdims=True)
    gu_cross = jnp.cross(g, u)
    gv = g + 2.0 * (w * gu_cross + jnp.cross(gu_cross, u))
    gw = 2.0 * dot(g, jnp.cross(u, v))
    gu = 2.0 * (w * jnp.cross(v, g) + g * dot(u, v) + v * dot(u, g) - 2.0 * u * dot(v, g))
    gq = jnp.concatenate([gw, gu], axis=-1)
    return _reduce_to(gq, q.shape), _reduce_to(gv, v.shape)


quat_rotate.defvjp(_quat_rotate_fwd, _quat_rotate_bwd)


def _hat(r):
    x, y, z = r[..., 0], r[..., 1], r[..., 2]
    o = jnp.zeros_like(x)
    rows = [jnp.stack(row, -1) for row in ((o, -z, y), (z, o, -x), (-y, x, o))]
    return jnp.stack(rows, -2)


def _rodrigues_coeffs(x):
    """sin(t)/t, (1-cos t)/t^2 and their derivatives divided by t, as functions of x = t^2."""
    small = x < 0.1
    xs = jnp.where(small, 1.0, x)
    t = jnp.sqrt(xs)
    s, c = jnp.sin(t), jnp.cos(t)
    half = jnp.sin(0.5 * t)
    a = jnp.where(small, 1 - x / 6 * (1 - x / 20 * (1 - x / 42 * (1 - x / 72))), s / t)
    b = jnp.where(small, 0.5 - x / 24 * (1 - x / 30 * (1 - x / 56 * (1 - x / 90))),
                  2 * half * half / xs)
    a1 = jnp.where(small,
                   -1 / 3 + x * (1 / 30 - x * (1 / 840 - x * (1 / 45360 - x / 3991680))),
                   (c - s / t) / xs)
    b1 = jnp.where(small,
                   -1 / 12 + x * (1 / 180 - x * (1 / 6720 - x * (1 / 453600 - x / 47900160))),
                   (s / t - 4 * half * half / xs) / xs)
    return a, b, a1, b1


@jax.custom_jvp
def rotvec_to_matrix(r):
    # (..., 3) axis-angle -> (..., 3, 3)
    a, b, _, _ = _rodrigues_coeffs(jnp.sum(r * r, -1)[..., None, None])
    K = _hat(r)
    return jnp.eye(3, dtype=r.dtype) + a * K + b * (K @ K)


@rotvec_to_matrix.defjvp
def _rotvec_jvp(primals, tangents):
    (r,), (dr,) = primals, tangents
    a, b, a1, b1 = _rodrigues_coeffs(jnp.sum(r * r, -1)[..., None, None])
    K, dK = _hat(r), _hat(dr)
    rdr = jnp.sum(r * dr, -1)[..., None, None]
    KK = K @ K
    R = jnp.eye(3, dtype=r.dtype) + a * K + b * KK
    dR = a * dK + b * (K @ dK + dK @ K) + rdr * (a1 * K + b1 * KK)
    return R, dR


# --- periodic cells ---------------------------------------------------------------------


@jax.custom_vjp
def wrap_triclinic(dr, cell):
    """Minimum-image displacement in a (mildly skewed) triclinic cell.

    Args:
      dr: displacements, shape (..., 3).
      cell: (3, 3), lattice vectors in rows.
    """
    n = jnp.round(dr @ jnp.linalg.inv(cell))
    return dr - n @ cell


def _wrap_fwd(dr, cell):
    n = jnp.round(dr @ jnp.linalg.inv(cell))
    return dr - n @ cell, n


def _wrap_bwd(n, g):
    return g, -jnp.einsum("...i,...j->ij", n, g)


wrap_triclinic.defvjp(_wrap_fwd, _wrap_bwd)


# --- pair potentials --------------------------------------------------------------------


def _lj_terms(pos, eps, sigma, species, box):
    n = pos.shape[0]
    d = pos[:, None] - pos[None]
    shift = jnp.round(d / box)
    d = d - shift * box
    off = ~jnp.eye(n, dtype=bool)
    r2 = jnp.where(off, jnp.sum(d * d, -1), 1.0)
    s, e = sigma[species], eps[species]
    s_ij = 0.5 * (s[:, None] + s[None])
    e_ij = jnp.sqrt(e[:, None] * e[None])
    x6 = jnp.where(off, (s_ij**2 / r2) ** 3, 0.0)
    return d, shift, r2, s_ij, e_ij, x6


@jax.custom_vjp
def lennard_jones(pos, eps, sigma, species, box):
    """Total Lennard-Jones energy in an orthorhombic periodic box (minimum image, no cutoff).

    Parameters
    ----------
    pos : (N, 3) float
    eps, sigma : (S,) float
        Per-species well depth and diameter, combined with the Lorentz-Berthelot rules.
    species : (N,) int
        Species of each atom.
    box : (3,) float
        Box lengths.
    """
    *_, e_ij, x6 = _lj_terms(pos, eps, sigma, species, box)
    return 0.5 * jnp.sum(4.0 * e_ij * (x6 * x6 - x6))


def _lj_fwd(pos, eps, sigma, species, box):
    return lennard_jones(pos, eps, sigma, species, box), (pos, eps, sigma, species, box)


def _lj_bwd(res, g):
    pos, eps, sigma, species, box = res
    d, shift, r2, s_ij, e_ij, x6 = _lj_terms(pos, eps, sigma, species, box)
    u = 4.0 * (x6 * x6 - x6)
    w = 4.0 * e_ij * (12.0 * x6 * x6 - 6.0 * x6)

    pair_grad = -(w / r2)[..., None] * d
    g_pos = pair_grad.sum(1)
    g_box = -0.5 * jnp.sum(pair_grad * shift, axis=(0, 1))

    per_atom_sigma = 0.5 * jnp.sum(w / s_ij, axis=1)
    per_atom_eps = 0.5 * jnp.sum(u * e_ij, axis=1) / eps[species]
    g_sigma = jnp.zeros_like(sigma).at[species].set(per_atom_sigma)
    g_eps = jnp.zeros_like(eps).at[species].set(per_atom_eps)
    return (g * g_pos, g * g_eps, g * g_sigma,
            np.zeros(species.shape, jax.dtypes.float0), g * g_box)


lennard_jones.defvjp(_lj_fwd, _lj_bwd)


def lj_forces(pos, eps, sigma, species, box):
    return -jax.grad(lennard_jones)(pos, eps, sigma, species, box)


@jax.custom_vjp
def screened_coulomb(x, src, charge, kappa):
    """Potential of point charges in a screening medium.

    phi(x_i) = sum_j charge_j exp(-kappa_j r_ij) / (4 pi r_ij)

    x: (N, 3) evaluation points, src: (M, 3) sources, charge: (M,),
    kappa: inverse screening length, a scalar or one value per source (M,).
    """
    return _screened_fwd(x, src, charge, kappa)[0]


def _screened_fwd(x, src, charge, kappa):
    diff = x[:, None] - src[None]
    r = jnp.linalg.norm(diff, axis=-1)
    green = jnp.exp(-kappa * r) / (4 * jnp.pi * r)
    return green @ charge, (diff, r, green, charge, kappa)


def _screened_bwd(res, g):
    diff, r, green, charge, kappa = res
    gq = g @ green
    weighted = g[:, None] * charge * green  # (N, M)
    radial = -weighted * (kappa + 1.0 / r)
    pair = (radial / r)[..., None] * diff
    gk = -jnp.sum(weighted * r)
    return pair.sum(1), -pair.sum(0), gq, jnp.broadcast_to(gk, jnp.shape(kappa))


screened_coulomb.defvjp(_screened_fwd, _screened_bwd)


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    p = 4.0 * jax.random.uniform(key, (6, 3))
    print(lj_forces(p, jnp.array([1.0, 0.5]), jnp.array([1.0, 1.1]),
                    jnp.array([0, 1, 1, 0, 0, 1]), jnp.array([4.0, 4.0, 4.0])))
