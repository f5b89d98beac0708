"""Unigram subword language model, marginalised over segmentations."""
from typing import Dict, List, NamedTuple

import numpy as np
import tensorflow as tf


class Lattice(NamedTuple):
    length: int
    start: np.ndarray  # (edges,)
    end: np.ndarray    # (edges,)
    piece: np.ndarray  # (edges,) vocabulary ids


def build_lattice(text: str, vocab: Dict[str, int], max_piece: int = 8) -> Lattice:
    """All ways to cut `text` into pieces of `vocab`.

    Edges that lie on no complete path are dropped.

    Raises:
      ValueError: if `text` cannot be segmented.
    """
    n = len(text)
    edges = [(i, j, vocab[text[i:j]])
             for i in range(n)
             for j in range(i + 1, min(n, i + max_piece) + 1)
             if text[i:j] in vocab]
    ahead, back = {0}, {n}
    for i, j, _ in edges:
        if i in ahead:
            ahead.add(j)
    for i, j, _ in reversed(edges):
        if j in back:
            back.add(i)
    edges = [e for e in edges if e[0] in ahead and e[1] in back]
    if n == 0 or n not in ahead:
        raise ValueError(f"no segmentation of {text!r}")
    table = np.asarray(edges, dtype=np.int32)
    return Lattice(n, table[:, 0], table[:, 1], table[:, 2])


def _sweep(lattice: Lattice, weights, source, target, order, origin):
    """Log-sum of path weights from `origin` to every node; a list of scalars."""
    weights = tf.unstack(weights, num=len(lattice.piece))
    node = [None] * (lattice.length + 1)
    node[origin] = tf.zeros_like(weights[0])
    for k in order:
        into = [node[source[e]] + weights[e]
                for e in np.flatnonzero(target == k) if node[source[e]] is not None]
        if into:
            node[k] = tf.reduce_logsumexp(tf.stack(into))
    return node


def unigram_marginal(log_probs: tf.Tensor, lattice: Lattice, alpha: float = 1.0) -> tf.Tensor:
    """Log of the sum over segmentations of prod p(piece)**alpha.

    Args:
      log_probs: (vocab,) scores; need not be normalised.
      lattice: from `build_lattice`. A piece may occur any number of times.
      alpha: smoothing exponent.

    Returns:
      Scalar.
    """
    n = lattice.length

    @tf.custom_gradient
    def marginal(log_probs):
        weights = alpha * tf.gather(log_probs, lattice.piece)
        forward = _sweep(lattice, weights, lattice.start, lattice.end, range(1, n + 1), 0)
        total = forward[n]

        def grad(upstream):
            backward = _sweep(lattice, weights, lattice.end, lattice.start,
                              range(n - 1, -1, -1), n)
            left = tf.stack([forward[i] for i in lattice.start])
            right = tf.stack([backward[j] for j in lattice.end])
            usage = tf.exp(left + weights + right - total)
            counts = tf.math.unsorted_segment_sum(
                usage, lattice.piece, tf.shape(log_probs)[0])
            return upstream * alpha * counts

        return total, grad

    return marginal(log_probs)


def fit_unigram(texts: List[str], vocab: Dict[str, int], steps: int = 50, lr: float = 0.5):
    """Maximum likelihood piece probabilities by plain gradient ascent."""
    lattices = [build_lattice(t, vocab) for t in texts]
    logits = tf.Variable(tf.zeros([len(vocab)]))
    for _ in range(steps):
        with tf.GradientTape() as tape:
            lp = tf.nn.log_softmax(logits)
            loss = -tf.add_n([unigram_marginal(lp, l) for l in lattices]) / len(lattices)
        logits.assign_sub(lr * tape.gradient(loss, logits))
    return tf.nn.log_softmax(logits)
