# Wastewater-based epidemiology: from infections per sub-catchment to assay readings
# at the treatment plants.

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr

LN10 = 2.302585092994046
HALF_LOG_2PI = 0.9189385332046727


def _collapse(x, like):
    """Sum ``x`` down to the shape it was broadcast from."""
    shape = jnp.shape(like)
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1)
    return x.sum(axis=axes, keepdims=True)


def _lagged(series, lags):
    """Stack of the series delayed by 0 .. lags-1 days, zero before the start."""
    days = series.shape[-1]
    padded = jnp.pad(series, ((0, 0), (lags - 1, 0)))
    return jnp.stack([padded[:, lags - 1 - j: lags - 1 - j + days] for j in range(lags)], axis=1)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def shedding_load(
    infections,   # (areas, days)
    profile,      # (lags,) faecal shedding by day since infection, positive; scaled to sum one
    decay,        # () in-sewer decay per hour
    travel,       # (areas,) hours from an area to its plant
    plant,        # (areas,) integer, plant that an area drains to
    plants,       # how many plants there are
):
    return _load_fwd(infections, profile, decay, travel, plant, plants)[0]


def _load_fwd(infections, profile, decay, travel, plant, plants):
    lagged = _lagged(infections, profile.shape[0])
    weights = profile / profile.sum()
    survive = jnp.exp(-decay * travel)
    area = jnp.einsum("j,ajt->at", weights, lagged) * survive[:, None]
    out = jnp.zeros((plants, infections.shape[1]), area.dtype).at[plant].add(area)
    return out, (lagged, profile, decay, travel, plant, area, survive)


def _load_bwd(plants, res, g):
    lagged, profile, decay, travel, plant, area, survive = res
    lags, days = lagged.shape[1:]
    total = profile.sum()
    weights = profile / total
    ga = g[plant]
    # decay and travel act through exp(-decay * travel)
    mass = (ga * area).sum(-1)
    d_decay = -(mass * travel).sum()
    d_travel = -mass * decay
    gs = ga * survive[:, None]
    d_infections = sum(
        weights[j] * jnp.pad(gs[:, j:], ((0, 0), (0, min(j, days)))) for j in range(lags))
    d_weights = jnp.einsum("at,ajt->j", gs, lagged)
    d_profile = (d_weights - d_weights.mean()) / total
    return d_infections, d_profile, d_decay, d_travel, None


shedding_load.defvjp(_load_fwd, _load_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def marker_normalised(
    target,            # (plants, days) copies of the target gene
    marker,            # copies of a faecal marker; (plants, days), (plants, 1) or (days,)
    valid,             # (plants, days) bool; other entries may hold anything and give zero
    base="log10",      # or "ln"
    centre=False,      # take the mean over the valid days of a plant off
):
    return _marker_fwd(target, marker, valid, base, centre)[0]


def _marker_fwd(target, marker, valid, base, centre):
    t = jnp.where(valid, target, 1.0)
    m = jnp.where(valid, jnp.broadcast_to(marker, target.shape), 1.0)
    y = jnp.log(t) - jnp.log(m)
    if base == "log10":
        y = y / LN10
    if centre:
        n = jnp.maximum(valid.sum(-1, keepdims=True), 1)
        y = jnp.where(valid, y - y.sum(-1, keepdims=True) / n, 0.0)
    return y, (t, m, marker, valid)


def _marker_bwd(base, centre, res, g):
    t, m, marker, valid = res
    g = jnp.where(valid, g, 0.0)
    if centre:
        n = jnp.maximum(valid.sum(-1, keepdims=True), 1)
        g = jnp.where(valid, g - g.sum(-1, keepdims=True) / n, 0.0)
    if base == "log10":
        g = g / LN10
    return g / t, _collapse(-g / m, marker), None


marker_normalised.defvjp(_marker_fwd, _marker_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def detection_loglik(
    mean,              # (plants, days) expected log concentration
    spread,            # assay spread: (), (plants, 1) or (plants, days)
    reading,           # (plants, days) log concentration, ignored (may be nan) below the limit
    limit,             # limit of detection: () or (plants, 1)
    below,             # (plants, days) bool, reading under the limit
    reduction="mean",  # "mean", "sum", "none"
):
    """Log likelihood of readings of which some are only known to lie below the limit."""
    return _detect_fwd(mean, spread, reading, limit, below, reduction)[0]


def _detect_fwd(mean, spread, reading, limit, below, reduction):
    y = jnp.where(below, limit, reading)
    z = (y - mean) / spread
    log_density = -0.5 * z * z - HALF_LOG_2PI
    log_tail = log_ndtr(z)
    ll = jnp.where(below, log_tail, log_density - jnp.log(spread))
    out = ll if reduction == "none" else ll.sum() if reduction == "sum" else ll.mean()
    return out, (z, spread, limit, below, log_density, log_tail)


def _detect_bwd(reduction, res, g):
    z, spread, limit, below, log_density, log_tail = res
    if reduction == "mean":
        g = g / z.size
    g = jnp.broadcast_to(g, z.shape)
    mills = jnp.exp(log_density - log_tail)
    gz = g * jnp.where(below, mills, -z) / spread
    d_spread = -gz * z - jnp.where(below, 0.0, g / spread)
    d_reading = jnp.where(below, 0.0, gz)
    d_limit = jnp.where(below, gz, 0.0)
    return -gz, _collapse(d_spread, spread), d_reading, _collapse(d_limit, limit), None


detection_loglik.defvjp(_detect_fwd, _detect_bwd)


def plant_model(params, infections, network):
    """Expected log10 load at the plants; ``params`` and ``network`` are plain dicts."""
    load = shedding_load(infections, jnp.exp(params["log_profile"]), params["decay"],
                         network["travel"], network["plant"], network["plants"])
    return jnp.log10(load + 1.0) + params["offset"]
