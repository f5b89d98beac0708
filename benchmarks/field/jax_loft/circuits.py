"""Auditory front end and small spiking/rate circuits.

The modules are plain frozen dataclasses that are registered as pytrees; static
configuration goes in the metadata fields.
"""
from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax import lax


def module(*static):
    """Class decorator: frozen dataclass that is also a pytree."""

    def wrap(cls):
        cls = dataclasses.dataclass(frozen=True)(cls)
        names = [f.name for f in dataclasses.fields(cls)]
        data = [n for n in names if n not in static]
        return jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=list(static))

    return wrap


# -- rate circuit -----------------------------------------------------------


def steady_rates(weights, drive, leak):
    """Fixed point of ``tau dr/dt = -leak * r + W r + drive``.

    weights: (N, N), ``weights[post, pre]``, spectral radius below leak.
    drive: (N,) external input.  leak: (N,) positive.
    Returns the (N,) rates.
    """

    def current(r):
        return leak * r - weights @ r

    def direct(_, b):
        return jnp.linalg.solve(jnp.diag(leak) - weights, b)

    return lax.custom_linear_solve(current, drive, direct, symmetric=True)


# -- spiking ----------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def spike_initiation_current(v, v_rheo, sharpness, g_leak, cap=6.0):
    """Exponential sodium current of an adaptive exponential neuron.

    The exponent is limited to `cap` so that a step past the threshold does not
    overflow; past it the current no longer depends on the voltages. All four
    arrays have one shape; sharpness is positive.
    """
    u = jnp.minimum((v - v_rheo) / sharpness, cap)
    return g_leak * sharpness * jnp.exp(u)


@spike_initiation_current.defjvp
def _spike_initiation_jvp(cap, primals, tangents):
    v, v_rheo, sharpness, g_leak = primals
    dv, dvr, ds, dg = tangents
    u = (v - v_rheo) / sharpness
    free = u < cap
    e = jnp.exp(jnp.minimum(u, cap))
    out = g_leak * sharpness * e
    du = jnp.where(free, dv - dvr - u * ds, 0.0)
    return out, e * (g_leak * (du + ds) + sharpness * dg)


@module("cap")
class AdexCell:
    v_rheo: jax.Array
    sharpness: jax.Array
    g_leak: jax.Array
    e_leak: jax.Array
    cap: float = 6.0

    def dvdt(self, v, injected):
        i_na = spike_initiation_current(v, self.v_rheo, self.sharpness, self.g_leak, self.cap)
        return self.g_leak * (self.e_leak - v) + i_na + injected


# -- dynamics processing ----------------------------------------------------


def _knee(level, threshold, knee):
    over = level - threshold
    inside = jnp.abs(over) <= 0.5 * knee
    above = over > 0.5 * knee
    return over, inside, above, over + 0.5 * knee


@jax.custom_vjp
def compressor_gain(level, threshold, ratio, knee):
    """Static gain curve (dB) of a soft-knee compressor.

    level: (channels, frames) in dB.  threshold, ratio, knee: (channels,), with
    ratio >= 1 and knee > 0 (the full width, dB).  Returns (channels, frames).
    """
    return _compressor_fwd(level, threshold, ratio, knee)[0]


def _compressor_fwd(level, threshold, ratio, knee):
    th, ra, kn = threshold[:, None], ratio[:, None], knee[:, None]
    over, inside, above, u = _knee(level, th, kn)
    slope = 1.0 / ra - 1.0
    gain = jnp.where(above, slope * over, jnp.where(inside, slope * u**2 / (2.0 * kn), 0.0))
    return gain, (level, threshold, ratio, knee)


def _compressor_bwd(res, g):
    level, threshold, ratio, knee = res
    th, ra, kn = threshold[:, None], ratio[:, None], knee[:, None]
    over, inside, above, u = _knee(level, th, kn)
    slope = 1.0 / ra - 1.0
    d_level = jnp.where(above, slope, jnp.where(inside, slope * u / kn, 0.0))
    shape = jnp.where(above, over, jnp.where(inside, u**2 / kn, 0.0))
    d_knee = jnp.where(inside, slope * u * (kn - u) / (2.0 * kn**2), 0.0)
    g_level = g * d_level
    g_ratio = -jnp.sum(g * shape, axis=1) / ratio**2
    return g_level, -jnp.sum(g_level, axis=1), g_ratio, jnp.sum(g * d_knee, axis=1)


compressor_gain.defvjp(_compressor_fwd, _compressor_bwd)


@module()
class Compressor:
    threshold: jax.Array
    log_ratio: jax.Array
    knee: jax.Array

    @classmethod
    def init(cls, channels, *, threshold=-24.0, ratio=4.0, knee=8.0):
        full = lambda x: jnp.full((channels,), x)
        return cls(full(threshold), jnp.log(full(ratio)), full(knee))

    def __call__(self, x, floor=1e-5):
        level = 20.0 * jnp.log10(jnp.abs(x) + floor)
        gain = compressor_gain(level, self.threshold, jnp.exp(self.log_ratio), self.knee)
        return x * 10.0 ** (gain / 20.0)


# -- tone detection ---------------------------------------------------------


def _kernel(n, omega):
    k = jnp.arange(n)
    return k, jnp.exp(-1j * omega[:, None] * k)


@jax.custom_vjp
def tone_bins(x, omega):
    """Complex amplitudes of a real signal at arbitrary frequencies.

    x: (n,) real samples.  omega: (m,) angular frequencies in rad/sample.
    Returns (m,) complex, ``sum_k x[k] exp(-i omega k)``.
    """
    _, basis = _kernel(x.shape[0], omega)
    return basis @ x


def _tone_bins_fwd(x, omega):
    return tone_bins(x, omega), (x, omega)


def _tone_bins_bwd(res, g):
    x, omega = res
    k, basis = _kernel(x.shape[0], omega)
    back = jnp.conj(basis)
    gx = jnp.real(g @ back)
    gw = jnp.real(g * (1j * (back @ (k * x))))
    return gx, gw


tone_bins.defvjp(_tone_bins_fwd, _tone_bins_bwd)


@module()
class PitchTracker:
    omega: jax.Array
    template: jax.Array

    def __call__(self, x):
        bins = tone_bins(x, self.omega)
        return jnp.real(jnp.vdot(self.template, bins)) / x.shape[0]
