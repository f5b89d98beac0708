"""Objectives of the depot placement study: market capture, cover, lateness of the daily tours."""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class CoverRadii:
    inner: float = 2.0  # full cover up to here, km
    outer: float = 6.0  # no cover from here on


@jax.custom_vjp
def huff_capture(exponents, attract, dist, demand, is_open):
    """Demand captured by each site under the Huff model.

    A customer zone ``i`` goes to site ``j`` with probability proportional to
    ``attract_j ** alpha / dist_ij ** beta`` among the open sites.

    Args:
      exponents: ``{"alpha": (), "beta": ()}``.
      attract: ``(J,)`` attractiveness (floor area); positive at the open sites, anything elsewhere.
      dist: ``(I, J)`` distances, positive.
      demand: ``(I,)`` demand of the zones.
      is_open: ``(J,)`` bool. With no open site nothing is captured.

    Returns:
      ``(J,)`` captured demand, 0 at closed sites.
    """
    share, _, _ = _huff_share(exponents, attract, dist, is_open)
    return demand @ share


def _huff_share(exponents, attract, dist, is_open):
    log_a = jnp.log(jnp.where(is_open, attract, 1.0))
    log_d = jnp.log(dist)
    u = jnp.where(is_open, exponents["alpha"] * log_a - exponents["beta"] * log_d, -jnp.inf)
    top = jnp.max(u, axis=1, keepdims=True)
    e = jnp.exp(u - jnp.where(jnp.isfinite(top), top, 0.0))
    total = e.sum(axis=1, keepdims=True)
    return e / jnp.where(total > 0, total, 1.0), log_a, log_d


def _huff_fwd(exponents, attract, dist, demand, is_open):
    share, log_a, log_d = _huff_share(exponents, attract, dist, is_open)
    return demand @ share, (exponents, attract, dist, demand, is_open, share, log_a, log_d)


def _huff_bwd(res, g):
    exponents, attract, dist, demand, is_open, share, log_a, log_d = res
    mean_g = share @ g
    d_u = demand[:, None] * share * (g[None, :] - mean_g[:, None])
    by_site = d_u.sum(axis=0)
    d_exp = {"alpha": jnp.sum(by_site * log_a), "beta": -jnp.sum(d_u * log_d)}
    d_attract = exponents["alpha"] * by_site / jnp.where(is_open, attract, 1.0)
    d_dist = -exponents["beta"] * d_u / dist
    return d_exp, d_attract, d_dist, mean_g, None


huff_capture.defvjp(_huff_fwd, _huff_bwd)


def _reach(dist, radii):
    return jnp.clip((radii.outer - dist) / (radii.outer - radii.inner), 0.0, 1.0)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def gradual_cover(opening, dist, demand, radii=CoverRadii()):
    """Expected demand covered by at least one site; opening (J,) in [0, 1], dist (I, J), demand (I,)."""
    miss = jnp.prod(1.0 - opening * _reach(dist, radii), axis=1)
    return jnp.sum(demand * (1.0 - miss))


def _cover_fwd(opening, dist, demand, radii):
    factor = 1.0 - opening * _reach(dist, radii)
    miss = jnp.prod(factor, axis=1)
    return jnp.sum(demand * (1.0 - miss)), (opening, dist, demand, factor, miss)


def _cover_bwd(radii, res, g):
    opening, dist, demand, factor, miss = res
    others = miss[:, None] / jnp.maximum(factor, 1e-12)
    d_hit = g * demand[:, None] * others
    slope = jnp.where((dist > radii.inner) & (dist < radii.outer), -1.0 / (radii.outer - radii.inner), 0.0)
    return (d_hit * _reach(dist, radii)).sum(axis=0), d_hit * opening * slope, g * (1.0 - miss)


gradual_cover.defvjp(_cover_fwd, _cover_bwd)


def _arrivals(leg, tour):
    # stops are sorted by tour; the clock starts anew with each
    clock = jnp.cumsum(leg)
    first = jnp.searchsorted(tour, tour, side="left")
    return clock - (clock - leg)[first]


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def tour_lateness(leg, due, weight, tour, softness=0.25, reduction="sum"):
    late = softness * jax.nn.softplus((_arrivals(leg, tour) - due) / softness)
    total = jnp.sum(weight * late)
    return total / leg.shape[0] if reduction == "mean" else total


def _lateness_fwd(leg, due, weight, tour, softness, reduction):
    slack = (_arrivals(leg, tour) - due) / softness
    total = jnp.sum(weight * softness * jax.nn.softplus(slack))
    if reduction == "mean":
        total = total / leg.shape[0]
    return total, (slack, weight)


def _lateness_bwd(softness, reduction, res, g):
    slack, weight = res
    if reduction == "mean":
        g = g / slack.shape[0]
    d_arrival = g * weight * jax.nn.sigmoid(slack)
    d_leg = jnp.cumsum(d_arrival[::-1])[::-1]
    return d_leg, -d_arrival, g * softness * jax.nn.softplus(slack), None


tour_lateness.defvjp(_lateness_fwd, _lateness_bwd)
