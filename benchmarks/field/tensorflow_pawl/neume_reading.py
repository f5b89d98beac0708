"""Reading square-notation chant from photographed manuscripts.

A small recogniser cuts every staff line into narrow image columns, a recurrent
body turns the columns into features, and the pieces below do the rest:

* ``scribe_modulate`` adapts the features to the hand of the scribe,
* ``symbol_presence`` decides which symbols occur anywhere on the line,
* ``staff_position`` reads the height of a note as a soft position on the staff,
* the reading loss compares with the votes of several palaeographers.

The derivatives are written by hand because the training job keeps the softmaxes
in half precision buffers elsewhere and must not build the full tape.
"""
from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

STAFF_LINES = 4
REDUCTIONS = ("symbol", "line", "sum")


class ReaderSizes(NamedTuple):
    features: int = 48
    symbols: int = 22
    scribes: int = 9


# ---------------------------------------------------------------------------
# scribe adaptation
# ---------------------------------------------------------------------------
@tf.custom_gradient
def scribe_modulate(features, scale_table, shift_table, scribe):
    """Feature-wise modulation by the scribe who wrote the line.

    Args:
      features: float (lines, columns, channels).
      scale_table: float (scribes, channels), added to one.
      shift_table: float (scribes, channels).
      scribe: int (lines,), row of the tables; a scribe may write many lines.

    Returns:
      float (lines, columns, channels).
    """
    scale = tf.gather(scale_table, scribe)[:, None, :]
    shift = tf.gather(shift_table, scribe)[:, None, :]
    out = features * (1.0 + scale) + shift

    def grad(upstream):
        rows = tf.shape(scale_table)[0]
        per_line_scale = tf.reduce_sum(upstream * features, axis=1)
        per_line_shift = tf.reduce_sum(upstream, axis=1)
        return (
            upstream * (1.0 + scale),
            tf.math.unsorted_segment_sum(per_line_scale, scribe, rows),
            tf.math.unsorted_segment_sum(per_line_shift, scribe, rows),
            None,
        )

    return out, grad


# ---------------------------------------------------------------------------
# which symbols are on the line
# ---------------------------------------------------------------------------
@tf.custom_gradient
def symbol_presence(scores, sharpness):
    """Smooth maximum over the columns of a line.

    ``log(mean_c exp(r * s_c)) / r`` for each symbol; a large ``r`` looks at the
    best column only, a small one averages.

    Args:
      scores: float (lines, columns, symbols).
      sharpness: float (symbols,), the positive ``r`` of each symbol; learnt,
        starts at one.

    Returns:
      float (lines, symbols).
    """
    columns = tf.cast(tf.shape(scores)[1], scores.dtype)
    scaled = scores * sharpness
    pooled = (tf.reduce_logsumexp(scaled, axis=1) - tf.math.log(columns)) / sharpness
    weights = tf.nn.softmax(scaled, axis=1)

    def grad(upstream):
        d_scores = weights * upstream[:, None, :]
        centre = tf.reduce_sum(weights * scores, axis=1)
        d_sharpness = tf.reduce_sum(upstream * (centre - pooled), axis=0)
        return d_scores, d_sharpness

    return pooled, grad


# ---------------------------------------------------------------------------
# height of a note
# ---------------------------------------------------------------------------
@tf.custom_gradient
def staff_position(logits, heights):
    """Soft position of notes on the staff and the spread of the belief.

    ``logits`` is (notes, slots); ``heights`` (slots,) holds the height of every
    slot, lines and spaces, in staff spaces.  It is trained as well, because the
    parchment is warped.  Returns two vectors of length notes: mean and variance.
    """
    belief = tf.nn.softmax(logits, axis=-1)
    mean = tf.linalg.matvec(belief, heights)
    offset = heights[None, :] - mean[:, None]
    variance = tf.reduce_sum(belief * offset**2, axis=-1)

    def grad(up_mean, up_variance):
        up_mean = up_mean[:, None]
        up_variance = up_variance[:, None]
        d_logits = belief * (up_mean * offset + up_variance * (offset**2 - variance[:, None]))
        d_heights = tf.reduce_sum(belief * (up_mean + 2.0 * up_variance * offset), axis=0)
        return d_logits, d_heights

    return (mean, variance), grad


# ---------------------------------------------------------------------------
# loss against several readers
# ---------------------------------------------------------------------------
def make_reading_loss(reduction="symbol"):
    """Cross entropy with the votes of the palaeographers.

    reduction
        ``"symbol"``  average over all the readable symbols of the batch,
        ``"line"``    average inside every line, then over lines, so that long
                      lines do not count more than short ones,
        ``"sum"``     no averaging.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {REDUCTIONS}, got {reduction!r}")

    @tf.custom_gradient
    def reading_loss(logits, votes, readable):
        # logits, votes: (lines, length, symbols); readable: (lines, length), 0 or 1
        log_p = tf.nn.log_softmax(logits, axis=-1)
        nll = -tf.reduce_sum(votes * log_p, axis=-1) * readable
        total = tf.maximum(tf.reduce_sum(readable), 1.0)
        if reduction == "sum":
            loss = tf.reduce_sum(nll)
        elif reduction == "symbol":
            loss = tf.reduce_sum(nll) / total
        else:
            length = tf.maximum(tf.reduce_sum(readable, axis=1), 1.0)
            loss = tf.reduce_mean(tf.reduce_sum(nll, axis=1) / length)

        def grad(upstream):
            weight = readable * upstream
            if reduction != "sum":
                weight = weight / total
            weight = weight[..., None]
            mass = tf.reduce_sum(votes, axis=-1, keepdims=True)
            d_logits = weight * (mass * tf.exp(log_p) - votes)
            d_votes = -weight * log_p
            return d_logits, d_votes, None

        return loss, grad

    return reading_loss


class NeumeHead(tf.Module):
    """Scribe adaptation, symbol scores and the presence readout in one."""

    def __init__(self, sizes: ReaderSizes = ReaderSizes(), seed: int = 0, name=None):
        super().__init__(name=name)
        rng = tf.random.Generator.from_seed(seed)
        self.scale = tf.Variable(tf.zeros([sizes.scribes, sizes.features]))
        self.shift = tf.Variable(tf.zeros([sizes.scribes, sizes.features]))
        self.kernel = tf.Variable(0.1 * rng.normal([sizes.features, sizes.symbols]))
        self.sharpness = tf.Variable(tf.ones([sizes.symbols]))

    def __call__(self, features, scribe):
        adapted = scribe_modulate(
            features,
            tf.convert_to_tensor(self.scale),
            tf.convert_to_tensor(self.shift),
            scribe,
        )
        scores = tf.tensordot(adapted, self.kernel, axes=1)
        return symbol_presence(scores, tf.convert_to_tensor(self.sharpness))
