"""Signal operators for passive acoustic monitoring and for models of calling insects.

Front end (framing, band energies, flatness, biquad equalisers), a small physical model of a resonating wing and the
phase-oscillator model that we use for chorusing.  Everything is real valued at the interface; complex numbers appear
only inside.  Static shapes are not required.
"""
import math
from typing import Callable, NamedTuple, Optional

import tensorflow as tf


class FrontEndParams(NamedTuple):
    sample_rate: float = 16000.0
    frame_length: int = 256
    hop: Optional[int] = None
    bands: int = 24
    floor: float = 1e-8


# ---------------------------------------------------------------------------------------------------------------------
# framing


def make_framer(frame_length: int, hop: Optional[int] = None) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Build the windowed framing operator.

    Parameters
    ----------
    frame_length : int
        Samples in a frame.
    hop : int, optional
        Samples between the starts of neighbouring frames, at most `frame_length`.  By default frames do not overlap.

    Returns
    -------
    callable
        ``frame(signal, window)`` from ``(batch, samples)`` and ``(frame_length,)`` to
        ``(batch, frames, frame_length)``.  Samples after the last whole frame are dropped; there must be room for at
        least one frame.
    """
    hop = frame_length if hop is None else int(hop)
    if not 0 < hop <= frame_length:
        raise ValueError(f"hop must be in 1..{frame_length}, got {hop}")

    @tf.custom_gradient
    def frame(signal, window):
        pieces = tf.signal.frame(signal, frame_length, hop, axis=-1)

        def grad(upstream):
            d_window = tf.reduce_sum(upstream * pieces, axis=[0, 1])
            # put the frames back where they were cut from
            weighted = upstream * window
            placed = tf.signal.overlap_and_add(weighted, hop)
            coverage = tf.signal.overlap_and_add(tf.ones_like(weighted), hop)
            d_signal = placed / coverage
            missing = tf.shape(signal)[-1] - tf.shape(d_signal)[-1]
            return tf.pad(d_signal, [[0, 0], [0, missing]]), d_window

        return pieces * window, grad

    return frame


# ---------------------------------------------------------------------------------------------------------------------
# spectra


def _one_sided_multiplicity(bins, dtype):
    """How often each bin of a one-sided spectrum stands in the two-sided one."""
    inner = tf.fill([bins - 2], tf.cast(2.0, dtype))
    edge = tf.ones([1], dtype)
    return tf.concat([edge, inner, edge], axis=0)


@tf.custom_gradient
def band_energies(frames, filterbank):
    """Energy of every frame in every band.

    Parameters
    ----------
    frames : (..., n) real
        Windowed frames, n >= 2.
    filterbank : (bands, n // 2 + 1) real
        Weight of each frequency bin in each band.

    Returns
    -------
    (..., bands) real
    """
    n = tf.shape(frames)[-1]
    spectrum = tf.signal.rfft(frames)
    power = tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))
    energies = tf.einsum("...f,kf->...k", power, filterbank)

    def grad(upstream):
        bins = tf.shape(filterbank)[1]
        d_power = tf.einsum("...k,kf->...f", upstream, filterbank)
        multiplicity = _one_sided_multiplicity(bins, frames.dtype)
        scale = 2.0 * d_power * tf.cast(n, frames.dtype) / multiplicity
        d_frames = tf.signal.irfft(tf.cast(scale, spectrum.dtype) * spectrum, fft_length=n[None])

        flat_up = tf.reshape(upstream, [-1, tf.shape(filterbank)[0]])
        flat_power = tf.reshape(power, [-1, bins])
        return d_frames, tf.matmul(flat_up, flat_power, transpose_a=True)

    return energies, grad


def spectral_flatness(power, axis: int = -1, floor: float = 1e-10, keepdims: bool = False):
    """Geometric over arithmetic mean of a power spectrum along `axis` (Wiener entropy), between 0 and 1.

    `power` may have any rank; `axis` is the one that holds the frequencies: -1 for (batch, time, frequency), 1 for the
    channels-first layout of the recorders.
    """

    @tf.custom_gradient
    def _flatness(p):
        lifted = p + floor
        geometric = tf.exp(tf.reduce_mean(tf.math.log(lifted), axis=axis, keepdims=True))
        arithmetic = tf.reduce_mean(lifted, axis=axis, keepdims=True)
        ratio = geometric / arithmetic

        def grad(upstream):
            bins = tf.cast(tf.shape(p)[-1], p.dtype)
            return upstream * ratio * (1.0 / lifted - 1.0 / arithmetic) / bins

        return ratio, grad

    out = _flatness(power)
    return out if keepdims else tf.squeeze(out, axis=axis)


def triangular_filterbank(params: FrontEndParams, dtype=tf.float32) -> tf.Tensor:
    """Triangles on a log-frequency scale, (bands, frame_length // 2 + 1)."""
    bins = params.frame_length // 2 + 1
    freq = tf.linspace(tf.cast(0.0, dtype), tf.cast(params.sample_rate / 2, dtype), bins)
    low, high = math.log(50.0), math.log(params.sample_rate / 2)
    edges = tf.exp(tf.linspace(tf.cast(low, dtype), tf.cast(high, dtype), params.bands + 2))
    left, mid, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising = (freq - left) / (mid - left)
    falling = (right - freq) / (right - mid)
    return tf.maximum(tf.cast(0.0, dtype), tf.minimum(rising, falling))


class FrontEnd(tf.Module):
    """Log band energies with a trainable window and filterbank, and the flatness of every frame."""

    def __init__(self, params: FrontEndParams = FrontEndParams(), dtype=tf.float32, name=None):
        super().__init__(name=name)
        self.params = params
        self.window = tf.Variable(tf.signal.hann_window(params.frame_length, dtype=dtype), name="window")
        self.filterbank = tf.Variable(triangular_filterbank(params, dtype), name="filterbank")
        self._frame = make_framer(params.frame_length, params.hop)

    def __call__(self, signal):
        frames = self._frame(signal, tf.convert_to_tensor(self.window))
        energies = band_energies(frames, tf.convert_to_tensor(self.filterbank))
        flatness = spectral_flatness(energies, floor=self.params.floor)
        return tf.math.log(energies + self.params.floor), flatness


# ---------------------------------------------------------------------------------------------------------------------
# equaliser


def _delay(x, by):
    """Delay along the last axis, zeros shifted in."""
    n = tf.shape(x)[-1]
    return tf.pad(x, [[0, 0], [0, 0], [by, 0]])[..., :n]


def _advance(x, by):
    return tf.pad(x, [[0, 0], [0, 0], [0, by]])[..., by:]


def _all_pole(x, a, reverse=False):
    """y[t] = x[t] - a1 y[t-1] - a2 y[t-2], or the same thing run from the end."""
    a1, a2 = a[:, 0], a[:, 1]
    zero = tf.zeros_like(x[..., 0])

    def step(state, now):
        y1, y2 = state
        return now - a1 * y1 - a2 * y2, y1

    y, _ = tf.scan(step, tf.transpose(x, [2, 0, 1]), initializer=(zero, zero), reverse=reverse)
    return tf.transpose(y, [1, 2, 0])


@tf.custom_gradient
def biquad_bank(x, b, a):
    """x: (batch, channels, time), b: (channels, 3), a: (channels, 2), with a0 = 1."""
    feed = sum(b[:, k, None] * _delay(x, k) for k in range(3))
    y = _all_pole(feed, a)

    def grad(upstream):
        lam = _all_pole(upstream, a, reverse=True)
        d_x = sum(b[:, k, None] * _advance(lam, k) for k in range(3))
        d_b = tf.stack([tf.reduce_sum(lam * _delay(x, k), axis=[0, 2]) for k in range(3)], axis=1)
        d_a = tf.stack([-tf.reduce_sum(lam * _delay(y, k), axis=[0, 2]) for k in (1, 2)], axis=1)
        return d_x, d_b, d_a

    return y, grad


# ---------------------------------------------------------------------------------------------------------------------
# physical models


@tf.custom_gradient
def resonator_response(omega, omega0, quality):
    """Magnitude and phase of damped resonators driven at given frequencies.

    With ``H = 1 / (omega0^2 - omega^2 + i omega omega0 / Q)`` returns the pair ``(|H|, arg H)``, each of shape
    ``(resonators, frequencies)``, from ``omega`` of shape ``(frequencies,)`` and ``omega0``, ``quality`` of shape
    ``(resonators,)``.  All of them positive.
    """
    w0, q = omega0[:, None], quality[:, None]
    stiff = tf.square(w0) - tf.square(omega)
    damp = omega * w0 / q
    magnitude = tf.math.rsqrt(tf.square(stiff) + tf.square(damp))
    phase = -tf.math.atan2(damp, stiff)

    def grad(up_magnitude, up_phase):
        squared = tf.square(magnitude)
        radial = -up_magnitude * squared * magnitude
        d_stiff = radial * stiff + up_phase * damp * squared
        d_damp = radial * damp - up_phase * stiff * squared
        d_omega = tf.reduce_sum(-2.0 * omega * d_stiff + w0 / q * d_damp, axis=0)
        d_omega0 = tf.reduce_sum(2.0 * w0 * d_stiff + omega / q * d_damp, axis=1)
        d_quality = tf.reduce_sum(-damp / q * d_damp, axis=1)
        return d_omega, d_omega0, d_quality

    return (magnitude, phase), grad


@tf.custom_gradient
def chorus_drift(theta: tf.Tensor, coupling: tf.Tensor, lag: tf.Tensor):
    """Coupling term of the phase model: ``drift_i = sum_j coupling[i, j] * sin(theta_j - theta_i - lag)``.

    theta (batch, callers), coupling (callers, callers) with listener first, lag scalar.
    """
    diff = theta[:, None, :] - theta[:, :, None] - lag
    drift = tf.einsum("ij,bij->bi", coupling, tf.sin(diff))

    def grad(upstream):
        pull = upstream[:, :, None] * coupling * tf.cos(diff)
        d_theta = tf.reduce_sum(pull, axis=1) - tf.reduce_sum(pull, axis=2)
        d_coupling = tf.einsum("bi,bij->ij", upstream, tf.sin(diff))
        return d_theta, d_coupling, -tf.reduce_sum(pull)

    return drift, grad


class Chorus(tf.Module):
    """Explicit Euler integration of a chorus of callers."""

    def __init__(self, callers: int, dt: float = 0.01, dtype=tf.float32, seed: int = 0, name=None):
        super().__init__(name=name)
        draw = tf.random.stateless_normal([callers, callers], seed=[seed, 1], dtype=dtype)
        self.coupling = tf.Variable(draw / math.sqrt(callers), name="coupling")
        self.rate = tf.Variable(tf.ones([callers], dtype) * 2 * math.pi, name="rate")
        self.lag = tf.Variable(tf.zeros([], dtype), name="lag")
        self.dt = dt

    def __call__(self, theta, steps: int = 10):
        coupling, lag = tf.convert_to_tensor(self.coupling), tf.convert_to_tensor(self.lag)
        for _ in range(steps):
            theta = theta + self.dt * (self.rate + chorus_drift(theta, coupling, lag))
        return theta
