# Likelihoods and cost terms of the desk's calibration jobs.
from functools import partial
from typing import Literal, Optional

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln

LOG_2PI = 1.8378770664093453


def _unbroadcast(g, like):
    """Sum a cotangent down to the shape of the argument that was broadcast."""
    shape = jnp.shape(like)
    lead = g.ndim - len(shape)
    if lead:
        g = g.sum(axis=tuple(range(lead)))
    axes = tuple(i for i, (a, b) in enumerate(zip(g.shape, shape)) if b == 1 and a != 1)
    if axes:
        g = g.sum(axis=axes, keepdims=True)
    return g


def _ar1_parts(x, phi, log_sigma):
    resid = x[..., 1:] - phi[..., None] * x[..., :-1]
    return resid, jnp.exp(-2.0 * log_sigma)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def ar1_loglik(x: jax.Array, phi: jax.Array, log_sigma: jax.Array, stationary: bool = False) -> jax.Array:
    """Gaussian AR(1) log-likelihood, one value per series.

    x has shape (..., T) with T >= 2, phi and log_sigma the leading shape. With
    ``stationary=False`` the likelihood is conditional on the first observation; with
    ``stationary=True`` the first observation has the stationary law
    N(0, sigma^2 / (1 - phi^2)) and |phi| < 1 is required.
    """
    resid, prec = _ar1_parts(x, phi, log_sigma)
    n = x.shape[-1] - 1
    ll = -0.5 * prec * jnp.sum(resid**2, axis=-1) - n * (log_sigma + 0.5 * LOG_2PI)
    if stationary:
        shrink = 1.0 - phi**2
        ll = ll - 0.5 * prec * shrink * x[..., 0] ** 2 - log_sigma + 0.5 * jnp.log(shrink) - 0.5 * LOG_2PI
    return ll


def _ar1_fwd(x, phi, log_sigma, stationary):
    return ar1_loglik(x, phi, log_sigma, stationary), (x, phi, log_sigma)


def _ar1_bwd(stationary, res, ct):
    x, phi, log_sigma = res
    resid, prec = _ar1_parts(x, phi, log_sigma)
    n = x.shape[-1] - 1

    score = prec[..., None] * resid
    dx = jnp.zeros_like(x).at[..., 1:].add(-score)
    dx = dx.at[..., :-1].add(phi[..., None] * score)
    dphi = jnp.sum(score * x[..., :-1], axis=-1)
    dls = prec * jnp.sum(resid**2, axis=-1) - n
    if stationary:
        x0 = x[..., 0]
        shrink = 1.0 - phi**2
        dx = dx.at[..., 0].add(-prec * shrink * x0)
        dphi = dphi + prec * phi * x0**2
        dls = dls + prec * shrink * x0**2 - 1.0
    return ct[..., None] * dx, ct * dphi, ct * dls


ar1_loglik.defvjp(_ar1_fwd, _ar1_bwd)


def _log_beta(a, b):
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def _bb_terms(alpha, beta, hits, trials, valid):
    k = jnp.where(valid, hits, 0)
    n = jnp.where(valid, trials, 0)
    log_choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    ll = log_choose + _log_beta(alpha + k, beta + (n - k)) - _log_beta(alpha, beta)
    return jnp.where(valid, ll, 0.0), k, n


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def beta_binomial_nll(
    alpha,
    beta,
    hits,
    trials,
    mask=None,
    reduction: Literal["none", "sum", "mean"] = "mean",
):
    """Negative beta-binomial log-likelihood of conversion counts.

    Parameters
    ----------
    alpha, beta : float arrays
        Positive shape parameters, broadcast against ``hits`` (never the other way round).
    hits, trials : int arrays of equal shape
        Successes and trials. Entries that are masked out may hold anything.
    mask : bool array of the same shape, optional
        True where the entry counts.
    reduction : {"none", "sum", "mean"}
        The mean is over the entries that count.
    """
    valid = jnp.ones(hits.shape, bool) if mask is None else mask
    ll, _, _ = _bb_terms(alpha, beta, hits, trials, valid)
    if reduction == "none":
        return -ll
    if reduction == "sum":
        return -ll.sum()
    return -ll.sum() / jnp.maximum(valid.sum(), 1)


def _bb_fwd(alpha, beta, hits, trials, mask, reduction):
    return beta_binomial_nll(alpha, beta, hits, trials, mask, reduction), (alpha, beta, hits, trials, mask)


def _bb_bwd(reduction, res, ct):
    alpha, beta, hits, trials, mask = res
    valid = jnp.ones(hits.shape, bool) if mask is None else mask
    k = jnp.where(valid, hits, 0)
    n = jnp.where(valid, trials, 0)
    if reduction == "mean":
        ct = ct / jnp.maximum(valid.sum(), 1)
    w = jnp.where(valid, -ct, 0.0)
    total = digamma(alpha + beta) - digamma(alpha + beta + n)
    d_alpha = w * (digamma(alpha + k) - digamma(alpha) + total)
    d_beta = w * (digamma(beta + (n - k)) - digamma(beta) + total)
    return _unbroadcast(d_alpha, alpha), _unbroadcast(d_beta, beta), None, None, None


beta_binomial_nll.defvjp(_bb_fwd, _bb_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def trade_cost(traded, half_spread, impact, volume, exponent=0.5):
    """Cost of trading ``traded`` (signed, same unit as ``volume``) in each asset.

    ``half_spread * |traded| + impact * |traded| * (|traded| / volume) ** exponent``.
    ``exponent`` is a positive float: 0.5 is the square-root law, 1.0 linear impact. All arrays have
    the same shape. The derivative at no trade is taken as zero.
    """
    size = jnp.abs(traded)
    return size * (half_spread + impact * (size / volume) ** exponent)


@trade_cost.defjvp
def _trade_cost_jvp(exponent, primals, tangents):
    traded, half_spread, impact, volume = primals
    d_traded, d_spread, d_impact, d_volume = tangents
    size = jnp.abs(traded)
    rate = (size / volume) ** exponent
    out = size * (half_spread + impact * rate)
    marginal = half_spread + 1.5 * impact * rate
    tangent = (
        jnp.sign(traded) * marginal * d_traded
        + size * d_spread
        + size * rate * d_impact
        - exponent * impact * size * rate / volume * d_volume
    )
    return out, tangent


def rebalance_objective(weights, current, alpha, params, exponent: Optional[float] = None):
    """Expected return after costs, to be maximised over ``weights``."""
    cost = trade_cost(
        weights - current,
        params["half_spread"],
        params["impact"],
        params["volume"],
        0.5 if exponent is None else exponent,
    )
    return jnp.sum(weights * alpha) - jnp.sum(cost)
