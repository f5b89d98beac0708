"""Building blocks for fitting gaze models to eye-tracker recordings (JAX)."""
from __future__ import annotations

from functools import partial
from typing import Tuple

import jax
import jax.numpy as jnp

TINY = 1e-6


def sum_to(x: jax.Array, shape: Tuple[int, ...]) -> jax.Array:
    """Undo a broadcast from ``shape``."""
    lead = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(lead)))
    for axis, n in enumerate(shape):
        if n == 1 and x.shape[axis] != 1:
            x = x.sum(axis=axis, keepdims=True)
    return x


def stencil(samples: int, half: int):
    """First and last sample of the difference taken at every sample."""
    t = jnp.arange(samples)
    return jnp.maximum(t - half, 0), jnp.minimum(t + half, samples - 1)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def gaze_speed(xy: jax.Array, dt: float = 0.002, half: int = 2) -> jax.Array:
    """Speed of the gaze in units per second.

    Parameters
    ----------
    xy : array, shape (trials, samples, 2)
        Gaze positions in degrees.
    dt : float
        Sampling interval in seconds.
    half : int
        Half width of the symmetric difference. Differences at the ends of the
        recording are taken over the samples that exist.

    Returns
    -------
    array, shape (trials, samples)
    """
    return _speed_fwd(xy, dt, half)[0]


def _velocity(xy, dt, half):
    lo, hi = stencil(xy.shape[1], half)
    span = ((hi - lo) * dt).astype(xy.dtype)
    return (xy[:, hi] - xy[:, lo]) / span[:, None]


def _speed_fwd(xy, dt, half):
    vel = _velocity(xy, dt, half)
    speed = jnp.sqrt((vel ** 2).sum(-1) + TINY)
    return speed, (vel, speed)


def _speed_bwd(dt, half, res, g):
    vel, speed = res
    lo, hi = stencil(vel.shape[1], half)
    gv = vel * (g / speed)[..., None] / (2 * half * dt)
    d_xy = jnp.zeros_like(vel).at[:, hi].add(gv).at[:, lo].add(-gv)
    return (d_xy,)


gaze_speed.defvjp(_speed_fwd, _speed_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def fixation_map(points, durations, sigma, valid, size=(12, 16), normalize=True):
    """Duration-weighted heat map of the fixations of each trial.

    Parameters
    ----------
    points : array, shape (trials, fixations, 2)
        Pixel coordinates on the screen, x (column) first.
    durations : array, shape (trials, fixations)
        Positive dwell times.
    sigma : array, shape (2,)
        Spread in x and in y, pixels.
    valid : bool array, shape (trials, fixations)
        Padding is False. Trials without a fixation give an empty map.
    size : (rows, columns)
    normalize : bool
        Divide by the mass that falls on the screen, so that maps sum to one.
    """
    return _map_fwd(points, durations, sigma, valid, size, normalize)[0]


def _offsets(points, size):
    rows, cols = size
    dx = jnp.arange(cols, dtype=points.dtype) - points[..., 0, None]
    dy = jnp.arange(rows, dtype=points.dtype) - points[..., 1, None]
    return dx, dy


def _map_fwd(points, durations, sigma, valid, size, normalize):
    dx, dy = _offsets(points, size)
    ex = jnp.exp(-0.5 * (dx / sigma[0]) ** 2)
    ey = jnp.exp(-0.5 * (dy / sigma[1]) ** 2)
    w = jnp.where(valid, durations, 0.0)
    raw = jnp.einsum("bn,bnr,bnc->brc", w, ey, ex)
    mass = raw.sum(axis=(1, 2), keepdims=True)
    safe = jnp.where(mass > 0, mass, 1.0)
    out = raw / safe if normalize else raw
    return out, (points, sigma, valid, w, ex, ey, out, safe)


def _map_bwd(size, normalize, res, g):
    points, sigma, valid, w, ex, ey, out, safe = res
    if normalize:
        g = (g - (g * out).sum(axis=(1, 2), keepdims=True)) / safe
    dx, dy = _offsets(points, size)
    row = jnp.einsum("brc,bnc->bnr", g, ex)
    col = jnp.einsum("brc,bnr->bnc", g, ey)
    d_dur = jnp.where(valid, (row * ey).sum(-1), 0.0)
    px = w * (col * ex * dx).sum(-1) / sigma[0] ** 2
    py = w * (row * ey * dy).sum(-1) / sigma[1] ** 2
    sx = (w * (col * ex * dx ** 2).sum(-1)).sum() / sigma[0] ** 3
    sy = (w * (row * ey * dy ** 2).sum(-1)).sum() / sigma[1] ** 3
    return jnp.stack([px, py], -1), d_dur, jnp.stack([sx, sy]), None


fixation_map.defvjp(_map_fwd, _map_bwd)


def dot(a, b):
    return (a * b).sum(-1, keepdims=True)


@jax.custom_vjp
def vergence_point(left, left_dir, right, right_dir):
    """Point of regard from two visual axes.

    Parameters
    ----------
    left, right : array, shape (3,) or (samples, 3)
        Centres of the eyes.
    left_dir, right_dir : array, shape (samples, 3)
        Directions of gaze, of any length and not parallel.

    Returns
    -------
    point : array, shape (samples, 3)
        Midpoint of the shortest segment between both axes.
    miss : array, shape (samples,)
        Squared length of that segment.
    """
    return _vergence_fwd(left, left_dir, right, right_dir)[0]


def _vergence_fwd(left, left_dir, right, right_dir):
    w = left - right
    a, b, c = dot(left_dir, left_dir), dot(left_dir, right_dir), dot(right_dir, right_dir)
    d, e = dot(left_dir, w), dot(right_dir, w)
    det = a * c - b * b
    s, t = (b * e - c * d) / det, (a * e - b * d) / det
    p, q = left + s * left_dir, right + t * right_dir
    gap = p - q
    out = (0.5 * (p + q), (gap ** 2).sum(-1))
    return out, (left.shape, right.shape, left_dir, right_dir, s, t, gap, a, b, c, det)


def _vergence_bwd(res, cts):
    lshape, rshape, u, v, s, t, gap, a, b, c, det = res
    g_point, g_miss = cts
    push = 2.0 * g_miss[..., None] * gap
    gp, gq = 0.5 * g_point + push, 0.5 * g_point - push
    gs, gt = dot(gp, u), dot(gq, v)
    # adjoint of the stationarity conditions u.gap = 0 and v.gap = 0
    l1 = -(c * gs + b * gt) / det
    l2 = (a * gt + b * gs) / det
    pull = l1 * u + l2 * v
    d_u = s * gp + l1 * gap + s * pull
    d_v = t * gq + l2 * gap - t * pull
    return sum_to(gp + pull, lshape), d_u, sum_to(gq - pull, rshape), d_v


vergence_point.defvjp(_vergence_fwd, _vergence_bwd)
