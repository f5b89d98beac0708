"""Level metering and mixing blocks for the differentiable mixing desk."""
from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

TWO_PI = 2.0 * np.pi
_DB = 20.0 / np.log(10.0)


def _peak_and_rms(x, axis):
    mag = jnp.abs(x)
    peak = jnp.max(mag, axis=axis, keepdims=True)
    rms = jnp.sqrt(jnp.mean(jnp.square(x), axis=axis, keepdims=True))
    return mag, peak, rms


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def crest_factor(x: jax.Array, axis: int = -1, db: bool = False) -> jax.Array:
    """Ratio of the peak magnitude to the RMS level along one axis.

    Parameters
    ----------
    x : array
        Real audio. Each slice along ``axis`` must contain at least one sample
        that is not zero.
    axis : int
        Axis over which peak and RMS are taken; it is removed from the result.
    db : bool
        Return ``20 log10(peak / rms)`` instead of the plain ratio.

    Returns
    -------
    array
        Crest factor, shape of ``x`` without ``axis``.

    Notes
    -----
    When several samples reach the peak (a clipped recording, a square wave) the
    derivative of the peak is shared equally among them, as ``jnp.max`` does.
    """
    _, peak, rms = _peak_and_rms(x, axis)
    ratio = jnp.squeeze(peak / rms, axis=axis)
    return _DB * jnp.log(ratio) if db else ratio


def _crest_fwd(x, axis, db):
    return crest_factor(x, axis, db), x


def _crest_bwd(axis, db, x, g):
    mag, peak, rms = _peak_and_rms(x, axis)
    g = jnp.expand_dims(g, axis)
    # derivative of log(peak) - log(rms), then rescaled for the plain ratio
    hit = (mag == peak).astype(x.dtype)
    hit = hit / jnp.sum(hit, axis=axis, keepdims=True)
    dlog = hit * jnp.sign(x) / peak - x / (x.shape[axis] * rms**2)
    return (g * dlog * (_DB if db else peak / rms),)


crest_factor.defvjp(_crest_fwd, _crest_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def tremolo(x, rate, depth, sample_rate=48000.0, start=0):
    """Sine tremolo on x [channels, time]; rate (Hz) and depth are scalars, start is the block's first sample number."""
    t = (start + jnp.arange(x.shape[-1], dtype=x.dtype)) / sample_rate
    lfo = 0.5 * (1.0 + jnp.sin(TWO_PI * rate * t))
    return x * (1.0 - depth * lfo)


def _tremolo_fwd(x, rate, depth, sample_rate, start):
    t = (start + jnp.arange(x.shape[-1], dtype=x.dtype)) / sample_rate
    theta = TWO_PI * rate * t
    lfo = 0.5 * (1.0 + jnp.sin(theta))
    return x * (1.0 - depth * lfo), (x, theta, lfo, depth)


def _tremolo_bwd(sample_rate, start, res, g):
    x, theta, lfo, depth = res
    t = jnp.arange(x.shape[-1], dtype=x.dtype) / sample_rate
    gx = g * (1.0 - depth * lfo)
    g_lfo = -depth * jnp.sum(g * x, axis=0)
    g_rate = jnp.sum(g_lfo * 0.5 * jnp.cos(theta) * TWO_PI * t)
    g_depth = -jnp.sum(g * x * lfo)
    return gx, g_rate, g_depth


tremolo.defvjp(_tremolo_fwd, _tremolo_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def bus_mixdown(tracks, gains, bus, num_buses):
    """Sum tracks into buses after applying a fader gain.

    Args:
      tracks: float array ``[n_tracks, n_samples]``.
      gains: linear fader gains ``[n_tracks]``.
      bus: int array ``[n_tracks]``, the bus that each track is routed to. Several
        tracks may share a bus, a bus may be empty, and ``-1`` mutes the track
        (it reaches no bus).
      num_buses: static number of buses.

    Returns:
      ``[num_buses, n_samples]``, row ``b`` being the sum of
      ``gains[i] * tracks[i]`` over the tracks with ``bus[i] == b``.
    """
    return jax.ops.segment_sum(gains[:, None] * tracks, bus, num_segments=num_buses)


def _mix_fwd(tracks, gains, bus, num_buses):
    return bus_mixdown(tracks, gains, bus, num_buses), (tracks, gains, bus)


def _mix_bwd(num_buses, res, g):
    tracks, gains, bus = res
    per_track = g[bus]
    return gains[:, None] * per_track, jnp.sum(per_track * tracks, axis=1), None


bus_mixdown.defvjp(_mix_fwd, _mix_bwd)


def match_reference(tracks, gains, bus, target, *, steps=50, lr=1e-2):
    """Fit the fader gains so that the bus signals come close to ``target``."""

    def loss(gains):
        mix = bus_mixdown(tracks, gains, bus, target.shape[0])
        dyn = crest_factor(mix, -1, True) - crest_factor(target, -1, True)
        return jnp.mean((mix - target) ** 2) + 1e-3 * jnp.mean(dyn**2)

    for _ in range(steps):
        gains = gains - lr * jax.grad(loss)(gains)
    return gains
