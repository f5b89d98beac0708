"""End-of-utterance detection head for a streaming recogniser.

A small head sits on the encoder of a streaming speech model and decides, frame
by frame, whether the user has finished speaking. Three pieces of the training
graph are written with explicit backward passes, because the op-by-op graph of
the cumulative products dominated the step time of the trainer:

``make_frame_stacker``  time reduction of the encoder frames,
``endpoint_delay``      expected waiting time under the per-frame hazard,
``make_peak_first``     the regulariser that moves posterior peaks to earlier
                        frames of the alignment.

Batches are padded on the right. ``frame_mask`` turns lengths into masks.
"""

from typing import Dict, NamedTuple, Optional

import numpy as np
import tensorflow as tf

FRAME_MS = 40.0
PEAK_FIRST_WEIGHT = 0.01
MISS_WEIGHT = 120.0


class EndpointConfig(NamedTuple):
    """Static configuration of the head."""

    feature_dim: int = 16
    hidden_dim: int = 24
    vocab: int = 12
    stack: int = 2
    shift: int = 1
    miss_weight: float = MISS_WEIGHT


def frame_mask(lengths, frames, dtype=tf.float32):
    """``[batch, frames]`` mask with ones on the frames within ``lengths``."""
    return tf.sequence_mask(lengths, frames, dtype=dtype)


def reduced_lengths(lengths, factor):
    """Number of stacked frames that hold at least one real frame."""
    return (lengths + factor - 1) // factor


# -- time reduction ----------------------------------------------------------


def make_frame_stacker(factor: int):
    """Concatenate ``factor`` neighbouring frames, project them, apply SiLU.

    The last group is completed with zero frames if the number of frames is not
    a multiple of ``factor``.
    """

    @tf.custom_gradient
    def stacked_projection(frames, kernel, bias):
        """frames [B, T, D], kernel [factor * D, U], bias [U] -> [B, ceil(T / factor), U]."""
        batch, steps, dim = frames.shape
        groups = -(-steps // factor)
        missing = groups * factor - steps
        padded = tf.pad(frames, [[0, 0], [0, missing], [0, 0]])
        stacked = tf.reshape(padded, [batch * groups, factor * dim])
        pre = tf.matmul(stacked, kernel) + bias
        gate = tf.sigmoid(pre)
        out = tf.reshape(pre * gate, [batch, groups, -1])

        def grad(upstream):
            g = tf.reshape(upstream, [batch * groups, -1])
            g = g * (gate + pre * gate * (1.0 - gate))
            d_kernel = tf.matmul(stacked, g, transpose_a=True)
            d_bias = tf.reduce_sum(g, axis=0)
            d_stacked = tf.matmul(g, kernel, transpose_b=True)
            d_frames = tf.reshape(d_stacked, [batch, groups * factor, dim])
            return d_frames[:, :steps], d_kernel, d_bias

        return out, grad

    return stacked_projection


# -- waiting time ------------------------------------------------------------


@tf.custom_gradient
def endpoint_delay(logits, mask):
    """Waiting time until the endpointer fires, and the chance that it never does.

    The hazard of frame ``t`` is ``sigmoid(logits[t])``; padded frames have no
    hazard and no waiting time.

    Args:
        logits: hazard logits of the frames after the last word, one row per
            utterance.
        mask: same shape, one on real frames and zero on padding.

    Returns:
        delay: expected milliseconds of silence before the microphone closes.
        miss: probability that no frame of the row fires.
    """
    hazard = tf.sigmoid(logits) * mask
    log_alive = -tf.cumsum(tf.math.softplus(logits) * mask, axis=1)
    alive = tf.exp(log_alive)
    delay = FRAME_MS * tf.reduce_sum(alive * mask, axis=1)
    miss = alive[:, -1]

    def grad(g_delay, g_miss):
        later = tf.cumsum(alive, axis=1, reverse=True)
        g_log = FRAME_MS * g_delay[:, None] * later + (g_miss * miss)[:, None]
        return -g_log * hazard, None

    return (delay, miss), grad


# -- peak-first regulariser --------------------------------------------------


def make_peak_first(shift: int = 1):
    """Divergence between a frame's posterior and that of a later frame.

    For each utterance, the mean over its frames of
    ``KL(p[t + shift] || p[t])``. Both sides are trained.

    Parameters
    ----------
    shift : int
        Distance in frames. One frame is the published choice; heads that run
        on unstacked frames use two to four.
    """
    if shift < 1:
        raise ValueError("shift must be positive")

    @tf.custom_gradient
    def peak_first(logits, lengths):
        log_p = tf.nn.log_softmax(logits, axis=-1)
        frames = logits.shape[1]
        log_later = tf.roll(log_p, shift=-shift, axis=1)
        later = tf.exp(log_later)
        pairs = tf.maximum(lengths - shift, 0)
        weight = tf.sequence_mask(pairs, frames, dtype=logits.dtype)
        weight /= tf.cast(tf.maximum(pairs, 1), logits.dtype)[:, None]
        ratio = log_later - log_p
        divergence = tf.reduce_sum(later * ratio, axis=-1)
        penalty = tf.reduce_sum(weight * divergence, axis=1)

        def grad(upstream):
            g = (upstream[:, None] * weight)[..., None]
            d_here = g * (tf.exp(log_p) - later)
            d_later = g * later * (ratio - divergence[..., None])
            return d_here + tf.roll(d_later, shift=1, axis=1), None

        return penalty, grad

    return peak_first


# -- the head ----------------------------------------------------------------


class EndpointHead(tf.keras.layers.Layer):
    """Stacks encoder frames and emits hazard and token logits."""

    def __init__(self, config: Optional[EndpointConfig] = None, **kwargs):
        super().__init__(**kwargs)
        self.config = config or EndpointConfig()
        self._project = make_frame_stacker(self.config.stack)
        self.hazard = tf.keras.layers.Dense(1, name="hazard")
        self.tokens = tf.keras.layers.Dense(self.config.vocab, name="tokens")

    def build(self, input_shape):
        rows = self.config.stack * int(input_shape[-1])
        self.kernel = self.add_weight(
            name="kernel", shape=(rows, self.config.hidden_dim),
            initializer="glorot_uniform")
        self.bias = self.add_weight(
            name="bias", shape=(self.config.hidden_dim,), initializer="zeros")

    def call(self, frames) -> Dict[str, tf.Tensor]:
        hidden = self._project(frames, tf.convert_to_tensor(self.kernel),
                               tf.convert_to_tensor(self.bias))
        return {
            "hazard": tf.squeeze(self.hazard(hidden), axis=-1),
            "tokens": self.tokens(hidden),
        }


def silence_mask(lengths, speech_ends, frames, dtype=tf.float32):
    """Frames between the end of speech and the end of the recording.

    Rows start at frame zero in the rolled layout that ``endpoint_loss`` feeds
    to ``endpoint_delay``, which makes the mask a prefix mask.
    """
    return tf.sequence_mask(tf.maximum(lengths - speech_ends, 0), frames, dtype=dtype)


def roll_rows(x, offsets):
    """Move row ``b`` left by ``offsets[b]`` frames, cyclically."""
    frames = x.shape[1]
    index = (tf.range(frames)[None, :] + offsets[:, None]) % frames
    return tf.gather(x, index, batch_dims=1)


def early_fire_penalty(hazard_logits, lengths, speech_ends):
    """Log-likelihood of not firing before the speech has ended."""
    before = tf.sequence_mask(tf.minimum(speech_ends, lengths),
                              hazard_logits.shape[1], dtype=hazard_logits.dtype)
    return tf.reduce_sum(tf.math.softplus(hazard_logits) * before, axis=1)


class EndpointObjective:
    """Training objective of the head.

    Google-style summary of the terms::

        early fire + delay / FRAME_MS + miss_weight * miss + peak-first
    """

    def __init__(self, config: EndpointConfig):
        self.config = config
        self.peak_first = make_peak_first(config.shift)

    def __call__(self, outputs, lengths, speech_ends):
        frames = outputs["hazard"].shape[1]
        dtype = outputs["hazard"].dtype
        mask = silence_mask(lengths, speech_ends, frames, dtype)
        delay, miss = endpoint_delay(roll_rows(outputs["hazard"], speech_ends), mask)
        terms = {
            "early": early_fire_penalty(outputs["hazard"], lengths, speech_ends),
            "delay": delay / FRAME_MS,
            "miss": self.config.miss_weight * miss,
            "peak_first": PEAK_FIRST_WEIGHT * self.peak_first(outputs["tokens"], lengths),
        }
        total = tf.add_n([tf.reduce_mean(v) for v in terms.values()])
        return total, terms


def train_step(head, objective, optimizer, batch):
    frames, lengths, speech_ends = batch
    with tf.GradientTape() as tape:
        outputs = head(frames)
        loss, terms = objective(outputs, lengths, speech_ends)
    grads = tape.gradient(loss, head.trainable_variables)
    optimizer.apply_gradients(zip(grads, head.trainable_variables))
    return loss, {k: float(tf.reduce_mean(v)) for k, v in terms.items()}


def synthetic_batch(config: EndpointConfig, batch=4, frames=21, seed=0):
    rng = np.random.default_rng(seed)
    raw = rng.integers(frames // 2, frames + 1, batch).astype("int32")
    features = rng.normal(size=(batch, frames, config.feature_dim)).astype("float32")
    lengths = reduced_lengths(raw, config.stack)
    speech_ends = np.maximum(lengths - rng.integers(2, 5, batch), 1).astype("int32")
    return tf.constant(features), tf.constant(lengths), tf.constant(speech_ends)


if __name__ == "__main__":
    settings = EndpointConfig(shift=2)
    model = EndpointHead(settings)
    criterion = EndpointObjective(settings)
    adam = tf.keras.optimizers.Adam(1e-3)
    for step in range(3):
        value, parts = train_step(model, criterion, adam, synthetic_batch(settings, seed=step))
        print(step, float(value), parts)
