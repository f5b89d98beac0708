"""Assignment, distribution and stocking terms of the freight model."""

import functools

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm


def _sum_to(x, shape):
    """Sum x down to a shape that broadcasts to it."""
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True)


@jax.custom_vjp
def volume_delay(flow, free_time, capacity, classes, road_class):
    """Link travel times by the power-law volume-delay curve.

    flow: (scenarios, links), non-negative.
    free_time, capacity: (links,), positive.
    classes: dict with "alpha" and "beta", one entry per road class.
    road_class: int (links,), the class of each link.
    """
    ratio = flow / capacity
    alpha, beta = classes["alpha"][road_class], classes["beta"][road_class]
    return free_time * (1.0 + alpha * ratio**beta)


def _volume_delay_fwd(flow, free_time, capacity, classes, road_class):
    out = volume_delay(flow, free_time, capacity, classes, road_class)
    return out, (flow, free_time, capacity, classes, road_class)


def _volume_delay_bwd(res, g):
    flow, free_time, capacity, classes, road_class = res
    alpha, beta = classes["alpha"][road_class], classes["beta"][road_class]
    ratio = flow / capacity
    load = ratio**beta
    g_load = g * free_time * alpha
    g_ratio = g_load * beta * ratio ** (beta - 1.0)
    log_ratio = jnp.log(jnp.where(ratio > 0, ratio, 1.0))
    link_alpha = jnp.sum(g * free_time * load, axis=0)
    link_beta = jnp.sum(g_load * load * log_ratio, axis=0)
    g_classes = {
        "alpha": jnp.zeros_like(classes["alpha"]).at[road_class].set(link_alpha),
        "beta": jnp.zeros_like(classes["beta"]).at[road_class].set(link_beta),
    }
    return (
        g_ratio / capacity,
        jnp.sum(g * (1.0 + alpha * load), axis=0),
        -jnp.sum(g_ratio * ratio, axis=0) / capacity,
        g_classes,
        None,
    )


volume_delay.defvjp(_volume_delay_fwd, _volume_delay_bwd)


def _shares(log_attraction, cost, beta, allowed):
    utility = jnp.where(allowed, log_attraction - beta * cost, -jnp.inf)
    top = jnp.max(utility, axis=-1, keepdims=True)
    weights = jnp.exp(utility - jnp.where(jnp.isfinite(top), top, 0.0))
    total = weights.sum(axis=-1, keepdims=True)
    return weights / jnp.where(total > 0, total, 1.0)


@jax.custom_vjp
def gravity_trips(origins, log_attraction, cost, beta, allowed):
    """Origin-constrained gravity model.

    Args:
      origins: (n,) tonnes leaving each zone.
      log_attraction: (m,) log weight of each destination.
      cost: (n, m) generalized cost.
      beta: scalar, or (n, 1) by origin.
      allowed: bool (n, m); a zone with no allowed destination sends nothing.

    Returns: (n, m) tonnes.
    """
    return origins[:, None] * _shares(log_attraction, cost, beta, allowed)


def _gravity_fwd(origins, log_attraction, cost, beta, allowed):
    share = _shares(log_attraction, cost, beta, allowed)
    return origins[:, None] * share, (origins, share, cost, beta)


def _gravity_bwd(res, g):
    origins, share, cost, beta = res
    inner = jnp.sum(g * share, axis=-1)
    g_utility = origins[:, None] * share * (g - inner[:, None])
    g_beta = _sum_to(-g_utility * cost, jnp.shape(beta))
    return inner, g_utility.sum(axis=0), -beta * g_utility, g_beta, None


gravity_trips.defvjp(_gravity_fwd, _gravity_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def newsvendor_cost(order, mean, sd, holding, shortage, reduction="mean"):
    """Expected overage and underage cost under normal demand; the five arrays broadcast."""
    z = (order - mean) / sd
    over = sd * (norm.pdf(z) + z * norm.cdf(z))
    under = sd * (norm.pdf(z) - z * norm.sf(z))
    cost = holding * over + shortage * under
    if reduction == "mean":
        return cost.mean()
    return cost.sum() if reduction == "sum" else cost


def _newsvendor_fwd(order, mean, sd, holding, shortage, reduction):
    out = newsvendor_cost(order, mean, sd, holding, shortage, reduction)
    return out, (order, mean, sd, holding, shortage)


def _newsvendor_bwd(reduction, res, g):
    order, mean, sd, holding, shortage = res
    shape = jnp.broadcast_shapes(*(jnp.shape(a) for a in res))
    if reduction == "mean":
        size = 1
        for n in shape:
            size *= n
        g = g / size
    g = jnp.broadcast_to(g, shape)
    z = (order - mean) / sd
    pdf, cdf, sf = norm.pdf(z), norm.cdf(z), norm.sf(z)
    g_order = g * (holding * cdf - shortage * sf)
    grads = (
        g_order,
        -g_order,
        g * (holding + shortage) * pdf,
        g * sd * (pdf + z * cdf),
        g * sd * (pdf - z * sf),
    )
    return tuple(_sum_to(d, jnp.shape(a)) for d, a in zip(grads, res))


newsvendor_cost.defvjp(_newsvendor_fwd, _newsvendor_bwd)
