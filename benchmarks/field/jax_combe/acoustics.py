"""Spectral features and modulation effects used by the listening-room front end."""
from __future__ import annotations

from functools import partial
from typing import Optional

import jax
import jax.numpy as jnp
from jax import Array


def _fit(x: Array, length: int) -> Array:
    """Cut or zero-pad the last axis to ``length``."""
    t = x.shape[-1]
    if t >= length:
        return x[..., :length]
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - t)])


def _rfft_adjoint(spec: Array, n: int) -> Array:
    # irfft counts every bin that has a mirror image twice; undo that before calling it
    w = jnp.ones(spec.shape[-1]).at[1:-1].set(0.5)
    return jnp.fft.irfft(spec * w, n=n, axis=-1) * n


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def cross_spectrum(x: Array, y: Array, n: Optional[int] = None) -> tuple[Array, Array]:
    r"""Co-spectrum and quadrature spectrum of two real signals.

    With :math:`X` and :math:`Y` the one-sided DFTs of the inputs, returns the real and imaginary
    parts of :math:`X \overline{Y}`. No window and no scaling is applied.

    Parameters
    ----------
    x, y : Array, shape (..., T)
        Real signals of the same shape.
    n : int, optional
        Length of the transform, any integer >= 3. Shorter than ``T`` the signals are cut, longer
        they are zero-padded at the end. Defaults to ``T``.

    Returns
    -------
    co, quad : Array, shape (..., n // 2 + 1)
    """
    n = x.shape[-1] if n is None else n
    s = jnp.fft.rfft(x, n=n) * jnp.conj(jnp.fft.rfft(y, n=n))
    return s.real, s.imag


def _cross_spectrum_fwd(x, y, n):
    m = x.shape[-1] if n is None else n
    fx, fy = jnp.fft.rfft(x, n=m), jnp.fft.rfft(y, n=m)
    s = fx * jnp.conj(fy)
    return (s.real, s.imag), (fx, fy, x)


def _cross_spectrum_bwd(n, res, cts):
    fx, fy, x = res
    t = x.shape[-1]
    m = t if n is None else n
    g = cts[0] + 1j * cts[1]
    gx = _rfft_adjoint(g * fy, m)
    gy = _rfft_adjoint(jnp.conj(g) * fx, m)
    return _fit(gx, t).astype(x.dtype), _fit(gy, t).astype(x.dtype)


cross_spectrum.defvjp(_cross_spectrum_fwd, _cross_spectrum_bwd)


def _hartley(x, axis, norm):
    f = jnp.fft.fft(x, axis=axis)
    h = f.real - f.imag
    return h / jnp.sqrt(x.shape[axis]) if norm == "ortho" else h


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def hartley_transform(x, axis=-1, norm="ortho"):
    """Discrete Hartley transform (cas kernel) of a real array along ``axis``; norm 'ortho' or 'backward'."""
    return _hartley(x, axis, norm)


def _hartley_fwd(x, axis, norm):
    return _hartley(x, axis, norm), None


def _hartley_bwd(axis, norm, _, g):
    return (_hartley(g, axis, norm),)


hartley_transform.defvjp(_hartley_fwd, _hartley_bwd)


def _wmean(a, w):
    return jnp.sum(a * w, -1, keepdims=True) / jnp.sum(w)


# level: (..., bands), w and logf: (bands,)
@jax.custom_vjp
def spectral_slope(level, w, logf):
    return _slope_fwd(level, w, logf)[0]


def _slope_fwd(level, w, logf):
    df = logf - _wmean(logf, w)
    dl = level - _wmean(level, w)
    sxx = jnp.sum(w * df**2)
    b = jnp.sum(w * df * dl, -1) / sxx
    return b, (w, df, dl, sxx, b)


def _slope_bwd(res, g):
    w, df, dl, sxx, b = res
    u = g[..., None] / sxx
    b = b[..., None]
    lead = tuple(range(dl.ndim - 1))
    glevel = u * w * df
    gw = (u * (dl - b * df) * df).sum(lead)
    gf = (u * w * (dl - 2 * b * df)).sum(lead)
    return glevel, gw, gf


spectral_slope.defvjp(_slope_fwd, _slope_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def ring_mod(x, carrier, depth, mode="add"):
    """Ring modulation of x (B, C, T) by carrier (T,), depth (C,); 'add' keeps the dry signal, 'mix' crossfades to the wet one."""
    d = depth[:, None]
    dry = 1.0 if mode == "add" else 1.0 - d
    return x * (dry + d * carrier)


def _ring_fwd(x, carrier, depth, mode):
    return ring_mod(x, carrier, depth, mode), (x, carrier, depth)


def _ring_bwd(mode, res, g):
    x, carrier, depth = res
    d = depth[:, None]
    dry = 1.0 if mode == "add" else 1.0 - d
    gx = g * (dry + d * carrier)
    gx_wet = g * x
    gcarrier = jnp.sum(gx_wet * d, axis=(0, 1))
    gdepth = jnp.sum(gx_wet * carrier, axis=(0, 2))
    return gx, gcarrier, gdepth


ring_mod.defvjp(_ring_fwd, _ring_bwd)


def tremolo_bank(x, rate, depth, sr=16000, mode="add"):
    t = jnp.arange(x.shape[-1]) / sr
    return ring_mod(x, jnp.sin(2 * jnp.pi * rate * t), depth, mode)
