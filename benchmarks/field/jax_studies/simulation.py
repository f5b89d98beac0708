"""Differentiable building blocks for particle and grid simulations."""
import dataclasses
from functools import partial
from typing import NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


class MorseParams(NamedTuple):
    """Per-particle Morse parameters, each of shape ``(n,)``."""

    depth: Array
    width: Array
    length: Array


@dataclasses.dataclass(frozen=True)
class MorseForceField:
    """Switched Morse interaction over a pair list.

    Pair parameters follow mixing rules: the geometric mean of the depths and the
    arithmetic mean of the widths and of the rest lengths.

    Attributes:
        r_on: distance where the switching function begins.
        r_cut: cutoff; the energy and its slope vanish there.
        box: edge lengths of an orthorhombic periodic cell, or None for open space.
    """

    r_on: float = 2.0
    r_cut: float = 3.0
    box: Optional[Tuple[float, ...]] = None

    def displacement(self, positions, pairs):
        dr = positions[pairs[:, 0]] - positions[pairs[:, 1]]
        if self.box is not None:
            cell = jnp.asarray(self.box, dr.dtype)
            dr = dr - cell * jnp.round(dr / cell)
        return dr

    def _switch(self, r):
        a, b = self.r_on**2, self.r_cut**2
        r2 = r * r
        width = (b - a) ** 3
        mid = (b - r2) ** 2 * (b + 2.0 * r2 - 3.0 * a) / width
        slope = 12.0 * r * (b - r2) * (a - r2) / width
        value = jnp.where(r < self.r_on, 1.0, jnp.where(r < self.r_cut, mid, 0.0))
        return value, jnp.where((r >= self.r_on) & (r < self.r_cut), slope, 0.0)

    def _pair_terms(self, positions, params, pairs):
        i, j = pairs[:, 0], pairs[:, 1]
        dr = self.displacement(positions, pairs)
        r = jnp.sqrt(jnp.sum(dr * dr, axis=-1))
        depth = jnp.sqrt(params.depth[i] * params.depth[j])
        width = 0.5 * (params.width[i] + params.width[j])
        stretch = r - 0.5 * (params.length[i] + params.length[j])
        e = jnp.exp(-width * stretch)
        return dr, r, depth, width, stretch, e

    def energy(self, positions: Array, params: MorseParams, pairs: Array) -> Array:
        """Total energy of ``positions`` (n, dim) for the index pairs (p, 2)."""
        return _morse_energy(self, positions, params, pairs)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _morse_energy(field, positions, params, pairs):
    _, r, depth, _, _, e = field._pair_terms(positions, params, pairs)
    return jnp.sum(field._switch(r)[0] * depth * e * (e - 2.0))


def _morse_energy_fwd(field, positions, params, pairs):
    return _morse_energy(field, positions, params, pairs), (positions, params, pairs)


def _morse_energy_bwd(field, res, g):
    positions, params, pairs = res
    i, j = pairs[:, 0], pairs[:, 1]
    dr, r, depth, width, stretch, e = field._pair_terms(positions, params, pairs)
    sw, dsw = field._switch(r)
    shape = e * (e - 2.0)
    d_e = sw * depth * (2.0 * e - 2.0)
    d_r = dsw * depth * shape - d_e * width * e
    force = (g * d_r / r)[:, None] * dr
    d_positions = jnp.zeros_like(positions).at[i].add(force).at[j].add(-force)

    def per_particle(at_i, at_j):
        return jnp.zeros_like(params.depth).at[i].add(g * at_i).at[j].add(g * at_j)

    d_depth = 0.5 * sw * shape
    ratio = jnp.sqrt(params.depth[i] / params.depth[j])
    d_width = -0.5 * d_e * stretch * e
    d_length = 0.5 * d_e * width * e
    d_params = MorseParams(
        depth=per_particle(d_depth * ratio, d_depth / ratio),
        width=per_particle(d_width, d_width),
        length=per_particle(d_length, d_length),
    )
    return d_positions, d_params, np.zeros(pairs.shape, jax.dtypes.float0)


_morse_energy.defvjp(_morse_energy_fwd, _morse_energy_bwd)


def _sum_to(x, shape):
    extra = x.ndim - len(shape)
    x = jnp.sum(x, axis=tuple(range(extra)))
    keep = tuple(d for d, n in enumerate(shape) if n == 1 and x.shape[d] != 1)
    return jnp.sum(x, axis=keep, keepdims=True)


def make_upwind_step(dx: float, dt: float):
    """First-order donor-cell advection on a periodic line.

    Returns ``step(q, u)`` where ``q`` holds cell averages along its last axis and ``u``
    the velocity on the right face of each cell, broadcastable against ``q``.
    """
    ratio = dt / dx

    def face_flux(q, u):
        right = jnp.roll(q, -1, axis=-1)
        return 0.5 * u * (q + right) - 0.5 * jnp.abs(u) * (right - q)

    @jax.custom_vjp
    def step(q, u):
        flux = face_flux(q, u)
        return q - ratio * (flux - jnp.roll(flux, 1, axis=-1))

    def step_fwd(q, u):
        return step(q, u), (q, u)

    def step_bwd(res, g):
        q, u = res
        right = jnp.roll(q, -1, axis=-1)
        d_flux = ratio * (jnp.roll(g, -1, axis=-1) - g)
        from_left = 0.5 * (u + jnp.abs(u))
        from_right = 0.5 * (u - jnp.abs(u))
        dq = g + d_flux * from_left + jnp.roll(d_flux * from_right, 1, axis=-1)
        du = d_flux * (0.5 * (q + right) - 0.5 * (right - q))
        return dq, _sum_to(du, u.shape)

    step.defvjp(step_fwd, step_bwd)
    return step


def _wavenumbers(n, h):
    k = 2.0 * np.pi * np.fft.fftfreq(n, d=h)
    if n % 2 == 0:
        k[n // 2] = 0.0
    return k


def _leray(u, v, spacing):
    kx = jnp.asarray(_wavenumbers(u.shape[-2], spacing[0]), u.dtype)[:, None]
    ky = jnp.asarray(_wavenumbers(u.shape[-1], spacing[1]), u.dtype)[None, :]
    k2 = kx**2 + ky**2
    inv = jnp.where(k2 > 0, 1.0 / jnp.where(k2 > 0, k2, 1.0), 0.0)
    u_hat, v_hat = jnp.fft.fft2(u), jnp.fft.fft2(v)
    div = (kx * u_hat + ky * v_hat) * inv
    return jnp.fft.ifft2(u_hat - kx * div).real, jnp.fft.ifft2(v_hat - ky * div).real


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def project_divergence_free(u, v, spacing=(1.0, 1.0)):
    return _leray(u, v, spacing)


project_divergence_free.defvjp(
    lambda u, v, spacing: (_leray(u, v, spacing), None),
    lambda spacing, _, cts: _leray(*cts, spacing),
)
