"""Log densities with hand-written gradients (used by the NUTS sampler, where they are the hot loop)."""
from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

LOG_2PI = math.log(2.0 * math.pi)


class Weibull(NamedTuple):
    log_scale: jax.Array
    log_shape: jax.Array


@jax.custom_vjp
def weibull_loglik(params: Weibull, t, event):
    """Right-censored Weibull log likelihood, summed.

    params : scalars on the log scale
    t      : (n,) positive follow-up times
    event  : (n,) bool, False = censored at t
    """
    k = jnp.exp(params.log_shape)
    u = jnp.log(t) - params.log_scale
    dens = params.log_shape + k * u - jnp.log(t)
    return jnp.sum(jnp.where(event, dens, 0.0) - jnp.exp(k * u))


def _weibull_fwd(params, t, event):
    return weibull_loglik(params, t, event), (params, t, event)


def _weibull_bwd(res, g):
    params, t, event = res
    k = jnp.exp(params.log_shape)
    u = jnp.log(t) - params.log_scale
    cumhaz = jnp.exp(k * u)
    d = event.astype(t.dtype)
    d_scale = jnp.sum(k * (cumhaz - d))
    d_shape = jnp.sum(d + k * u * (d - cumhaz))
    d_t = d * (k - 1.0 - k * cumhaz) / t
    return Weibull(g * d_scale, g * d_shape), g * d_t, None


weibull_loglik.defvjp(_weibull_fwd, _weibull_bwd)


@jax.custom_vjp
def cox_loss(eta, time, event):
    """Negative Cox log partial likelihood (Breslow's handling of ties), summed over events.

    eta   : (n,) linear predictors
    time  : (n,) observed times, e.g. whole days; need not be sorted
    event : (n,) bool
    """
    at_risk = time[None, :] >= time[:, None]
    shift = jnp.max(eta)
    log_risk = jnp.log(jnp.sum(jnp.where(at_risk, jnp.exp(eta - shift)[None, :], 0.0), 1)) + shift
    return jnp.sum(jnp.where(event, log_risk - eta, 0.0))


def _cox_fwd(eta, time, event):
    return cox_loss(eta, time, event), (eta, time, event)


def _cox_bwd(res, g):
    eta, time, event = res
    order = jnp.argsort(-time)
    w = jnp.exp(eta - jnp.max(eta))[order]
    ev = event[order].astype(eta.dtype)
    hazard = ev / jnp.cumsum(w)                      # Breslow increments
    base = jnp.cumsum(hazard[::-1])[::-1]
    d_sorted = w * base - ev
    d_eta = jnp.zeros_like(eta).at[order].set(d_sorted)
    return g * d_eta, jnp.zeros_like(time), None


cox_loss.defvjp(_cox_fwd, _cox_bwd)


class CoxHead:
    """Linear risk score."""

    def __init__(self, n_features: int):
        self.n_features = n_features

    def init(self, key):
        return {"w": 0.1 * jax.random.normal(key, (self.n_features,))}

    def loss(self, params, X, time, event):
        n_events = jnp.maximum(jnp.sum(event), 1)
        return cox_loss(X @ params["w"], time, event) / n_events


# --- ordinal regression -------------------------------------------------------

def _bounds(cut, eta, y):
    inf = jnp.full((1,), jnp.inf, cut.dtype)
    padded = jnp.concatenate([-inf, cut, inf])
    return padded[y] - eta, padded[y + 1] - eta


@jax.custom_vjp
def ordered_logit_logpmf(cut, eta, y):
    """log P(y | eta) for the proportional odds model.

    cut : (K-1,) strictly increasing cutpoints
    eta : (n,)
    y   : (n,) int in 0..K-1
    returns (n,)
    """
    lo, hi = _bounds(cut, eta, y)
    return (jax.nn.log_sigmoid(hi) + jax.nn.log_sigmoid(-lo)
            + jnp.log(-jnp.expm1(-(hi - lo))))


def _ol_fwd(cut, eta, y):
    return ordered_logit_logpmf(cut, eta, y), (cut, eta, y)


def _ol_bwd(res, g):
    cut, eta, y = res
    lo, hi = _bounds(cut, eta, y)
    gap = 1.0 / jnp.expm1(hi - lo)
    d_hi = g * (jax.nn.sigmoid(-hi) + gap)
    d_lo = -g * (jax.nn.sigmoid(lo) + gap)
    padded = jnp.zeros(cut.shape[0] + 2, cut.dtype)
    padded = padded.at[y + 1].add(d_hi).at[y].add(d_lo)
    return padded[1:-1], -(d_hi + d_lo), None


ordered_logit_logpmf.defvjp(_ol_fwd, _ol_bwd)


# --- multivariate normal ------------------------------------------------------

@jax.custom_vjp
def mvn_chol_logpdf(x, mean, chol):
    """Sum of log N(x_i | mean, chol chol') over the rows of x.

    x    : (n, d)
    mean : (d,)
    chol : (d, d) lower triangular, positive diagonal (the upper part is not read)
    """
    return _mvn_fwd(x, mean, chol)[0]


def _mvn_fwd(x, mean, chol):
    n, d = x.shape
    z = solve_triangular(chol, (x - mean).T, lower=True)            # (d, n)
    half_logdet = jnp.sum(jnp.log(jnp.diagonal(chol)))
    lp = -0.5 * jnp.sum(z * z) - n * (half_logdet + 0.5 * d * LOG_2PI)
    return lp, (z, chol)


def _mvn_bwd(res, g):
    z, chol = res
    a = solve_triangular(chol, z, lower=True, trans=1)              # Sigma^-1 (x - mean)
    d_chol = jnp.tril(a @ z.T) - jnp.diag(1.0 / jnp.diagonal(chol))
    return -g * a.T, g * jnp.sum(a, 1), g * d_chol


mvn_chol_logpdf.defvjp(_mvn_fwd, _mvn_bwd)


# --- order statistics ---------------------------------------------------------

def _pwm_weights(n):
    j = np.arange(n)
    b0 = np.ones(n) / n
    b1 = j / (n - 1) / n
    b2 = j * (j - 1) / ((n - 1) * (n - 2)) / n
    return np.stack([b0, 2 * b1 - b0, 6 * b2 - 6 * b1 + b0])


@jax.custom_gradient
def l_moments(x):
    """First three sample L-moments along the last axis.

    x : (..., n), n >= 3.  Returns a tuple of three (...,) arrays.
    """
    W = jnp.asarray(_pwm_weights(x.shape[-1]), x.dtype)
    order = jnp.argsort(x, axis=-1)
    s = jnp.take_along_axis(x, order, axis=-1)
    out = tuple(jnp.sum(s * w, -1) for w in W)

    def pull(gs):
        in_rank = sum(g[..., None] * w for g, w in zip(gs, W))
        rank = jnp.argsort(order, axis=-1)
        return (jnp.take_along_axis(in_rank, rank, axis=-1),)

    return out, pull


def gev_moment_penalty(x, t3_target=0.17):
    l1, l2, l3 = l_moments(x)
    return jnp.mean((l3 / l2 - t3_target) ** 2)


# --- hierarchical normal ------------------------------------------------------

class HierParams(NamedTuple):
    mu: jax.Array          # ()
    log_tau: jax.Array     # ()
    log_sigma: jax.Array   # ()
    theta: jax.Array       # (J,)


@jax.custom_vjp
def hier_normal_logp(params: HierParams, y, group):
    """Unnormalised log joint of the one-way random effects model.

        theta_j ~ N(mu, tau),   y_i ~ N(theta_{group_i}, sigma),   flat hyperpriors

    y     : (n,)
    group : (n,) int in 0..J-1
    """
    a = (params.theta - params.mu) * jnp.exp(-params.log_tau)
    e = (y - params.theta[group]) * jnp.exp(-params.log_sigma)
    return (-0.5 * jnp.sum(a * a) - a.size * params.log_tau
            - 0.5 * jnp.sum(e * e) - e.size * params.log_sigma)


def _hier_fwd(params, y, group):
    return hier_normal_logp(params, y, group), (params, y, group)


def _hier_bwd(res, g):
    params, y, group = res
    tau_inv = jnp.exp(-params.log_tau)
    sig_inv = jnp.exp(-params.log_sigma)
    a = (params.theta - params.mu) * tau_inv
    e = (y - params.theta[group]) * sig_inv
    d_theta = (-a * tau_inv).at[group].add(e * sig_inv)
    grads = HierParams(
        mu=jnp.sum(a) * tau_inv,
        log_tau=jnp.sum(a * a) - y.shape[0],
        log_sigma=jnp.sum(e * e) - y.shape[0],
        theta=d_theta,
    )
    return jax.tree_util.tree_map(lambda v: g * v, grads), -g * e * sig_inv, None


hier_normal_logp.defvjp(_hier_fwd, _hier_bwd)
