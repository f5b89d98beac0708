"""Building blocks for panel and clustered data.  Observations are stored long; integer labels say what they belong to."""

from functools import partial

import jax
import jax.numpy as jnp

Array = jax.Array
LOG_2PI = 1.8378770664093453


def _total(x: Array, label: Array, num: int) -> Array:
    return jax.ops.segment_sum(x, label, num)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def random_intercept_loglik(
    resid: Array, log_sigma: Array, log_tau: Array, label: Array, observed: Array, num_groups: int
) -> Array:
    """Log likelihood of residuals with one random intercept per group.

    The covariance of a group of n observations is sigma^2 I + tau^2 11'.  ``resid`` is (N,), the two logs are scalars,
    ``observed`` (N,) is False where a value is missing; whatever stands there has no part.  Groups may be empty.
    """
    return _intercept_fwd(resid, log_sigma, log_tau, label, observed, num_groups)[0]


def _intercept_fwd(resid, log_sigma, log_tau, label, observed, num_groups):
    r = jnp.where(observed, resid, 0.0)
    n = _total(observed.astype(r.dtype), label, num_groups)
    s = _total(r, label, num_groups)
    var, tau2 = jnp.exp(2 * log_sigma), jnp.exp(2 * log_tau)
    whole = var + n * tau2  # eigenvalue along the ones
    shrink = tau2 / whole
    quad = (jnp.sum(r * r) - jnp.sum(shrink * s * s)) / var
    logdet = 2 * jnp.sum(n) * log_sigma + jnp.sum(jnp.log1p(n * tau2 / var))
    value = -0.5 * (quad + logdet + jnp.sum(n) * LOG_2PI)
    return value, (r, label, n, s, var, tau2, whole, observed)


def _intercept_bwd(num_groups, res, g):
    r, label, n, s, var, tau2, whole, observed = res
    solved = jnp.where(observed, (r - (tau2 / whole * s)[label]) / var, 0.0)
    # trace(V^-1), 1'V^-1 1 and 1'V^-1 r of each group
    trace = jnp.where(n > 0, (n - 1) / var + 1 / whole, 0.0)
    ones = n / whole
    along = s / whole
    g_sigma = var * (jnp.sum(solved * solved) - jnp.sum(trace))
    g_tau = tau2 * jnp.sum(along**2 - ones)
    return -g * solved, g * g_sigma, g * g_tau, None, None


random_intercept_loglik.defvjp(_intercept_fwd, _intercept_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def within_transform(x: Array, weight: Array, unit: Array, num_units: int) -> Array:
    """Take the weighted mean of its unit from every observation.

    Args:
        x: (N, K) regressors.
        weight: (N,) sampling weights, above zero.
        unit: (N,) unit of each observation.
        num_units: number of units.
    """
    return _within_fwd(x, weight, unit, num_units)[0]


def _unit_mean(x, weight, unit, num_units):
    mass = _total(weight, unit, num_units)
    mass = jnp.where(mass > 0, mass, 1.0)
    return _total(weight[:, None] * x, unit, num_units) / mass[:, None], mass


def _within_fwd(x, weight, unit, num_units):
    mean, mass = _unit_mean(x, weight, unit, num_units)
    centred = x - mean[unit]
    return centred, (centred, weight, unit, mass)


def _within_bwd(num_units, res, g):
    centred, weight, unit, mass = res
    g_mean, _ = _unit_mean(g, weight, unit, num_units)
    g_x = g - g_mean[unit]
    pulled = _total(g, unit, num_units) / mass[:, None]
    g_weight = -(pulled[unit] * centred).sum(1)
    return g_x, g_weight, None


within_transform.defvjp(_within_fwd, _within_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def clustered_meat(
    x: Array,
    resid: Array,
    weight: Array,
    cluster: Array,
    num_clusters: int,
    small_sample: bool = True,
) -> Array:
    """Middle of the cluster-robust covariance, the sum over clusters of the outer product of their scores.

    Args:
        x: (N, K) regressors.
        resid: (N,) residuals.
        weight: (N,) or () weights of the estimating equation.
        cluster: (N,) cluster of each observation; not all numbers need occur.
        num_clusters: one more than the largest number allowed.
        small_sample: scale by G / (G - 1), with G the clusters that do occur (at least two).

    Returns:
        (K, K)
    """
    return _meat_fwd(x, resid, weight, cluster, num_clusters, small_sample)[0]


def _meat_fwd(x, resid, weight, cluster, num_clusters, small_sample):
    score = _total((weight * resid)[:, None] * x, cluster, num_clusters)
    scale = jnp.ones((), x.dtype)
    if small_sample:
        present = _total(jnp.ones_like(resid), cluster, num_clusters) > 0
        count = present.sum().astype(x.dtype)
        scale = count / (count - 1)
    return scale * score.T @ score, (x, resid, weight, cluster, score, scale)


def _meat_bwd(num_clusters, small_sample, res, g):
    x, resid, weight, cluster, score, scale = res
    g_score = scale * score @ (g + g.T)
    g_row = g_score[cluster]
    inner = (g_row * x).sum(1)
    g_weight = inner * resid
    if jnp.ndim(weight) == 0:
        g_weight = g_weight.sum()
    return (weight * resid)[:, None] * g_row, inner * weight, g_weight, None


clustered_meat.defvjp(_meat_fwd, _meat_bwd)


def cluster_robust_covariance(x, resid, cluster, num_clusters, small_sample=True):
    """Sandwich covariance of least squares coefficients."""
    bread = jnp.linalg.inv(x.T @ x)
    return (
        bread
        @ clustered_meat(x, resid, jnp.ones((), x.dtype), cluster, num_clusters, small_sample)
        @ bread
    )
