"""Dense linear algebra primitives used by the Gaussian-process and regression code.

Everything here works on plain ``jnp`` arrays.  The forward passes are written so that the
factorisation is done once and shared with the backward pass.
"""
import functools
import math

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular


def _T(a):
    return jnp.swapaxes(a, -1, -2)


def _sym(a):
    return 0.5 * (a + _T(a))


def _chol_solve(L, b):
    y = solve_triangular(L, b, lower=True)
    return solve_triangular(L, y, lower=True, trans=1)


_chol_solve_nd = jnp.vectorize(_chol_solve, signature="(n,n),(n,k)->(n,k)")


# ---------------------------------------------------------------------------------------
# b^T A^{-1} b  and  log|A|
# ---------------------------------------------------------------------------------------

@jax.custom_vjp
def inv_quad_logdet(A, b):
    """Quadratic form and log-determinant from a single Cholesky factorisation.

    Args:
        A: positive definite matrices, ``(..., n, n)``.  Only the symmetric part is used.
        b: right-hand sides, ``(..., n, k)``, with the same leading dimensions as ``A``.

    Returns:
        ``(inv_quad, logdet)``, both of shape ``(...)``, where
        ``inv_quad = trace(b^T A^{-1} b)`` and ``logdet = log det A``.
    """
    out, _ = _iql_fwd(A, b)
    return out


def _iql_fwd(A, b):
    L = jnp.linalg.cholesky(_sym(A))
    alpha = _chol_solve_nd(L, b)
    inv_quad = jnp.sum(b * alpha, axis=(-2, -1))
    logdet = 2.0 * jnp.sum(jnp.log(jnp.diagonal(L, axis1=-2, axis2=-1)), axis=-1)
    return (inv_quad, logdet), (L, alpha)


def _iql_bwd(res, cts):
    L, alpha = res
    g_quad, g_det = (c[..., None, None] for c in cts)
    eye = jnp.broadcast_to(jnp.eye(L.shape[-1], dtype=L.dtype), L.shape)
    Ainv = _sym(_chol_solve_nd(L, eye))
    dA = g_det * Ainv - g_quad * (alpha @ _T(alpha))
    db = 2.0 * g_quad * alpha
    return dA, db


inv_quad_logdet.defvjp(_iql_fwd, _iql_bwd)


# ---------------------------------------------------------------------------------------
# symmetric eigen-decomposition
# ---------------------------------------------------------------------------------------

@jax.custom_vjp
def sym_eig(A):
    """Eigenvalues (ascending) and eigenvectors (columns) of the symmetric part of ``A``.

    ``A`` is ``(..., n, n)``.  Losses that use the eigenvectors need distinct eigenvalues;
    symmetric functions of the eigenvalues alone are fine with repeated ones, too.
    """
    w, V = jnp.linalg.eigh(_sym(A))
    return w, V


def _sym_eig_fwd(A):
    w, V = sym_eig(A)
    return (w, V), (w, V)


def _sym_eig_bwd(res, cts):
    w, V = res
    gw, gV = cts
    gap = w[..., None, :] - w[..., :, None]
    same = gap == 0
    F = jnp.where(same, 0.0, 1.0 / jnp.where(same, 1.0, gap))
    inner = F * (_T(V) @ gV)
    inner = inner + gw[..., None] * jnp.eye(w.shape[-1], dtype=w.dtype)
    return (_sym(V @ inner @ _T(V)),)


sym_eig.defvjp(_sym_eig_fwd, _sym_eig_bwd)


# ---------------------------------------------------------------------------------------
# Kronecker-structured matvec
# ---------------------------------------------------------------------------------------

@jax.custom_vjp
def kron_matvec(A, B, x):
    """Computes ``jnp.kron(A, B) @ x`` without forming the Kronecker product.

    A : (m, n)
    B : (p, q)
    x : (n * q,)
    returns (m * p,)
    """
    X = x.reshape(A.shape[1], B.shape[1])
    return (A @ X @ B.T).reshape(-1)


def _kron_fwd(A, B, x):
    return kron_matvec(A, B, x), (A, B, x)


def _kron_bwd(res, ct):
    A, B, x = res
    (m, n), (p, q) = A.shape, B.shape
    X = x.reshape(q, n).T
    G = ct.reshape(m, p)
    gA = G @ (B @ X.T)
    gB = G.T @ (A @ X)
    gx = A.T @ G @ B
    return gA, gB, gx.reshape(-1)


kron_matvec.defvjp(_kron_fwd, _kron_bwd)


# ---------------------------------------------------------------------------------------
# least squares
# ---------------------------------------------------------------------------------------

@jax.custom_vjp
def pinv_solve(A, b):
    """Least-squares solution ``pinv(A) @ b`` through a thin QR.

    Parameters
    ----------
    A : array, shape (m, n)
        Design matrix with ``m >= n`` and full column rank.
    b : array, shape (m, k)
        Targets.

    Returns
    -------
    array, shape (n, k)
    """
    Q, R = jnp.linalg.qr(A)
    return solve_triangular(R, Q.T @ b, lower=False)


def _pinv_fwd(A, b):
    Q, R = jnp.linalg.qr(A)
    x = solve_triangular(R, Q.T @ b, lower=False)
    return x, (Q, R, x)


def _pinv_bwd(res, g):
    Q, R, x = res
    # adjoint of x = R^{-1} Q^T b
    gb = Q @ solve_triangular(R, g, lower=False, trans=1)
    gA = -gb @ x.T
    return gA, gb


pinv_solve.defvjp(_pinv_fwd, _pinv_bwd)


# ---------------------------------------------------------------------------------------
# users
# ---------------------------------------------------------------------------------------

def rbf(x, z, lengthscale):
    d2 = jnp.sum((x[:, None] - z[None]) ** 2 / lengthscale**2, axis=-1)
    return jnp.exp(-0.5 * d2)


@functools.partial(jax.jit, static_argnames="jitter")
def gp_nll(params, X, y, jitter=1e-4):
    """Negative log marginal likelihood of an RBF Gaussian process, ``y`` of shape (n,)."""
    K = jnp.exp(params["log_amp"]) * rbf(X, X, jnp.exp(params["log_ls"]))
    K = K + (jitter + jnp.exp(params["log_noise"])) * jnp.eye(X.shape[0])
    quad, logdet = inv_quad_logdet(K, y[:, None])
    return 0.5 * (quad + logdet + X.shape[0] * math.log(2 * math.pi))


if __name__ == "__main__":
    X = jax.random.normal(jax.random.PRNGKey(0), (12, 2))
    y = jnp.sin(X[:, 0])
    p = {"log_amp": jnp.zeros(()), "log_ls": jnp.zeros(2), "log_noise": jnp.array(-2.0)}
    print(jax.value_and_grad(gp_nll)(p, X, y))
