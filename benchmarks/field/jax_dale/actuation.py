"""Actuation models for the soft arm: drive electronics, compliant mounts, tendons."""
from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def deadzone_drive(u, width: float = 0.05):
    """Dead zone of half-width ``width``; the backward pass is straight-through (du = dy everywhere, on purpose) so that a policy can leave the zone."""
    return jnp.sign(u) * jnp.maximum(jnp.abs(u) - width, 0.0)


deadzone_drive.defvjp(
    lambda u, width: (deadzone_drive(u, width), None),
    lambda width, _, g: (g,),
)


@jax.custom_vjp
def compliant_deflection(stiffness: jax.Array, wrench: jax.Array) -> jax.Array:
    """Deflection of a compliant mount under load, the solution of ``stiffness @ d = wrench``.

    Args:
      stiffness: ``[n, n]`` non-singular stiffness at the working point, shared by all
        loads. Follower loads and joint servos make it non-symmetric in general.
      wrench: ``[batch, n]`` applied loads.

    Returns:
      ``[batch, n]`` deflections.

    The factorisation is not differentiated; the adjoint loads come from a second
    solve and the gradient of the stiffness is assembled from adjoint and deflection,
    summed over the batch.
    """
    return jnp.linalg.solve(stiffness, wrench.T).T


def _defl_fwd(stiffness, wrench):
    d = compliant_deflection(stiffness, wrench)
    return d, (stiffness, d)


def _defl_bwd(res, g):
    stiffness, d = res
    adjoint = jnp.linalg.solve(stiffness, g.T).T
    return -jnp.einsum("bi,bj->ij", adjoint, d), adjoint


compliant_deflection.defvjp(_defl_fwd, _defl_bwd)


class TendonRouting:
    def __init__(self, pulley_radius: float = 0.0, closed: bool = False):
        self.pulley_radius = pulley_radius
        self.closed = closed

    def _segments(self, via, count):
        idx = jnp.arange(via.shape[0])
        nxt = jnp.where(idx + 1 < count, idx + 1, 0)
        live = idx + 1 < count
        if self.closed:
            live = idx < count
        seg = via[nxt] - via
        sq = jnp.sum(seg**2, axis=-1)
        ok = live & (sq > 0)  # repeated via points are harmless
        dist = jnp.where(ok, jnp.sqrt(jnp.where(ok, sq, 1.0)), 0.0)
        return seg, dist, ok, nxt

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def _length(self, via, count):
        # via: [max_points, 3], rows from count on are padding
        _, dist, ok, _ = self._segments(via, count)
        return jnp.sum(dist) + self.pulley_radius * jnp.sum(ok)

    def _length_fwd(self, via, count):
        seg, dist, ok, nxt = self._segments(via, count)
        unit = jnp.where(ok[:, None], seg / jnp.where(ok, dist, 1.0)[:, None], 0.0)
        return jnp.sum(dist) + self.pulley_radius * jnp.sum(ok), (unit, nxt)

    def _length_bwd(self, res, g):
        unit, nxt = res
        out = (-g * unit).at[nxt].add(g * unit)
        return out, None

    _length.defvjp(_length_fwd, _length_bwd)

    def length(self, via, count):
        return TendonRouting._length(self, via, count)

    def pull(self, via, count, rest_length, stiffness=1.0):
        stretch = self.length(via, count) - rest_length
        return 0.5 * stiffness * jnp.maximum(stretch, 0.0) ** 2
