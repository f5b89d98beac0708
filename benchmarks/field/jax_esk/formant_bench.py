"""Phonetics bench: vowel spectra and speaker normalisation."""

import functools

import jax
import jax.numpy as jnp

DB = 20.0 / jnp.log(10.0).item()
SAMPLE_RATE = 16000.0


def hertz_grid(n, top=5000.0):
    return jnp.linspace(50.0, top, n)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def formant_levels(centre, width, freqs, unit_dc=False):
    """Level in dB of a cascade of resonators.

    centre, width: [N, K] formant frequencies and bandwidths (Hz); freqs: [Q] analysis frequencies.
    unit_dc: scale each resonator to 0 dB at 0 Hz; else the bare poles (in kHz**-2 per formant).
    """
    return _levels_fwd(centre, width, freqs, unit_dc)[0]


def _levels_fwd(centre, width, freqs, unit_dc):
    f = freqs[None, None, :]
    c, h = centre[..., None], 0.5 * width[..., None]
    lower = (f - c) ** 2 + h**2
    upper = (f + c) ** 2 + h**2
    level = -0.5 * DB * (jnp.log(lower * 1e-6) + jnp.log(upper * 1e-6))
    if unit_dc:
        level = level + DB * jnp.log((c**2 + h**2) * 1e-6)
    return level.sum(1), (centre, width, freqs, lower, upper)


def _levels_bwd(unit_dc, res, g):
    centre, width, freqs, lower, upper = res
    f = freqs[None, None, :]
    c, h = centre[..., None], 0.5 * width[..., None]
    g = DB * g[:, None, :]
    low, up = g / lower, g / upper
    d_centre = jnp.sum(low * (f - c) - up * (f + c), -1)
    d_width = -0.5 * jnp.sum((low + up) * h, -1)
    d_freqs = -jnp.sum(low * (f - c) + up * (f + c), (0, 1))
    return d_centre, d_width, d_freqs


formant_levels.defvjp(_levels_fwd, _levels_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def speaker_log_mean(formants, speaker, tracked, n_speakers, shared=False):
    """Nearey's log-mean normalisation.

    formants [N, K] in Hz (positive where tracked), speaker [N] ids, tracked [N, K] bool.
    shared: one mean over all formants of a speaker instead of one per formant.
    Untracked cells give zero and take no part in the means.
    """
    return _nearey_fwd(formants, speaker, tracked, n_speakers, shared)[0]


def _speaker_mean(x, speaker, tracked, n, shared):
    w = tracked.astype(x.dtype)
    top = jax.ops.segment_sum(w * x, speaker, num_segments=n)
    cnt = jax.ops.segment_sum(w, speaker, num_segments=n)
    if shared:
        top, cnt = top.sum(1, keepdims=True), cnt.sum(1, keepdims=True)
    return (top / jnp.maximum(cnt, 1.0))[speaker]


def _nearey_fwd(formants, speaker, tracked, n_speakers, shared):
    safe = jnp.where(tracked, formants, 1.0)
    logs = jnp.log(safe)
    out = jnp.where(tracked, logs - _speaker_mean(logs, speaker, tracked, n_speakers, shared), 0.0)
    return out, (safe, speaker, tracked)


def _nearey_bwd(n_speakers, shared, res, g):
    # centring is symmetric, so the adjoint centres the cotangent
    safe, speaker, tracked = res
    d = g - _speaker_mean(g, speaker, tracked, n_speakers, shared)
    return jnp.where(tracked, d / safe, 0.0), None, None


speaker_log_mean.defvjp(_nearey_fwd, _nearey_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def glottal_tilt(f0, corner, harmonics=20, unit_power=False):
    return _tilt_fwd(f0, corner, harmonics, unit_power)[0]


def _tilt_fwd(f0, corner, harmonics, unit_power):
    h = jnp.arange(1, harmonics + 1, dtype=f0.dtype)
    x = h * f0[..., None]
    ratio = x / corner[..., None]
    amp = jnp.where(x < 0.5 * SAMPLE_RATE, 1.0 / (h * jnp.sqrt(1.0 + ratio**2)), 0.0)
    norm = jnp.sqrt(jnp.sum(amp**2, -1, keepdims=True))
    out = amp / norm if unit_power else amp
    return out, (f0, corner, amp, norm, ratio)


def _tilt_bwd(harmonics, unit_power, res, g):
    f0, corner, amp, norm, ratio = res
    if unit_power:
        g = (g - amp * jnp.sum(amp * g, -1, keepdims=True)) / norm
    d_log = -jnp.sum(g * amp * ratio**2 / (1.0 + ratio**2), -1)
    return d_log / f0, -d_log / corner


glottal_tilt.defvjp(_tilt_fwd, _tilt_bwd)
