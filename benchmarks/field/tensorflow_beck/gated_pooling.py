from typing import NamedTuple

import tensorflow as tf


class PoolState(NamedTuple):
    hidden: tf.Tensor
    cell: tf.Tensor


@tf.custom_gradient
def fo_pool(candidate, forget, output, cell, mask):
    """Forget/output pooling of a quasi-recurrent layer.

    Args:
      candidate: ``[batch, time, units]`` candidate values (after tanh).
      forget: ``[batch, time, units]`` forget gates in (0, 1).
      output: ``[batch, time, units]`` output gates.
      cell: ``[batch, units]`` cell before the first step.
      mask: ``[batch, time]`` bool; a step that is False keeps the cell as it is
        (its hidden value is the output gate times the kept cell).

    Returns:
      ``(hidden, last)``: ``[batch, time, units]`` and ``[batch, units]``.
    """
    steps = candidate.shape[1]
    keep = tf.cast(mask, candidate.dtype)[:, :, None]
    cells = [cell]
    for t in range(steps):
        fresh = forget[:, t] * cells[-1] + (1.0 - forget[:, t]) * candidate[:, t]
        cells.append(keep[:, t] * fresh + (1.0 - keep[:, t]) * cells[-1])
    trajectory = tf.stack(cells[1:], axis=1)

    def grad(d_hidden, d_last):
        d_candidate, d_forget = [], []
        carry = d_last
        for t in reversed(range(steps)):
            d_cell = carry + d_hidden[:, t] * output[:, t]
            live = keep[:, t] * d_cell
            d_forget.append(live * (cells[t] - candidate[:, t]))
            d_candidate.append(live * (1.0 - forget[:, t]))
            carry = d_cell * forget[:, t]
        d_candidate = tf.stack(d_candidate[::-1], axis=1)
        d_forget = tf.stack(d_forget[::-1], axis=1)
        return d_candidate, d_forget, d_hidden * trajectory, carry, None

    return (output * trajectory, cells[-1]), grad


class QuasiRecurrent(tf.keras.layers.Layer):
    def __init__(self, units, window=2, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.gates = tf.keras.layers.Conv1D(3 * units, window, padding="causal")

    def call(self, inputs, mask=None, state=None):
        z, f, o = tf.split(self.gates(inputs), 3, axis=-1)
        if mask is None:
            mask = tf.ones(tf.shape(inputs)[:2], tf.bool)
        if state is None:
            state = tf.zeros([tf.shape(inputs)[0], self.units], z.dtype)
        hidden, last = fo_pool(tf.tanh(z), tf.sigmoid(f), tf.sigmoid(o), state, mask)
        return PoolState(hidden, last)


def make_additive_alignment(mask=None):
    """Bahdanau alignment of queries to keys that does not keep the [B, Q, K, H] tanh."""

    def energies(query, keys):
        return tf.tanh(query[:, :, None, :] + keys[:, None, :, :])

    @tf.custom_gradient
    def additive_alignment(query, keys, values, direction):
        scores = tf.einsum("bqkh,h->bqk", energies(query, keys), direction)
        if mask is not None:
            allowed = tf.cast(mask, scores.dtype)[:, None, :]
            scores = tf.where(allowed > 0, scores, tf.constant(-1e9, scores.dtype))
            weights = tf.nn.softmax(scores) * allowed
        else:
            weights = tf.nn.softmax(scores)
        context = tf.matmul(weights, values)

        def grad(d_context, d_weights):
            d_values = tf.matmul(weights, d_context, transpose_a=True)
            total = d_weights + tf.matmul(d_context, values, transpose_b=True)
            centre = tf.reduce_sum(weights * total, axis=-1, keepdims=True)
            d_scores = weights * (total - centre)
            act = energies(query, keys)
            d_direction = tf.einsum("bqk,bqkh->h", d_scores, act)
            d_pre = d_scores[..., None] * direction * (1.0 - tf.square(act))
            return tf.reduce_sum(d_pre, axis=2), tf.reduce_sum(d_pre, axis=1), d_values, d_direction

        return (context, weights), grad

    return additive_alignment
