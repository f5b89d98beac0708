"""Differentiable building blocks for the voice front end and the effect rack."""

from __future__ import annotations

import functools
import math
from typing import Callable, NamedTuple, Sequence

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


# ---- learnable filter bank ------------------------------------------------------------------


def _bandpass_term(freq: Array, n: np.ndarray) -> Array:
    """2 f sinc(2 f n) for frequencies [F] and taps [K]."""
    f = freq[:, None]
    return 2.0 * f * jnp.sinc(2.0 * f * n)


def make_sinc_bank(
    kernel_size: int, sample_rate: float, min_low: float = 50.0, min_band: float = 50.0
) -> Callable[[Array, Array], Array]:
    """Build the kernel generator of a SincNet layer.

    The returned function maps the raw parameters ``low_hz`` and ``band_hz``, both ``[filters]`` and of
    either sign, to kernels ``[filters, kernel_size]``. The lower edge is ``min_low + |low_hz|``
    (below Nyquist), the upper edge lies ``min_band + |band_hz|`` above it but not above Nyquist. Kernels
    are Hamming windowed and have unit gain at the centre tap.
    """
    n = np.arange(kernel_size) - (kernel_size - 1) / 2
    window = np.hamming(kernel_size)
    nyquist = 0.5

    def edges(low_hz, band_hz):
        f1 = (min_low + jnp.abs(low_hz)) / sample_rate
        f2 = f1 + (min_band + jnp.abs(band_hz)) / sample_rate
        return f1, jnp.minimum(f2, nyquist)

    @jax.custom_vjp
    def kernels(low_hz, band_hz):
        f1, f2 = edges(low_hz, band_hz)
        width = 2.0 * (f2 - f1)[:, None]
        return window * (_bandpass_term(f2, n) - _bandpass_term(f1, n)) / width

    def fwd(low_hz, band_hz):
        out = kernels(low_hz, band_hz)
        return out, (low_hz, band_hz, out)

    def bwd(res, g):
        low_hz, band_hz, out = res
        f1, f2 = edges(low_hz, band_hz)
        width = 2.0 * (f2 - f1)
        gain = jnp.sum(g * out, axis=1)
        # d/df of 2 f sinc(2 f n) is 2 cos(2 pi f n)
        up = jnp.sum(g * window * 2.0 * jnp.cos(2.0 * math.pi * f2[:, None] * n), axis=1)
        lo = jnp.sum(g * window * 2.0 * jnp.cos(2.0 * math.pi * f1[:, None] * n), axis=1)
        d_f2 = (up - 2.0 * gain) / width
        d_f1 = (2.0 * gain - lo) / width
        d_low = jnp.sign(low_hz) * (d_f1 + d_f2) / sample_rate
        d_band = jnp.sign(band_hz) * d_f2 / sample_rate
        return d_low, d_band

    kernels.defvjp(fwd, bwd)
    return kernels


sinc_kernels = make_sinc_bank(kernel_size=65, sample_rate=16000.0)


def mel_spaced_edges(filters: int, low: float = 30.0, high: float = 7900.0) -> tuple[np.ndarray, np.ndarray]:
    """Initial ``low_hz`` and ``band_hz`` of a bank."""
    mel = np.linspace(2595 * np.log10(1 + low / 700), 2595 * np.log10(1 + high / 700), filters + 1)
    hz = 700 * (10 ** (mel / 2595) - 1)
    return hz[:-1], np.diff(hz)


# ---- wave shapers ---------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def wavefold(x: Array, drive: Array, offset: Array = 0.0, shape: str = "triangle") -> Array:
    """Fold a signal back into [-1, 1].

    ``shape="triangle"`` mirrors at +-1 as often as needed, ``"sine"`` is sin(pi/2 u), with
    u = drive * x + offset. ``drive`` and ``offset`` broadcast against ``x`` (scalars or one per channel on
    the last axis). At the fold points of the triangle the slope to their right is used.
    """
    u = drive * x + offset
    if shape == "sine":
        return jnp.sin(0.5 * math.pi * u)
    if shape == "triangle":
        return 1.0 - jnp.abs(jnp.mod(u + 1.0, 4.0) - 2.0)
    raise ValueError(f"unknown shape {shape!r}")


@wavefold.defjvp
def _wavefold_jvp(shape, primals, tangents):
    x, drive, offset = primals
    dx, d_drive, d_offset = tangents
    u = drive * x + offset
    if shape == "sine":
        slope = 0.5 * math.pi * jnp.cos(0.5 * math.pi * u)
    else:
        slope = jnp.where(jnp.mod(u + 1.0, 4.0) < 2.0, 1.0, -1.0)
    return wavefold(x, drive, offset, shape), slope * (drive * dx + x * d_drive + d_offset)


def _quantise(x, bits):
    levels = 2.0 ** (bits - 1)
    return jnp.clip(jnp.round(x * levels), -levels, levels - 1.0) / levels


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def bitcrush(x: Array, mix: Array, bits: int = 8) -> Array:
    """Blend a signal with its ``bits`` bit version, ``(1 - mix) * x + mix * Q(x)``.

    Rounding has a zero derivative almost everywhere. On purpose the backward pass is not that
    derivative: Q is treated as the identity for |x| <= 1 and as a constant beyond (a straight
    through estimator). The gradient in the scalar ``mix`` is the exact one.
    """
    return (1.0 - mix) * x + mix * _quantise(x, bits)


def _bitcrush_fwd(x, mix, bits):
    return bitcrush(x, mix, bits), (x, mix)


def _bitcrush_bwd(bits, res, g):
    x, mix = res
    through = jnp.where(jnp.abs(x) <= 1.0, 1.0, 0.0)
    return g * ((1.0 - mix) + mix * through), jnp.sum(g * (_quantise(x, bits) - x))


bitcrush.defvjp(_bitcrush_fwd, _bitcrush_bwd)


# ---- sparse reverb --------------------------------------------------------------------------


def _delayed(x: Array, delay: int) -> Array:
    """x[..., t - delay], silence before the start."""
    if delay == 0:
        return x
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(delay, 0)])[..., : x.shape[-1]]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def velvet_reverb(x: Array, gains: Array, delays: Sequence[int]) -> Array:
    # y[b, t] = sum_k gains[k] * x[b, t - delays[k]]; delays is a tuple of ints >= 0 and shorter than the
    # clip, two taps may share one delay
    y = jnp.zeros_like(x)
    for k, d in enumerate(delays):
        y = y + gains[k] * _delayed(x, d)
    return y


def _velvet_fwd(x, gains, delays):
    return velvet_reverb(x, gains, delays), (x, gains)


def _velvet_bwd(delays, res, g):
    x, gains = res
    dx = jnp.zeros_like(x)
    dg = []
    for k, d in enumerate(delays):
        dx = dx + gains[k] * jnp.roll(g, -d, axis=-1)
        dg.append(jnp.vdot(g, _delayed(x, d)))
    return dx, jnp.stack(dg).astype(gains.dtype)


velvet_reverb.defvjp(_velvet_fwd, _velvet_bwd)


class VelvetParams(NamedTuple):
    gains: Array
    wet: Array


class VelvetReverb:
    """Reverb tail of ``taps`` signed impulses on a jittered grid."""

    def __init__(self, taps: int, length: int, seed: int = 0):
        rng = np.random.default_rng(seed)
        grid = length / taps
        pos = np.floor(np.arange(taps) * grid + rng.random(taps) * (grid - 1))
        self.delays = tuple(int(p) for p in pos)
        self.signs = rng.choice([-1.0, 1.0], taps)

    def init(self, decay: float = 3.0) -> VelvetParams:
        t = np.asarray(self.delays) / (max(self.delays) + 1)
        return VelvetParams(jnp.asarray(self.signs * np.exp(-decay * t)), jnp.asarray(0.3))

    def __call__(self, params: VelvetParams, x: Array) -> Array:
        return (1.0 - params.wet) * x + params.wet * velvet_reverb(x, params.gains, self.delays)
