"""Scoring and pacing models for combined events and endurance running."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class ScoreTable(NamedTuple):
    """Coefficients of the combined-events tables, one entry per event."""

    scale: jax.Array
    threshold: jax.Array
    exponent: jax.Array


# 100 m, long jump, shot put, high jump, 400 m (marks in s, cm, m, cm, s)
DECATHLON_DAY_ONE = ScoreTable(
    scale=jnp.array([25.4347, 0.14354, 51.39, 0.8465, 1.53775]),
    threshold=jnp.array([18.0, 220.0, 1.5, 75.0, 82.0]),
    exponent=jnp.array([1.81, 1.40, 1.05, 1.42, 1.81]),
)
DAY_ONE_TRACK = (True, False, False, False, True)

MINETTI = (155.4, -30.4, -43.3, 46.3, 19.5, 3.6)
GRADE_LIMIT = 0.45


def _surplus(marks, table, track):
    sign = jnp.where(jnp.array(track), -1.0, 1.0).astype(marks.dtype)
    return sign, sign * (marks - table.threshold)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def event_points(marks, table, present, track):
    """Unrounded points of each athlete, summed over the events.

    Args:
      marks: (athletes, events) performances, in the units of the table.
      table: ``ScoreTable`` with entries of shape (events,).
      present: bool (athletes, events); False where there is no valid mark
        (did not start, three fouls), which scores nothing.
      track: tuple of bools, True for events in which less is better.

    Returns:
      (athletes,) totals.  Marks short of the threshold score zero.
    """
    _, base = _surplus(marks, table, track)
    scored = present & (base > 0)
    safe = jnp.where(scored, base, 1.0)
    return jnp.sum(jnp.where(scored, table.scale * safe**table.exponent, 0.0), axis=-1)


def _event_points_fwd(marks, table, present, track):
    return event_points(marks, table, present, track), (marks, table, present)


def _event_points_bwd(track, res, g):
    marks, table, present = res
    sign, base = _surplus(marks, table, track)
    scored = present & (base > 0)
    safe = jnp.where(scored, base, 1.0)
    g = jnp.where(scored, g[:, None], 0.0)
    power = safe**table.exponent
    slope = table.scale * table.exponent * safe ** (table.exponent - 1.0)
    g_marks = g * sign * slope
    g_table = ScoreTable(
        scale=jnp.sum(g * power, axis=0),
        threshold=-jnp.sum(g_marks, axis=0),
        exponent=jnp.sum(g * table.scale * power * jnp.log(safe), axis=0),
    )
    return g_marks, g_table, None


event_points.defvjp(_event_points_fwd, _event_points_bwd)


def _wbal_step(w, p, cp, w_prime, dt):
    spend = w - (p - cp) * dt
    recover = w + (cp - p) * dt * (1.0 - w / w_prime)
    return jnp.where(p > cp, spend, recover)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def wbal_trace(power, cp, w_prime, dt=1.0):
    """W' balance (differential form): power (..., T), cp and w_prime (...,) -> (..., T)."""
    return _wbal_fwd(power, cp, w_prime, dt)[0]


def _wbal_fwd(power, cp, w_prime, dt):
    def body(w, p):
        nxt = _wbal_step(w, p, cp, w_prime, dt)
        return nxt, (nxt, w)

    _, (trace, before) = jax.lax.scan(body, w_prime, jnp.moveaxis(power, -1, 0))
    return jnp.moveaxis(trace, 0, -1), (power, cp, w_prime, before)


def _wbal_bwd(dt, res, g):
    power, cp, w_prime, before = res

    def body(carry, xs):
        lam, g_cp = carry
        p, w, g_t = xs
        lam = lam + g_t
        above = p > cp
        g_p = -dt * lam * jnp.where(above, 1.0, 1.0 - w / w_prime)
        lam = lam * jnp.where(above, 1.0, 1.0 - (cp - p) * dt / w_prime)
        return (lam, g_cp - g_p), g_p

    zero = jnp.zeros_like(w_prime)
    xs = (jnp.moveaxis(power, -1, 0), before, jnp.moveaxis(g, -1, 0))
    (lam, g_cp), g_power = jax.lax.scan(body, (zero, zero), xs, reverse=True)
    return jnp.moveaxis(g_power, 0, -1), g_cp, lam


wbal_trace.defvjp(_wbal_fwd, _wbal_bwd)


def _horner(coeffs, x):
    out = jnp.zeros_like(x)
    for c in coeffs:
        out = out * x + c
    return out


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def grade_cost(grade, distance, valid, reduction="mean"):
    cost = _horner(MINETTI, jnp.clip(grade, -GRADE_LIMIT, GRADE_LIMIT))
    joules = jnp.where(valid, cost * distance, 0.0)
    if reduction == "none":
        return joules
    total = joules.sum(-1)
    if reduction == "mean":
        total = total / jnp.maximum(valid.sum(-1), 1)
    return total


def _grade_cost_fwd(grade, distance, valid, reduction):
    return grade_cost(grade, distance, valid, reduction), (grade, distance, valid)


def _grade_cost_bwd(reduction, res, g):
    grade, distance, valid = res
    if reduction != "none":
        g = g[..., None]
    if reduction == "mean":
        g = g / grade.shape[-1]
    g = jnp.where(valid, g, 0.0)
    i = jnp.clip(grade, -GRADE_LIMIT, GRADE_LIMIT)
    degree = len(MINETTI) - 1
    slope = _horner([c * (degree - k) for k, c in enumerate(MINETTI[:-1])], i)
    inside = jnp.abs(grade) < GRADE_LIMIT
    return g * distance * jnp.where(inside, slope, 0.0), g * _horner(MINETTI, i), None


grade_cost.defvjp(_grade_cost_fwd, _grade_cost_bwd)


def race_energy(body_mass, grade, distance, valid):
    """Joules per kilogram times mass, per runner."""
    return body_mass * grade_cost(grade, distance, valid, "sum")
