"""Stochastic user equilibrium pieces: link delays, path costs, route loading."""
from functools import partial

import jax
import jax.numpy as jnp

PAD = -1


def _reduce_like(x, ref):
    shape = jnp.shape(ref)
    x = jnp.sum(x, axis=tuple(range(jnp.ndim(x) - len(shape))))
    ones = tuple(i for i, n in enumerate(shape) if n == 1)
    return jnp.sum(x, axis=ones, keepdims=True) if ones else x


@partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def link_delay(flow, capacity, free_time, alpha=0.15, power=4.0, integral=False):
    """Volume-delay function of the Bureau of Public Roads.

    Args:
      flow: (..., L) non-negative volumes, e.g. one row per hour.
      capacity, free_time: positive, anything that broadcasts to `flow`.
      alpha, power: static coefficients, power >= 1.
      integral: return Beckmann's integral of the delay from 0 to `flow` instead of the delay.
    """
    return _delay_fwd(flow, capacity, free_time, alpha, power, integral)[0]


def _delay_fwd(flow, capacity, free_time, alpha, power, integral):
    x = flow / capacity
    if integral:
        out = free_time * flow * (1.0 + alpha / (power + 1.0) * x ** power)
    else:
        out = free_time * (1.0 + alpha * x ** power)
    return out, (flow, capacity, free_time)


def _delay_bwd(alpha, power, integral, res, g):
    flow, capacity, free_time = res
    x = flow / capacity
    if integral:
        d_flow = g * free_time * (1.0 + alpha * x ** power)
        d_cap = -g * free_time * alpha * power / (power + 1.0) * x ** (power + 1.0)
        d_free = g * flow * (1.0 + alpha / (power + 1.0) * x ** power)
    else:
        steep = g * free_time * alpha * power * x ** (power - 1.0) / capacity
        d_flow, d_cap = steep, -steep * x
        d_free = g * (1.0 + alpha * x ** power)
    return _reduce_like(d_flow, flow), _reduce_like(d_cap, capacity), _reduce_like(d_free, free_time)


link_delay.defvjp(_delay_fwd, _delay_bwd)


@jax.custom_vjp
def path_cost(link_attr, taste, path_links):
    """Generalised cost (P,) of paths given as rows of link ids, padded with PAD."""
    on = path_links != PAD
    return jnp.sum(jnp.where(on, (link_attr @ taste)[path_links], 0.0), axis=-1)


def _path_cost_fwd(link_attr, taste, path_links):
    return path_cost(link_attr, taste, path_links), (link_attr, taste, path_links)


def _path_cost_bwd(res, g):
    link_attr, taste, path_links = res
    on = (path_links != PAD)[..., None]
    path_attr = jnp.sum(jnp.where(on, link_attr[path_links], 0.0), axis=1)
    use = jnp.broadcast_to(g[:, None], path_links.shape)
    link_use = jnp.zeros(link_attr.shape[0], g.dtype).at[path_links].add(use)
    return link_use[:, None] * taste, g @ path_attr, None


path_cost.defvjp(_path_cost_fwd, _path_cost_bwd)


class LogitLoading:
    """Loads OD demand on routes; `od_ids` says which OD pair each route serves."""

    def __init__(self, num_od):
        self.num_od = num_od

        def shares(cost, theta, od_ids):
            u = -theta[od_ids] * cost
            top = jax.ops.segment_max(u, od_ids, num_od)
            e = jnp.exp(u - top[od_ids])
            return e / jax.ops.segment_sum(e, od_ids, num_od)[od_ids]

        @jax.custom_vjp
        def route_flow(cost, theta, demand, od_ids):
            return demand[od_ids] * shares(cost, theta, od_ids)

        def fwd(cost, theta, demand, od_ids):
            p = shares(cost, theta, od_ids)
            return demand[od_ids] * p, (cost, theta, demand, od_ids, p)

        def bwd(res, g):
            cost, theta, demand, od_ids, p = res
            gp = g * demand[od_ids]
            du = p * (gp - jnp.sum(p * gp))
            d_theta = jax.ops.segment_sum(-cost * du, od_ids, num_od)
            d_demand = jax.ops.segment_sum(g * p, od_ids, num_od)
            return -theta[od_ids] * du, d_theta, d_demand, None

        route_flow.defvjp(fwd, bwd)
        self.route_flow = route_flow

    def __call__(self, cost, theta, demand, od_ids):
        theta = jnp.broadcast_to(theta, (self.num_od,))
        return self.route_flow(cost, theta, demand, od_ids)


def link_volumes(route_flows, path_links, num_links):
    on = path_links != PAD
    vol = jnp.where(on, route_flows[:, None], 0.0)
    return jnp.zeros(num_links, route_flows.dtype).at[jnp.where(on, path_links, 0)].add(vol)
