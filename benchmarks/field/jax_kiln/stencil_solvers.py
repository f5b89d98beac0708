"""Linear-algebra and time-stepping primitives with adjoints."""
from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


def _on_support(gram, support):
    both = support[:, None] & support[None, :]
    return jnp.where(both, gram, jnp.eye(gram.shape[0], dtype=gram.dtype))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def nnls_solve(a, b, sweeps=400):
    """Non-negative least squares, ``argmin_{x >= 0} |a x - b|^2``.

    Args:
        a: design matrix ``(m, n)`` of full column rank, ``m >= n``.
        b: target ``(m,)``.
        sweeps: cyclic coordinate descent sweeps that find the support.
    """
    gram, rhs = a.T @ a, a.T @ b
    n = rhs.shape[0]

    def coordinate(i, x):
        residual = rhs[i] - gram[i] @ x
        return x.at[i].set(jnp.maximum(x[i] + residual / gram[i, i], 0.0))

    def sweep(_, x):
        return lax.fori_loop(0, n, coordinate, x)

    x = lax.fori_loop(0, sweeps, sweep, jnp.zeros_like(rhs))
    support = x > 0
    x = jnp.linalg.solve(_on_support(gram, support), jnp.where(support, rhs, 0.0))
    return jnp.where(support, x, 0.0)


def _nnls_fwd(a, b, sweeps):
    x = nnls_solve(a, b, sweeps)
    return x, (a, x)


def _nnls_bwd(sweeps, saved, ct):
    a, x = saved
    support = x > 0
    lam = jnp.linalg.solve(_on_support(a.T @ a, support), jnp.where(support, ct, 0.0))
    lam = jnp.where(support, lam, 0.0)
    image = a @ lam
    return -jnp.outer(image, x), image


nnls_solve.defvjp(_nnls_fwd, _nnls_bwd)


def make_heun_integrator(field, times):
    """Build an explicit trapezoidal (Heun) integrator for ``dy/dt = field(t, y, params)``.

    Parameters
    ----------
    field : callable
        Right-hand side, ``field(t, y, params) -> like y``.
    times : array, shape (T,)
        Increasing output instants; one step is taken between neighbours.

    Returns
    -------
    callable
        ``integrate(y0, params)`` giving states at all of ``times``, ``(T, *y0.shape)``.
        The backward pass stores the trajectory only and redoes each step.
    """
    times = jnp.asarray(times)

    def step(y, t, h, params):
        k1 = field(t, y, params)
        k2 = field(t + h, y + h * k1, params)
        return y + 0.5 * h * (k1 + k2)

    @jax.custom_vjp
    def integrate(y0, params):
        def advance(y, th):
            new = step(y, th[0], th[1], params)
            return new, new

        _, rest = lax.scan(advance, y0, (times[:-1], jnp.diff(times)))
        return jnp.concatenate([y0[None], rest], axis=0)

    def fwd(y0, params):
        path = integrate(y0, params)
        return path, (path, params)

    def bwd(saved, ct):
        path, params = saved
        h = (times[-1] - times[0]) / (times.shape[0] - 1)

        def retreat(carry, item):
            lam, acc = carry
            y, t, ct_y = item
            _, pull = jax.vjp(lambda y_, p_: step(y_, t, h, p_), y, params)
            lam_y, lam_p = pull(lam)
            acc = jax.tree_util.tree_map(jnp.add, acc, lam_p)
            return (lam_y + ct_y, acc), None

        zero = jax.tree_util.tree_map(jnp.zeros_like, params)
        (lam, acc), _ = lax.scan(
            retreat, (ct[-1], zero), (path[:-1], times[:-1], ct[:-1]), reverse=True
        )
        return lam, acc

    integrate.defvjp(fwd, bwd)
    return integrate


def _pivots(diag, off):
    def eliminate(prev, ab):
        a, b = ab
        d = a - b * b / prev
        return d, d

    first = diag[0]
    _, rest = lax.scan(eliminate, first, (diag[1:], off))
    return jnp.concatenate([first[None], rest], axis=0)


@jax.custom_vjp
def tridiagonal_logdet(diag: "*batch n", off: "*batch n-1") -> "*batch":
    """Log-determinant of symmetric positive definite tridiagonal matrices.

    :param diag: main diagonal.
    :param off: first off-diagonal, used on both sides of the main one.
    """
    d = _pivots(jnp.moveaxis(diag, -1, 0), jnp.moveaxis(off, -1, 0))
    return jnp.sum(jnp.log(d), axis=0)


def _tridiagonal_logdet_fwd(diag, off):
    b = jnp.moveaxis(off, -1, 0)
    d = _pivots(jnp.moveaxis(diag, -1, 0), b)
    return jnp.sum(jnp.log(d), axis=0), (d, b)


def _tridiagonal_logdet_bwd(saved, ct):
    d, b = saved
    last = 1.0 / d[-1]

    def substitute(below, db):
        d_i, b_i = db
        ratio = b_i / d_i
        cross = -ratio * below
        here = 1.0 / d_i - ratio * cross
        return here, (here, cross)

    _, (upper, cross) = lax.scan(substitute, last, (d[:-1], b), reverse=True)
    inv_diag = jnp.concatenate([upper, last[None]], axis=0)
    return jnp.moveaxis(ct * inv_diag, 0, -1), jnp.moveaxis(2.0 * ct * cross, 0, -1)


tridiagonal_logdet.defvjp(_tridiagonal_logdet_fwd, _tridiagonal_logdet_bwd)


@jax.custom_jvp
def det_adjugate(a):
    return jnp.linalg.det(a)


@det_adjugate.defjvp
def _det_adjugate_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    u, s, vh = jnp.linalg.svd(a, full_matrices=False)
    n = s.shape[-1]
    others = jnp.prod(jnp.where(jnp.eye(n, dtype=bool), 1.0, s[..., None, :]), axis=-1)
    sign = jnp.linalg.det(u) * jnp.linalg.det(vh)
    cofactor = sign[..., None, None] * ((u * others[..., None, :]) @ vh)
    return det_adjugate(a), jnp.sum(cofactor * da, axis=(-2, -1))


def _sym(m):
    return 0.5 * (m + jnp.swapaxes(m, -1, -2))


def _generalized_eigh(a, b):
    chol = jnp.linalg.cholesky(_sym(b), symmetrize_input=False)
    half = lax.linalg.triangular_solve(chol, _sym(a), left_side=True, lower=True)
    core = lax.linalg.triangular_solve(
        chol, jnp.swapaxes(half, -1, -2), left_side=True, lower=True
    )
    w, y = jnp.linalg.eigh(_sym(core))
    v = lax.linalg.triangular_solve(chol, y, left_side=True, lower=True, transpose_a=True)
    return w, v


@jax.custom_vjp
def generalized_eigvalsh(a: jax.Array, b: jax.Array) -> jax.Array:
    """Eigenvalues of ``a v = w b v`` in ascending order.

    Args:
        a: symmetric matrices ``(..., n, n)``.
        b: symmetric positive definite matrices of the same shape.

    Both arguments are symmetrised first.
    """
    return _generalized_eigh(a, b)[0]


def _generalized_eigvalsh_fwd(a, b):
    w, v = _generalized_eigh(a, b)
    return w, v


def _generalized_eigvalsh_bwd(v, ct):
    outer = (v * ct[..., None, :]) @ jnp.swapaxes(v, -1, -2)
    return outer, -outer


generalized_eigvalsh.defvjp(_generalized_eigvalsh_fwd, _generalized_eigvalsh_bwd)
