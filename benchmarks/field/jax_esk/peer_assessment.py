import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr


class Panel(NamedTuple):
    bias: jax.Array  # [R]
    scale: jax.Array  # [R], positive


def seg(x, ids, n):
    return jax.ops.segment_sum(x, ids, num_segments=n)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def calibrated_scores(scores, panel, reviewer, paper, n_papers):
    """Consensus and disagreement of reviews after removing each reviewer's bias and scale.

    scores [N] raw marks; panel: bias and scale of R reviewers; reviewer, paper [N] ids.
    Returns consensus [n_papers] (mean of calibrated marks) and disagreement [n_papers] (their variance, 1/n); papers
    without a review get zeros.
    """
    return _cal_fwd(scores, panel, reviewer, paper, n_papers)[0]


def _cal_fwd(scores, panel, reviewer, paper, n_papers):
    z = (scores - panel.bias[reviewer]) / panel.scale[reviewer]
    n = jnp.maximum(seg(jnp.ones_like(z), paper, n_papers), 1.0)
    mean = seg(z, paper, n_papers) / n
    dev = z - mean[paper]
    var = seg(dev**2, paper, n_papers) / n
    return (mean, var), (z, dev, n, panel, reviewer, paper)


def _cal_bwd(n_papers, res, cts):
    z, dev, n, panel, reviewer, paper = res
    g_mean, g_var = cts
    r = panel.bias.shape[0]
    inv = 1.0 / panel.scale[reviewer]
    from_mean = (g_mean / n)[paper]
    from_var = 2.0 * (g_var / n)[paper] * dev
    dz = from_mean + from_var
    d_scores = dz * inv
    d_bias = -seg(from_mean * inv, reviewer, r)
    d_scale = -seg(dz * z * inv, reviewer, r)
    return d_scores, Panel(d_bias, d_scale), None, None


calibrated_scores.defvjp(_cal_fwd, _cal_bwd)


@jax.custom_jvp
def citation_ageing(age, fitness, immediacy, longevity, base=30.0):
    """Cumulative citations m (exp(lambda Phi((ln t - mu) / sigma)) - 1).

    age (years, >= 0, zero gives zero), fitness lambda, immediacy mu, longevity sigma > 0, base m: any shapes that
    broadcast, say age [T] with parameters [N, 1].
    """
    z = (_log_age(age) - immediacy) / longevity
    return base * jnp.expm1(fitness * ndtr(z))


def _log_age(age):
    return jnp.where(age > 0, jnp.log(jnp.where(age > 0, age, 1.0)), -jnp.inf)


@citation_ageing.defjvp
def _ageing_jvp(primals, tangents):
    age, lam, mu, sigma, m = primals
    d_age, d_lam, d_mu, d_sigma, d_m = tangents
    born = age > 0
    t = jnp.where(born, age, 1.0)
    z = (jnp.log(t) - mu) / sigma
    phi = jnp.where(born, jnp.exp(-0.5 * z * z) / math.sqrt(2 * math.pi), 0.0)
    cdf = jnp.where(born, ndtr(z), 0.0)
    grow = jnp.exp(lam * cdf)
    dz = (d_age / t - d_mu - z * d_sigma) / sigma
    out = m * jnp.expm1(lam * cdf)
    return out, d_m * jnp.expm1(lam * cdf) + m * grow * (d_lam * cdf + lam * phi * dz)


def make_impact(n_fields, log=False):
    """Field-normalised impact: citations over the mean of the field; ``log`` gives log1p of it."""

    @jax.custom_vjp
    def venue_normalised_impact(cites, field, counted):
        return fwd(cites, field, counted)[0]

    def fwd(cites, field, counted):
        w = counted.astype(cites.dtype)
        n = seg(w, field, n_fields)
        total = seg(w * cites, field, n_fields)
        ok = total > 0
        inv_mean = jnp.where(ok, n / jnp.where(ok, total, 1.0), 0.0)
        ratio = cites * inv_mean[field]
        out = jnp.log1p(ratio) if log else ratio
        return out, (ratio, inv_mean, w, n, field)

    def bwd(res, g):
        ratio, inv_mean, w, n, field = res
        if log:
            g = g / (1.0 + ratio)
        pull = seg(g * ratio, field, n_fields) * inv_mean / jnp.maximum(n, 1.0)
        return g * inv_mean[field] - w * pull[field], None, None

    venue_normalised_impact.defvjp(fwd, bwd)
    return venue_normalised_impact


venue_normalised_impact = make_impact(12)
