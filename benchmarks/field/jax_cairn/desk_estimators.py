"""Estimation helpers shared by the tracking filter and the rates desk."""

from functools import partial
from typing import Tuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular


@jax.custom_vjp
def sigma_points(mean, cov, kappa=0.0):
    """Sigma points of the unscented transform.

    :param mean: state mean, shape (n,)
    :param cov: symmetric positive definite covariance, shape (n, n)
    :param kappa: scalar spread, larger than -n
    :returns: (2 n + 1, n): the mean, then ``mean + c L[:, i]``, then ``mean - c L[:, i]``
        with ``c = sqrt(n + kappa)`` and L the lower Cholesky factor
    """
    return _sigma_fwd(mean, cov, kappa)[0]


def _sigma_fwd(mean, cov, kappa):
    chol = jnp.linalg.cholesky(cov)
    c = jnp.sqrt(mean.shape[0] + kappa)
    offset = c * chol.T
    return jnp.concatenate([mean[None], mean + offset, mean - offset]), (chol, c)


def _sigma_bwd(res, g):
    chol, c = res
    n = chol.shape[0]
    arm = g[1 : n + 1] - g[n + 1 :]
    kappa_bar = 0.5 * jnp.sum(arm * chol.T) / c
    inner = jnp.tril(chol.T @ (c * arm.T))
    inner = inner - 0.5 * jnp.diag(jnp.diag(inner))
    half = solve_triangular(chol, inner, lower=True, trans=1)
    full = solve_triangular(chol, half.T, lower=True, trans=1).T
    return g.sum(0), 0.5 * (full + full.T), kappa_bar


sigma_points.defvjp(_sigma_fwd, _sigma_bwd)


def unscented_mean(fn, mean, cov, kappa=1.0):
    n = mean.shape[0]
    pts = sigma_points(mean, cov, kappa)
    w = jnp.full((2 * n + 1,), 0.5 / (n + kappa)).at[0].set(kappa / (n + kappa))
    return jnp.tensordot(w, jax.vmap(fn)(pts), axes=1)


def _discount(yld, times, frequency):
    if frequency == 0:
        return jnp.exp(-yld * times)
    return (1.0 + yld / frequency) ** (-frequency * times)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def coupon_bond_price(yld, cashflows, times, frequency: int = 2):
    """Present value of a strip of cash flows at one yield per bond.

    :param yld: yields, shape (...), above -frequency when compounding
    :param cashflows: amounts, shape (..., m); zeros pad short bonds
    :param times: payment times in years, shape (..., m)
    :param frequency: compounding periods per year, 0 for continuous compounding
    :returns: prices, shape (...)
    """
    return jnp.sum(cashflows * _discount(yld[..., None], times, frequency), axis=-1)


@coupon_bond_price.defjvp
def _coupon_bond_price_jvp(frequency, primals, tangents):
    yld, cashflows, times = primals
    d_yld, d_cash, d_times = tangents
    pv = _discount(yld[..., None], times, frequency)
    price = jnp.sum(cashflows * pv, axis=-1)
    if frequency == 0:
        rate = yld
    else:
        rate = frequency * jnp.log1p(yld / frequency)
    dollar_duration = jnp.sum(times * cashflows * pv, axis=-1)
    flow_part = jnp.sum(pv * (d_cash - cashflows * rate[..., None] * d_times), axis=-1)
    return price, flow_part - dollar_duration * d_yld


def _weight_norm(w, unbiased):
    v1 = w.sum()
    return v1 - (w @ w) / v1 if unbiased else v1


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def reliability_covariance(x: jax.Array, w: jax.Array, unbiased: bool = True) -> jax.Array:
    """Weighted covariance matrix (d, d) of observations x (n, d).

    ``w`` (n,) are positive reliability weights. With ``unbiased`` the sum is divided by
    V1 - V2 / V1, V1 and V2 being the sums of the weights and of their squares; otherwise by V1.
    """
    dev = x - (w @ x) / w.sum()
    return (w[:, None] * dev).T @ dev / _weight_norm(w, unbiased)


def _relcov_fwd(x, w, unbiased) -> Tuple[jax.Array, tuple]:
    dev = x - (w @ x) / w.sum()
    norm = _weight_norm(w, unbiased)
    cov = (w[:, None] * dev).T @ dev / norm
    return cov, (dev, w, norm, cov)


def _relcov_bwd(unbiased, res, g):
    dev, w, norm, cov = res
    # the mean drops out, since the weighted deviations sum to zero
    x_bar = 2.0 / norm * w[:, None] * (dev @ g)
    v1 = w.sum()
    d_norm = 1.0 - 2.0 * w / v1 + (w @ w) / v1**2 if unbiased else jnp.ones_like(w)
    w_bar = (jnp.einsum("ni,ij,nj->n", dev, g, dev) - jnp.sum(g * cov) * d_norm) / norm
    return x_bar, w_bar


reliability_covariance.defvjp(_relcov_fwd, _relcov_bwd)


def mahalanobis_penalty(x, w, point):
    """Squared distance of a point to a weighted cloud."""
    cov = reliability_covariance(x, w)
    mu = (w @ x) / w.sum()
    return (point - mu) @ jnp.linalg.solve(cov, point - mu)
