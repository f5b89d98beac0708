"""Geometry, dense grids, orthogonal maps and structured equations."""

import dataclasses
import itertools
from functools import partial
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp


def _t(m):
    return jnp.swapaxes(m, -1, -2)


def _sym(m):
    return 0.5 * (m + _t(m))


@jax.custom_vjp
def box_signed_distance(points, half_extents, rounding):
    """Signed distance from ``points`` to a rounded box about the origin.

    Args:
      points: ``(..., d)``.
      half_extents: ``(d,)``, positive.
      rounding: scalar by which the surface is pushed out.

    Returns:
      ``(...)``; negative inside the box.
    """
    return _box_fwd(points, half_extents, rounding)[0]


def _box_fwd(points, half_extents, rounding):
    over = jnp.abs(points) - half_extents
    pos = jnp.maximum(over, 0.0)
    far = jnp.sqrt(jnp.sum(pos * pos, axis=-1))
    deep = jnp.minimum(jnp.max(over, axis=-1), 0.0)
    return far + deep - rounding, (points, over, pos, far, deep)


def _box_bwd(res, g):
    points, over, pos, far, deep = res
    outward = pos / jnp.where(far > 0, far, 1.0)[..., None]
    nearest = jax.nn.one_hot(jnp.argmax(over, axis=-1), over.shape[-1], dtype=over.dtype)
    inward = nearest * (deep < 0)[..., None]
    d_points = g[..., None] * jnp.sign(points) * (outward + inward)
    d_half = -(g[..., None] * outward).reshape(-1, over.shape[-1]).sum(0)
    return d_points, d_half, -jnp.sum(g)


box_signed_distance.defvjp(_box_fwd, _box_bwd)


class _Cell(NamedTuple):
    base: jax.Array
    frac: jax.Array
    live: jax.Array


def _locate(coords, shape):
    # coords are (x, y, z), the grid is stored (z, y, x)
    extent = jnp.asarray(shape[2::-1], coords.dtype) - 1.0
    position = jnp.clip(coords, 0.0, 1.0) * extent
    base = jnp.clip(jnp.floor(position), 0.0, jnp.maximum(extent - 1.0, 0.0))
    live = (coords > 0.0) & (coords < 1.0)
    return _Cell(base.astype(jnp.int32), position - base, live)


@jax.custom_vjp
def trilinear_grid_lookup(grid: jax.Array, coords: jax.Array) -> jax.Array:
    """Features of a dense voxel grid at continuous positions.

    Args:
      grid: ``(depth, height, width, channels)``, at least two cells a side.
      coords: ``(..., 3)`` as ``(x, y, z)``, 0 to 1 from the first voxel to the
        last; clamped to that range.

    Returns:
      ``(..., channels)``.
    """
    return _trilinear_fwd(grid, coords)[0]


def _corner(cell, bits):
    ix, iy, iz = (cell.base[..., a] + bits[a] for a in range(3))
    parts = [cell.frac[..., a] if bits[a] else 1.0 - cell.frac[..., a] for a in range(3)]
    return (iz, iy, ix), parts


def _trilinear_fwd(grid, coords):
    cell = _locate(coords, grid.shape)
    out = 0.0
    for bits in itertools.product((0, 1), repeat=3):
        where, (wx, wy, wz) = _corner(cell, bits)
        out = out + grid[where] * (wx * wy * wz)[..., None]
    return out, (grid, cell)


def _trilinear_bwd(res, g):
    grid, cell = res
    d_grid = jnp.zeros_like(grid)
    d_frac = jnp.zeros_like(cell.frac)
    for bits in itertools.product((0, 1), repeat=3):
        where, (wx, wy, wz) = _corner(cell, bits)
        d_grid = d_grid.at[where].add(g * (wx * wy * wz)[..., None])
        hit = jnp.sum(g * grid[where], axis=-1)
        sx, sy, sz = (1.0 if b else -1.0 for b in bits)
        d_frac = d_frac + jnp.stack([sx * wy * wz * hit, sy * wx * wz * hit, sz * wx * wy * hit], -1)
    extent = jnp.asarray(grid.shape[:3], cell.frac.dtype) - 1.0
    return d_grid, d_frac * extent * cell.live


trilinear_grid_lookup.defvjp(_trilinear_fwd, _trilinear_bwd)


@dataclasses.dataclass(frozen=True)
class HouseholderStack:
    """An orthogonal map held as a product of reflections.

    Attributes:
      transpose: apply the inverse map, that is the reflections in the other
        order.
    """

    transpose: bool = False

    def init(self, count: int, dim: int, dtype=jnp.float32):
        return jnp.eye(count, dim, dtype=dtype) + 0.1

    def _order(self, vectors):
        return vectors[::-1] if self.transpose else vectors

    def rotate(self, vectors, x):
        """Map the last axis of ``x`` by the reflections ``vectors``, ``(count, dim)``."""
        return _rotate(self, vectors, x)


def _reflect(v, x):
    return x - 2.0 * (x @ v / (v @ v))[..., None] * v


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _rotate(stack, vectors, x):
    def step(carry, v):
        return _reflect(v, carry), None

    return jax.lax.scan(step, x, stack._order(vectors))[0]


def _rotate_fwd(stack, vectors, x):
    y = _rotate(stack, vectors, x)
    return y, (vectors, y)


def _rotate_bwd(stack, res, g):
    vectors, y = res

    def step(carry, v):
        y, g = carry
        x = _reflect(v, y)
        vv = v @ v
        vx = (x @ v / vv)[..., None]
        vg = (g @ v / vv)[..., None]
        dv = -2.0 * (vx * g + vg * x) + 4.0 * vx * vg * v
        dv = dv.reshape(-1, v.shape[0]).sum(0)
        return (x, _reflect(v, g)), dv

    (_, d_x), d_ordered = jax.lax.scan(step, (y, g), stack._order(vectors), reverse=True)
    return stack._order(d_ordered), d_x


_rotate.defvjp(_rotate_fwd, _rotate_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def discrete_riccati(a, b, q, r, num_doublings=24):
    return _riccati_fwd(a, b, q, r, num_doublings)[0]


def _riccati_fwd(a, b, q, r, num_doublings):
    q, r = _sym(q), _sym(r)
    eye = jnp.eye(a.shape[-1], dtype=a.dtype)

    def body(_, state):
        f, gain, p = state
        left = jnp.linalg.solve(eye + gain @ p, f)
        gain_next = gain + f @ jnp.linalg.solve(eye + gain @ p, gain) @ _t(f)
        p_next = p + _t(f) @ p @ left
        return f @ left, _sym(gain_next), _sym(p_next)

    start = (a, b @ jnp.linalg.solve(r, _t(b)), q)
    p = jax.lax.fori_loop(0, num_doublings, body, start)[2]
    return p, (a, b, r, p)


def _riccati_bwd(num_doublings, res, g):
    a, b, r, p = res
    feedback = jnp.linalg.solve(r + _t(b) @ p @ b, _t(b) @ p @ a)
    closed = a - b @ feedback

    def body(_, state):
        w, m = state
        return w + m @ w @ _t(m), m @ m

    w, _ = jax.lax.fori_loop(0, num_doublings, body, (_sym(g), closed))
    d_a = 2.0 * p @ closed @ w
    return d_a, -d_a @ _t(feedback), w, feedback @ w @ _t(feedback)


discrete_riccati.defvjp(_riccati_fwd, _riccati_bwd)


def _toeplitz(column, row):
    n = column.shape[0]
    lag = jnp.arange(n)[:, None] - jnp.arange(n)[None, :]
    return jnp.where(lag >= 0, column[jnp.abs(lag)], row[jnp.abs(lag)])


@jax.custom_vjp
def toeplitz_solve(column: jax.Array, rhs: jax.Array, row: Optional[jax.Array] = None) -> jax.Array:
    """Solve ``T x = rhs`` for a Toeplitz matrix ``T``.

    Args:
      column: first column of ``T``, ``(n,)``.
      rhs: ``(n,)`` or ``(n, m)``.
      row: first row of ``T``; its first entry is not read. ``column`` if not
        given, which makes ``T`` symmetric.
    """
    return _toeplitz_fwd(column, rhs, row)[0]


def _toeplitz_fwd(column, rhs, row):
    matrix = _toeplitz(column, column if row is None else row)
    x = jnp.linalg.solve(matrix, rhs)
    return x, (matrix, x, row)


def _toeplitz_bwd(res, g):
    matrix, x, row = res
    n = matrix.shape[0]
    lam = jnp.linalg.solve(matrix, g)
    if x.ndim == 1:
        d_matrix = -jnp.outer(lam, x)
    else:
        d_matrix = -lam @ x.T
    lag = jnp.arange(n)[:, None] - jnp.arange(n)[None, :]
    zeros = jnp.zeros((n,), matrix.dtype)
    d_column = zeros.at[jnp.abs(lag)].add(jnp.where(lag >= 0, d_matrix, 0.0))
    d_row = zeros.at[jnp.abs(lag)].add(jnp.where(lag < 0, d_matrix, 0.0))
    if row is None:
        return d_column + d_row, lam, None
    return d_column, lam, d_row


toeplitz_solve.defvjp(_toeplitz_fwd, _toeplitz_bwd)
