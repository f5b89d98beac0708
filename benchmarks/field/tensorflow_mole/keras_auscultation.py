# Chest microphones and the Doppler probe: envelopes, beat averages, valve gradients.

import math

import keras
import numpy as np
from keras import ops

SOUND_IN_BLOOD = 1570.0   # m/s
PROBE_HZ = 2.0e6
MMHG_PER_V2 = 4.0         # simplified Bernoulli, v in m/s


def frame_mean(x):
    return ops.sum(x, axis=1, keepdims=True) / x.shape[1]


def shannon_envelope(hop):
    @ops.custom_gradient
    def envelope(sound, scale):
        # sound (B, n*hop), n > 1, no record silent; scale (B, 1) > 0: loudest sample, or what the user takes for it
        b, length = sound.shape
        n = length // hop
        u = sound / scale
        quiet = ops.equal(u, 0.0)
        log2 = ops.log(ops.square(ops.where(quiet, ops.ones_like(u), u)))
        energy = ops.sum(ops.reshape(-u * u * log2, (b, n, hop)), axis=-1) / hop
        away = energy - frame_mean(energy)
        std = ops.sqrt(frame_mean(ops.square(away)))
        z = away / std

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = (upstream - frame_mean(upstream) - z * frame_mean(upstream * z)) / std
            d_u = -2.0 * u * (log2 + 1.0) * ops.repeat(g, hop, axis=1) / hop
            return d_u / scale, -ops.sum(d_u * u, axis=1, keepdims=True) / scale

        return z, grad

    return envelope


def beat_average(beat, beats):
    # beat (T,): number of the beat each frame belongs to, any order; beats: how many rows come out
    member = np.equal.outer(np.arange(beats), np.asarray(beat))      # (beats, T)

    @ops.custom_gradient
    def average(frames, trust):
        # frames (T, F), trust (T,) > 0. A beat without frames comes out as zeros.
        share = ops.cast(member, trust.dtype) * trust
        mass = ops.sum(share, axis=1, keepdims=True)
        share = share / ops.where(mass > 0, mass, ops.ones_like(mass))
        mean = share @ frames

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_frames = ops.transpose(share) @ upstream
            own = ops.transpose(ops.cast(member, trust.dtype)) @ mean
            return d_frames, ops.sum(d_frames * (frames - own), axis=1) / trust

        return mean, grad

    return average


@ops.custom_gradient
def valve_gradient(shift, cosine):
    # shift (B, T) in Hz, positive towards the probe: a jet that leaks back gives negative shifts, and its
    # pressure counts negative. cosine (B, 1) of beam against jet, positive. -> mmHg (B, T)
    to_speed = SOUND_IN_BLOOD / (2.0 * PROBE_HZ)
    v = to_speed * shift / cosine
    drop = MMHG_PER_V2 * v * ops.abs(v)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_v = upstream * (2.0 * MMHG_PER_V2) * v
        return d_v * to_speed / cosine, -ops.sum(d_v * v, axis=1, keepdims=True) / cosine

    return drop, grad


class BeatEncoder(keras.layers.Layer):
    def __init__(self, units, hop=40, **kw):
        super().__init__(**kw)
        self.units = units
        self.envelope = shannon_envelope(hop)
        self.project = keras.layers.Dense(units, activation="tanh")
        self.judge = keras.layers.Dense(1, activation="softplus")

    def call(self, sound, beat=None, beats=1):
        loudest = ops.max(ops.abs(sound), axis=1, keepdims=True)
        z = ops.transpose(self.envelope(sound, loudest))      # frames x microphones
        frames = self.project(z)
        trust = ops.squeeze(self.judge(frames), -1)
        return beat_average(beat, beats)(frames, trust)


def beats_from_peaks(frame_count, peaks):
    """Beat number of every frame; frames before the first peak belong to beat 0."""
    return np.searchsorted(np.asarray(peaks), np.arange(frame_count), side="right")


def mean_gradient(shift, angle, opening):
    # opening (B, T): 1 while the valve is open
    drop = valve_gradient(shift, ops.cos(angle))
    return ops.sum(drop * opening, axis=1) / ops.maximum(ops.sum(opening, axis=1), 1.0)


def stenosis_grade(gradient_mmhg):
    edges = (20.0, 40.0)
    return ("mild", "moderate", "severe")[int(np.searchsorted(edges, gradient_mmhg, side="right"))]


def angle_prior(angle, typical=math.radians(20), width=math.radians(10)):
    return 0.5 * ops.sum(ops.square((angle - typical) / width))
