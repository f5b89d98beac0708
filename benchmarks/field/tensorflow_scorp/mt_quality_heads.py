"""Heads of a machine-translation quality estimator.

The encoder yields token states of source/hypothesis pairs; the pieces here sit on top of it:

* a normalisation whose gain and bias belong to the language pair of the sentence,
* a glossary look-up that blends terminology vectors into the token states,
* a smooth BLEU that may serve as an auxiliary reward,
* the segment-level correlation with human direct assessment (DA) scores.

Everything is TensorFlow; the derivatives are written out since the estimator is trained with very long batches
and the intermediate tensors of the plain versions did not fit.
"""
from typing import Sequence

import numpy as np
import tensorflow as tf

EPS = 1e-5


def _column(mask, dtype):
    return tf.cast(mask, dtype)[..., tf.newaxis]


def make_language_norm(over: str = "token", eps: float = EPS):
    """Return a language-conditioned layer norm.

    Args:
      over: "token" normalises each token over its features; "sentence" takes one mean and one variance from all
        unpadded tokens and features of the sentence.
      eps: added to the variance.

    Returns:
      A function of (x, scale, shift, lang, mask).
    """
    if over not in ("token", "sentence"):
        raise ValueError(over)
    axes = [2] if over == "token" else [1, 2]

    @tf.custom_gradient
    def language_norm(x, scale, shift, lang, mask):
        # x (batch, time, dim); scale and shift (pairs, dim); lang (batch,) ints; mask (batch, time), True = token
        w = _column(mask, x.dtype)
        pairs = tf.shape(scale)[0]
        if over == "token":
            count = tf.cast(tf.shape(x)[2], x.dtype)
        else:
            count = tf.reduce_sum(w, axes, keepdims=True) * tf.cast(tf.shape(x)[2], x.dtype)
            count = tf.maximum(count, 1)

        def average(t):
            return tf.reduce_sum(t, axes, keepdims=True) / count

        centred = (x - average(x * w)) * w
        inv = tf.math.rsqrt(average(centred ** 2) + eps)
        unit = centred * inv
        gain = tf.gather(scale, lang)[:, tf.newaxis]
        out = (unit * gain + tf.gather(shift, lang)[:, tf.newaxis]) * w

        def grad(upstream):
            g = upstream * w
            d_scale = tf.math.unsorted_segment_sum(tf.reduce_sum(g * unit, 1), lang, pairs)
            d_shift = tf.math.unsorted_segment_sum(tf.reduce_sum(g, 1), lang, pairs)
            h = g * gain
            d_x = inv * (h - average(h) - unit * average(h * unit)) * w
            return d_x, d_scale, d_shift, None, None

        return out, grad

    return language_norm


@tf.custom_gradient
def glossary_mix(tokens, terms, gate, hits):
    """Adds the gated mean of the matching glossary terms to each token.

    Args:
      tokens: [batch, time, dim] states.
      terms: [entries, dim] table of terminology vectors.
      gate: [dim].
      hits: [batch, time, k] entry numbers of the matches of the token. Tokens have between none and k matches, the
        rest of the row is -1.
    """
    found = tf.cast(hits >= 0, tokens.dtype)[..., tf.newaxis]
    ids = tf.maximum(hits, 0)
    count = tf.maximum(tf.reduce_sum(found, axis=2), 1)
    mean = tf.reduce_sum(tf.gather(terms, ids) * found, axis=2) / count

    def grad(upstream):
        d_gate = tf.reduce_sum(upstream * mean, axis=[0, 1])
        share = upstream * gate / count
        rows = tf.repeat(share[:, :, tf.newaxis], tf.shape(hits)[2], axis=2)
        d_terms = tf.math.unsorted_segment_sum(
            tf.reshape(rows, [-1, tf.shape(terms)[1]]), tf.reshape(ids, [-1]), tf.shape(terms)[0])
        return upstream, d_terms, d_gate, None

    return tokens + gate * mean, grad


def make_soft_bleu(weights: Sequence[float] = (0.25, 0.25, 0.25, 0.25), floor: float = 1e-6):
    """Smooth BLEU from expected n-gram precisions.

    Args:
      weights: relative importance of the orders 1..N, any positive numbers; the geometric mean is the weighted one.
      floor: precisions below it count as the floor (an order with no match does not annul the sentence).
    """
    table = np.asarray(weights, dtype=np.float64)

    @tf.custom_gradient
    def soft_bleu(precisions, length, reference):
        """precisions [batch, N]; length and reference [batch]: expected hypothesis length, reference length."""
        w = tf.constant(table, precisions.dtype)
        clipped = tf.maximum(precisions, floor)
        log_mean = tf.reduce_sum(w * tf.math.log(clipped), -1) / tf.reduce_sum(w)
        brevity = tf.exp(tf.minimum(1 - reference / length, 0))
        score = brevity * tf.exp(log_mean)

        def grad(upstream):
            s = upstream * score
            above = tf.cast(precisions > floor, s.dtype)
            d_precisions = s[:, tf.newaxis] * w * above / clipped
            short = tf.cast(length < reference, s.dtype)
            d_length = s * short * reference / length ** 2
            d_reference = -s * short / length
            return d_precisions, d_length, d_reference

        return score, grad

    return soft_bleu


@tf.custom_gradient
def masked_pearson(predicted, human, mask):
    """Correlation along the last axis over the rated segments; 0 where either side is constant."""
    w = tf.cast(mask, predicted.dtype)
    n = tf.reduce_sum(w, -1, keepdims=True)

    def centre(t):
        return (t - tf.math.divide_no_nan(tf.reduce_sum(t * w, -1, keepdims=True), n)) * w

    a, b = centre(predicted), centre(human)
    aa = tf.reduce_sum(a * a, -1, keepdims=True)
    bb = tf.reduce_sum(b * b, -1, keepdims=True)
    norm = tf.sqrt(aa * bb)
    r = tf.math.divide_no_nan(tf.reduce_sum(a * b, -1, keepdims=True), norm)

    def grad(upstream):
        g = upstream[..., tf.newaxis]
        d_predicted = g * (tf.math.divide_no_nan(b, norm) - r * tf.math.divide_no_nan(a, aa))
        d_human = g * (tf.math.divide_no_nan(a, norm) - r * tf.math.divide_no_nan(b, bb))
        return d_predicted, d_human, None

    return tf.squeeze(r, -1), grad


class PairNorm(tf.Module):
    """Holds the gains of ``pairs`` language pairs."""

    def __init__(self, pairs, dim, over="token"):
        super().__init__()
        self.scale = tf.Variable(tf.ones([pairs, dim]))
        self.shift = tf.Variable(tf.zeros([pairs, dim]))
        self._norm = make_language_norm(over)

    def __call__(self, x, lang, mask):
        return self._norm(x, tf.convert_to_tensor(self.scale), tf.convert_to_tensor(self.shift), lang, mask)
