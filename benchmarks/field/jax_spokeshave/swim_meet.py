"""Models for a swimming coach: push-off glides, drafting, lactate and critical speed.

SI units throughout (metres, seconds); lactate in mmol/l.
"""

from functools import partial
from typing import NamedTuple, Tuple

import jax
import jax.numpy as jnp

REST_LACTATE = 1.0
POOL_LENGTH = 50.0


def _phi(u):
    """(exp(u) - 1) / u"""
    small = jnp.abs(u) < 1e-2
    safe = jnp.where(small, 1.0, u)
    series = 1.0 + u / 2 + u**2 / 6 + u**3 / 24 + u**4 / 120 + u**5 / 720
    return jnp.where(small, series, jnp.expm1(safe) / safe)


def _phi_prime(u):
    small = jnp.abs(u) < 1e-2
    safe = jnp.where(small, 1.0, u)
    series = 0.5 + u / 3 + u**2 / 8 + u**3 / 30 + u**4 / 144
    return jnp.where(small, series, (jnp.exp(safe) - jnp.expm1(safe) / safe) / safe)


@jax.custom_jvp
def glide_time(speed, drag, distance):
    """Time to glide ``distance`` after leaving the wall at ``speed``.

    Under quadratic drag the speed falls as exp(-drag * s), so the time is
    (exp(drag * distance) - 1) / (drag * speed).  A frictionless glide (drag 0) takes distance / speed.
    The three arguments broadcast.
    """
    return distance * _phi(drag * distance) / speed


@glide_time.defjvp
def _glide_time_jvp(primals, tangents):
    v, k, s = primals
    dv, dk, ds = tangents
    t = glide_time(v, k, s)
    dt = -t / v * dv + s**2 * _phi_prime(k * s) / v * dk + jnp.exp(k * s) / v * ds
    return t, dt


class Draft(NamedTuple):
    """How much drag is saved: directly behind, and in front of a swimmer's bow wave."""

    behind: jax.Array = 0.21
    behind_length: jax.Array = 1.6
    ahead: jax.Array = 0.05
    ahead_length: jax.Array = 0.7
    half_width: jax.Array = 0.9


@jax.custom_jvp
def draft_factor(gap, lateral, draft: Draft):
    """Drag of a swimmer relative to swimming alone.

    gap is the distance from the toes of the neighbour to one's own hands: positive when following,
    negative when the neighbour follows.  The saving decays exponentially with |gap| on either side, and
    as a Gaussian in the lateral offset.
    """
    along = jnp.where(gap >= 0, draft.behind * jnp.exp(-jnp.abs(gap) / draft.behind_length),
                      draft.ahead * jnp.exp(-jnp.abs(gap) / draft.ahead_length))
    return 1.0 - along * jnp.exp(-((lateral / draft.half_width) ** 2))


@draft_factor.defjvp
def _draft_factor_jvp(primals, tangents):
    gap, lateral, d = primals
    d_gap, d_lat, dd = tangents
    factor = draft_factor(gap, lateral, d)
    follows = gap >= 0
    peak = jnp.where(follows, d.behind, d.ahead)
    reach = jnp.where(follows, d.behind_length, d.ahead_length)
    d_peak = jnp.where(follows, dd.behind, dd.ahead)
    d_reach = jnp.where(follows, dd.behind_length, dd.ahead_length)
    z = lateral / d.half_width
    shape = jnp.exp(-jnp.abs(gap) / reach - z**2)
    relative = (
        -d_gap / reach
        + jnp.abs(gap) * d_reach / reach**2
        - 2.0 * z * d_lat / d.half_width
        + 2.0 * z**2 * dd.half_width / d.half_width
    )
    return factor, -shape * (d_peak + peak * relative)


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def lactate_trace(pace, threshold, gain, clearance, rest, dt=5.0):
    """Blood lactate along a training set.

    pace (swimmers, steps) in m/s; threshold and gain are scalars; clearance (1/s) and rest have one value
    per swimmer.  Above the threshold lactate is produced with the cube of the excess speed.  Returns the
    trace after every step (swimmers, steps) and the last value (swimmers,).
    """
    return _lactate_fwd(pace, threshold, gain, clearance, rest, dt)[0]


def _lactate_fwd(pace, threshold, gain, clearance, rest, dt):
    keep = 1.0 - dt * clearance
    made = dt * gain * jnp.maximum(pace - threshold, 0.0) ** 3

    def step(level, m):
        level = keep * level + m
        return level, level

    last, trace = jax.lax.scan(step, rest, made.T)
    return (trace.T, last), (pace, threshold, gain, clearance, rest, trace)


def _lactate_bwd(dt, res, cotangents):
    pace, threshold, gain, clearance, rest, trace = res
    g_trace, g_last = cotangents
    d_rest, adj = _adjoint(1.0 - dt * clearance, g_trace, g_last)
    before = jnp.concatenate([rest[None], trace[:-1]])
    excess = jnp.maximum(pace - threshold, 0.0)
    d_pace = 3.0 * dt * gain * excess**2 * adj.T
    return d_pace, -jnp.sum(d_pace), dt * jnp.sum(adj.T * excess**3), -dt * jnp.sum(adj * before, axis=0), d_rest


def _adjoint(keep, g_trace, g_last):
    def back(adj, g):
        adj = adj + g
        return keep * adj, adj

    seeds = g_trace.T.at[-1].add(g_last)
    return jax.lax.scan(back, jnp.zeros_like(g_last), seeds, reverse=True)


lactate_trace.defvjp(_lactate_fwd, _lactate_bwd)


@jax.custom_vjp
def critical_speed(times, distances, weights) -> Tuple[jax.Array, jax.Array]:
    """Critical speed and anaerobic reserve from time trials.

    Weighted least-squares line distance = speed * time + reserve over the last axis (at least two different
    times).  The three arrays have the same shape; leading axes are swimmers.
    """
    return _critical_fwd(times, distances, weights)[0]


def _critical_fwd(times, distances, weights):
    total = jnp.sum(weights, -1, keepdims=True)
    t_bar = jnp.sum(weights * times, -1, keepdims=True) / total
    d_bar = jnp.sum(weights * distances, -1, keepdims=True) / total
    tc = times - t_bar
    spread = jnp.sum(weights * tc**2, -1, keepdims=True)
    speed = jnp.sum(weights * tc * (distances - d_bar), -1, keepdims=True) / spread
    reserve = d_bar - speed * t_bar
    misfit = distances - speed * times - reserve
    return (speed[..., 0], reserve[..., 0]), (weights, total, t_bar, tc, spread, speed, misfit)


def _critical_bwd(res, cotangents):
    weights, total, t_bar, tc, spread, speed, misfit = res
    g_speed, g_reserve = (g[..., None] for g in cotangents)
    # reserve = d_bar - speed * t_bar
    g_line = g_speed - t_bar * g_reserve
    lever = weights * tc / spread
    d_distances = g_line * lever + g_reserve * weights / total
    d_times = -speed * d_distances
    d_weights = misfit * (g_line * tc / spread + g_reserve / total)
    return d_times, d_distances, d_weights


critical_speed.defvjp(_critical_fwd, _critical_bwd)


def lap_plan(speed, drag, glide, swim_speed):
    """Time of one lap of the pool with a glide off the wall."""
    return glide_time(speed, drag, glide) + (POOL_LENGTH - glide) / swim_speed
