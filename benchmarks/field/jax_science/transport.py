"""Projections, proximal maps and small optimal-transport pieces."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp


@jax.custom_vjp
def project_simplex(v, radius):
    """Euclidean projection onto ``{x >= 0, sum(x) = radius}`` along the last axis.

    Args:
        v: (..., n)
        radius: positive scalar
    """
    n = v.shape[-1]
    v = v - v.max(axis=-1, keepdims=True)
    s = -jnp.sort(-v, axis=-1)
    css = jnp.cumsum(s, axis=-1) - radius
    k = jnp.arange(1, n + 1)
    rho = jnp.sum(s * k > css, axis=-1, keepdims=True)
    tau = jnp.take_along_axis(css, rho - 1, axis=-1) / rho
    return jnp.maximum(v - tau, 0.0)


def _simplex_fwd(v, radius):
    x = project_simplex(v, radius)
    return x, x > 0


def _simplex_bwd(support, g):
    size = support.sum(-1, keepdims=True)
    mean = jnp.sum(jnp.where(support, g, 0.0), axis=-1, keepdims=True) / size
    return jnp.where(support, g - mean, 0.0), mean.sum()


project_simplex.defvjp(_simplex_fwd, _simplex_bwd)


@jax.custom_gradient
def soft_threshold(x, lam):
    """prox of lam*|.|_1;  x: (batch, d),  lam: (d,) thresholds, positive"""
    active = jnp.abs(x) > lam
    out = jnp.where(active, x - lam * jnp.sign(x), 0.0)

    def grad(g):
        gx = jnp.where(active, g, 0.0)
        return gx, -gx.sum(axis=0)

    return out, grad


class LISTA(nn.Module):
    """Learned iterative shrinkage with per-atom thresholds."""

    atoms: int
    steps: int = 3

    @nn.compact
    def __call__(self, y):
        encode = nn.Dense(self.atoms, use_bias=False)
        mix = nn.Dense(self.atoms, use_bias=False)
        log_lam = self.param("log_lam", nn.initializers.constant(-2.0), (self.atoms,))
        drive = encode(y)
        z = soft_threshold(drive, jnp.exp(log_lam))
        for _ in range(self.steps - 1):
            z = soft_threshold(drive + z - mix(z), jnp.exp(log_lam))
        return z


@jax.custom_vjp
def softmin_potential(cost, g, log_b, eps):
    """Half a Sinkhorn iteration in the log domain.

    f_i = -eps * log sum_j exp((g_j - cost_ij) / eps + log_b_j)

    Parameters
    ----------
    cost : (n, m) ground cost
    g : (m,) dual potential of the columns
    log_b : (m,) log weights of the columns
    eps : scalar temperature

    Returns
    -------
    f : (n,)
    """
    return -eps * logsumexp((g - cost) / eps + log_b, axis=1)


def _softmin_fwd(cost, g, log_b, eps):
    scores = (g - cost) / eps + log_b
    lse = logsumexp(scores, axis=1)
    plan = jnp.exp(scores - lse[:, None])
    return -eps * lse, (plan, cost, g, eps)


def _softmin_bwd(res, ct):
    plan, cost, g, eps = res
    d_cost = ct[:, None] * plan
    col = d_cost.sum(axis=0)
    d_eps = jnp.sum(d_cost * (g - cost)) / eps
    return d_cost, -col, -eps * col, d_eps


softmin_potential.defvjp(_softmin_fwd, _softmin_bwd)


def sinkhorn_cost(cost, log_a, log_b, eps=0.1, n_iter=30):
    """Entropic OT value of the dual potentials after ``n_iter`` iterations."""

    def body(_, fg):
        _, g = fg
        f = softmin_potential(cost, g, log_b, eps)
        return f, softmin_potential(cost.T, f, log_a, eps)

    init = (jnp.zeros(cost.shape[0], cost.dtype), jnp.zeros(cost.shape[1], cost.dtype))
    f, g = jax.lax.fori_loop(0, n_iter, body, init)
    return jnp.vdot(jnp.exp(log_a), f) + jnp.vdot(jnp.exp(log_b), g)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def wasserstein_1d(u, v, p=2):
    """p-th power of the 1-D Wasserstein-p distance of two equally sized samples, p >= 1.

    u, v: (..., n) -> (...)
    """
    d = jnp.sort(u, axis=-1) - jnp.sort(v, axis=-1)
    return jnp.mean(jnp.abs(d) ** p, axis=-1)


def _w1d_fwd(u, v, p):
    iu, iv = jnp.argsort(u, axis=-1), jnp.argsort(v, axis=-1)
    d = jnp.take_along_axis(u, iu, axis=-1) - jnp.take_along_axis(v, iv, axis=-1)
    return jnp.mean(jnp.abs(d) ** p, axis=-1), (iu, iv, d)


def _w1d_bwd(p, res, g):
    iu, iv, d = res
    gd = g[..., None] * p * jnp.sign(d) * jnp.abs(d) ** (p - 1) / d.shape[-1]
    gu = jnp.take_along_axis(gd, jnp.argsort(iu, axis=-1), axis=-1)
    gv = jnp.take_along_axis(gd, jnp.argsort(iv, axis=-1), axis=-1)
    return gu, -gv


wasserstein_1d.defvjp(_w1d_fwd, _w1d_bwd)


def sliced_wasserstein(key, x, y, n_proj=32):
    """Monte-Carlo sliced W2^2 between two point clouds of shape (n, d)."""
    dirs = jax.random.normal(key, (n_proj, x.shape[1]))
    dirs = dirs / jnp.linalg.norm(dirs, axis=1, keepdims=True)
    return wasserstein_1d(dirs @ x.T, dirs @ y.T).mean()
