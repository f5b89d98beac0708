"""Random-effects meta-analysis that can be differentiated through.

Used to propagate errors in digitised forest plots, and to fit study-quality weights.
"""
from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

Array = jax.Array


class Summary(NamedTuple):
    mean: Array
    stderr: Array
    tau2: Array
    i2: Array


@partial(jax.custom_jvp, nondiff_argnums=(6,))
def hedges_g(mean_t: Array, mean_c: Array, sd_t: Array, sd_c: Array, n_t: Array, n_c: Array,
             standardiser: str = "pooled") -> Array:
    """Standardised mean difference with the small-sample correction.

    Args:
        mean_t: Means of the treated arms, [studies].
        mean_c: Means of the control arms, [studies].
        sd_t: Standard deviations of the treated arms, [studies], positive.
        sd_c: Standard deviations of the control arms, [studies], positive.
        n_t: Integer sizes of the treated arms, [studies], at least 3.
        n_c: Integer sizes of the control arms, [studies], at least 3.
        standardiser: "pooled" (Hedges' g) or "control" (Glass's delta).

    Returns:
        The effect sizes, [studies].
    """
    sd, small, _ = _standardiser(sd_t, sd_c, n_t, n_c, standardiser)
    return small * (mean_t - mean_c) / sd


def _standardiser(sd_t, sd_c, n_t, n_c, standardiser):
    if standardiser == "control":
        df = n_c - 1
        return sd_c, 1.0 - 3.0 / (4.0 * df - 1.0), df
    if standardiser != "pooled":
        raise ValueError(f"no standardiser called {standardiser!r}")
    df = n_t + n_c - 2
    sd = jnp.sqrt(((n_t - 1) * sd_t ** 2 + (n_c - 1) * sd_c ** 2) / df)
    return sd, 1.0 - 3.0 / (4.0 * df - 1.0), df


@hedges_g.defjvp
def _hedges_jvp(standardiser, primals, tangents):
    mean_t, mean_c, sd_t, sd_c, n_t, n_c = primals
    dmean_t, dmean_c, dsd_t, dsd_c, _, _ = tangents
    sd, small, df = _standardiser(sd_t, sd_c, n_t, n_c, standardiser)
    g = small * (mean_t - mean_c) / sd
    if standardiser == "control":
        dsd = dsd_c
    else:
        dsd = (n_t - 1) / df * (sd_t * dsd_t + sd_c * dsd_c) / sd
    return g, small * (dmean_t - dmean_c) / sd - g * dsd / sd


@jax.custom_vjp
def tau_squared(effects: Array, variances: Array, included: Array) -> Array:
    """DerSimonian and Laird's between-study variance, truncated at zero.

    Args:
        effects: Effect sizes, [..., studies].
        variances: Their sampling variances, [..., studies], positive.
        included: True for real studies, False for padding, [..., studies]; at least two are True.

    Returns:
        The between-study variance, [...].
    """
    return _tau_fwd(effects, variances, included)[0]


def _tau_fwd(effects, variances, included):
    w = jnp.where(included, 1.0 / variances, 0.0)
    s1 = jnp.sum(w, axis=-1, keepdims=True)
    s2 = jnp.sum(w * w, axis=-1, keepdims=True)
    dev = jnp.where(included, effects - jnp.sum(w * effects, axis=-1, keepdims=True) / s1, 0.0)
    excess = jnp.sum(w * dev ** 2, axis=-1) - (jnp.sum(included, axis=-1) - 1)
    c = (s1 - s2 / s1)[..., 0]
    return jnp.maximum(excess / c, 0.0), (w, dev, s1, s2, excess, c)


def _tau_bwd(res, ct):
    w, dev, s1, s2, excess, c = res
    ct = jnp.where(excess > 0, ct, 0.0)[..., None]
    c, ratio = c[..., None], (excess / c)[..., None]
    # the weighted mean is stationary for Q, so neither line has a term for it
    effects_bar = ct * 2.0 * w * dev / c
    w_bar = ct * (dev ** 2 - ratio * (1.0 - 2.0 * w / s1 + s2 / s1 ** 2)) / c
    return effects_bar, -w_bar * w * w, None


tau_squared.defvjp(_tau_fwd, _tau_bwd)


@jax.custom_vjp
def pooled_effect(effects: Array, variances: Array, tau2: Array) -> tuple[Array, Array]:
    """Inverse-variance mean of the studies, and its standard error.

    Args:
        effects: Effect sizes, [outcomes, studies].
        variances: Sampling variances, [outcomes, studies], positive.
        tau2: Between-study variance of each outcome, [outcomes], not negative.

    Returns:
        The pooled effects and their standard errors, both [outcomes].
    """
    return _pooled_fwd(effects, variances, tau2)[0]


def _pooled_fwd(effects, variances, tau2):
    w = 1.0 / (variances + tau2[:, None])
    total = jnp.sum(w, axis=-1)
    mean = jnp.sum(w * effects, axis=-1) / total
    return (mean, total ** -0.5), (effects, w, total, mean)


def _pooled_bwd(res, cts):
    mean_bar, se_bar = cts
    effects, w, total, mean = res
    # through the weights: each study's own pull on the centre, and the common precision
    pull = (mean_bar / total)[:, None] * (effects - mean[:, None])
    precision = (-0.5 * se_bar * total ** -1.5)[:, None]
    effects_bar = (mean_bar / total)[:, None] * w
    variances_bar = -(pull + precision) * w ** 2
    tau2_bar = -jnp.sum(precision * w ** 2, axis=-1)
    return effects_bar, variances_bar, tau2_bar


pooled_effect.defvjp(_pooled_fwd, _pooled_bwd)


@jax.custom_vjp
def egger_intercept(effects: Array, stderrs: Array) -> Array:
    """Egger's intercept: regression of the standard normal deviate on precision.

    Args:
        effects: Effect sizes, [studies], three or more.
        stderrs: Their standard errors, [studies], positive and not all equal.

    Returns:
        The intercept, a scalar; away from zero it suggests small-study effects.
    """
    return _egger_fwd(effects, stderrs)[0]


def _egger_fwd(effects, stderrs):
    p = 1.0 / stderrs
    z = effects * p
    centre = jnp.mean(p)
    spread = jnp.sum((p - centre) ** 2)
    slope = jnp.sum((p - centre) * z) / spread
    intercept = jnp.mean(z) - slope * centre
    return intercept, (effects, p, z - intercept - slope * p, centre, spread, slope)


def _egger_bwd(res, ct):
    effects, p, resid, centre, spread, slope = res
    z_bar = ct * (1.0 / p.shape[0] - centre * (p - centre) / spread)
    p_bar = -slope * z_bar - ct * centre * resid / spread
    return z_bar * p, -(p_bar + z_bar * effects) * p * p


egger_intercept.defvjp(_egger_fwd, _egger_bwd)


def summarise(effects: Array, variances: Array, included: Array | None = None) -> Summary:
    """Random-effects summary of [outcomes, studies] effects."""
    if included is None:
        included = jnp.ones(effects.shape, bool)
    tau2 = tau_squared(effects, variances, included)
    mean, se = pooled_effect(effects, jnp.where(included, variances, 1e12), tau2)
    typical = 1.0 / jnp.mean(1.0 / variances, axis=-1, where=included)
    return Summary(mean, se, tau2, tau2 / (tau2 + typical))
