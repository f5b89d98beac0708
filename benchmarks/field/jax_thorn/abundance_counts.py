"""Likelihoods for counts of individuals: trap catches, species abundances, transect tallies."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, gammaln


@jax.custom_jvp
def log_series_logpmf(k, theta):
    """Fisher's logarithmic series: k = 1, 2, ... (float array), 0 < theta < 1; broadcasts."""
    return k * jnp.log(theta) - jnp.log(k) - jnp.log(-jnp.log1p(-theta))


@log_series_logpmf.defjvp
def _log_series_jvp(primals, tangents):
    k, theta = primals
    t_k, t_theta = tangents
    out = log_series_logpmf(k, theta)
    d_theta = k / theta + 1.0 / ((1.0 - theta) * jnp.log1p(-theta))
    d_k = jnp.log(theta) - 1.0 / k
    return out, jnp.broadcast_to(d_theta * t_theta + d_k * t_k, out.shape)


def _reduce_to(x, shape):
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead)))
    return x.sum(
        axis=tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1), keepdims=True
    )


def _log_probs(logits):
    full = jnp.concatenate([jnp.zeros_like(logits[..., :1]), logits], axis=-1)
    return jax.nn.log_softmax(full, axis=-1)


@jax.custom_vjp
def negative_multinomial_logpmf(counts, logits, stop):
    """Log-probability of category counts seen before ``stop`` stopping events.

    counts: (..., K) floats, non-negative.
    logits: (..., K), log odds of each category against the stopping event.
    stop:   (...), positive, need not be an integer.
    The leading shapes of the three broadcast together; the result has that leading shape.
    """
    logp = _log_probs(logits)
    n = counts.sum(-1)
    coef = gammaln(stop + n) - gammaln(stop) - gammaln(counts + 1.0).sum(-1)
    return coef + stop * logp[..., 0] + (counts * logp[..., 1:]).sum(-1)


def _nm_fwd(counts, logits, stop):
    return negative_multinomial_logpmf(counts, logits, stop), (counts, logits, stop)


def _nm_bwd(res, g):
    counts, logits, stop = res
    logp = _log_probs(logits)
    n = counts.sum(-1)
    d_logits = g[..., None] * (counts - (n + stop)[..., None] * jnp.exp(logp[..., 1:]))
    d_stop = g * (digamma(stop + n) - digamma(stop) + logp[..., 0])
    d_counts = g[..., None] * (digamma(stop + n)[..., None] - digamma(counts + 1.0) + logp[..., 1:])
    return (
        _reduce_to(d_counts, counts.shape),
        _reduce_to(d_logits, logits.shape),
        _reduce_to(d_stop, jnp.shape(stop)),
    )


negative_multinomial_logpmf.defvjp(_nm_fwd, _nm_bwd)


def _log_expm1(lam):
    return lam + jnp.log(-jnp.expm1(-lam))


def _hurdle_terms(params, counts):
    occ, eta = params["occupied"], params["log_rate"]
    lam = jnp.exp(eta)
    zero = jax.nn.softplus(occ)
    positive = jax.nn.softplus(-occ) - counts * eta + _log_expm1(lam) + gammaln(counts + 1.0)
    return jnp.where(counts > 0, positive, zero)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def hurdle_poisson_loss(params, counts, surveyed, reduction="mean"):
    # int counts, bool surveyed, params "occupied" and "log_rate": one shape
    nll = jnp.where(surveyed, _hurdle_terms(params, counts), 0.0)
    if reduction == "none":
        return nll
    return nll.sum() / surveyed.sum() if reduction == "mean" else nll.sum()


def _hp_fwd(params, counts, surveyed, reduction):
    return hurdle_poisson_loss(params, counts, surveyed, reduction), (params, counts, surveyed)


def _hp_bwd(reduction, res, g):
    params, counts, surveyed = res
    occ, eta = params["occupied"], params["log_rate"]
    seen = counts > 0
    lam = jnp.exp(eta)
    w = jnp.where(surveyed, g, 0.0)
    if reduction == "mean":
        w = w / counts.size
    d_occ = w * (jax.nn.sigmoid(occ) - seen)
    d_eta = w * jnp.where(seen, lam / -jnp.expm1(-lam) - counts, 0.0)
    return {"occupied": d_occ, "log_rate": d_eta}, None, None


hurdle_poisson_loss.defvjp(_hp_fwd, _hp_bwd)
