# Pedestrians in stations and concourses: speeds, pushing, gates.
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class SpeedLaw(NamedTuple):
    free: jax.Array  # m/s, speed with nobody around
    steepness: jax.Array  # 1/m^2
    jam: jax.Array  # 1/m^2, density at which all stand

    @classmethod
    def weidmann(cls):
        return cls(jnp.asarray(1.34), jnp.asarray(1.913), jnp.asarray(5.4))


class Push(NamedTuple):
    strength: jax.Array  # m/s^2, one number
    reach: jax.Array  # m, one number


# ----------------------------------------------------------------- speed


@jax.custom_jvp
def walking_speed(density, law):
    # density > 0 of any shape; beyond the jam density nobody walks
    gap = 1.0 / density - 1.0 / law.jam
    return jnp.where(gap > 0, -law.free * jnp.expm1(-law.steepness * gap), 0.0)


@walking_speed.defjvp
def _walking_speed_jvp(primals, tangents):
    density, law = primals
    d_density, d_law = tangents
    gap = jnp.maximum(1.0 / density - 1.0 / law.jam, 0.0)
    kept = jnp.exp(-law.steepness * gap)
    d_gap = d_law.jam / law.jam**2 - d_density / density**2
    moving = density < law.jam
    tangent = (1.0 - kept) * d_law.free
    tangent += law.free * kept * (gap * d_law.steepness + law.steepness * d_gap)
    return law.free * (1.0 - kept), jnp.where(moving, tangent, 0.0)


def specific_flow(density, law):
    return density * walking_speed(density, law)  # persons per metre and second


# ----------------------------------------------------------------- pushing


def _pairs(pos, radii, push):
    diff = pos[:, None, :] - pos[None, :, :]
    eye = jnp.eye(pos.shape[0], dtype=bool)
    dist = jnp.sqrt(jnp.where(eye, 1.0, jnp.sum(diff**2, axis=-1)))
    unit = diff / dist[..., None]
    size = push.strength * jnp.exp((radii[:, None] + radii[None, :] - dist) / push.reach)
    return unit, dist, jnp.where(eye, 0.0, size)


@jax.custom_vjp
def crowd_push(
    pos,  # (N, 2) places, no two the same
    radii,  # (N,) body radii
    push,  # Push
    moving,  # (N,) bool: those who stand push others, yet are not pushed themselves
):
    unit, _, size = _pairs(pos, radii, push)
    return jnp.where(moving[:, None], jnp.sum(size[..., None] * unit, axis=1), 0.0)


def _crowd_push_fwd(pos, radii, push, moving):
    unit, dist, size = _pairs(pos, radii, push)
    force = jnp.where(moving[:, None], jnp.sum(size[..., None] * unit, axis=1), 0.0)
    return force, (unit, dist, size, radii, push, moving)


def _crowd_push_bwd(res, g):
    unit, dist, size, radii, push, moving = res
    live = moving.astype(g.dtype)

    # places: every pair acts on both of its members
    rel = g[:, None, :] - g[None, :, :]
    along = jnp.sum(rel * unit, axis=-1, keepdims=True) * unit
    pull = size[..., None] * ((rel - along) / dist[..., None] - along / push.reach)
    d_pos = live[:, None] * jnp.sum(pull, axis=1)

    # sizes of bodies and the two constants
    work = live[:, None] * size * jnp.sum(g[:, None, :] * unit, axis=-1)
    d_radii = (jnp.sum(work, axis=1) + jnp.sum(work, axis=0)) / push.reach
    overlap = radii[:, None] + radii[None, :] - dist
    d_push = Push(jnp.sum(work) / push.strength, -jnp.sum(work * overlap) / push.reach**2)
    return d_pos, d_radii, d_push, None


crowd_push.defvjp(_crowd_push_fwd, _crowd_push_bwd)


# ----------------------------------------------------------------- gates


def _gate_scan(arrivals, waiting, served):
    def step(queue, arriving):
        after = jnp.maximum(queue + arriving - served, 0.0)
        return after, (after, queue)

    return jax.lax.scan(step, waiting, arrivals)[1]


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def gate_queues(
    arrivals,  # (T, G) persons that reach each gate in a step
    waiting,  # (G,) persons before the first step, 0 in an empty hall
    width,  # (G,) m
    rate,  # () persons per metre and second
    step_s,  # s, plain float
):
    """Persons left in the queue of every gate after every step, (T, G)."""
    return _gate_scan(arrivals, waiting, rate * width * step_s)[0]


def _gate_queues_fwd(arrivals, waiting, width, rate, step_s):
    queues, held = _gate_scan(arrivals, waiting, rate * width * step_s)
    return queues, (held, width, rate)


def _gate_queues_bwd(step_s, res, g):
    held, width, rate = res

    def back(carry, item):
        g_t, queue = item
        lam = jnp.where(queue > 0, carry + g_t, 0.0)
        return lam, lam

    first, lam = jax.lax.scan(back, jnp.zeros_like(width), (g, held), reverse=True)
    per_gate = -jnp.sum(lam, axis=0) * step_s
    return lam, first, per_gate * rate, jnp.sum(per_gate * width)


gate_queues.defvjp(_gate_queues_fwd, _gate_queues_bwd)


class Concourse:
    """A hall with gates; widths are what the architect may change."""

    def __init__(self, widths, rate=1.2, step_s=5.0):
        self.widths = jnp.asarray(widths)
        self.rate = jnp.asarray(rate)
        self.step_s = step_s

    def person_seconds(self, widths, arrivals, waiting=None):
        if waiting is None:
            waiting = jnp.zeros_like(widths)
        queues = gate_queues(arrivals, waiting, widths, self.rate, self.step_s)
        return jnp.sum(queues) * self.step_s

    def widen(self, arrivals, budget, rounds=30, rate=1e-3):
        w = self.widths
        for _ in range(rounds):
            slope = jax.grad(self.person_seconds)(w, arrivals)
            w = jnp.clip(w - rate * (slope - jnp.mean(slope)), 0.3, budget)
        return w


def advance(pos, vel, goal, radii, push, moving, law, density, dt=0.05, relax=0.5):
    want = goal - pos
    want = want / jnp.linalg.norm(want, axis=-1, keepdims=True)
    wish = want * walking_speed(density, law)[:, None]
    acc = (wish - vel) / relax + crowd_push(pos, radii, push, moving)
    vel = vel + dt * acc
    return pos + dt * jnp.where(moving[:, None], vel, 0.0), vel
