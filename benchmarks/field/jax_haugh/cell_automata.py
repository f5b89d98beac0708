"""Neural cellular automata on a torus, channels-last (B, H, W, C)."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

ALPHA = 3
_SMOOTH = (0.25, 0.5, 0.25)
_DIFF = (-0.5, 0.0, 0.5)


class UpdateParams(NamedTuple):
    w1: jax.Array
    b1: jax.Array
    w2: jax.Array


def _stencil(x, taps, axis):
    """y[i] = sum_k taps[k] * x[i + k - 1], periodic."""
    return sum(t * jnp.roll(x, 1 - k, axis) for k, t in enumerate(taps))


def _sobel(x):
    gx = _stencil(_stencil(x, _DIFF, 2), _SMOOTH, 1)
    gy = _stencil(_stencil(x, _DIFF, 1), _SMOOTH, 2)
    return gx, gy


def _steer(angle):
    angle = jnp.asarray(angle).reshape(-1, 1, 1, 1)
    return jnp.cos(angle), jnp.sin(angle)


@jax.custom_vjp
def perceive(state, angle):
    """Identity and steered Sobel responses, (B, H, W, 3C); angle is a scalar or (B,)."""
    gx, gy = _sobel(state)
    c, s = _steer(angle)
    return jnp.concatenate([state, c * gx - s * gy, s * gx + c * gy], -1)


def _perceive_fwd(state, angle):
    return perceive(state, angle), (state, angle)


def _perceive_bwd(res, g):
    state, angle = res
    g0, g1, g2 = jnp.split(g, 3, -1)
    c, s = _steer(angle)
    # adjoint of an antisymmetric periodic stencil is its negative
    ax, _ = _sobel(c * g1 + s * g2)
    _, ay = _sobel(c * g2 - s * g1)
    gx, gy = _sobel(state)
    d_angle = jnp.sum(g1 * (-s * gx - c * gy) + g2 * (c * gx - s * gy), (1, 2, 3))
    shape = jnp.shape(angle)
    d_angle = d_angle if shape == d_angle.shape else d_angle.sum().reshape(shape)
    return g0 - ax - ay, d_angle


perceive.defvjp(_perceive_fwd, _perceive_bwd)


def alive(state, threshold):
    a = state[..., ALPHA : ALPHA + 1]
    for axis in (1, 2):
        a = jnp.maximum(a, jnp.maximum(jnp.roll(a, 1, axis), jnp.roll(a, -1, axis)))
    return a > threshold


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def masked_update(state, delta, fire, threshold=0.1):
    """One asynchronous residual step.

    Cells with ``fire`` (B, H, W, 1 bool) add their ``delta``; the others keep
    their state. Cells with no living neighbour (alpha above ``threshold``)
    before or after the step are emptied. The life masks are constants of the
    derivative.
    """
    new = state + delta * fire
    return new * (alive(state, threshold) & alive(new, threshold))


def _update_fwd(state, delta, fire, threshold):
    new = state + delta * fire
    life = alive(state, threshold) & alive(new, threshold)
    return new * life, (fire, life)


def _update_bwd(threshold, res, g):
    fire, life = res
    d_new = g * (fire & life)
    return d_new, d_new, None


masked_update.defvjp(_update_fwd, _update_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def overflow_penalty(state, weight, lo=-1.0, hi=1.0):
    return jnp.mean(weight * jnp.abs(state - jnp.clip(state, lo, hi)))


@overflow_penalty.defjvp
def _overflow_jvp(lo, hi, primals, tangents):
    state, weight = primals
    d_state, d_weight = tangents
    excess = state - jnp.clip(state, lo, hi)
    out = jnp.mean(weight * jnp.abs(excess))
    return out, jnp.mean(weight * jnp.sign(excess) * d_state + d_weight * jnp.abs(excess))


def rollout(params: UpdateParams, state, key, steps, fire_rate=0.5, angle=0.0):
    angle = jnp.asarray(angle, state.dtype)

    def body(carry, k):
        h = jax.nn.relu(perceive(carry, angle) @ params.w1 + params.b1)
        fire = jax.random.uniform(k, carry.shape[:3] + (1,)) < fire_rate
        return masked_update(carry, h @ params.w2, fire), None

    return lax.scan(body, state, jax.random.split(key, steps))[0]
