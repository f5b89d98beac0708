"""Objectives over large embedding tables (Keras 3, TensorFlow backend).

The tables are far larger than a batch, so each rule works on the gathered rows and folds the result back by id.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from keras import ops

GLOVE_X_MAX = 100.0
GLOVE_ALPHA = 0.75


def _fold_rows(values, ids, like):
    return ops.segment_sum(values, ids, num_segments=like.shape[0])


def _fold_bias(values, ids, like):
    return ops.scatter_update(ops.zeros_like(like), ops.expand_dims(ids, -1), values)


@ops.custom_gradient
def glove_objective(word, context, word_bias, context_bias, rows, cols, counts):
    """Weighted least squares objective of GloVe for one batch of co-occurrence cells.

    Args:
        word: Word vectors, shape `(vocab, dim)`.
        context: Context vectors, shape `(vocab, dim)`.
        word_bias: Shape `(vocab,)`.
        context_bias: Shape `(vocab,)`.
        rows: Integer word ids of the cells, shape `(batch,)`. A word usually
            occurs in several cells of a batch.
        cols: Integer context ids, shape `(batch,)`.
        counts: Integer co-occurrence counts, shape `(batch,)`. A count of 0
            marks padding and carries no weight.

    Returns:
        Scalar loss, the sum over the cells of
        `0.5 * f(x) * (w . c + b_w + b_c - log x) ** 2`.
    """
    x = ops.cast(counts, word.dtype)
    weight = ops.minimum(ops.power(x / GLOVE_X_MAX, GLOVE_ALPHA), 1.0)
    w, c = ops.take(word, rows, axis=0), ops.take(context, cols, axis=0)
    fit = ops.sum(w * c, axis=-1) + ops.take(word_bias, rows) + ops.take(context_bias, cols)
    miss = fit - ops.log(ops.maximum(x, 1.0))

    def grad(upstream):
        pull = upstream * weight * miss
        return (
            _fold_rows(pull[:, None] * c, rows, word),
            _fold_rows(pull[:, None] * w, cols, context),
            _fold_bias(pull, rows, word_bias),
            _fold_bias(pull, cols, context_bias),
            None,
            None,
            None,
        )

    return 0.5 * ops.sum(weight * ops.square(miss)), grad


@ops.custom_gradient
def rotate_kge_score(entities, phases, triples):
    """RotatE plausibility of knowledge graph triples.

    `score = -sum_k sqrt(|h_k * exp(i phase_k) - t_k|^2 + 1e-6)`

    `entities` is `(E, 2 * dim)` with the real parts in the first half and the
    imaginary parts in the second; `phases` is `(R, dim)` in radians; `triples`
    holds integer `(head, relation, tail)` ids on its last axis and may have any
    leading shape, e.g. `(batch, negatives, 3)`. Returns the leading shape.
    """
    lead = triples.shape[:-1]
    flat = ops.reshape(triples, (-1, 3))
    head, rel, tail = flat[:, 0], flat[:, 1], flat[:, 2]
    h_re, h_im = ops.split(ops.take(entities, head, axis=0), 2, axis=-1)
    t_re, t_im = ops.split(ops.take(entities, tail, axis=0), 2, axis=-1)
    phase = ops.take(phases, rel, axis=0)
    cos, sin = ops.cos(phase), ops.sin(phase)
    z_re, z_im = h_re * cos - h_im * sin, h_re * sin + h_im * cos
    d_re, d_im = z_re - t_re, z_im - t_im
    modulus = ops.sqrt(d_re * d_re + d_im * d_im + 1e-6)

    def grad(upstream):
        up = -ops.reshape(upstream, (-1, 1)) / modulus
        g_re, g_im = up * d_re, up * d_im
        to_head = ops.concatenate([g_re * cos + g_im * sin, g_im * cos - g_re * sin], axis=-1)
        to_tail = ops.concatenate([-g_re, -g_im], axis=-1)
        d_entities = _fold_rows(to_head, head, entities) + _fold_rows(to_tail, tail, entities)
        d_phases = _fold_rows(g_im * z_re - g_re * z_im, rel, phases)
        return d_entities, d_phases, None

    return ops.reshape(-ops.sum(modulus, axis=-1), lead), grad


def _decay(ages, rate):
    return ops.exp(-ages[..., None] * rate)


@ops.custom_gradient
def recency_pool(items, ages, rate, mask):
    """Average a user's history with weights that decay with age, one rate per feature.

    items: `(B, T, D)`; ages: `(B, T)`, days since the interaction, non-negative;
    rate: `(D,)`, 1/day, positive; mask: bool `(B, T)`, False for padding (slots
    may hold leftovers of an earlier batch, they do not count). Users without any history get zeros. Returns `(B, D)`.
    """
    keep = ops.cast(mask, items.dtype)[..., None]
    weight = keep * _decay(ages, rate)
    empty = ops.logical_not(ops.any(mask, axis=1))[:, None]
    total = ops.where(empty, ops.ones_like(weight[:, 0]), ops.sum(weight, axis=1))
    pooled = ops.sum(weight * items, axis=1) / total

    def grad(upstream):
        up = (upstream / total)[:, None]
        d_items = up * weight
        # (B, T, D) weights are cheap to rebuild, the contrast is shared by both remaining arguments
        contrast = up * _decay(ages, rate) * (items - pooled[:, None])
        d_ages = -ops.sum(contrast * rate, axis=-1) * keep[..., 0]
        d_rate = -ops.sum(contrast * ages[..., None], axis=(0, 1))
        return d_items, d_ages, d_rate, None

    return pooled, grad


@keras.saving.register_keras_serializable(package="embedding_objectives")
class RecencyPool(keras.layers.Layer):
    """Layer around `recency_pool` with a learned, positive rate per feature."""

    def __init__(self, half_life=30.0, **kwargs):
        super().__init__(**kwargs)
        self.half_life = half_life

    def build(self, input_shape):
        start = keras.initializers.Constant(float(np.log(np.log(2.0) / self.half_life)))
        self.log_rate = self.add_weight(shape=(input_shape[-1],), initializer=start, name="log_rate")

    def call(self, items, ages, mask):
        rate = ops.exp(ops.convert_to_tensor(self.log_rate))
        return recency_pool(items, ages, rate, mask)

    def get_config(self):
        return {**super().get_config(), "half_life": self.half_life}
