"""Scoring sheets of the club: golf handicaps, diving panels and the climbing wall's rope log."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

STANDARD_SLOPE = 113.0
GRAVITY = 9.80665


class Course(NamedTuple):
    rating: jax.Array  # (courses,)
    slope: jax.Array  # (courses,)


def differentials(scores, course, course_ids):
    rating = course.rating[course_ids]
    slope = course.slope[course_ids]
    return STANDARD_SLOPE / slope * (scores - rating)


def _lowest(diffs, best):
    """Boolean marks of the `best` smallest entries of each row."""
    rank = jnp.argsort(jnp.argsort(diffs, axis=-1), axis=-1)
    return rank < best


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def handicap_index(scores, course, course_ids, best=8):
    """Handicap index of each player.

    Args:
      scores: (players, rounds) adjusted gross scores.
      course: ``Course`` with the rating and the slope of every course.
      course_ids: (players, rounds) integer, where each round was played.
      best: how many of the lowest differentials are averaged.

    Returns:
      (players,) mean of the lowest `best` score differentials.
    """
    diffs = differentials(scores, course, course_ids)
    keep = _lowest(diffs, best)
    return jnp.sum(jnp.where(keep, diffs, 0.0), axis=-1) / best


def _handicap_fwd(scores, course, course_ids, best):
    diffs = differentials(scores, course, course_ids)
    keep = _lowest(diffs, best)
    out = jnp.sum(jnp.where(keep, diffs, 0.0), axis=-1) / best
    return out, (diffs, keep, course, course_ids)


def _handicap_bwd(best, res, g):
    diffs, keep, course, course_ids = res
    slope = course.slope[course_ids]
    g_diffs = jnp.where(keep, g[:, None] / best, 0.0)
    g_scores = g_diffs * STANDARD_SLOPE / slope
    ids = course_ids.ravel()
    g_rating = jnp.zeros_like(course.rating).at[ids].add(-g_scores.ravel())
    g_slope = jnp.zeros_like(course.slope).at[ids].set((-g_diffs * diffs / slope).ravel())
    return g_scores, Course(g_rating, g_slope), None


handicap_index.defvjp(_handicap_fwd, _handicap_bwd)


def _fit(grad, like):
    shape = jnp.shape(like)
    grad = jnp.sum(grad, axis=tuple(range(grad.ndim - len(shape))))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return jnp.sum(grad, axis=ones, keepdims=True) if ones else grad


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def judged_total(marks, difficulty, performed, drop=1):
    """Total of a diver: the panel's marks without the `drop` highest and lowest, times difficulty, times 3 / kept."""
    kept = marks.shape[-1] - 2 * drop
    ordered = jnp.sort(marks, axis=-1)[..., drop:marks.shape[-1] - drop]
    award = 3.0 * jnp.sum(ordered, axis=-1) / kept
    return jnp.sum(jnp.where(performed, award * difficulty, 0.0), axis=-1)


def _judged_fwd(marks, difficulty, performed, drop):
    judges = marks.shape[-1]
    order = jnp.argsort(marks, axis=-1)
    place = jnp.argsort(order, axis=-1)
    counts = (place >= drop) & (place < judges - drop)
    scale = 3.0 / (judges - 2 * drop)
    award = scale * jnp.sum(jnp.where(counts, marks, 0.0), axis=-1)
    total = jnp.sum(jnp.where(performed, award * difficulty, 0.0), axis=-1)
    return total, (counts, award, marks, difficulty, performed)


def _judged_bwd(drop, res, g):
    counts, award, marks, difficulty, performed = res
    scale = 3.0 / (counts.shape[-1] - 2 * drop)
    shape = jnp.broadcast_shapes(award.shape, jnp.shape(difficulty), performed.shape)
    per_dive = jnp.broadcast_to(jnp.where(performed, g[..., None], 0.0), shape)
    g_marks = counts * (scale * per_dive * difficulty)[..., None]
    return _fit(g_marks, marks), _fit(per_dive * award, difficulty), None


judged_total.defvjp(_judged_fwd, _judged_bwd)


@jax.custom_vjp
def rope_catch(mass, modulus, fall, active, friction, wrap):
    w = mass * GRAVITY
    catch = w + jnp.sqrt(w * w + 2.0 * w * modulus * fall / active)
    hold = jnp.exp(-friction * wrap)
    return catch, catch * (1.0 + hold)


def _catch_fwd(mass, modulus, fall, active, friction, wrap):
    w = mass * GRAVITY
    root = jnp.sqrt(w * w + 2.0 * w * modulus * fall / active)
    hold = jnp.exp(-friction * wrap)
    catch = w + root
    return (catch, catch * (1.0 + hold)), (w, root, hold, modulus, fall, active, friction, wrap)


def _catch_bwd(res, cots):
    w, root, hold, modulus, fall, active, friction, wrap = res
    g_catch, g_anchor = cots
    catch = w + root
    g = g_catch + g_anchor * hold
    factor = fall / active
    g_mass = g * GRAVITY * (1.0 + (w + modulus * factor) / root)
    g_factor = g * w * modulus / root
    g_modulus = g * w * factor / root
    g_hold = g_anchor * catch
    return (
        g_mass,
        g_modulus,
        g_factor / active,
        -g_factor * factor / active,
        -g_hold * hold * wrap,
        -g_hold * hold * friction,
    )


rope_catch.defvjp(_catch_fwd, _catch_bwd)


def season_best(scores, course, course_ids, holes=18):
    """Course-length guard around :func:`handicap_index` for nine-hole cards."""
    factor = 18.0 / holes
    return handicap_index(scores * factor, course, course_ids, min(8, scores.shape[-1]))
