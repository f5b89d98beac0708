from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import erf, gammaln


def _fit(g, like):
    """sum g down to the shape of like"""
    g = jnp.sum(g, axis=tuple(range(g.ndim - jnp.ndim(like))))
    ax = tuple(i for i, n in enumerate(jnp.shape(like)) if n == 1 and g.shape[i] != 1)
    return jnp.sum(g, axis=ax, keepdims=True) if ax else g


# thermal performance ---------------------------------------------------------


@jax.custom_jvp
def briere_rate(temp, a, t_low, t_high):
    """a T (T - t_low) sqrt(t_high - T) inside (t_low, t_high), 0 outside."""
    inside = (temp > t_low) & (temp < t_high)
    s = jnp.sqrt(jnp.where(inside, t_high - temp, 1.0))
    return jnp.where(inside, a * temp * (temp - t_low) * s, 0.0)


@briere_rate.defjvp
def _briere_jvp(primals, tangents):
    temp, a, lo, hi = primals
    dtemp, da, dlo, dhi = tangents
    inside = (temp > lo) & (temp < hi)
    s = jnp.sqrt(jnp.where(inside, hi - temp, 1.0))
    k = temp * (temp - lo)
    tan = (
        a * ((2 * temp - lo) * s - 0.5 * k / s) * dtemp
        + k * s * da
        - a * temp * s * dlo
        + 0.5 * a * k / s * dhi
    )
    return jnp.where(inside, a * k * s, 0.0), jnp.where(inside, tan, 0.0)


# diversity -------------------------------------------------------------------


@jax.custom_vjp
def rao_entropy(counts, cost):
    """Rao's Q of counts (..., S); cost (S, S), cost[i, j] = replacing i by j (directed)."""
    p = counts / counts.sum(-1, keepdims=True)
    return jnp.einsum("...i,ij,...j->...", p, cost, p)


def _rao_fwd(counts, cost):
    n = counts.sum(-1, keepdims=True)
    p = counts / n
    cp = p @ cost.T
    return jnp.sum(p * cp, -1), (p, cp, n)


def _rao_bwd(res, g):
    p, cp, n = res
    gp = 2.0 * g[..., None] * cp
    gc = (gp - jnp.sum(p * gp, -1, keepdims=True)) / n
    s = p.shape[-1]
    pf, gf = p.reshape(-1, s), jnp.reshape(g, (-1, 1))
    return gc, (gf * pf).T @ pf


rao_entropy.defvjp(_rao_fwd, _rao_bwd)


# distance sampling -----------------------------------------------------------


def _log_area(sigma, w, transect):
    if transect == "line":
        return jnp.log(sigma * jnp.sqrt(jnp.pi / 2) * erf(w / (sigma * jnp.sqrt(2.0))))
    if transect == "point":
        return jnp.log(-jnp.expm1(-0.5 * (w / sigma) ** 2)) + 2 * jnp.log(sigma)
    raise ValueError(transect)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def detection_nll(beta, x, dist, w, transect="line"):
    """Half-normal detection, sigma = exp(x @ beta), truncated at w; transect: line | point."""
    sigma = jnp.exp(x @ beta)
    nll = 0.5 * (dist / sigma) ** 2 + _log_area(sigma, w, transect)
    if transect == "point":
        nll = nll - jnp.log(dist)
    return nll.sum()


def _det_fwd(beta, x, dist, w, transect):
    return detection_nll(beta, x, dist, w, transect), (beta, x, dist)


def _det_bwd(w, transect, res, g):
    beta, x, dist = res
    sigma = jnp.exp(x @ beta)
    z2 = (dist / sigma) ** 2
    u = 0.5 * (w / sigma) ** 2
    # d log(area) / d log(sigma)
    if transect == "line":
        dens = jnp.exp(-u) * jnp.sqrt(2 / jnp.pi) * w / sigma
        darea = 1.0 - dens / erf(jnp.sqrt(u))
    else:
        darea = 2.0 - u / jnp.expm1(u)
    eta = g * (darea - z2)
    gdist = g * dist / sigma**2
    if transect == "point":
        gdist = gdist - g / dist
    return x.T @ eta, eta[:, None] * beta, gdist


detection_nll.defvjp(_det_fwd, _det_bwd)


# Conway-Maxwell-Poisson ------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def com_poisson_logpmf(y, log_lam, nu, terms=100):
    """log pmf of integer counts y, normaliser summed over 0..terms-1"""
    k = jnp.arange(terms, dtype=jnp.result_type(log_lam))
    e = k * log_lam[..., None] - jnp.expand_dims(nu, -1) * gammaln(k + 1)
    return y * log_lam - nu * gammaln(y + 1.0) - jax.nn.logsumexp(e, axis=-1)


def _cmp_fwd(y, log_lam, nu, terms):
    k = jnp.arange(terms, dtype=jnp.result_type(log_lam))
    lg = gammaln(k + 1)
    e = k * log_lam[..., None] - jnp.expand_dims(nu, -1) * lg
    logz = jax.nn.logsumexp(e, axis=-1)
    q = jnp.exp(e - logz[..., None])
    out = y * log_lam - nu * gammaln(y + 1.0) - logz
    return out, (y, log_lam, nu, q @ k, q @ lg)


def _cmp_bwd(terms, res, g):
    y, log_lam, nu, mean, mean_lg = res
    return None, _fit(g * (y - mean), log_lam), _fit(g * (mean_lg - gammaln(y + 1.0)), nu)


com_poisson_logpmf.defvjp(_cmp_fwd, _cmp_bwd)


def fit_counts(y, x, steps=200, lr=1e-2):
    def loss(p):
        return -com_poisson_logpmf(y, x @ p["beta"], jnp.exp(p["log_nu"])).mean()

    p = {"beta": jnp.zeros(x.shape[1]), "log_nu": jnp.zeros(())}
    grad = jax.jit(jax.grad(loss))
    for _ in range(steps):
        p = jax.tree_util.tree_map(lambda a, b: a - lr * b, p, grad(p))
    return p
