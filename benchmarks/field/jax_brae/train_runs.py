"""Longitudinal train dynamics for run-time and energy estimates (SI units unless noted)."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

GRAVITY = 9.80665
KMH = 3.6
V_CRAWL = 0.05
RAIL_STATE = {"dry": 1.0, "wet": 0.65, "leaves": 0.35}


class DavisTable(NamedTuple):
    """Davis coefficients, one row per vehicle kind."""

    rolling: jax.Array  # [K]  N per N of weight
    linear: jax.Array   # [K]  N per N of weight, per m/s
    drag: jax.Array     # [K]  N per (m/s)^2


def _to_shape(g, shape):
    extra = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(axis=axes, keepdims=True) if axes else g


def _grade_sine(grade):
    return grade * lax.rsqrt(1.0 + grade * grade)


@jax.custom_vjp
def running_resistance(table, speed, grade, mass, kind, present):
    """Total running resistance of a consist, in newtons.

    Args:
      table: ``DavisTable`` with coefficient vectors of length K.
      speed: running speed in m/s, any shape.
      grade: track gradient (rise over run), broadcastable against ``speed``.
      mass: vehicle masses in kg, shape [n].
      kind: integer rows of ``table`` for each vehicle, shape [n]; kinds repeat freely.
      present: boolean [n]; padding vehicles are False and carry no weight and no drag.

    Returns:
      Force opposing motion, of the broadcast shape of ``speed`` and ``grade``.
    """
    on = present.astype(mass.dtype)
    weight = GRAVITY * mass * on
    static = jnp.sum(weight * table.rolling[kind])
    slope = jnp.sum(weight * table.linear[kind])
    drag = jnp.sum(on * table.drag[kind])
    return static + slope * speed + drag * speed**2 + weight.sum() * _grade_sine(grade)


def _resistance_fwd(table, speed, grade, mass, kind, present):
    out = running_resistance(table, speed, grade, mass, kind, present)
    return out, (table, speed, grade, mass, kind, present)


def _resistance_bwd(res, ct):
    table, speed, grade, mass, kind, present = res
    on = present.astype(mass.dtype)
    weight = GRAVITY * mass * on
    slope = jnp.sum(weight * table.linear[kind])
    drag = jnp.sum(on * table.drag[kind])
    sine = _grade_sine(grade)

    s0 = jnp.sum(ct)
    s1 = jnp.sum(ct * speed)
    s2 = jnp.sum(ct * speed**2)
    sg = jnp.sum(ct * sine)
    d_table = DavisTable(
        rolling=jnp.zeros_like(table.rolling).at[kind].add(weight * s0),
        linear=jnp.zeros_like(table.linear).at[kind].add(weight * s1),
        drag=jnp.zeros_like(table.drag).at[kind].add(on * s2),
    )
    d_mass = GRAVITY * on * (table.rolling[kind] * s0 + table.linear[kind] * s1 + sg)
    d_speed = _to_shape(ct * (slope + 2.0 * drag * speed), jnp.shape(speed))
    d_grade = _to_shape(ct * weight.sum() * (1.0 + grade * grade) ** -1.5, jnp.shape(grade))
    return d_table, d_speed, d_grade, d_mass, None, None


running_resistance.defvjp(_resistance_fwd, _resistance_bwd)


def _curtius_kniffler(speed):
    return 7.5 / (KMH * speed + 44.0) + 0.161


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def traction_envelope(speed, power, adhesive_mass, rail="dry"):
    """Wheel-rim tractive effort at `speed` (m/s): the lesser of adhesion and power limits."""
    grip = RAIL_STATE[rail] * _curtius_kniffler(speed) * adhesive_mass * GRAVITY
    return jnp.minimum(grip, power / jnp.maximum(speed, V_CRAWL))


@traction_envelope.defjvp
def _traction_jvp(rail, primals, tangents):
    speed, power, mass = primals
    d_speed, d_power, d_mass = tangents
    scale = RAIL_STATE[rail] * GRAVITY
    mu = _curtius_kniffler(speed)
    v = jnp.maximum(speed, V_CRAWL)
    grip, pull = scale * mu * mass, power / v
    mu_slope = -7.5 / (KMH * speed + 44.0) ** 2
    grip_dot = scale * (mu * d_mass + mass * mu_slope * d_speed)
    pull_dot = d_power / v - jnp.where(speed > V_CRAWL, pull / v, 0.0) * d_speed
    return jnp.minimum(grip, pull), jnp.where(grip < pull, grip_dot, pull_dot)


@jax.custom_vjp
def braking_ceiling(limits, decel, gaps, exit_speed):
    return _ceiling(limits, decel, gaps, exit_speed)[0]


def _ceiling(limits, decel, gaps, exit_speed):
    decel = jnp.broadcast_to(decel, limits.shape)

    def back(v_next, seg):
        limit, b, ds = seg
        reach = jnp.sqrt(v_next**2 + 2.0 * b * ds)
        v = jnp.minimum(limit, reach)
        return v, (v, v_next, reach < limit)

    _, out = lax.scan(back, jnp.asarray(exit_speed, limits.dtype), (limits, decel, gaps), reverse=True)
    return out


def _ceiling_fwd(limits, decel, gaps, exit_speed):
    v, v_next, brakes = _ceiling(limits, decel, gaps, exit_speed)
    return v, (v, v_next, brakes, decel, gaps)


def _ceiling_bwd(res, ct):
    v, v_next, brakes, decel, gaps = res
    b = jnp.broadcast_to(decel, v.shape)

    def ahead(carry, seg):
        g, v_i, vn, on, b_i, ds = seg
        total = g + carry
        per_v = jnp.where(on, total / v_i, 0.0)
        return per_v * vn, (jnp.where(on, 0.0, total), per_v * ds, per_v * b_i)

    d_exit, (d_limit, d_b, d_gap) = lax.scan(ahead, jnp.zeros((), v.dtype), (ct, v, v_next, brakes, b, gaps))
    return d_limit, _to_shape(d_b, jnp.shape(decel)), d_gap, d_exit


braking_ceiling.defvjp(_ceiling_fwd, _ceiling_bwd)


def speed_profile(limits, gaps, service_decel=0.6, exit_speed=0.0):
    """Flattest admissible speed profile, with service braking only."""
    return braking_ceiling(limits, jnp.asarray(service_decel), gaps, jnp.asarray(exit_speed))


def net_effort(table, consist, speed, grade, power, rail="dry"):
    mass, kind, present, adhesive = consist
    pull = traction_envelope(speed, power, adhesive, rail)
    return pull - running_resistance(table, speed, grade, mass, kind, present)
