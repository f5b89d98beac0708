"""Differentiable audio front end: transforms, envelope tracking, denoising and decimation.

All functions work on the trailing axis unless they say otherwise and accept any
number of leading batch axes.
"""
from __future__ import annotations

from functools import partial
from typing import Callable, Optional

import jax
import jax.numpy as jnp
import numpy as np

__all__ = [
    "cosine_transform",
    "inverse_cosine_transform",
    "attack_release_follower",
    "spectral_subtraction",
    "make_decimator",
    "CepstralFrontEnd",
]


def _dct_basis(n: int, norm: Optional[str], dtype) -> jnp.ndarray:
    """Rows are the DCT-II basis functions, scaled as ``scipy.fft.dct`` scales them."""
    k = np.arange(n)[:, None]
    m = np.arange(n)[None, :]
    basis = 2.0 * np.cos(np.pi * (m + 0.5) * k / n)
    if norm == "ortho":
        basis[0] *= np.sqrt(1.0 / (4.0 * n))
        basis[1:] *= np.sqrt(1.0 / (2.0 * n))
    elif norm is not None:
        raise ValueError(f"norm must be None or 'ortho', got {norm!r}")
    return jnp.asarray(basis, dtype)


def inverse_cosine_transform(c, axis: int = -1, norm: Optional[str] = "ortho"):
    """Inverse of :func:`cosine_transform` for the same ``norm``."""
    n = c.shape[axis]
    basis = _dct_basis(n, norm, c.dtype)
    if norm is None:
        scale = jnp.full((n,), 1.0 / (2.0 * n), c.dtype).at[0].set(1.0 / (4.0 * n))
        basis = basis * scale[:, None]
    out = jnp.moveaxis(c, axis, -1) @ basis
    return jnp.moveaxis(out, -1, axis)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def cosine_transform(x, axis: int = -1, norm: Optional[str] = "ortho"):
    """Type-II discrete cosine transform along one axis.

    Parameters
    ----------
    x : array, shape (..., n, ...)
        Real input.
    axis : int
        Axis that is transformed.
    norm : {"ortho", None}
        ``"ortho"`` gives the orthonormal transform, ``None`` the unscaled one
        (``2 * sum(x * cos(pi * (m + 1/2) * k / n))``), as in ``scipy.fft.dct``.

    Returns
    -------
    array
        Coefficients, same shape as ``x``.
    """
    basis = _dct_basis(x.shape[axis], norm, x.dtype)
    out = jnp.moveaxis(x, axis, -1) @ basis.T
    return jnp.moveaxis(out, -1, axis)


def _cosine_transform_fwd(x, axis, norm):
    return cosine_transform(x, axis, norm), None


def _cosine_transform_bwd(axis, norm, _, ct):
    # linear, so nothing has to be kept: transform the cotangent back
    return (inverse_cosine_transform(ct, axis, norm),)


cosine_transform.defvjp(_cosine_transform_fwd, _cosine_transform_bwd)


def _follow(x, y0, attack, release):
    level = jnp.moveaxis(jnp.abs(x), -1, 0)

    def step(y, v):
        c = jnp.where(v > y, attack, release)
        y = c * y + (1.0 - c) * v
        return y, y

    _, ys = jax.lax.scan(step, y0, level)
    return jnp.moveaxis(ys, 0, -1)


@jax.custom_vjp
def attack_release_follower(x, y0, attack, release):
    """Peak envelope follower with separate attack and release smoothing.

    ``y[t] = c * y[t-1] + (1 - c) * |x[t]|`` with ``c = attack`` while the level rises above
    the envelope and ``c = release`` otherwise.

    Parameters
    ----------
    x : array, shape (..., time)
    y0 : array, shape (...,)
        Envelope before the first sample.
    attack, release : scalar arrays
        Smoothing coefficients in [0, 1).

    Notes
    -----
    Only the input and the envelope are kept for the backward pass; which of the two
    coefficients was active is recovered from them.
    """
    return _follow(x, y0, attack, release)


def _follower_fwd(x, y0, attack, release):
    y = _follow(x, y0, attack, release)
    return y, (x, y0, y, attack, release)


def _follower_bwd(res, ct):
    x, y0, y, attack, release = res
    prev = jnp.concatenate([y0[..., None], y[..., :-1]], axis=-1)
    level = jnp.abs(x)
    rising = level > prev
    c = jnp.where(rising, attack, release)

    def step(adj, inp):
        g, coef = inp
        total = g + adj
        return total * coef, total

    adj0, total = jax.lax.scan(
        step,
        jnp.zeros_like(y0),
        (jnp.moveaxis(ct, -1, 0), jnp.moveaxis(c, -1, 0)),
        reverse=True,
    )
    total = jnp.moveaxis(total, 0, -1)
    dx = total * (1.0 - c) * jnp.sign(x)
    dc = total * (prev - level)
    d_attack = jnp.sum(jnp.where(rising, dc, 0.0))
    d_release = jnp.sum(jnp.where(rising, 0.0, dc))
    return dx, adj0, d_attack, d_release


attack_release_follower.defvjp(_follower_fwd, _follower_bwd)


@jax.custom_gradient
def spectral_subtraction(power, noise, over, floor):
    """Magnitude-domain noise suppression with a spectral floor.

    ``out = max(power - over * noise, floor * noise)``

    Parameters
    ----------
    power : array, shape (..., frames, bins)
        Power spectrogram.
    noise : array, shape (bins,)
        Noise estimate, non-negative, shared by all frames.
    over : float
        Over-subtraction factor, usually 1 to 3.
    floor : float
        Spectral floor relative to the noise estimate (masks musical noise), >= 0;
        0 is plain half-wave rectification.
    """
    clean = power - over * noise
    residual = floor * noise
    kept = clean > residual

    def grad(ct):
        passed = jnp.where(kept, ct, 0.0)
        lead = tuple(range(ct.ndim - 1))
        d_noise = -over * jnp.sum(passed, axis=lead)
        d_over = -jnp.sum(passed * noise)
        d_floor = jnp.sum((ct - passed) * noise)
        return passed, d_noise, d_over, d_floor

    return jnp.where(kept, clean, residual), grad


def make_decimator(factor: int, phase: int = 0) -> Callable:
    """Build ``decimate(x, taps)``: FIR filtering at the reduced rate.

    Only the outputs that survive are computed,
    ``y[n] = sum_k taps[k] * x[phase + n * factor + k]``, for every ``n`` whose window
    lies inside the signal. Trailing samples that fill no window are not used.

    Parameters
    ----------
    factor : int
        Decimation factor, >= 1. Windows overlap when it is below the filter length.
    phase : int
        Index of the first sample of the first window.
    """
    if factor < 1:
        raise ValueError("factor must be positive")

    def _index(length, n_taps):
        n_out = (length - phase - n_taps) // factor + 1
        return phase + factor * np.arange(n_out)[:, None] + np.arange(n_taps)[None, :]

    @jax.custom_vjp
    def decimate(x, taps):
        idx = _index(x.shape[-1], taps.shape[0])
        return x[..., idx] @ taps

    def fwd(x, taps):
        return decimate(x, taps), (x, taps)

    def bwd(res, ct):
        x, taps = res
        idx = _index(x.shape[-1], taps.shape[0])
        dx = jnp.zeros_like(x).at[..., idx].add(ct[..., None] * taps)
        frames = x[..., idx]
        dtaps = jnp.tensordot(
            ct.reshape(-1), frames.reshape(-1, taps.shape[0]), axes=([0], [0])
        )
        return dx, dtaps

    decimate.defvjp(fwd, bwd)
    return decimate


class CepstralFrontEnd:
    """Spectral subtraction, log compression and a truncated cepstrum."""

    def __init__(self, n_coeff: int, over: float = 1.0, floor: float = 0.0,
                 norm: Optional[str] = "ortho"):
        self.n_coeff = n_coeff
        self.over = over
        self.floor = floor
        self.norm = norm

    def init(self, n_bins: int):
        return {"noise": jnp.full((n_bins,), 1e-3)}

    def __call__(self, params, power):
        clean = spectral_subtraction(power, params["noise"], self.over, self.floor)
        ceps = cosine_transform(jnp.log(clean + 1e-6), -1, self.norm)
        return ceps[..., : self.n_coeff]
