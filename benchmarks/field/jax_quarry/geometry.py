"""Linear-algebra and geometry primitives for differentiable scenes."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp


class BlockMatrix(NamedTuple):
    a: jax.Array  # (n, n)
    b: jax.Array  # (n, m)
    c: jax.Array  # (p, n)
    d: jax.Array  # (p, m)


class QPSolution(NamedTuple):
    primal: jax.Array
    dual: jax.Array


def _t(x):
    return jnp.swapaxes(x, -1, -2)


@jax.custom_vjp
def schur_complement(blocks: BlockMatrix) -> jax.Array:
    """Schur complement ``d - c a^-1 b`` of the block ``a``, which must be invertible."""
    return blocks.d - blocks.c @ jnp.linalg.solve(blocks.a, blocks.b)


def _schur_fwd(blocks):
    right = jnp.linalg.solve(blocks.a, blocks.b)
    return blocks.d - blocks.c @ right, (blocks, right)


def _schur_bwd(res, g):
    blocks, right = res
    left = jnp.linalg.solve(blocks.a, _t(blocks.c) @ g)
    return (BlockMatrix(a=left @ _t(right), b=-left, c=-g @ _t(right), d=g),)


schur_complement.defvjp(_schur_fwd, _schur_bwd)


def make_equality_qp(ridge: float = 0.0) -> Callable[..., QPSolution]:
    """Build a solver of equality-constrained quadratic programs.

    The solver takes ``(quad, lin, mat, rhs)`` and returns the stationary point of
    ``x' quad x / 2 + lin' x`` with ``mat x = rhs``, that is the solution of::

        (quad + ridge) x + mat' y = -lin
        mat x                     = rhs

    Args:
        ridge: multiple of the identity that is added to ``quad``.

    Returns:
        A function with outputs ``QPSolution(primal, dual)``.
    """

    def kkt(quad, mat):
        m = mat.shape[0]
        top = jnp.concatenate([quad + ridge * jnp.eye(quad.shape[0], dtype=quad.dtype), mat.T], axis=1)
        bottom = jnp.concatenate([mat, jnp.zeros((m, m), mat.dtype)], axis=1)
        return jnp.concatenate([top, bottom], axis=0)

    def solve(quad, lin, mat, rhs):
        z = jnp.linalg.solve(kkt(quad, mat), jnp.concatenate([-lin, rhs]))
        n = lin.shape[0]
        return QPSolution(z[:n], z[n:])

    @jax.custom_vjp
    def equality_qp(quad, lin, mat, rhs):
        return solve(quad, lin, mat, rhs)

    def fwd(quad, lin, mat, rhs):
        sol = solve(quad, lin, mat, rhs)
        return sol, (quad, mat, sol)

    def bwd(res, ct):
        quad, mat, sol = res
        n = quad.shape[0]
        u = jnp.linalg.solve(kkt(quad, mat).T, jnp.concatenate([ct.primal, ct.dual]))
        ux, uy = u[:n], u[n:]
        d_quad = -jnp.outer(ux, sol.primal)
        d_mat = -(jnp.outer(sol.dual, ux) + jnp.outer(uy, sol.primal))
        return d_quad, -ux, d_mat, uy

    equality_qp.defvjp(fwd, bwd)
    return equality_qp


@dataclass
class LookupTable:
    """Piecewise-linear function on an even grid from ``lo`` to ``hi``.

    Arguments outside of the grid take the value at its nearer end.
    """

    lo: float = 0.0
    hi: float = 1.0

    def __post_init__(self):
        @jax.custom_vjp
        def run(values, x):
            i, t, _, _ = self._locate(values, x)
            return (1.0 - t) * values[i] + t * values[i + 1]

        def run_fwd(values, x):
            i, t, inside, step = self._locate(values, x)
            left, right = values[i], values[i + 1]
            slope = jnp.where(inside, (right - left) / step, 0.0)
            return (1.0 - t) * left + t * right, (values, i, t, slope)

        def run_bwd(res, g):
            values, i, t, slope = res
            zero = jnp.zeros_like(values)
            dvalues = zero.at[i].set((1.0 - t) * g) + zero.at[i + 1].set(t * g)
            return dvalues, g * slope

        run.defvjp(run_fwd, run_bwd)
        self._run = run

    def _locate(self, values, x):
        n = values.shape[0]
        step = (self.hi - self.lo) / (n - 1)
        pos = (x - self.lo) / step
        inside = (pos >= 0) & (pos <= n - 1)
        pos = jnp.clip(pos, 0, n - 1)
        i = jnp.minimum(jnp.floor(pos).astype(jnp.int32), n - 2)
        return i, pos - i, inside, step

    def evaluate(self, values, x):
        """Value of the table ``values`` (knots,) at every element of ``x`` (any shape)."""
        return self._run(values, x)


@jax.custom_vjp
def mesh_volume(vertices, faces):
    """Signed volume that a closed triangle mesh encloses.

    :param vertices: ``(..., vertices, 3)`` positions
    :param faces: ``(faces, 3)`` integer corners, counter-clockwise from outside
    """
    p, q, r = (vertices[..., faces[:, k], :] for k in range(3))
    return jnp.sum(p * jnp.cross(q, r), axis=(-2, -1)) / 6.0


def _mesh_volume_fwd(vertices, faces):
    return mesh_volume(vertices, faces), (vertices, faces)


def _mesh_volume_bwd(res, g):
    vertices, faces = res
    p, q, r = (vertices[..., faces[:, k], :] for k in range(3))
    out = jnp.zeros_like(vertices)
    for k, term in enumerate((jnp.cross(q, r), jnp.cross(r, p), jnp.cross(p, q))):
        out = out.at[..., faces[:, k], :].add(term)
    return g[..., None, None] * out / 6.0, None


mesh_volume.defvjp(_mesh_volume_fwd, _mesh_volume_bwd)


def _project(matrix, points):
    hom = jnp.concatenate([points, jnp.ones_like(points[..., :1])], axis=-1)
    uvw = hom @ matrix.T
    return hom, uvw[..., :2] / uvw[..., 2:], uvw[..., 2:]


@jax.custom_vjp
def apply_homography(matrix, points):
    return _project(matrix, points)[1]


def _homography_fwd(matrix, points):
    hom, out, w = _project(matrix, points)
    return out, (matrix, hom, out, w)


def _homography_bwd(res, g):
    matrix, hom, out, w = res
    gw = g / w
    d_uvw = jnp.concatenate([gw, -jnp.sum(gw * out, axis=-1, keepdims=True)], axis=-1)
    d_matrix = jnp.einsum("...i,...j->ij", d_uvw, hom)
    d_points = gw @ matrix[:2, :2]
    return d_matrix, d_points


apply_homography.defvjp(_homography_fwd, _homography_bwd)
