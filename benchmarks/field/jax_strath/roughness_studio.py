"""Psychoacoustic objectives and envelopes used by the tuning optimiser."""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclass(frozen=True)
class DissonanceCurve:
    """Constants of the Plomp-Levelt curve in Sethares' fit."""
    d_star: float = 0.24
    s1: float = 0.0207
    s2: float = 18.96
    b1: float = 3.51
    b2: float = 5.75
    gain: float = 5.0


CURVE = DissonanceCurve()


def _pairwise(freqs, curve):
    lo = jnp.minimum(freqs[..., :, None], freqs[..., None, :])
    diff = freqs[..., :, None] - freqs[..., None, :]
    s = curve.d_star / (curve.s1 * lo + curve.s2)
    return diff, s


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def dyad_roughness(freqs, amps, mask, curve=CURVE):
    """Sensory dissonance of a set of partials, summed over all pairs.

    freqs, amps: (..., P) in Hz and linear amplitude; mask: (..., P) bool, False
    for padding. Returns (...,).
    """
    return _rough_fwd(freqs, amps, mask, curve)[0]


def _rough_fwd(freqs, amps, mask, curve):
    a = jnp.where(mask, amps, 0.0)
    diff, s = _pairwise(freqs, curve)
    sd = s * jnp.abs(diff)
    kernel = curve.gain * (jnp.exp(-curve.b1 * sd) - jnp.exp(-curve.b2 * sd))
    total = 0.5 * jnp.einsum("...i,...ij,...j->...", a, kernel, a)
    return total, (freqs, amps, mask, kernel)


def _rough_bwd(curve, res, g):
    freqs, amps, mask, kernel = res
    g = g[..., None]
    diff, s = _pairwise(freqs, curve)
    dist = jnp.abs(diff)
    sd = s * dist
    slope = curve.gain * (curve.b2 * jnp.exp(-curve.b2 * sd) - curve.b1 * jnp.exp(-curve.b1 * sd))
    # the critical bandwidth follows the lower partial of the pair
    ds_dlo = -curve.s1 * s**2 / curve.d_star
    d_pair = slope * (s * jnp.sign(diff) + jnp.where(diff < 0, dist * ds_dlo, 0.0))
    d_freqs = g * amps * jnp.einsum("...ij,...j->...i", d_pair, amps)
    d_amps = g * jnp.einsum("...ij,...j->...i", kernel, jnp.where(mask, amps, 0.0))
    return d_freqs, jnp.where(mask, d_amps, 0.0), np.zeros(mask.shape, jax.dtypes.float0)


dyad_roughness.defvjp(_rough_fwd, _rough_bwd)


def _sone(phon):
    loud = 2.0 ** ((phon - 40.0) / 10.0)
    soft = (jnp.clip(phon, 0.0, 40.0) / 40.0) ** 2.642
    return jnp.where(phon >= 40.0, loud, soft)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def loudness_total(phon, spread=0.15, axis=-1):
    """Stevens' total loudness (sone): loudest band plus a share ``spread`` of the others."""
    n = _sone(phon)
    return (1.0 - spread) * n.max(axis) + spread * n.sum(axis)


def _loud_fwd(phon, spread, axis):
    return loudness_total(phon, spread, axis), phon


def _loud_bwd(spread, axis, phon, g):
    n = _sone(phon)
    g = jnp.expand_dims(g, axis)
    top = (n == n.max(axis, keepdims=True)).astype(n.dtype)
    top = top / top.sum(axis, keepdims=True)
    loud = n * (jnp.log(2.0) / 10.0)
    soft = 2.642 / 40.0 * (jnp.clip(phon, 0.0, 40.0) / 40.0) ** 1.642
    d_sone = jnp.where(phon >= 40.0, loud, soft)
    return (g * ((1.0 - spread) * top + spread) * d_sone,)


loudness_total.defvjp(_loud_fwd, _loud_bwd)


@jax.custom_jvp
def adsr_level(t, gate, attack, decay, sustain, release):
    held = _held(jnp.minimum(t, gate), attack, decay, sustain)
    tail = jnp.clip(1.0 - (t - gate) / release, 0.0, 1.0)
    return held * tail


def _held(t, attack, decay, sustain):
    rise = t / attack
    fall = 1.0 - (1.0 - sustain) * (t - attack) / decay
    level = jnp.where(t < attack, rise, jnp.where(t < attack + decay, fall, sustain))
    return jnp.where(t < 0.0, 0.0, level)


@adsr_level.defjvp
def _adsr_jvp(primals, tangents):
    t, gate, attack, decay, sustain, release = primals
    dt, dgate, da, dd, ds, dr = tangents
    released = t > gate
    u = jnp.where(released, gate, t)
    du = jnp.where(released, dgate, dt)

    frac = (u - attack) / decay
    dfrac = (du - da - frac * dd) / decay
    d_rise = (du - u / attack * da) / attack
    d_fall = ds * frac - (1.0 - sustain) * dfrac
    dheld = jnp.where(u < attack, d_rise, jnp.where(u < attack + decay, d_fall, ds))
    dheld = jnp.where(u < 0.0, 0.0, dheld)
    held = _held(u, attack, decay, sustain)

    v = (t - gate) / release
    tail = jnp.clip(1.0 - v, 0.0, 1.0)
    sounding = released & (v < 1.0)
    dtail = jnp.where(sounding, -(dt - dgate - v * dr) / release, 0.0)
    return held * tail, dheld * tail + held * dtail
