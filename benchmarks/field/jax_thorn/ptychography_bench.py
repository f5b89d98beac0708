"""Forward model of a mixed-state ptychography experiment."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def _windows(positions, h, w):
    rows = positions[:, 0, None, None] + jnp.arange(h)[None, :, None]
    cols = positions[:, 1, None, None] + jnp.arange(w)[None, None, :]
    return rows, cols


@jax.custom_vjp
def scan_exit_waves(probe, transmission, positions):
    """probe (M, h, w), transmission (H, W), both complex; integer corners (K, 2) inside the object -> (K, M, h, w)."""
    rows, cols = _windows(positions, *probe.shape[-2:])
    return probe[None] * transmission[rows, cols][:, None]


def _sew_fwd(probe, transmission, positions):
    rows, cols = _windows(positions, *probe.shape[-2:])
    patches = transmission[rows, cols]
    return probe[None] * patches[:, None], (
        probe,
        transmission.shape,
        patches,
        rows,
        cols,
        positions,
    )


def _sew_bwd(res, g):
    probe, shape, patches, rows, cols, positions = res
    # jax cotangents of holomorphic maps are transposed, not conjugated
    d_probe = jnp.einsum("kmhw,khw->mhw", g, patches)
    d_patch = jnp.einsum("kmhw,mhw->khw", g, probe)
    d_obj = jnp.zeros(shape, d_patch.dtype).at[rows, cols].add(d_patch)
    return d_probe, d_obj, np.zeros(positions.shape, jax.dtypes.float0)


scan_exit_waves.defvjp(_sew_fwd, _sew_bwd)


def far_field(exit_waves):
    return jnp.fft.fft2(exit_waves, norm="ortho")


@jax.custom_vjp
def amplitude_misfit(waves, counts, good):
    n = jnp.sqrt((jnp.abs(waves) ** 2).sum(axis=1))
    r = jnp.where(good, n - jnp.sqrt(counts), 0.0)
    return 0.5 * (r**2).sum()


def _am_fwd(waves, counts, good):
    n = jnp.sqrt((jnp.abs(waves) ** 2).sum(axis=1))
    r = jnp.where(good, n - jnp.sqrt(counts), 0.0)
    return 0.5 * (r**2).sum(), (waves, r, counts)


def _am_bwd(res, g):
    waves, r, counts = res
    mag = jnp.abs(waves)
    phase = jnp.where(mag > 0, jnp.conj(waves) / jnp.where(mag > 0, mag, 1.0), 0.0)
    d_waves = g * r[:, None] * phase
    d_counts = jnp.where(
        counts > 0, -0.5 * g * r / jnp.sqrt(jnp.where(counts > 0, counts, 1.0)), 0.0
    )
    return d_waves, d_counts, None


amplitude_misfit.defvjp(_am_fwd, _am_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def panel_readout(photons, gain, dark, full_well=None):
    """Readout of a tiled detector in digital units.

    photons: (..., P, h, w) non-negative, gain: (P,), dark: (P, h, w).  With ``full_well`` (in photons) the well fills as
    full_well * (1 - exp(-photons / full_well)); with None the panel is linear.  Any number of leading frame axes.
    """
    return _fill(photons, full_well) * gain[:, None, None] + dark


def _fill(photons, full_well):
    return photons if full_well is None else -full_well * jnp.expm1(-photons / full_well)


def _pr_fwd(photons, gain, dark, full_well):
    return panel_readout(photons, gain, dark, full_well), (photons, gain)


def _pr_bwd(full_well, res, g):
    photons, gain = res
    frames = tuple(range(g.ndim - 3))
    slope = 1.0 if full_well is None else jnp.exp(-photons / full_well)
    d_photons = g * gain[:, None, None] * slope
    d_gain = (g * _fill(photons, full_well)).sum(axis=frames + (-2, -1))
    return d_photons, d_gain, g.sum(axis=frames)


panel_readout.defvjp(_pr_fwd, _pr_bwd)


def loss(params, positions, counts, good):
    waves = far_field(scan_exit_waves(params["probe"], params["object"], positions))
    return amplitude_misfit(waves, counts, good)
