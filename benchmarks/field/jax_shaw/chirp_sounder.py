# Front end of the oblique chirp sounder: dechirp, range spectrum, pulse
# averaging and sub-bin peak times. Everything runs under jit on the receiver.

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class Sweep(NamedTuple):
    start: float    # Hz
    rate: float     # Hz per second
    fs: float       # samples per second


def sweep_phase(sweep, tau):
    return 2 * jnp.pi * (sweep.start * tau + 0.5 * sweep.rate * tau**2)


def hann(n, dtype=None):
    k = jnp.arange(n, dtype=dtype)
    return 0.5 - 0.5 * jnp.cos(2 * jnp.pi * (k + 0.5) / n)


def _local_time(sweep, n, delay):
    t = jnp.arange(n) / sweep.fs
    return t[None, :] - delay[:, None]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def dechirp(sweep,      # Sweep, static
            echo,       # complex (pulses, samples)
            delay):     # real (pulses,), seconds
    tau = _local_time(sweep, echo.shape[1], delay)
    return echo * jnp.exp(-1j * sweep_phase(sweep, tau))


def _dechirp_fwd(sweep, echo, delay):
    tau = _local_time(sweep, echo.shape[1], delay)
    wipe = jnp.exp(-1j * sweep_phase(sweep, tau))
    beat = echo * wipe
    return beat, (wipe, beat, tau)


def _dechirp_bwd(sweep, res, g):
    wipe, beat, tau = res
    # d phase / d delay is minus the instantaneous frequency
    inst = 2 * jnp.pi * (sweep.start + sweep.rate * tau)
    d_delay = jnp.sum(jnp.real(g * 1j * beat) * inst, axis=1)
    return g * jnp.conj(wipe), d_delay


dechirp.defvjp(_dechirp_fwd, _dechirp_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def range_power(beat,       # real (..., samples)
                window,     # (samples,)
                n_fft):     # at least the number of samples, even or odd
    """One-sided power: the bins that have a mirror count twice."""
    return _range_fwd(beat, window, n_fft)[0]


def _one_sided(n_fft, dtype):
    k = jnp.arange(n_fft // 2 + 1)
    alone = (k == 0) | (2 * k == n_fft)
    return jnp.where(alone, 1.0, 2.0).astype(dtype)


def _range_fwd(beat, window, n_fft):
    spec = jnp.fft.rfft(beat * window, n=n_fft)
    power = _one_sided(n_fft, beat.dtype) * (spec.real**2 + spec.imag**2)
    return power, (beat, window, spec)


def _range_bwd(n_fft, res, g):
    beat, window, spec = res
    # irfft counts the mirrored bins twice by itself
    back = jnp.fft.irfft(2 * g * spec, n=n_fft)[..., : beat.shape[-1]] * n_fft
    d_window = (back * beat).reshape(-1, beat.shape[-1]).sum(0)
    return back * window, d_window


range_power.defvjp(_range_fwd, _range_bwd)


class Averager:
    """Weighted mean over pulses in decibels, never below the floor."""

    def __init__(self, floor=1e-9):
        self.floor = floor

    def __call__(self, power, weights, keep):
        return pulse_mean_db(power, weights, keep, self.floor)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def pulse_mean_db(power,      # (pulses, bins), not negative
                  weights,    # (pulses,), positive
                  keep,       # bool (pulses,), False for a pulse with interference
                  floor):     # static
    return _mean_db_fwd(power, weights, keep, floor)[0]


def _mean_db_fwd(power, weights, keep, floor):
    w = jnp.where(keep, weights, 0.0)
    total = jnp.maximum(w.sum(), 1e-12)
    mean = w @ power / total
    db = 10 * jnp.log10(jnp.maximum(mean, floor))
    return db, (power, w, keep, total, mean)


def _mean_db_bwd(floor, res, g):
    power, w, keep, total, mean = res
    slope = 10 / jnp.log(10.0) / jnp.maximum(mean, floor)
    d_mean = jnp.where(mean > floor, g * slope, 0.0) / total
    d_power = w[:, None] * d_mean
    d_weights = jnp.where(keep, power @ d_mean, 0.0)
    return d_power, d_weights, None


pulse_mean_db.defvjp(_mean_db_fwd, _mean_db_bwd)


def _three(trace, peak):
    mid = jnp.clip(peak, 1, trace.shape[-1] - 2)
    pick = partial(jnp.take_along_axis, trace, axis=-1)
    return mid, pick(mid - 1), pick(mid), pick(mid + 1)


@jax.custom_vjp
def peak_position(trace,    # (rows, bins), decibels
                  peak):    # int (rows, peaks), a bin may be listed more than once
    """Vertex of the parabola through three bins, at most half a bin away."""
    mid, a, b, c = _three(trace, peak)
    bend = a - 2 * b + c
    shift = jnp.where(bend < 0, 0.5 * (a - c) / jnp.where(bend < 0, bend, -1.0), 0.0)
    return mid + jnp.clip(shift, -0.5, 0.5)


def _peak_fwd(trace, peak):
    return peak_position(trace, peak), (trace, peak)


def _peak_bwd(res, g):
    trace, peak = res
    mid, a, b, c = _three(trace, peak)
    bend = a - 2 * b + c
    hollow = bend < 0
    bend = jnp.where(hollow, bend, -1.0)
    shift = 0.5 * (a - c) / bend
    g = jnp.where(hollow & (jnp.abs(shift) < 0.5), g / bend, 0.0)
    rows = jnp.arange(trace.shape[0])[:, None]
    d = jnp.zeros_like(trace)
    d = d.at[rows, mid - 1].add(g * (0.5 - shift))
    d = d.at[rows, mid].add(2 * g * shift)
    d = d.at[rows, mid + 1].add(-g * (0.5 + shift))
    return d, None


peak_position.defvjp(_peak_fwd, _peak_bwd)


def ionogram_times(sweep, echo, delay, weights, keep, peaks, n_fft=512):
    beat = dechirp(sweep, echo, delay).real
    power = range_power(beat, hann(beat.shape[-1], beat.dtype), n_fft)
    trace = Averager()(power, weights, keep)
    bins = peak_position(trace[None], peaks[None])[0]
    return bins * sweep.fs / n_fft / sweep.rate
