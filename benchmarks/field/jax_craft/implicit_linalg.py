"""Adjoints for solves, determinants, projections and converged iterations."""

from __future__ import annotations

from typing import Callable

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve


# A x = b with A symmetric positive definite (n, n); b is (n,) or (n, m).
# Only the symmetric part of A is used, hence the symmetrised adjoint.


def _sym(a):
    return 0.5 * (a + a.T)


@jax.custom_vjp
def spd_solve(a, b):
    return cho_solve(cho_factor(_sym(a), lower=True), b)


def _spd_solve_fwd(a, b):
    chol = cho_factor(_sym(a), lower=True)[0]
    x = cho_solve((chol, True), b)
    return x, (chol, x)


def _spd_solve_bwd(res, g):
    chol, x = res
    y = cho_solve((chol, True), g)
    outer = jnp.outer(y, x) if x.ndim == 1 else y @ x.T
    return -_sym(outer), y


spd_solve.defvjp(_spd_solve_fwd, _spd_solve_bwd)


# Sigma = diag(d) + U U^T,   d (n,) > 0,  U (n, k),  r (n,)
#   returns  log det Sigma  and  r^T Sigma^{-1} r  in O(n k^2)


@jax.custom_gradient
def lowrank_gaussian_terms(d, u, r):
    scaled = u / d[:, None]
    chol = jnp.linalg.cholesky(jnp.eye(u.shape[1], dtype=u.dtype) + u.T @ scaled)
    half = jax.scipy.linalg.solve_triangular(chol, scaled.T, lower=True)  # (k, n)
    logdet = jnp.sum(jnp.log(d)) + 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol)))
    s = r / d - half.T @ (half @ r)
    quad = r @ s

    def pull(cts):
        g_logdet, g_quad = cts
        inv_diag = 1.0 / d - jnp.sum(half * half, axis=0)
        inv_u = scaled - half.T @ (half @ u)
        gd = g_logdet * inv_diag - g_quad * s * s
        gu = 2.0 * (g_logdet * inv_u - g_quad * jnp.outer(s, s @ u))
        return gd, gu, 2.0 * g_quad * s

    return (logdet, quad), pull


def lowrank_mvn_logpdf(x, loc, d, u):
    logdet, quad = lowrank_gaussian_terms(d, u, x - loc)
    return -0.5 * (logdet + quad + x.shape[0] * jnp.log(2 * jnp.pi))


# Euclidean projection onto {p >= 0, sum p = radius}


def make_simplex_projection(axis: int = -1) -> Callable:
    """Projection along `axis`; the returned function takes (v, radius)."""

    def threshold(v, radius):
        top = -jnp.sort(-v, axis=-1)
        ranks = jnp.arange(1, v.shape[-1] + 1, dtype=v.dtype)
        tail = (jnp.cumsum(top, -1) - radius) / ranks
        rho = jnp.sum(top > tail, axis=-1, keepdims=True)
        return jnp.take_along_axis(tail, rho - 1, axis=-1)

    @jax.custom_vjp
    def project(v, radius):
        v = jnp.moveaxis(v, axis, -1)
        p = jnp.maximum(v - threshold(v, radius), 0.0)
        return jnp.moveaxis(p, -1, axis)

    def fwd(v, radius):
        p = project(v, radius)
        return p, (p > 0)

    def bwd(active, g):
        g = jnp.moveaxis(g, axis, -1)
        active = jnp.moveaxis(active, axis, -1).astype(g.dtype)
        g = g * active
        share = jnp.sum(g, -1) / jnp.sum(active, -1)
        dv = active * (g - jnp.mean(g, axis=-1, keepdims=True))
        return jnp.moveaxis(dv, -1, axis), jnp.sum(share)

    project.defvjp(fwd, bwd)
    return project


project_simplex = make_simplex_projection(axis=-1)


def sparse_attention_weights(scores):
    """sparsemax rows"""
    return project_simplex(scores, jnp.ones((), scores.dtype))


# x*(theta) with residual(x*, theta) = 0, found by Newton from x0


def make_root_solver(residual: Callable, max_iter: int = 30) -> Callable:
    """residual(x, theta) -> array like x (a vector); theta is any tree.

    The solver takes (theta, x0). The derivative is that of the root; a converged
    root does not depend on where the iteration began.
    """
    jacobian = jax.jacfwd(residual, argnums=0)

    def newton(theta, x0):
        def update(_, x):
            return x - jnp.linalg.solve(jacobian(x, theta), residual(x, theta))

        return jax.lax.fori_loop(0, max_iter, update, x0)

    @jax.custom_vjp
    def solve(theta, x0):
        return newton(theta, x0)

    def solve_fwd(theta, x0):
        x = newton(theta, x0)
        return x, (theta, x)

    def solve_bwd(saved, g):
        theta, x = saved
        # implicit function theorem: dx = -J^{-1} (d residual / d theta) dtheta
        lam = jnp.linalg.solve(jacobian(x, theta), g)
        _, pull = jax.vjp(lambda th: residual(x, th), theta)
        (dtheta,) = pull(-lam)
        return dtheta, jnp.zeros_like(x)

    solve.defvjp(solve_fwd, solve_bwd)
    return solve


def _gene_circuit(x, theta):
    """Steady state of three genes in a ring, each repressing the next one."""
    w, decay, leak = theta["weights"], theta["decay"], theta["leak"]
    drive = jax.nn.sigmoid(w @ x + leak)
    return drive - decay * x


steady_state = make_root_solver(_gene_circuit)


def _demo():
    theta = {
        "weights": jnp.array([[0.2, 0.0, -2.0], [-1.5, 0.1, 0.0], [0.0, -2.5, 0.3]]),
        "decay": jnp.array([1.0, 0.7, 1.3]),
        "leak": jnp.array([0.5, 0.2, 0.8]),
    }
    x = steady_state(theta, jnp.full((3,), 0.4))
    print("steady state", x)
    print("sensitivity", jax.grad(lambda th: steady_state(th, x)[2])(theta))

    key = jax.random.PRNGKey(1)
    u = jax.random.normal(key, (6, 2))
    print("logpdf", lowrank_mvn_logpdf(jnp.arange(6.0), jnp.zeros(6), jnp.ones(6), u))
    print("sparsemax", sparse_attention_weights(jax.random.normal(key, (2, 5))))
    k = u @ u.T + jnp.eye(6)
    print("gp weights", spd_solve(k, jnp.ones(6)))


if __name__ == "__main__":
    _demo()
