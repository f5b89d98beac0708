"""Small dense linear-algebra kernels with hand-written derivatives.

We keep factorisations from the forward pass around instead of letting autodiff
differentiate through LAPACK calls or long scans.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl


# --------------------------------------------------------------------------- solve

@jax.custom_vjp
def solve(A, b):
    """Solve ``A x = b`` for a general square matrix.

    Parameters
    ----------
    A : (n, n) array
        Non-singular, not necessarily symmetric.
    b : (n,) or (n, k) array
        One or several right hand sides.

    Returns
    -------
    x : array, same shape as `b`
    """
    return jsl.lu_solve(jsl.lu_factor(A), b)


def _solve_fwd(A, b):
    lu = jsl.lu_factor(A)
    x = jsl.lu_solve(lu, b)
    return x, (lu, x)


def _solve_bwd(res, g):
    lu, x = res
    w = jsl.lu_solve(lu, g, trans=1)
    if x.ndim == 1:
        gA = -jnp.outer(w, x)
    else:
        gA = -w @ x.T
    return gA, w


solve.defvjp(_solve_fwd, _solve_bwd)


# ----------------------------------------------------------------------- log |det|

@jax.custom_vjp
def logabsdet(A):
    """log|det A| for a stack of matrices ``(..., n, n)`` -> ``(...)``."""
    return jnp.linalg.slogdet(A)[1]


def _logabsdet_fwd(A):
    return logabsdet(A), jnp.linalg.inv(A)


def _logabsdet_bwd(Ainv, g):
    return (g[..., None, None] * jnp.swapaxes(Ainv, -1, -2),)


logabsdet.defvjp(_logabsdet_fwd, _logabsdet_bwd)


# --------------------------------------------------------------------- tridiagonal

def _thomas(dl, d, du, b):
    """Thomas algorithm. dl, du: (n-1,), d: (n,), b: (n,)."""
    zero = jnp.zeros((1,), d.dtype)
    lower = jnp.concatenate([zero, dl])
    upper = jnp.concatenate([du, zero])

    def down(carry, row):
        cp, dp = carry
        lo, di, up, rhs = row
        den = di - lo * cp
        cp, dp = up / den, (rhs - lo * dp) / den
        return (cp, dp), (cp, dp)

    init = (jnp.zeros((), d.dtype), jnp.zeros((), d.dtype))
    _, (cp, dp) = jax.lax.scan(down, init, (lower, d, upper, b))

    def up(x_next, row):
        c, r = row
        x = r - c * x_next
        return x, x

    _, x = jax.lax.scan(up, jnp.zeros((), d.dtype), (cp, dp), reverse=True)
    return x


@jax.custom_vjp
def tridiag_solve(dl, d, du, b):
    """Solve a tridiagonal system.

    Args:
        dl: sub-diagonal, shape ``(n - 1,)``.
        d: main diagonal, shape ``(n,)``; the matrix should be diagonally dominant.
        du: super-diagonal, shape ``(n - 1,)``.
        b: right hand side, shape ``(n,)``.

    Returns:
        The solution, shape ``(n,)``.
    """
    return _thomas(dl, d, du, b)


def _tridiag_fwd(dl, d, du, b):
    x = _thomas(dl, d, du, b)
    return x, (dl, d, du, x)


def _tridiag_bwd(res, g):
    dl, d, du, x = res
    w = _thomas(dl, d, du, g)
    return -w[1:] * x[:-1], -w * x, -w[:-1] * x[1:], w


tridiag_solve.defvjp(_tridiag_fwd, _tridiag_bwd)


# -------------------------------------------------------------------- matrix exp

@jax.custom_jvp
def matrix_exponential(A):
    return jsl.expm(A)


@matrix_exponential.defjvp
def _matrix_exponential_jvp(primals, tangents):
    (A,), (dA,) = primals, tangents
    return jsl.expm_frechet(A, dA, compute_expm=True)


def propagate(H, psi, t):
    """Evolve ``psi`` (n,) by the generator ``H`` (n, n) for a time ``t``."""
    return matrix_exponential(-t * H) @ psi


# ------------------------------------------------------------- weighted least squares

class WlsFit(NamedTuple):
    beta: jax.Array
    resid: jax.Array


@jax.custom_vjp
def weighted_lstsq(X, y, w):
    r"""Weighted least squares coefficients.

    :param X: design matrix, shape (n, p) with n >= p
    :param y: observations, shape (n,)
    :param w: positive weights (inverse variances), shape (n,)
    :returns: :math:`\beta = (X^T W X)^{-1} X^T W y`, shape (p,)
    """
    N = X.T @ (w[:, None] * X)
    return jsl.cho_solve(jsl.cho_factor(N), X.T @ (w * y))


def _wls_fwd(X, y, w):
    cf = jsl.cho_factor(X.T @ (w[:, None] * X))
    beta = jsl.cho_solve(cf, X.T @ (w * y))
    return beta, (X, y, w, cf, beta)


def _wls_bwd(res, g):
    X, y, w, cf, beta = res
    v = jsl.cho_solve(cf, g)
    r = y - X @ beta
    Xv = X @ v
    gX = (w * r)[:, None] * v[None, :] - Xv[:, None] * beta[None, :]
    gy = w * Xv
    gw = r * Xv
    return gX, gy, gw


weighted_lstsq.defvjp(_wls_fwd, _wls_bwd)


def wls_fit(X, y, sigma):
    beta = weighted_lstsq(X, y, 1.0 / sigma**2)
    return WlsFit(beta, y - X @ beta)


# ---------------------------------------------------------------- bilinear energy

@jax.custom_vjp
def bilinear_energy(x, W):
    # x: (batch, n) states, W: (n, n) directed couplings  ->  (batch,)
    return jnp.einsum("bi,ij,bj->b", x, W, x)


def _be_fwd(x, W):
    Wx = x @ W.T
    return jnp.sum(x * Wx, axis=-1), (x, Wx)


def _be_bwd(res, g):
    x, Wx = res
    return 2.0 * g[:, None] * Wx, jnp.einsum("b,bi,bj->ij", g, x, x)


bilinear_energy.defvjp(_be_fwd, _be_bwd)


if __name__ == "__main__":
    k1, k2 = jax.random.split(jax.random.PRNGKey(0))
    A = jax.random.normal(k1, (4, 4)) + 4 * jnp.eye(4)
    b = jax.random.normal(k2, (4,))
    print(solve(A, b), logabsdet(A))
    print(jax.grad(lambda A: solve(A, b).sum())(A))
