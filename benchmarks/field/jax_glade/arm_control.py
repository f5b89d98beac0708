"""Joint-level pieces of the arm simulator."""
from __future__ import annotations

import functools
import math
from typing import Mapping

import jax
import jax.numpy as jnp
from jax import lax

Pose = Mapping[str, jax.Array]


def _reduce_to(x, shape):
    """Sum `x` down to `shape` (the adjoint of broadcasting)."""
    lead = x.ndim - len(shape)
    x = x.sum(tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axes, keepdims=True)


# ------------------------------------------------------------------ wrenches


@jax.custom_vjp
def transport_wrench(pose: Pose, wrench: jax.Array) -> jax.Array:
    """Express a wrench given in the child frame in the parent frame.

    Args:
      pose: ``{"rotation": (..., 3, 3), "translation": (..., 3)}`` of the child in the parent. The gradient with respect
        to the rotation is the plain one of the nine entries.
      wrench: ``(..., 6)``, force first, moment second.

    Leading dimensions of all three broadcast.
    """
    rot, trans = pose["rotation"], pose["translation"]
    force = jnp.einsum("...ij,...j->...i", rot, wrench[..., :3])
    moment = jnp.einsum("...ij,...j->...i", rot, wrench[..., 3:])
    lever = jnp.cross(jnp.broadcast_to(trans, jnp.broadcast_shapes(trans.shape, force.shape)), force)
    moment = moment + lever
    return jnp.concatenate([jnp.broadcast_to(force, moment.shape), moment], -1)


def _wrench_fwd(pose, wrench):
    return transport_wrench(pose, wrench), (pose, wrench)


def _wrench_bwd(res, g):
    pose, wrench = res
    rot, trans = pose["rotation"], pose["translation"]
    f, m = wrench[..., :3], wrench[..., 3:]
    g_moment = g[..., 3:]
    g_force = g[..., :3] + jnp.cross(g_moment, jnp.broadcast_to(trans, g_moment.shape))
    force = jnp.broadcast_to(jnp.einsum("...ij,...j->...i", rot, f), g_moment.shape)
    d_rot = jnp.einsum("...i,...j->...ij", g_force, f) + jnp.einsum("...i,...j->...ij", g_moment, m)
    d_trans = jnp.cross(force, g_moment)
    d_wrench = jnp.concatenate(
        [jnp.einsum("...ji,...j->...i", rot, g_force), jnp.einsum("...ji,...j->...i", rot, g_moment)], -1
    )
    d_pose = {"rotation": _reduce_to(d_rot, rot.shape), "translation": _reduce_to(d_trans, trans.shape)}
    return d_pose, _reduce_to(d_wrench, wrench.shape)


transport_wrench.defvjp(_wrench_fwd, _wrench_bwd)


# ------------------------------------------------------------------ integrator with anti-windup


def make_clamped_integrator(dt: float, lower: float = -1.0, upper: float = 1.0):
    """Build the integral term of the PID loop.

    The returned ``integrate(x0, u)`` runs ``x[t+1] = clip(x[t] + dt * u[t], lower, upper)`` for ``u`` of shape
    ``(T, ...)`` and gives all states, ``(T, ...)``. ``x0`` has the shape of one ``u[t]``.
    """

    def _run(x0, u):
        def step(x, ut):
            raw = x + dt * ut
            x = jnp.clip(raw, lower, upper)
            return x, (x, (raw > lower) & (raw < upper))

        return lax.scan(step, x0, u)[1]

    @jax.custom_vjp
    def integrate(x0, u):
        return _run(x0, u)[0]

    def fwd(x0, u):
        states, free = _run(x0, u)
        return states, free

    def bwd(free, g):
        def step(lam, inp):
            gt, ft = inp
            lam = lam + gt
            return lam, dt * jnp.where(ft, lam, 0.0)

        lam, du = lax.scan(step, jnp.zeros_like(g[0]), (g, free), reverse=True)
        return lam, du

    integrate.defvjp(fwd, bwd)
    return integrate


class PID:
    """Discrete PID with a clamped integral; gains are a dict ``{"kp", "ki", "kd"}``."""

    def __init__(self, dt: float, windup: float = 1.0):
        self.dt = dt
        self.integral = make_clamped_integrator(dt, -windup, windup)

    def __call__(self, gains, error):
        i = self.integral(jnp.zeros_like(error[0]), error)
        d = jnp.diff(error, axis=0, prepend=error[:1]) / self.dt
        return gains["kp"] * error + gains["ki"] * i + gains["kd"] * d


# ------------------------------------------------------------------ friction


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def stribeck_friction(velocity, params, exponent=2.0, eps=1e-2):
    """Stribeck friction torque.

    params holds ``coulomb``, ``static``, ``stribeck`` (velocity, > 0) and ``viscous``, each a scalar or one value per
    joint (last axis of velocity). The jump at standstill is smoothed by ``tanh(velocity / eps)``. exponent >= 1.
    """
    drop = jnp.exp(-((jnp.abs(velocity) / params["stribeck"]) ** exponent))
    level = params["coulomb"] + (params["static"] - params["coulomb"]) * drop
    return level * jnp.tanh(velocity / eps) + params["viscous"] * velocity


@stribeck_friction.defjvp
def _stribeck_jvp(exponent, eps, primals, tangents):
    v, q = primals
    dv, dq = tangents
    ratio = jnp.abs(v) / q["stribeck"]
    drop = jnp.exp(-(ratio**exponent))
    side = jnp.tanh(v / eps)
    gap = q["static"] - q["coulomb"]
    level = q["coulomb"] + gap * drop
    out = level * side + q["viscous"] * v
    d_drop_d_ratio = -exponent * drop * ratio ** (exponent - 1.0)
    slope = level * (1.0 - side**2) / eps + gap * d_drop_d_ratio * jnp.sign(v) / q["stribeck"] * side + q["viscous"]
    dout = (
        slope * dv
        + (1.0 - drop) * side * dq["coulomb"]
        + drop * side * dq["static"]
        - gap * side * d_drop_d_ratio * ratio / q["stribeck"] * dq["stribeck"]
        + v * dq["viscous"]
    )
    return out, dout


# ------------------------------------------------------------------ encoder


@jax.custom_gradient
def encoder_counts(angle, counts_per_turn):
    """Incremental encoder reading, ``round(angle * counts_per_turn / 2 pi)``.

    Straight-through on purpose: the derivative is that of the unrounded reading, in both arguments, so that a policy can
    be trained through the sensor. ``counts_per_turn`` is a scalar.
    """
    scale = counts_per_turn / (2.0 * math.pi)

    def vjp(g):
        return g * scale, jnp.sum(g * angle) / (2.0 * math.pi)

    return jnp.round(angle * scale), vjp
