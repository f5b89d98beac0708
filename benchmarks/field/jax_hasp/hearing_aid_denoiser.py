"""Pieces of a small speech enhancer for a behind-the-ear hearing aid.

Frames are 8 ms, tensors are (batch, time, bands) unless said otherwise.
"""
from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class SpectrumLossConfig:
    compression: float = 0.3
    phase_weight: float = 0.4
    reduction: str = "frames"      # or "utterance"
    eps: float = 1e-3


# -- gains that glide ------------------------------------------------------------

@jax.custom_vjp
def glide_gain(gains, release, start, onset):
    """First-order smoothing of the band gains along time.

    Parameters
    ----------
    gains : (B, T, F)
        Raw gains from the network.
    release : (F,)
        Share of the old gain that is kept, per band.
    start : (B, F)
        Smoothed gain before the first frame.
    onset : (B, T) bool
        Where true (the user switched programmes) the gain jumps at once to the raw one.

    Returns
    -------
    smoothed : (B, T, F)
    last : (B, F), to be passed on as the next chunk's `start`.
    """
    def step(state, inp):
        raw, jump = inp
        new = jnp.where(jump[:, None], raw, release * state + (1 - release) * raw)
        return new, new

    last, ys = jax.lax.scan(step, start, (gains.swapaxes(0, 1), onset.T))
    return ys.swapaxes(0, 1), last


def _glide_fwd(gains, release, start, onset):
    out = glide_gain(gains, release, start, onset)
    return out, (gains, release, start, onset, out[0])


def _glide_bwd(saved, cts):
    gains, release, start, onset, smoothed = saved
    g_seq, g_last = cts
    before = jnp.concatenate([start[:, None], smoothed[:, :-1]], axis=1)

    def step(carry, inp):
        lam, d_release = carry
        g, raw, prev, jump = inp
        lam = lam + g
        keep = jnp.where(jump[:, None], 0.0, release)
        d_release = d_release + jnp.where(jump[:, None], 0.0, lam * (prev - raw)).sum(0)
        return (lam * keep, d_release), lam * (1 - keep)

    tm = lambda v: v.swapaxes(0, 1)
    (d_start, d_release), d_gains = jax.lax.scan(
        step, (g_last, jnp.zeros_like(release)),
        (tm(g_seq), tm(gains), tm(before), onset.T), reverse=True)
    return tm(d_gains), d_release, d_start, None


glide_gain.defvjp(_glide_fwd, _glide_bwd)


# -- loss on compressed spectra ---------------------------------------------------

def _compress(z, c, eps):
    s = (z * z).sum(-1, keepdims=True) + eps
    return s ** (c / 2), z * s ** ((c - 1) / 2), s


def _frame_costs(est, ref, cfg):
    me, ze, _ = _compress(est, cfg.compression, cfg.eps)
    mr, zr, _ = _compress(ref, cfg.compression, cfg.eps)
    b = cfg.phase_weight
    cost = (1 - b) * (me - mr)[..., 0] ** 2 + b * ((ze - zr) ** 2).sum(-1)
    return cost.mean(-1)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def compressed_spectrum_loss(est, ref, speech, cfg=SpectrumLossConfig()):
    """Distance of power-law compressed spectra.

    `est` and `ref` are (B, T, F, 2), real and imaginary part last; `speech` is
    (B, T), one for the real frames of an utterance and zero for its padding.
    With reduction "frames" every frame of the batch counts the same; with "utterance"
    each recording is averaged first, so that short ones weigh as much as long ones.
    """
    cost = _frame_costs(est, ref, cfg) * speech
    if cfg.reduction == "utterance":
        return (cost.sum(1) / jnp.maximum(speech.sum(1), 1)).mean()
    return cost.sum() / jnp.maximum(speech.sum(), 1)


def _csl_fwd(est, ref, speech, cfg):
    return compressed_spectrum_loss(est, ref, speech, cfg), (est, ref, speech)


def _csl_bwd(cfg, saved, g):
    est, ref, speech = saved
    c, b = cfg.compression, cfg.phase_weight
    me, ze, se = _compress(est, c, cfg.eps)
    mr, zr, sr = _compress(ref, c, cfg.eps)
    per_bin = g * speech / jnp.maximum(speech.sum(), 1) / est.shape[2]
    per_bin = per_bin[:, :, None, None]

    def pull(z, s, dmag, dz):
        out = (1 - b) * 2 * dmag * c * s ** (c / 2 - 1) * z
        inner = (z * dz).sum(-1, keepdims=True)
        return out + b * 2 * (s ** ((c - 1) / 2) * dz + (c - 1) * s ** ((c - 3) / 2) * inner * z)

    d_est = per_bin * pull(est, se, me - mr, ze - zr)
    d_ref = per_bin * pull(ref, sr, mr - me, zr - ze)
    # the mask is data
    return d_est, d_ref, jnp.zeros_like(speech)


compressed_spectrum_loss.defvjp(_csl_fwd, _csl_bwd)


# -- filter bank -----------------------------------------------------------------------

def _erb(hz):
    return 21.4 * np.log10(1 + 0.00437 * np.asarray(hz))


def _triangles(sample_rate, n_fft, bands):
    bins = _erb(np.arange(n_fft // 2 + 1) * sample_rate / n_fft)
    centres = np.linspace(0.0, bins[-1], bands + 2)
    gap = centres[1] - centres[0]
    return np.clip(1 - np.abs(bins[None] - centres[1:-1, None]) / gap, 0.0, None)


def make_cochlea_bank(sample_rate=16000, n_fft=256, bands=24, output="db", floor=1e-5):
    """Return a function from power spectra (..., n_fft//2 + 1) to band excitations (..., bands).

    output: "db" gives decibels, never below 10*log10(floor); "sone" gives the power
    plus floor, to the 0.23.
    """
    if output not in ("db", "sone"):
        raise ValueError(output)
    weights = _triangles(sample_rate, n_fft, bands)

    @jax.custom_jvp
    def excite(power):
        e = power @ jnp.asarray(weights.T, power.dtype)
        if output == "db":
            return 10 * jnp.log10(jnp.maximum(e, floor))
        return (e + floor) ** 0.23

    @excite.defjvp
    def _excite_jvp(primals, tangents):
        (power,), (d_power,) = primals, tangents
        w = jnp.asarray(weights.T, power.dtype)
        e, de = power @ w, d_power @ w
        if output == "db":
            audible = e > floor
            slope = jnp.where(audible, 10 / jnp.log(10.0) / jnp.where(audible, e, 1.0), 0.0)
        else:
            slope = 0.23 * (e + floor) ** (0.23 - 1)
        return excite(power), slope * de

    return excite


def enhance(params, noisy, onset):
    """noisy (B, T, F, 2) -> enhanced spectrum, and the state for the next chunk."""
    level = jnp.log1p((noisy ** 2).sum(-1))
    raw = jax.nn.sigmoid(level @ params["w"] + params["b"])
    gain, last = glide_gain(raw, jax.nn.sigmoid(params["release"]), raw[:, 0], onset)
    return noisy * gain[..., None], last
