"""Fund accounting: drifted weights, performance fees, linked returns."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

DAYS = 365.25


def _reduce_like(x, ref):
    shape = jnp.shape(ref)
    if x.shape == shape:
        return x
    x = x.sum(tuple(range(x.ndim - len(shape))))
    ax = tuple(i for i, n in enumerate(shape) if n == 1)
    return x.sum(ax, keepdims=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def drift_weights(weights, returns, axis=-1):
    """Weights after a holding period, renormalised along `axis`; weights and returns broadcast."""
    grown = weights * (1.0 + returns)
    return grown / grown.sum(axis, keepdims=True)


def _drift_fwd(weights, returns, axis):
    grown = weights * (1.0 + returns)
    total = grown.sum(axis, keepdims=True)
    out = grown / total
    return out, (weights, returns, total, out)


def _drift_bwd(axis, res, g):
    weights, returns, total, out = res
    d_grown = (g - jnp.sum(g * out, axis, keepdims=True)) / total
    return (
        _reduce_like(d_grown * (1.0 + returns), weights),
        _reduce_like(d_grown * weights, returns),
    )


drift_weights.defvjp(_drift_fwd, _drift_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def performance_fee(nav, mark, rate, hurdle=0.0):
    """Performance fees against a high-water mark.

    Args:
      nav: ``(periods, classes)`` net asset value before fee.
      mark: ``(classes,)`` high-water mark at the start.
      rate: scalar participation, e.g. 0.2.
      hurdle: relative hurdle over the mark.

    A period pays ``rate * max(nav - mark * (1 + hurdle), 0)``; afterwards the
    mark is raised to ``nav`` where that is higher.

    Returns:
      fees, ``(periods, classes)``.
    """
    return _fee_fwd(nav, mark, rate, hurdle)[0]


def _fee_fwd(nav, mark, rate, hurdle):
    def step(hwm, v):
        over = jnp.maximum(v - hwm * (1.0 + hurdle), 0.0)
        return jnp.maximum(hwm, v), (over, v > hwm)

    _, (over, raised) = lax.scan(step, mark, nav)
    return rate * over, (over, raised, rate)


def _fee_bwd(hurdle, res, g):
    over, raised, rate = res
    paid = jnp.where(over > 0, rate * g, 0.0)

    def step(lam, row):
        p, up = row
        d_nav = p + jnp.where(up, lam, 0.0)
        return lam - (1.0 + hurdle) * p, d_nav

    lam, d_nav = lax.scan(step, jnp.zeros_like(g[0]), (paid, raised), reverse=True)
    return d_nav, lam, jnp.sum(g * over)


performance_fee.defvjp(_fee_fwd, _fee_bwd)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def chain_linked_return(begin, end, flow, period, num_periods, timing="end"):
    if timing == "start":
        factor = end / (begin + flow)
    else:
        factor = (end - flow) / begin
    return jnp.expm1(jax.ops.segment_sum(jnp.log(factor), period, num_periods))


@chain_linked_return.defjvp
def _linked_jvp(num_periods, timing, primals, tangents):
    begin, end, flow, period = primals
    d_begin, d_end, d_flow, _ = tangents
    out = chain_linked_return(begin, end, flow, period, num_periods, timing)
    if timing == "start":
        d_log = d_end / end - (d_begin + d_flow) / (begin + flow)
    else:
        d_log = d_end / end - d_flow / (end - flow) - d_begin / begin
    return out, (1.0 + out) * jax.ops.segment_sum(d_log, period, num_periods)


def annualised(ret, days):
    return jnp.expm1(jnp.log1p(ret) * DAYS / days)


class ShareClass:
    def __init__(self, rate=0.2, hurdle=0.0):
        self.rate, self.hurdle = rate, hurdle

    def net(self, nav, mark):
        return nav - performance_fee(nav, mark, jnp.asarray(self.rate, nav.dtype), self.hurdle)
