"""Small differentiable pieces of a camera / spectrograph forward model.

The rules here are written by hand because the plain versions either produce NaN cotangents at the cut-off (``acos`` and
``sqrt`` at one) or keep several copies of the detector frame alive for the backward pass.
"""
from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

__all__ = ["aperture_mtf", "octahedral_encode", "octahedral_decode", "rebin_ivar", "blur_row"]


def _reduced_frequency(freq, wavelength, f_number):
    return jnp.abs(freq) * wavelength * f_number


@jax.custom_vjp
def aperture_mtf(freq: ArrayLike, wavelength: ArrayLike, f_number: ArrayLike) -> Array:
    """Diffraction-limited MTF of a circular pupil.

    Parameters
    ----------
    freq : array
        Signed spatial frequency in cycles per unit length, in any order (``jnp.fft.fftfreq`` output is fine).
    wavelength : float
        Wavelength, same unit of length.
    f_number : float
        Working f-number of the lens.

    Returns
    -------
    array
        Contrast in [0, 1], zero at and beyond the cut-off ``1 / (wavelength * f_number)``.
    """
    v = jnp.minimum(_reduced_frequency(freq, wavelength, f_number), 1.0)
    return (2.0 / jnp.pi) * (jnp.arccos(v) - v * jnp.sqrt(1.0 - v * v))


def _mtf_fwd(freq, wavelength, f_number):
    return aperture_mtf(freq, wavelength, f_number), (freq, wavelength, f_number)


def _mtf_bwd(res, g):
    freq, wavelength, f_number = res
    v = _reduced_frequency(freq, wavelength, f_number)
    slope = jnp.where(v < 1.0, -(4.0 / jnp.pi) * jnp.sqrt(jnp.clip(1.0 - v * v, 0.0)), 0.0)
    gv = g * slope
    mag = jnp.abs(freq)
    return (
        gv * wavelength * f_number,
        jnp.sum(gv * mag) * f_number,
        jnp.sum(gv * mag) * wavelength,
    )


aperture_mtf.defvjp(_mtf_fwd, _mtf_bwd)


def blur_row(row: Array, pitch: float, wavelength: ArrayLike, f_number: ArrayLike) -> Array:
    """Blur one detector row with the pupil's MTF (circular boundary)."""
    f = jnp.fft.fftfreq(row.shape[-1], pitch).astype(row.dtype)
    otf = aperture_mtf(f, wavelength, f_number)
    return jnp.fft.ifft(jnp.fft.fft(row) * otf).real


# --------------------------------------------------------------------------------------
# octahedral normals (G-buffer packing)


def _sgn(x):
    return jnp.where(x >= 0, 1.0, -1.0).astype(x.dtype)


@jax.custom_vjp
def octahedral_encode(n: Array) -> Array:
    """Map directions ``(..., 3)`` to the square ``[-1, 1]^2`` by octahedral projection.

    The upper hemisphere goes to the inner diamond, the lower one is folded over its edges. ``n`` need not be of unit
    length (the code only depends on the direction) but must not be zero.
    """
    p = n[..., :2] / jnp.sum(jnp.abs(n), -1, keepdims=True)
    folded = (1.0 - jnp.abs(p[..., ::-1])) * _sgn(p)
    return jnp.where(n[..., 2:] < 0, folded, p)


def _oct_fwd(n):
    return octahedral_encode(n), n


def _oct_bwd(n, g):
    l1 = jnp.sum(jnp.abs(n), -1, keepdims=True)
    p = n[..., :2] / l1
    s = _sgn(p)
    g_fold = -g * s * s[..., ::-1]
    gp = jnp.where(n[..., 2:] < 0, g_fold, g)
    # p = xy / l1, so every component also feels the change of the 1-norm
    radial = -jnp.sum(gp * p, -1, keepdims=True) / l1
    gxy = gp / l1 + radial * jnp.sign(n[..., :2])
    gz = radial * jnp.sign(n[..., 2:])
    return (jnp.concatenate([gxy, gz], -1),)


octahedral_encode.defvjp(_oct_fwd, _oct_bwd)


def octahedral_decode(e: Array) -> Array:
    """Inverse of :func:`octahedral_encode`; returns unit vectors."""
    z = 1.0 - jnp.sum(jnp.abs(e), -1, keepdims=True)
    xy = jnp.where(z < 0, (1.0 - jnp.abs(e[..., ::-1])) * _sgn(e), e)
    n = jnp.concatenate([xy, z], -1)
    return n / jnp.linalg.norm(n, axis=-1, keepdims=True)


# --------------------------------------------------------------------------------------
# spectrum rebinning


def _to_bins(x, factor):
    pad = -x.shape[-1] % factor
    x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, pad)])
    return x.reshape(x.shape[:-1] + (-1, factor))


def _from_bins(x, n):
    return x.reshape(x.shape[:-2] + (-1,))[..., :n]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def rebin_ivar(flux: Array, ivar: Array, factor: int = 2) -> tuple[Array, Array]:
    """Inverse-variance weighted rebinning of a spectrum.

    Args:
        flux: ``(..., n)`` pixel fluxes.
        ivar: ``(..., n)`` inverse variances, zero for bad pixels. Every output bin must hold some positive weight.
        factor: pixels per output bin. If ``n`` is not a multiple the last bin is made of the pixels that are left.

    Returns:
        The rebinned flux and its inverse variance, both ``(..., ceil(n / factor))``.
    """
    w = _to_bins(ivar, factor)
    total = w.sum(-1)
    return (w * _to_bins(flux, factor)).sum(-1) / total, total


def _rebin_fwd(flux, ivar, factor):
    out, total = rebin_ivar(flux, ivar, factor)
    return (out, total), (flux, ivar, out, total)


def _rebin_bwd(factor, res, cts):
    flux, ivar, out, total = res
    g_flux, g_total = cts
    n = flux.shape[-1]
    per_weight = (g_flux / total)[..., None]
    d_flux = per_weight * _to_bins(ivar, factor)
    d_ivar = per_weight * (_to_bins(flux, factor) - out[..., None]) + g_total[..., None]
    return _from_bins(d_flux, n), _from_bins(d_ivar, n)


rebin_ivar.defvjp(_rebin_fwd, _rebin_bwd)
