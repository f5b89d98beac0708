"""Wavelet transforms and shrinkage with trainable parts.

Provides three building blocks that the denoising models in this package use:

* a 5/3 lifting split along any axis, any length >= 2;
* a paraunitary lattice (rotations between cyclic delays) whose angles are
  learned, giving an orthogonal two-channel filter bank;
* per-level shrinkage and per-level energies, addressed by an integer level
  table so that one flat coefficient vector serves all levels.

Coefficients of a multi-level transform are kept in one flat vector, coarse
part first, then details from the coarsest to the finest level.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Dict, List, Tuple

import jax
import jax.numpy as jnp
import numpy as np

ENERGY_FLOOR = 1e-8


# ---------------------------------------------------------------------------
# level tables
# ---------------------------------------------------------------------------


def split_sizes(n: int, levels: int) -> Tuple[int, List[int]]:
    """Coarse length and the detail lengths, finest first."""
    details = []
    for _ in range(levels):
        if n < 2:
            raise ValueError("signal too short for the requested number of levels")
        details.append(n // 2)
        n = n - n // 2
    return n, details


def level_table(n: int, levels: int) -> np.ndarray:
    """Level of every coefficient: 0 is the coarse part, ``levels`` the finest."""
    coarse, details = split_sizes(n, levels)
    parts = [np.zeros(coarse, np.int32)]
    for level, size in enumerate(reversed(details), start=1):
        parts.append(np.full(size, level, np.int32))
    return np.concatenate(parts)


def _no_grad(table):
    return np.zeros(np.shape(table), dtype=jax.dtypes.float0)


# ---------------------------------------------------------------------------
# 5/3 lifting
# ---------------------------------------------------------------------------


def _neighbours(n_even: int, n_odd: int):
    """Index tables of the symmetric extension at both ends."""
    odd = np.arange(n_odd)
    even = np.arange(n_even)
    right_even = np.minimum(odd + 1, n_even - 1)
    left_odd = np.clip(even - 1, 0, n_odd - 1)
    right_odd = np.clip(even, 0, n_odd - 1)
    return odd, right_even, left_odd, right_odd


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def lift_split(x, axis=-1):
    """One 5/3 lifting step.

    Returns the smooth part (length ceil(n/2)) and the detail part (length
    floor(n/2)) along ``axis``.
    """
    return _lift(x, axis)


def _lift(x, axis):
    x = jnp.moveaxis(x, axis, 0)
    even, odd = x[0::2], x[1::2]
    left_even, right_even, left_odd, right_odd = _neighbours(even.shape[0], odd.shape[0])
    detail = odd - 0.5 * (even[left_even] + even[right_even])
    smooth = even + 0.25 * (detail[left_odd] + detail[right_odd])
    return jnp.moveaxis(smooth, 0, axis), jnp.moveaxis(detail, 0, axis)


def _lift_fwd(x, axis):
    return _lift(x, axis), None


def _lift_bwd(axis, _, cotangents):
    g_smooth = jnp.moveaxis(cotangents[0], axis, 0)
    g_detail = jnp.moveaxis(cotangents[1], axis, 0)
    n_even, n_odd = g_smooth.shape[0], g_detail.shape[0]
    left_even, right_even, left_odd, right_odd = _neighbours(n_even, n_odd)
    g_detail = g_detail.at[left_odd].add(0.25 * g_smooth)
    g_detail = g_detail.at[right_odd].add(0.25 * g_smooth)
    g_even = g_smooth.at[left_even].add(-0.5 * g_detail)
    g_even = g_even.at[right_even].add(-0.5 * g_detail)
    g_x = jnp.zeros((n_even + n_odd,) + g_even.shape[1:], g_even.dtype)
    g_x = g_x.at[0::2].set(g_even).at[1::2].set(g_detail)
    return (jnp.moveaxis(g_x, 0, axis),)


lift_split.defvjp(_lift_fwd, _lift_bwd)


def lift_merge(smooth, detail, axis=-1):
    """Inverse of :func:`lift_split`."""
    s, d = jnp.moveaxis(smooth, axis, 0), jnp.moveaxis(detail, axis, 0)
    left_even, right_even, left_odd, right_odd = _neighbours(s.shape[0], d.shape[0])
    even = s - 0.25 * (d[left_odd] + d[right_odd])
    odd = d + 0.5 * (even[left_even] + even[right_even])
    out = jnp.zeros((s.shape[0] + d.shape[0],) + s.shape[1:], s.dtype)
    return jnp.moveaxis(out.at[0::2].set(even).at[1::2].set(odd), 0, axis)


def analyse(x, levels: int):
    """Flat multi-level coefficients of the last axis."""
    parts = []
    for _ in range(levels):
        x, detail = lift_split(x, -1)
        parts.append(detail)
    return jnp.concatenate([x] + parts[::-1], axis=-1)


def synthesise(coeffs, levels: int):
    n = coeffs.shape[-1]
    coarse, details = split_sizes(n, levels)
    x, start = coeffs[..., :coarse], coarse
    for size in reversed(details):
        x = lift_merge(x, coeffs[..., start : start + size], -1)
        start += size
    return x


# ---------------------------------------------------------------------------
# learned orthogonal filter bank
# ---------------------------------------------------------------------------


def _turn(a, b, angle):
    c, s = jnp.cos(angle), jnp.sin(angle)
    return c * a + s * b, c * b - s * a


@jax.custom_vjp
def rotor_cascade(x, angles):
    """Two-channel paraunitary lattice.

    Parameters
    ----------
    x : (..., n) with n even, extended cyclically
    angles : (stages,) rotation angles; a one-sample delay of the second
        channel sits between consecutive rotations

    Returns
    -------
    low, high : (..., n // 2)
    """
    return _cascade(x, angles)


def _cascade(x, angles):
    a, b = x[..., 0::2], x[..., 1::2]
    stages = angles.shape[0]
    for k in range(stages):
        a, b = _turn(a, b, angles[k])
        if k + 1 < stages:
            b = jnp.roll(b, 1, axis=-1)
    return a, b


def _cascade_fwd(x, angles):
    low, high = _cascade(x, angles)
    return (low, high), (low, high, angles)


def _cascade_bwd(res, cotangents):
    # The lattice is orthogonal, so stage inputs are rebuilt from the outputs
    # instead of being kept.
    a, b, angles = res
    ga, gb = cotangents
    d_angles = []
    for k in reversed(range(angles.shape[0])):
        d_angles.append(jnp.sum(ga * b - gb * a))
        a, b = _turn(a, b, -angles[k])
        ga, gb = _turn(ga, gb, -angles[k])
        if k > 0:
            b = jnp.roll(b, -1, axis=-1)
            gb = jnp.roll(gb, 1, axis=-1)
    g_x = jnp.stack([ga, gb], axis=-1)
    g_x = g_x.reshape(g_x.shape[:-2] + (-1,))
    return g_x, jnp.stack(d_angles[::-1])


rotor_cascade.defvjp(_cascade_fwd, _cascade_bwd)


def db2_angles():
    """Angles of the four-tap Daubechies filter."""
    return jnp.asarray([jnp.pi / 3.0, -jnp.pi / 12.0])


# ---------------------------------------------------------------------------
# shrinkage
# ---------------------------------------------------------------------------


def _garrote(w, t):
    big = jnp.abs(w) > t
    safe = jnp.where(big, w, 1.0)
    return jnp.where(big, w - t * t / safe, 0.0)


@jax.custom_vjp
def garrote_by_level(coeffs, thresholds, levels):
    """Breiman's non-negative garrote with a threshold per level.

    Args:
        coeffs: (..., n) wavelet coefficients.
        thresholds: (n_levels,), non-negative.
        levels: (n,) int32 from :func:`level_table`.

    Returns:
        Array like ``coeffs``.
    """
    return _garrote(coeffs, thresholds[levels])


def _garrote_fwd(coeffs, thresholds, levels):
    return _garrote(coeffs, thresholds[levels]), (coeffs, thresholds, levels)


def _garrote_bwd(res, g):
    coeffs, thresholds, levels = res
    t = thresholds[levels]
    size = jnp.abs(coeffs)
    big = size > t
    ratio = jnp.where(big, t / jnp.where(big, size, 1.0), 0.0)
    g_coeffs = jnp.where(big, g * (1.0 + ratio**2), 0.0)
    g_t = -2.0 * g * ratio
    g_t = g_t.reshape(-1, g_t.shape[-1]).sum(axis=0)
    g_thresholds = jnp.zeros_like(thresholds).at[levels].add(g_t)
    return g_coeffs, g_thresholds, _no_grad(levels)


garrote_by_level.defvjp(_garrote_fwd, _garrote_bwd)


# ---------------------------------------------------------------------------
# energies
# ---------------------------------------------------------------------------


def _mean_energy(coeffs, levels, n_levels):
    total = jnp.zeros(coeffs.shape[:-1] + (n_levels,), coeffs.dtype)
    total = total.at[..., levels].add(coeffs**2)
    count = jnp.zeros(n_levels, coeffs.dtype).at[levels].add(1.0)
    count = jnp.maximum(count, 1.0)
    return total / count, count


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def level_log_energy(coeffs, levels, n_levels):
    """log(mean square + 1e-8) of each level: (..., n) -> (..., n_levels)."""
    mean, _ = _mean_energy(coeffs, levels, n_levels)
    return jnp.log(mean + ENERGY_FLOOR)


def _energy_fwd(coeffs, levels, n_levels):
    mean, count = _mean_energy(coeffs, levels, n_levels)
    return jnp.log(mean + ENERGY_FLOOR), (coeffs, levels, mean, count)


def _energy_bwd(n_levels, res, g):
    coeffs, levels, mean, count = res
    per_level = g / ((mean + ENERGY_FLOOR) * count)
    return 2.0 * coeffs * per_level[..., levels], _no_grad(levels)


level_log_energy.defvjp(_energy_fwd, _energy_bwd)


# ---------------------------------------------------------------------------
# model
# ---------------------------------------------------------------------------


@dataclass
class ShrinkageDenoiser:
    """Multi-level lifting, garrote shrinkage, resynthesis."""

    length: int
    levels: int = 3
    energy_weight: float = 1e-3
    table: np.ndarray = field(init=False)

    def __post_init__(self):
        self.table = level_table(self.length, self.levels)

    def init(self, noise: float = 0.1) -> Dict[str, jax.Array]:
        thresholds = jnp.full(self.levels + 1, 2.0 * noise).at[0].set(0.0)
        return {"thresholds": thresholds, "angles": db2_angles()}

    def apply(self, params, noisy):
        coeffs = analyse(noisy, self.levels)
        kept = garrote_by_level(coeffs, params["thresholds"], jnp.asarray(self.table))
        return synthesise(kept, self.levels), kept

    def loss(self, params, noisy, clean):
        restored, kept = self.apply(params, noisy)
        low, high = rotor_cascade(restored, params["angles"])
        target_low, target_high = rotor_cascade(clean, params["angles"])
        fit = jnp.mean((low - target_low) ** 2) + jnp.mean((high - target_high) ** 2)
        energy = level_log_energy(kept, jnp.asarray(self.table), self.levels + 1)
        return fit + self.energy_weight * jnp.mean(energy)


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    grid = jnp.linspace(0.0, 1.0, 64)
    clean = jnp.stack([jnp.sin(9.0 * grid), jnp.sign(grid - 0.4)])
    noisy = clean + 0.1 * jax.random.normal(key, clean.shape)
    model = ShrinkageDenoiser(64)
    params = model.init()
    value, grads = jax.value_and_grad(model.loss)(params, noisy, clean)
    print(value, grads)
