"""Segments, rotations, chains and integrators for small physical models."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import jax
import jax.numpy as jnp

Array = jax.Array


def segment_prod(data: Array, segment_ids: Array, num_segments: int) -> Array:
    """Product of the rows of ``data`` that share an id.

    Args:
        data: ``(n, ...)`` factors, any real numbers.
        segment_ids: ``(n,)`` integers below ``num_segments``, in any order.
        num_segments: number of output rows; rows without factors are one.

    Returns:
        ``(num_segments, ...)``.
    """

    @jax.custom_gradient
    def run(values):
        out = jax.ops.segment_prod(values, segment_ids, num_segments)

        def vjp(g):
            zero = values == 0
            others = jnp.where(zero, 0.0, out[segment_ids] / jnp.where(zero, 1.0, values))
            return g[segment_ids] * others

        return out, vjp

    return run(data)


@jax.custom_vjp
def cayley_map(a: "float[... n n]") -> "float[... n n]":
    """``(I - A)^{-1} (I + A)``; a rotation when ``A`` is skew."""
    eye = jnp.eye(a.shape[-1], dtype=a.dtype)
    return jnp.linalg.solve(eye - a, eye + a)


def _cayley_fwd(a):
    y = cayley_map(a)
    return y, (a, y)


def _cayley_bwd(res, g):
    a, y = res
    eye = jnp.eye(a.shape[-1], dtype=a.dtype)
    z = jnp.linalg.solve(jnp.swapaxes(eye - a, -1, -2), g)
    return (z @ jnp.swapaxes(eye + y, -1, -2),)


cayley_map.defvjp(_cayley_fwd, _cayley_bwd)


def _fundamental(p):
    n = p.shape[-1]
    return jnp.eye(n, dtype=p.dtype) - p + jnp.ones((n, n), p.dtype)


@jax.custom_vjp
def stationary_distribution(transition):
    """Stationary law of an irreducible chain.

    Parameters
    ----------
    transition : array, shape (n, n)
        Row-stochastic matrix ``P``.

    Returns
    -------
    array, shape (n,)
        ``pi`` that solves ``pi (I - P + 1 1^T) = 1^T``.
    """
    n = transition.shape[-1]
    return jnp.linalg.solve(_fundamental(transition).T, jnp.ones(n, transition.dtype))


def _stationary_fwd(transition):
    pi = stationary_distribution(transition)
    return pi, (transition, pi)


def _stationary_bwd(res, g):
    transition, pi = res
    lam = jnp.linalg.solve(_fundamental(transition).T, g)
    return (jnp.outer(pi, lam),)


stationary_distribution.defvjp(_stationary_fwd, _stationary_bwd)


def make_leapfrog(force: Callable[[Array, Any], Array], num_steps: int):
    """Kick-drift-kick integrator with an adjoint of constant memory.

    The returned function maps ``(q, p, theta, dt)`` to the final ``(q, p)``; ``theta`` is any
    pytree that ``force(q, theta)`` takes. The backward pass runs the map in reverse, so that no
    trajectory is stored.
    """

    def step(q, p, theta, dt):
        p = p + 0.5 * dt * force(q, theta)
        q = q + dt * p
        p = p + 0.5 * dt * force(q, theta)
        return q, p

    @jax.custom_vjp
    def integrate(q, p, theta, dt):
        return jax.lax.fori_loop(0, num_steps, lambda _, s: step(*s, theta, dt), (q, p))

    def fwd(q, p, theta, dt):
        end = integrate(q, p, theta, dt)
        return end, (end, theta, dt)

    def bwd(res, cts):
        (q, p), theta, dt = res

        def body(_, carry):
            q, p, gq, gp, gtheta, gdt = carry
            q, p = step(q, p, theta, -dt)
            _, pull = jax.vjp(step, q, p, theta, dt)
            gq, gp, dtheta, ddt = pull((gq, gp))
            return q, p, gq, gp, jax.tree.map(jnp.add, gtheta, dtheta), gdt + ddt

        start = (q, p, *cts, jax.tree.map(jnp.zeros_like, theta), jnp.zeros_like(dt))
        _, _, gq, gp, gtheta, gdt = jax.lax.fori_loop(0, num_steps, body, start)
        return gq, gp, gtheta, gdt

    integrate.defvjp(fwd, bwd)
    return integrate


def _envelope(r, cutoff):
    return jnp.where(r < cutoff, 0.5 * (jnp.cos(jnp.pi * r / cutoff) + 1.0), 0.0)


@dataclasses.dataclass(frozen=True)
class RadialBasis:
    """Gaussian radial features under a cosine cutoff.

    Attributes:
        cutoff: distance from which all features vanish.
    """

    cutoff: float = 5.0

    def expand(self, r, centers, gamma):
        """Features ``(..., k)`` of distances ``(...)``; ``centers`` is ``(k,)`` and ``gamma`` a scalar array."""
        cutoff = self.cutoff

        @jax.custom_vjp
        def features(r, centers, gamma):
            delta = r[..., None] - centers
            return jnp.exp(-gamma * delta**2) * _envelope(r, cutoff)[..., None]

        def fwd(r, centers, gamma):
            out = features(r, centers, gamma)
            return out, (out, r[..., None] - centers, gamma)

        def bwd(saved, g):
            out, delta, gamma = saved
            weighted = g * out
            slope = 2.0 * gamma * weighted * delta
            return -slope.sum(-1), slope.sum(tuple(range(slope.ndim - 1))), -jnp.sum(weighted * delta**2)

        features.defvjp(fwd, bwd)
        return features(jnp.asarray(r), jnp.asarray(centers), jnp.asarray(gamma))
