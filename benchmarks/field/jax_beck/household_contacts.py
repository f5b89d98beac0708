"""Chain-binomial pieces used by the household transmission fits."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class ChainParams(NamedTuple):
    log_beta: jax.Array  # (regions,) log transmission rate
    psi: jax.Array  # () household size exponent


def _sum_to(x, like):
    """Add up the axes along which `like` was broadcast to give `x`."""
    shape = jnp.shape(like)
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead)))
    kept = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=kept, keepdims=True)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def house_escape(risk, exposures, house_ids, num_houses):
    """Probability that a susceptible escapes every infected contact of the house.

    risk:      (contacts,) per-exposure transmission probability, in [0, 1)
    exposures: (contacts,) how often the contact took place, >= 0 (may be fractional)
    house_ids: (contacts,) int, several contacts may share a house
    num_houses: static int; a house without contacts escapes with probability 1

    Returns (num_houses,).
    """
    log_q = exposures * jnp.log1p(-risk)
    return jnp.exp(jax.ops.segment_sum(log_q, house_ids, num_houses))


def _house_escape_fwd(risk, exposures, house_ids, num_houses):
    q = house_escape(risk, exposures, house_ids, num_houses)
    return q, (risk, exposures, house_ids, q)


def _house_escape_bwd(num_houses, res, g):
    risk, exposures, house_ids, q = res
    gq = (g * q)[house_ids]
    return -gq * exposures / (1.0 - risk), gq * jnp.log1p(-risk), None


house_escape.defvjp(_house_escape_fwd, _house_escape_bwd)


def _pressure(params, infectious, size, region):
    return jnp.exp(params.log_beta)[region] * infectious / size**params.psi


@jax.custom_vjp
def generation_loglik(params, infectious, size, susceptible, cases, region):
    """Reed-Frost log likelihood (without the binomial constant) of a list of generations.

    All data arrays are integer counts (generations,); `region` picks the entry of `params.log_beta`.
    Generations without infectious members add nothing.
    """
    lam = _pressure(params, infectious, size, region)
    active = infectious > 0
    safe = jnp.where(active, lam, 1.0)
    ll = cases * jnp.log(-jnp.expm1(-safe)) - (susceptible - cases) * safe
    return jnp.where(active, ll, 0.0).sum()


def _generation_fwd(params, infectious, size, susceptible, cases, region):
    ll = generation_loglik(params, infectious, size, susceptible, cases, region)
    return ll, (params, infectious, size, susceptible, cases, region)


def _generation_bwd(res, g):
    params, infectious, size, susceptible, cases, region = res
    active = infectious > 0
    lam = _pressure(params, infectious, size, region)
    safe = jnp.where(active, lam, 1.0)
    d_lam = cases / jnp.expm1(safe) - (susceptible - cases)
    d_log = jnp.where(active, g * d_lam * safe, 0.0)
    d_beta = jnp.zeros_like(params.log_beta).at[region].set(d_log)
    d_psi = -(d_log * jnp.log(size)).sum()
    # counts are data
    return (ChainParams(d_beta, d_psi.astype(params.psi.dtype)), None, None, None, None, None)


generation_loglik.defvjp(_generation_fwd, _generation_bwd)


# serology ----------------------------------------------------------------


def _positive_rate(logit_prev, sens, spec):
    prev = jax.nn.sigmoid(logit_prev)
    return prev, prev * sens + (1.0 - prev) * (1.0 - spec)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def serology_nll(logit_prev, sens, spec, positives, tested, reduction="mean"):
    _, q = _positive_rate(logit_prev, sens, spec)
    nll = -(positives * jnp.log(q) + (tested - positives) * jnp.log1p(-q))
    if reduction == "mean":
        return nll.mean()
    if reduction == "sum":
        return nll.sum()
    return nll


def _serology_fwd(logit_prev, sens, spec, positives, tested, reduction):
    out = serology_nll(logit_prev, sens, spec, positives, tested, reduction)
    return out, (logit_prev, sens, spec, positives, tested)


def _serology_bwd(reduction, res, g):
    logit_prev, sens, spec, positives, tested = res
    prev, q = _positive_rate(logit_prev, sens, spec)
    shape = jnp.broadcast_shapes(q.shape, jnp.shape(positives), jnp.shape(tested))
    g = jnp.broadcast_to(g, shape)
    if reduction == "mean":
        g = g / g.size
    d_q = -g * (positives / q - (tested - positives) / (1.0 - q))
    d_logit = d_q * (sens + spec - 1.0) * prev * (1.0 - prev)
    d_pos = -g * (jnp.log(q) - jnp.log1p(-q))
    d_tested = -g * jnp.log1p(-q)
    return (
        _sum_to(d_logit, logit_prev),
        _sum_to(d_q * prev, sens),
        _sum_to(-d_q * (1.0 - prev), spec),
        _sum_to(d_pos, positives),
        _sum_to(d_tested, tested),
    )


serology_nll.defvjp(_serology_fwd, _serology_bwd)
