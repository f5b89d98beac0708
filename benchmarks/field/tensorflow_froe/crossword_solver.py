"""Pieces of a neural crossword solver.

The solver encodes each clue, proposes a distribution over the 26 letters for every square of every
entry, and then lets crossing entries argue until the grid agrees with itself.  The four pieces below
have their own gradients because the generated ones kept far too many [squares, letters] buffers alive
while a Sunday-size grid (21 x 21) was unrolled for several rounds of arguing.
"""

from __future__ import annotations

import tensorflow as tf

LETTERS = 26
PAD = -1


# --------------------------------------------------------------------------------------------------
# clue encoder
# --------------------------------------------------------------------------------------------------
def make_clue_vector(combiner: str = "sqrtn"):
    """Bag-of-words clue encoder over a shared word table.

    Args:
        combiner: "sqrtn" divides the weighted sum by the root of the summed squared weights (what we
            train with), "mean" divides it by the summed weights (what the first solver used).

    Returns:
        ``clue_vector(table, ids, weights)`` with table [vocabulary, width], ids [clues, words]
        (``PAD`` fills short clues) and positive inverse-frequency weights [clues, words]; the result
        is [clues, width].
    """
    if combiner not in ("sqrtn", "mean"):
        raise ValueError(f"unknown combiner {combiner!r}")

    @tf.custom_gradient
    def clue_vector(table, ids, weights):
        real = tf.cast(ids != PAD, table.dtype)
        safe = tf.maximum(ids, 0)
        w = weights * real
        words = tf.gather(table, safe)
        if combiner == "sqrtn":
            norm = tf.sqrt(tf.reduce_sum(w * w, axis=1, keepdims=True))
        else:
            norm = tf.reduce_sum(w, axis=1, keepdims=True)
        share = tf.math.divide_no_nan(w, norm)
        pooled = tf.einsum("bt,btd->bd", share, words)

        def grad(up):
            along_word = tf.einsum("bd,btd->bt", up, words)
            along_pooled = tf.reduce_sum(up * pooled, axis=1, keepdims=True)
            d_weights = real * tf.math.divide_no_nan(along_word - share * along_pooled, norm)
            per_word = share[..., None] * up[:, None, :]
            d_table = tf.math.unsorted_segment_sum(per_word, safe, tf.shape(table)[0])
            return d_table, None, d_weights

        return pooled, grad

    return clue_vector


# --------------------------------------------------------------------------------------------------
# letters along an entry
# --------------------------------------------------------------------------------------------------
def make_letter_pool(reverse: bool = False):
    """Forget-gate pooling along an entry, h[t] = f[t] h[t-1] + (1 - f[t]) z[t].

    Arguments of the returned function: candidate z and forget f, both [squares, entries, width], and
    the state before the first square, [entries, width].  With ``reverse`` the entry is read from its
    last square to its first; the outputs stay in grid order either way.
    """

    @tf.custom_gradient
    def letter_pool(candidate, forget, start):
        z, f = candidate, forget
        if reverse:
            z, f = tf.reverse(z, [0]), tf.reverse(f, [0])
        states = []
        state = start
        for z_t, f_t in zip(tf.unstack(z), tf.unstack(f)):
            state = f_t * state + (1.0 - f_t) * z_t
            states.append(state)
        out = tf.stack(states)
        if reverse:
            out = tf.reverse(out, [0])

        def grad(up):
            if reverse:
                up = tf.reverse(up, [0])
            before = tf.concat([start[None], out[:-1]], axis=0)
            carry = tf.zeros_like(start)
            adjoint = []
            for g_t, f_t in zip(reversed(tf.unstack(up)), reversed(tf.unstack(f))):
                total = g_t + carry
                adjoint.append(total)
                carry = f_t * total
            adjoint = tf.stack(adjoint[::-1])
            d_z = (1.0 - f) * adjoint
            d_f = adjoint * (before - z)
            if reverse:
                d_z, d_f = tf.reverse(d_z, [0]), tf.reverse(d_f, [0])
            return d_z, d_f, carry

        return out, grad

    return letter_pool


# --------------------------------------------------------------------------------------------------
# the grid
# --------------------------------------------------------------------------------------------------
@tf.custom_gradient
def crossing_agreement(across, down, pairs, weight):
    """How badly crossing entries disagree about the square that they share.

    across [A, 26] and down [D, 26] are letter logits of the squares of the across and of the down
    entries. Row c of pairs [C, 2] names the two squares that are one square of the grid; a row of
    PADs is filler. In barred grids one square can stand in several rows. The result is the
    weight-averaged -log P(both draw the same letter), 0 for a grid without crossings.
    """
    real = tf.reduce_all(pairs >= 0, axis=1)
    here = tf.maximum(pairs, 0)
    log_p = tf.nn.log_softmax(tf.gather(across, here[:, 0]))
    log_q = tf.nn.log_softmax(tf.gather(down, here[:, 1]))
    nll = -tf.reduce_logsumexp(log_p + log_q, axis=1)
    w = tf.where(real, weight, tf.zeros_like(weight))
    mass = tf.reduce_sum(w)
    loss = tf.math.divide_no_nan(tf.reduce_sum(w * nll), mass)

    def grad(up):
        joint = tf.exp(log_p + log_q + nll[:, None])
        scale = (up * tf.math.divide_no_nan(w, mass))[:, None]
        d_across = tf.math.unsorted_segment_sum(scale * (tf.exp(log_p) - joint), here[:, 0], tf.shape(across)[0])
        d_down = tf.math.unsorted_segment_sum(scale * (tf.exp(log_q) - joint), here[:, 1], tf.shape(down)[0])
        d_weight = tf.where(real, up * tf.math.divide_no_nan(nll - loss, mass), tf.zeros_like(weight))
        return d_across, d_down, None, d_weight

    return loss, grad


def make_fill_loss(beta: float = 1.0, average: str = "macro"):
    """1 - F_beta of the filled letters, computed on probabilities.

    ``average="macro"`` scores each letter and averages over the letters which the answer really
    contains; ``"micro"`` pools all letters first. Squares with ``mask == 0`` (blocks) do not count.
    """
    b2 = float(beta) ** 2

    @tf.custom_gradient
    def fill_loss(probs, answer, mask):
        # probs, answer: [puzzles, squares, letters]; mask: [puzzles, squares], ints
        m = tf.cast(mask, probs.dtype)[..., None]
        axes = [0, 1] if average == "macro" else [0, 1, 2]
        hits = tf.reduce_sum(m * probs * answer, axes)
        support = tf.reduce_sum(m * answer, axes)
        below = tf.reduce_sum(m * probs, axes) + b2 * support
        score = tf.math.divide_no_nan((1.0 + b2) * hits, below)
        present = tf.cast(support > 0, probs.dtype)
        share = tf.math.divide_no_nan(present, tf.reduce_sum(present))
        loss = 1.0 - tf.reduce_sum(share * score)

        def grad(up):
            front = -up * tf.math.divide_no_nan(share, below)
            d_probs = front * m * ((1.0 + b2) * answer - score)
            d_answer = front * m * ((1.0 + b2) * probs - b2 * score)
            return d_probs, d_answer, None

        return loss, grad

    return fill_loss


class CrosswordHead(tf.keras.layers.Layer):
    """Clue words in, letter logits of every square out."""

    def __init__(self, vocabulary: int, width: int, squares: int, **kwargs):
        super().__init__(**kwargs)
        self.table = self.add_weight(shape=(vocabulary, width), initializer="glorot_uniform", name="words")
        self.spread = tf.keras.layers.Dense(squares * LETTERS)
        self.squares = squares
        self.encode = make_clue_vector("sqrtn")

    def call(self, ids, weights):
        flat = self.spread(self.encode(tf.convert_to_tensor(self.table), ids, weights))
        return tf.reshape(flat, [-1, self.squares, LETTERS])
