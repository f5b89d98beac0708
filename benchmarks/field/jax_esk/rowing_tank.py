"""Ergometer and tank analysis for the rowing lab."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import custom_jvp, custom_vjp

STROKE_DT = 0.01


def step_mask(lengths, total):
    return jnp.arange(total)[None, :] < lengths[:, None]


@partial(custom_vjp, nondiff_argnums=(4,))
def flywheel_work(omega, drag, inertia, lengths, dt=STROKE_DT):
    """Work put into an ergometer flywheel over one drive.

    omega: [B, T] angular velocity, padded after ``lengths``
    drag: scalar or [B], drag factor k in k * omega**3
    inertia: scalar or [B], moment of inertia of the wheel
    lengths: [B] int, number of valid samples (>= 1)
    dt: sampling step, static

    Returns [B]: dissipated work plus the gain of kinetic energy between the first and the last valid sample.
    """
    out, _ = _work_fwd(omega, drag, inertia, lengths, dt)
    return out


def _work_fwd(omega, drag, inertia, lengths, dt):
    valid = step_mask(lengths, omega.shape[1])
    cubes = jnp.sum(jnp.where(valid, omega, 0.0) ** 3, axis=1)
    last = jnp.take_along_axis(omega, lengths[:, None] - 1, axis=1)[:, 0]
    gain = 0.5 * (last**2 - omega[:, 0] ** 2)
    return dt * drag * cubes + inertia * gain, (omega, drag, inertia, lengths, cubes, gain, last)


def _fit(x, like):
    return jnp.sum(x).reshape(jnp.shape(like)) if jnp.size(like) == 1 else x


def _work_bwd(dt, res, g):
    omega, drag, inertia, lengths, cubes, gain, last = res
    valid = step_mask(lengths, omega.shape[1])
    w = jnp.where(valid, omega, 0.0)
    d_omega = 3.0 * dt * (g * drag)[:, None] * w**2
    rows = jnp.arange(omega.shape[0])
    gi = g * inertia
    d_omega = d_omega.at[rows, lengths - 1].add(gi * last)
    d_omega = d_omega.at[:, 0].add(-gi * omega[:, 0])
    return (
        d_omega,
        _fit(g * dt * cubes, jnp.asarray(drag)),
        _fit(g * gain, jnp.asarray(inertia)),
        None,
    )


flywheel_work.defvjp(_work_fwd, _work_bwd)


@custom_vjp
def catch_alignment(angles, seat_weights):
    """Crew alignment in [.., 1]: one minus the seat-weighted variance of oar angles, averaged over the stroke.

    angles [B, S, T] in radians, seat_weights [S] positive (any scale).
    """
    return _align_fwd(angles, seat_weights)[0]


def _align_fwd(angles, seat_weights):
    total = seat_weights.sum()
    p = seat_weights / total
    mean = jnp.einsum("s,bst->bt", p, angles)
    dev = angles - mean[:, None, :]
    var = jnp.einsum("s,bst->bt", p, dev**2)
    return 1.0 - var.mean(-1), (dev, p, var)


def _align_bwd(res, g):
    dev, p, var = res
    n = dev.shape[-1]
    gv = jnp.broadcast_to(-g[:, None] / n, var.shape)
    d_angles = 2.0 * gv[:, None, :] * p[None, :, None] * dev
    d_weights = jnp.einsum("bt,bst->s", gv, dev**2 - var[:, None, :])
    return d_angles, d_weights


catch_alignment.defvjp(_align_fwd, _align_bwd)


@partial(custom_jvp, nondiff_argnums=(3,))
def lane_handicap(times, exposure, wind, lanes):
    # times [H, R], exposure [L], wind [H] (tail positive), lanes: tuple of R ints
    e = exposure[jnp.asarray(lanes)]
    return times * jnp.cbrt(1.0 + e[None, :] * wind[:, None])


@lane_handicap.defjvp
def _lane_jvp(lanes, primals, tangents):
    times, exposure, wind = primals
    dt, de, dw = tangents
    idx = jnp.asarray(lanes)
    e, w = exposure[idx][None, :], wind[:, None]
    base = 1.0 + e * w
    f = jnp.cbrt(base)
    dbase = de[idx][None, :] * w + e * dw[:, None]
    return times * f, dt * f + times * dbase / (3.0 * f * f)


class HeatSheet:
    def __init__(self, lanes):
        self.lanes = tuple(int(x) for x in lanes)

    def corrected(self, times, exposure, wind):
        return lane_handicap(times, exposure, wind, self.lanes)
