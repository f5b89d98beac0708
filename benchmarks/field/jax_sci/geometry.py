"""Small geometric kernels shared by the structure and the pose code."""
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def safe_norm(x, axis=-1, keepdims=False):
    """Euclidean norm whose derivative at the origin is zero instead of nan.

    Parameters
    ----------
    x : array_like
    axis : int or tuple of int
    keepdims : bool
    """
    return jnp.sqrt(jnp.sum(x * x, axis=axis, keepdims=keepdims))


@safe_norm.defjvp
def _safe_norm_jvp(axis, keepdims, primals, tangents):
    (x,), (dx,) = primals, tangents
    out = safe_norm(x, axis, keepdims)
    dot = jnp.sum(x * dx, axis=axis, keepdims=keepdims)
    return out, jnp.where(out > 0, dot / jnp.where(out > 0, out, 1.0), 0.0)


# quaternions are stored (w, x, y, z)
def _rotate_unit(n, v):
    w, u = n[..., :1], n[..., 1:]
    t = 2.0 * jnp.cross(u, v)
    return v + w * t + jnp.cross(u, t)


@jax.custom_vjp
def rotate_by_quaternion(q, v):
    """Rotate vectors by quaternions; the quaternions are normalised first.

    Args:
        q: (..., 4) quaternions, scalar first, any non-zero length.
        v: (..., 3) vectors, with the same leading dimensions.

    Returns:
        (..., 3) rotated vectors.
    """
    return _rotate_unit(q / jnp.linalg.norm(q, axis=-1, keepdims=True), v)


def _rotate_fwd(q, v):
    n = q / jnp.linalg.norm(q, axis=-1, keepdims=True)
    return _rotate_unit(n, v), (n, v)


def _rotate_bwd(res, g):
    n, v = res
    w, u = n[..., :1], n[..., 1:]
    gv = _rotate_unit(n * jnp.array([1.0, -1.0, -1.0, -1.0], n.dtype), g)
    c = jnp.cross(u, v)
    gw = 2.0 * jnp.sum(g * c, axis=-1, keepdims=True)
    gu = 2.0 * (w * jnp.cross(v, g) + jnp.cross(c, g) + jnp.cross(v, jnp.cross(g, u)))
    gn = jnp.concatenate([gw, gu], axis=-1)
    # keep the component tangent to the unit sphere
    gq = gn - n * jnp.sum(n * gn, axis=-1, keepdims=True)
    return gq, gv


rotate_by_quaternion.defvjp(_rotate_fwd, _rotate_bwd)


_SIN = np.array([(-1) ** k / math.factorial(2 * k + 1) for k in range(9)])
_COS = np.array([(-1) ** k / math.factorial(2 * k + 2) for k in range(9)])


def _series(coef, s):
    out = jnp.zeros_like(s)
    for c in coef[::-1]:
        out = out * s + float(c)
    return out


def _rodrigues(s):
    """sin(t)/t, (1-cos t)/t^2 and their derivatives in s = t^2."""
    small = s < 0.5
    s_ = jnp.where(small, 1.0, s)
    t = jnp.sqrt(s_)
    sin, cos = jnp.sin(t), jnp.cos(t)
    a = jnp.where(small, _series(_SIN, s), sin / t)
    b = jnp.where(small, _series(_COS, s), (1.0 - cos) / s_)
    k = np.arange(1, 9)
    da = jnp.where(small, _series(_SIN[1:] * k, s), (t * cos - sin) / (2.0 * t * s_))
    db = jnp.where(small, _series(_COS[1:] * k, s), (t * sin - 2.0 * (1.0 - cos)) / (2.0 * s_ * s_))
    return a, b, da, db


def hat(w):
    x, y, z = w[..., 0], w[..., 1], w[..., 2]
    o = jnp.zeros_like(x)
    rows = [jnp.stack(r, -1) for r in ((o, -z, y), (z, o, -x), (-y, x, o))]
    return jnp.stack(rows, -2)


@jax.custom_jvp
def so3_exp(w):
    """Rotation matrices of rotation vectors: (..., 3) -> (..., 3, 3)."""
    a, b, _, _ = _rodrigues(jnp.sum(w * w, axis=-1))
    k = hat(w)
    return jnp.eye(3, dtype=w.dtype) + a[..., None, None] * k + b[..., None, None] * (k @ k)


@so3_exp.defjvp
def _so3_exp_jvp(primals, tangents):
    (w,), (dw,) = primals, tangents
    a, b, da, db = (c[..., None, None] for c in _rodrigues(jnp.sum(w * w, axis=-1)))
    ds = 2.0 * jnp.sum(w * dw, axis=-1)[..., None, None]
    k, dk = hat(w), hat(dw)
    kk = k @ k
    out = jnp.eye(3, dtype=w.dtype) + a * k + b * kk
    return out, da * ds * k + a * dk + db * ds * kk + b * (k @ dk + dk @ k)


@jax.custom_gradient
def pairwise_distance(x, y):
    diff = x[:, None] - y[None]
    r = jnp.sqrt((diff ** 2).sum(-1))

    def grad(g):
        coef = jnp.where(r > 0, g / jnp.where(r > 0, r, 1.0), 0.0)
        return (coef.sum(1)[:, None] * x - coef @ y,
                coef.sum(0)[:, None] * y - coef.T @ x)

    return r, grad


def minimum_image(dr, box):
    return dr - box * jnp.round(dr / box)


@jax.custom_vjp
def pbc_distance(ri, rj, box):
    """Minimum-image distances in an orthorhombic cell.

    :param ri: positions, ``(n, 3)``
    :param rj: positions, ``(n, 3)``
    :param box: edge lengths of the cell, ``(3,)``
    :returns: distances, ``(n,)``
    """
    return jnp.linalg.norm(minimum_image(rj - ri, box), axis=-1)


def _pbc_fwd(ri, rj, box):
    d = minimum_image(rj - ri, box)
    r = jnp.linalg.norm(d, axis=-1)
    return r, (rj - ri, d, r, box)


def _pbc_bwd(res, g):
    dr, d, r, box = res
    unit = (g / jnp.maximum(r, 1e-12))[:, None] * d
    cells = jnp.floor(dr / box)
    return -unit, unit, -(unit * cells).sum(axis=0)


pbc_distance.defvjp(_pbc_fwd, _pbc_bwd)


def pair_virial(positions, pairs, box, energy_of_r):
    """Diagonal of the virial, from the derivative with respect to the cell."""
    i, j = pairs[:, 0], pairs[:, 1]
    return jax.grad(lambda b: energy_of_r(pbc_distance(positions[i], positions[j], b)).sum())(box)
