"""Transcribing tap dance from a floor microphone and two ankle sensors.

The recording is cut into frames of 10 ms. A small recurrent model reads the frames, keeps a memory that starts afresh at the
beginning of every phrase of the choreography, and says for each tap in which of K ordered time bins of the beat it fell. Two
things keep the model honest: the loss knows that neighbouring bins are nearly right, and a penalty keeps the features
independent of who is dancing.

All derivatives here are written out by hand, since the frames of a whole show do not fit the tape otherwise.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class TapConfig:
    beat_bins: int = 16
    channels: int = 24
    levels: Sequence[int] = (1, 2, 4)
    kernel_width: float = 1.0


# --------------------------------------------------------------------------------------------------------------------
# loss


def make_beat_loss(bin_width=None):
    """Loss over ordered beat bins.

    Args:
        bin_width: optional vector [K] of the widths of the bins (the swing of a beat makes them unequal); all ones
            where it is None.

    Returns:
        A function of ``logits`` [..., K], integer ``bins`` [...] and boolean ``heard`` [...], which gives the squared
        distance of the two cumulative distributions, weighted with the bin widths, as a mean over the taps that were heard
        (zero where none was heard).
    """

    @tf.custom_gradient
    def cramer_loss(logits, bins, heard):
        dtype = logits.dtype
        k = logits.shape[-1]
        width = tf.ones([k], dtype) if bin_width is None else tf.constant(bin_width, dtype)
        step = tf.cast(tf.range(k, dtype=bins.dtype) >= bins[..., None], dtype)
        keep = tf.cast(heard, dtype)
        count = tf.maximum(tf.reduce_sum(keep), 1.0)
        p = tf.nn.softmax(logits, axis=-1)
        gap = tf.cumsum(p, axis=-1) - step
        loss = tf.reduce_sum(keep * tf.reduce_sum(width * gap**2, axis=-1)) / count

        def grad(upstream):
            g_cdf = 2.0 * width * gap * (keep * upstream / count)[..., None]
            g_p = tf.cumsum(g_cdf, axis=-1, reverse=True)
            return p * (g_p - tf.reduce_sum(p * g_p, axis=-1, keepdims=True)), None, None

        return loss, grad

    return cramer_loss


# --------------------------------------------------------------------------------------------------------------------
# layers


@tf.custom_gradient
def phrase_memory(x, forget, start, new_phrase):
    """Gated running memory over the frames of a recording.

    x, forget: [batch, time, channels], the forget gate between 0 and 1
    start: [channels], the learned state at the beginning of a phrase
    new_phrase: [batch, time] bool, True on the first frame of a phrase (the first frame of all counts as one)

    h[t] = forget[t] * before[t] + (1 - forget[t]) * x[t], where before[t] is h[t - 1] within a phrase and ``start`` at its
    first frame. Returns h, [batch, time, channels].
    """
    fresh = tf.cast(new_phrase, x.dtype)[..., None]
    steps = x.shape[1]
    h = tf.zeros_like(x[:, 0]) + start
    states = []
    for t in range(steps):
        before = fresh[:, t] * start + (1.0 - fresh[:, t]) * h
        h = forget[:, t] * before + (1.0 - forget[:, t]) * x[:, t]
        states.append(h)
    out = tf.stack(states, axis=1)

    def grad(upstream):
        first = tf.zeros_like(out[:, :1]) + start
        previous = tf.concat([first, out[:, :-1]], axis=1)
        carry = tf.zeros_like(out[:, 0])
        g_start = tf.zeros_like(start)
        gx, gf = [], []
        for t in reversed(range(steps)):
            carry = carry + upstream[:, t]
            gx.append((1.0 - forget[:, t]) * carry)
            gf.append((previous[:, t] - x[:, t]) * carry)
            back = forget[:, t] * carry
            g_start = g_start + tf.reduce_sum(fresh[:, t] * back, axis=0)
            carry = (1.0 - fresh[:, t]) * back
        g_start = g_start + tf.reduce_sum(carry, axis=0)
        return tf.stack(gx[::-1], axis=1), tf.stack(gf[::-1], axis=1), g_start, None

    return out, grad


def _edges(steps: int, parts: int) -> list[tuple[int, int]]:
    size = -(-steps // parts)
    return [(min(i * size, steps), min((i + 1) * size, steps)) for i in range(parts)]


class PyramidReadout(tf.Module):
    """Means over coarser and finer parts of a recording of any length, side by side.

    At a level of n parts the recording is cut in parts of ceil(T / n) frames (the last one may be shorter; a part that
    has no frames at all reads zero), and each part gives the mean of its frames: [B, T, C] -> [B, sum(levels), C].
    """

    def __init__(self, levels=(1, 2, 4), name=None):
        super().__init__(name=name)
        self.levels = tuple(levels)

    def __call__(self, frames):
        levels = self.levels

        @tf.custom_gradient
        def pyramid_pool(frames):
            steps = frames.shape[1]
            rows = []
            for n in levels:
                for lo, hi in _edges(steps, n):
                    total = tf.reduce_sum(frames[:, lo:hi], axis=1)
                    rows.append(total / max(hi - lo, 1))

            def grad(upstream):
                out = tf.zeros_like(frames)
                at = 0
                for n in levels:
                    size = -(-steps // n)
                    rows = tf.repeat(upstream[:, at : at + n], size, axis=1)[:, :steps]
                    out = out + rows / size
                    at += n
                return out

            return tf.stack(rows, axis=1), grad

        return pyramid_pool(frames)


# --------------------------------------------------------------------------------------------------------------------
# penalty


def _centre(k):
    k = k - tf.reduce_mean(k, axis=0, keepdims=True)
    return k - tf.reduce_mean(k, axis=1, keepdims=True)


def _pull(x, g_sq):
    """Gradient of x from the gradient of its matrix of squared distances."""
    both = g_sq + tf.transpose(g_sq)
    return 2.0 * (tf.reduce_sum(both, axis=1)[:, None] * x - tf.matmul(both, x))


def _squared_distances(x):
    diff = x[:, None, :] - x[None, :, :]
    return tf.reduce_sum(diff**2, axis=-1)


@tf.custom_gradient
def dancer_independence(features, dancer, log_width):
    """HSIC of features [n, d] and dancer embeddings [n, e] with a Gaussian kernel on the features, of width exp(log_width)
    (a scalar), and a linear kernel on the dancers; n of at least two."""
    n = features.shape[0]
    scale = 0.5 * tf.exp(-2.0 * log_width)
    sq = _squared_distances(features)
    kf = tf.exp(-scale * sq)
    kd = tf.matmul(dancer, dancer, transpose_b=True)
    norm = float((n - 1) ** 2)
    value = tf.reduce_sum(_centre(kf) * kd) / norm

    def grad(upstream):
        g_kf = upstream * _centre(kd) / norm
        g_kd = upstream * _centre(kf) / norm
        g_sq = -scale * kf * g_kf
        g_dancer = tf.matmul(g_kd + tf.transpose(g_kd), dancer)
        g_log_width = tf.reduce_sum(g_kf * kf * sq) * 2.0 * scale
        return _pull(features, g_sq), g_dancer, g_log_width

    return value, grad


def training_loss(frames, gates, start, new_phrase, readout, bins, heard, config=TapConfig()):
    """One number for a batch of recordings; ``readout`` [C, K] maps the memory to beat bins."""
    memory = phrase_memory(frames, tf.sigmoid(gates), start, new_phrase)
    logits = tf.einsum("btc,ck->btk", memory, readout)
    return make_beat_loss()(logits, bins, heard)
