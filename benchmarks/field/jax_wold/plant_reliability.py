"""Reliability block models and maintenance policies for process plants."""

import functools
from dataclasses import dataclass, field
from typing import Dict

import jax
import jax.numpy as jnp
import numpy as np


@dataclass
class PumpGroup:
    """A bank of pumps of which ``needed`` have to run."""

    needed: int = 2
    params: Dict[str, float] = field(default_factory=lambda: dict(shape=1.8, scale=9000.0))


# ------------------------------------------------------------------ redundancy


def _count_step(dist, p):
    """Distribution of the number of survivors after one more unit with survival ``p``."""
    shifted = jnp.concatenate([jnp.zeros_like(dist[..., :1]), dist[..., :-1]], axis=-1)
    return dist * (1 - p[..., None]) + shifted * p[..., None]


def _prefix_counts(prob):
    """List of n + 1 distributions, the i-th for the units before i."""
    n = prob.shape[-1]
    dist = jnp.zeros(prob.shape[:-1] + (n + 1,), prob.dtype).at[..., 0].set(1.0)
    out = [dist]
    for i in range(n):
        dist = _count_step(dist, prob[..., i])
        out.append(dist)
    return out


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def quorum_reliability(prob, needed):
    """Probability that at least ``needed`` of the units on the last axis survive.

    Parameters
    ----------
    prob : array (..., n)
        Survival of each unit, 0 and 1 included.  Units are independent and need not be alike.
    needed : int
        0 gives one, more than n gives zero.

    Returns
    -------
    array (...)
    """
    return _prefix_counts(prob)[-1][..., needed:].sum(-1)


@quorum_reliability.defjvp
def _quorum_jvp(needed, primals, tangents):
    (prob,) = primals
    (dot,) = tangents
    n = prob.shape[-1]
    before = _prefix_counts(prob)
    after = _prefix_counts(prob[..., ::-1])[::-1]
    value = before[-1][..., needed:].sum(-1)
    out = jnp.zeros_like(value)
    if 1 <= needed <= n:
        for i in range(n):
            # unit i matters when exactly needed - 1 of the others survive
            decisive = (before[i][..., :needed] * after[i + 1][..., needed - 1 :: -1]).sum(-1)
            out = out + decisive * dot[..., i]
    return value, out


# ------------------------------------------------------------------ missions


@jax.custom_vjp
def mission_survival(age, mission, shape, scale):
    """Chance that a unit of a given age survives a further mission, for Weibull lives.

    Parameters
    ----------
    age, mission : arrays (B, C)
        Hours already run (above zero) and hours to run (above zero).
    shape, scale : arrays (C,)
        Weibull parameters of each component type.
    """
    return jnp.exp((age / scale) ** shape - ((age + mission) / scale) ** shape)


def _mission_fwd(age, mission, shape, scale):
    start = (age / scale) ** shape
    end = ((age + mission) / scale) ** shape
    out = jnp.exp(start - end)
    return out, (age, mission, shape, scale, start, end, out)


def _mission_bwd(res, g):
    age, mission, shape, scale, start, end, out = res
    g_log = g * out
    total = age + mission
    hazard_end = shape * end / total
    hazard_start = shape * start / age
    g_age = g_log * (hazard_start - hazard_end)
    g_mission = -g_log * hazard_end
    g_shape = -(g_log * end * jnp.log(total / scale)).sum(0)
    g_scale = (g_log * shape * (end - start) / scale).sum(0)
    return g_age, g_mission, g_shape, g_scale


mission_survival.defvjp(_mission_fwd, _mission_bwd)


# ------------------------------------------------------------------ maintenance

_X, _W = np.polynomial.legendre.leggauss(40)


def _uptime(interval, shape, scale):
    """Expected length of a cycle and its derivative in ``shape``."""
    x = jnp.asarray(0.5 * (_X + 1), interval.dtype)
    w = jnp.asarray(0.5 * _W, interval.dtype)
    t = interval[..., None] * x / scale[..., None]
    z = t ** shape[..., None]
    surv = jnp.exp(-z)
    return interval * (surv @ w), -interval * ((surv * z * jnp.log(t)) @ w)


@jax.custom_vjp
def policy_cost_rate(interval, shape, scale, planned, failure):
    """Long-run cost per hour of replacing a unit at age ``interval`` or at failure, whichever comes first.

    All arguments are (n,): interval and scale in hours, Weibull shape above one, costs of a planned replacement and of a
    failure.
    """
    return _policy_fwd(interval, shape, scale, planned, failure)[0]


def _policy_fwd(interval, shape, scale, planned, failure):
    z = (interval / scale) ** shape
    reach = jnp.exp(-z)
    uptime, uptime_shape = _uptime(interval, shape, scale)
    rate = (planned * reach + failure * (1 - reach)) / uptime
    return rate, (interval, shape, scale, planned, failure, z, reach, uptime, uptime_shape, rate)


def _policy_bwd(res, g):
    interval, shape, scale, planned, failure, z, reach, uptime, uptime_shape, rate = res
    extra = failure - planned
    density = shape * z * reach / interval
    by_interval = (extra * density - rate * reach) / uptime
    by_shape = (extra * reach * z * jnp.log(interval / scale) - rate * uptime_shape) / uptime
    # only the ratio of interval and scale enters
    by_scale = -by_interval * interval / scale
    return g * by_interval, g * by_shape, g * by_scale, g * reach / uptime, g * (1 - reach) / uptime


policy_cost_rate.defvjp(_policy_fwd, _policy_bwd)


class MaintenancePlan:
    """Quorum of pumps, each replaced at its own interval."""

    def __init__(self, group: PumpGroup, planned: float, failure: float):
        self.group, self.planned, self.failure = group, planned, failure

    def __call__(self, log_interval, age, mission):
        n = log_interval.shape[0]
        shape = jnp.full((n,), self.group.params["shape"])
        scale = jnp.full((n,), self.group.params["scale"])
        survival = mission_survival(age, mission, shape, scale)
        cost = policy_cost_rate(
            jnp.exp(log_interval),
            shape,
            scale,
            jnp.full((n,), self.planned),
            jnp.full((n,), self.failure),
        )
        return quorum_reliability(survival, self.group.needed), cost.sum()
