"""Heads and losses of the in-editor code completion model.

Contents
--------
``make_scope_attention``
    Causal attention over the open buffer with a learned bias per *scope
    distance* (how many block levels lie between two tokens), with shared
    key/value heads.
``kind_tempered_nll``
    Next-token loss where each lexical kind (identifier, keyword, literal,
    punctuation, whitespace) has its own temperature.
``SuggestionPanel``
    Expected number of keystrokes that the ghost text saves, the figure the
    accept/reject logs are trained against.

The training servers run with float32 activations; nothing here depends on it.
"""

from __future__ import annotations

import dataclasses
from typing import Sequence

import numpy as np
import tensorflow as tf

LEXICAL_KINDS = ("identifier", "keyword", "literal", "punctuation", "whitespace")
MAX_SCOPE_DISTANCE = 7
NEGATIVE = -1e9
DEFAULT_GLANCE_COST = 0.4
DEFAULT_VISIBLE = 24


@dataclasses.dataclass(frozen=True)
class BufferSpec:
    """Static sizes of a batch of editor buffers."""

    heads: int = 4
    groups: int = 2
    head_dim: int = 16
    vocab: int = 96

    @property
    def width(self):
        return self.heads * self.head_dim


# ---------------------------------------------------------------- scopes


def scope_depths(opens: np.ndarray, closes: np.ndarray) -> np.ndarray:
    """Nesting depth of each token from bracket/indent events, [B, T]."""
    return np.cumsum(opens, axis=-1) - np.cumsum(closes, axis=-1)


def scope_distance(depths: np.ndarray) -> np.ndarray:
    """Levels one has to climb from token t and descend to token s.

    The table is clipped to ``MAX_SCOPE_DISTANCE`` so that it indexes the bias
    directly.  [B, T] -> [B, T, T], int32.
    """
    batch, length = depths.shape
    table = np.zeros((batch, length, length), np.int32)
    for b in range(batch):
        for t in range(length):
            lowest = depths[b, t]
            for s in range(t, -1, -1):
                lowest = min(lowest, depths[b, s])
                climb = depths[b, t] - lowest
                descend = depths[b, s] - lowest
                table[b, t, s] = min(climb + descend, MAX_SCOPE_DISTANCE)
    return table


def make_scope_attention(distance, heads, groups):
    """Attention for one batch of buffers.

    ``distance`` is the int table of `scope_distance`.  The returned callable
    takes queries [B, H, T, D], keys and values [B, G, T, D] and a bias table
    [H, R]; H must be a multiple of G and query head h reads group h // (H / G).
    """
    distance = tf.convert_to_tensor(distance, tf.int32)
    per_group = heads // groups
    length = distance.shape[-1]
    causal = tf.linalg.band_part(tf.ones([length, length], tf.bool), -1, 0)

    def spread(x):
        return tf.repeat(x, per_group, axis=1)

    def gather_back(x):
        shape = tf.shape(x)
        folded = tf.reshape(x, [shape[0], groups, per_group, shape[2], shape[3]])
        return tf.reduce_sum(folded, axis=2)

    @tf.custom_gradient
    def scoped_context(query, key, value, bias):
        scale = tf.cast(query.shape[-1], query.dtype) ** -0.5
        wide_key, wide_value = spread(key), spread(value)
        scores = tf.einsum("bhtd,bhsd->bhts", query, wide_key) * scale
        scores += tf.transpose(tf.gather(bias, distance, axis=1), [1, 0, 2, 3])
        scores = tf.where(causal, scores, tf.cast(NEGATIVE, scores.dtype))
        weights = tf.nn.softmax(scores, axis=-1)
        context = tf.einsum("bhts,bhsd->bhtd", weights, wide_value)

        def grad(upstream):
            d_value = tf.einsum("bhts,bhtd->bhsd", weights, upstream)
            d_weights = tf.einsum("bhtd,bhsd->bhts", upstream, wide_value)
            inner = tf.reduce_sum(d_weights * weights, axis=-1, keepdims=True)
            d_scores = weights * (d_weights - inner)
            d_query = tf.einsum("bhts,bhsd->bhtd", d_scores, wide_key) * scale
            d_key = tf.einsum("bhts,bhtd->bhsd", d_scores, query) * scale
            by_cell = tf.reshape(tf.transpose(d_scores, [0, 2, 3, 1]), [-1, heads])
            d_bias = tf.math.unsorted_segment_sum(
                by_cell, tf.reshape(distance, [-1]), num_segments=bias.shape[1]
            )
            return d_query, gather_back(d_key), gather_back(d_value), tf.transpose(d_bias)

        return context, grad

    return scoped_context


class ScopeAttention(tf.keras.layers.Layer):
    """Projection, scope-aware attention and output projection."""

    def __init__(self, spec: BufferSpec, **kwargs):
        super().__init__(**kwargs)
        self.spec = spec
        kv = spec.groups * spec.head_dim
        self.to_query = tf.keras.layers.Dense(spec.width, use_bias=False)
        self.to_key = tf.keras.layers.Dense(kv, use_bias=False)
        self.to_value = tf.keras.layers.Dense(kv, use_bias=False)
        self.out = tf.keras.layers.Dense(spec.width)

    def build(self, input_shape):
        self.bias = self.add_weight(
            name="scope_bias",
            shape=(self.spec.heads, MAX_SCOPE_DISTANCE + 1),
            initializer="zeros",
        )

    def _split(self, x, count):
        shape = tf.shape(x)
        x = tf.reshape(x, [shape[0], shape[1], count, self.spec.head_dim])
        return tf.transpose(x, [0, 2, 1, 3])

    def call(self, x, distance):
        scoped_context = make_scope_attention(distance, self.spec.heads, self.spec.groups)
        context = scoped_context(
            self._split(self.to_query(x), self.spec.heads),
            self._split(self.to_key(x), self.spec.groups),
            self._split(self.to_value(x), self.spec.groups),
            tf.convert_to_tensor(self.bias),
        )
        context = tf.transpose(context, [0, 2, 1, 3])
        shape = tf.shape(context)
        return self.out(tf.reshape(context, [shape[0], shape[1], self.spec.width]))


# ------------------------------------------------------------- token loss


@tf.custom_gradient
def kind_tempered_nll(logits, log_tau, kinds, targets, weights):
    """Weighted mean next-token loss with a temperature per lexical kind.

    Vocabulary entry v of kind k contributes the logit ``logits[v] / tau[k]``.

    Args:
      logits: [B, T, V] raw scores.
      log_tau: [K] log temperatures, 0 at the start of training.
      kinds: [V] int kind of every vocabulary entry.
      targets: [B, T] int.
      weights: [B, T]; 0 on padding. A batch of padding alone has loss 0.

    Returns:
      Scalar loss.
    """
    inverse = tf.exp(-tf.gather(log_tau, kinds))
    tempered = logits * inverse
    log_probs = tf.nn.log_softmax(tempered, axis=-1)
    picked = tf.gather(log_probs, targets, batch_dims=2)
    total = tf.reduce_sum(weights)
    norm = tf.where(total > 0, total, tf.ones_like(total))
    loss = -tf.reduce_sum(weights * picked) / norm

    def grad(upstream):
        hot = tf.one_hot(targets, logits.shape[-1], dtype=logits.dtype)
        residual = (tf.exp(log_probs) - hot) * weights[..., None] * (upstream / norm)
        d_logits = residual * inverse
        per_entry = -tf.reduce_sum(residual * logits, axis=[0, 1])
        d_log_tau = tf.math.unsorted_segment_sum(per_entry, kinds, log_tau.shape[0])
        d_weights = upstream * (-picked - loss) / norm
        d_weights = tf.where(total > 0, d_weights, tf.zeros_like(d_weights))
        return d_logits, d_log_tau, None, None, d_weights

    return loss, grad


class TokenHead(tf.keras.layers.Layer):
    """Vocabulary projection with its loss."""

    def __init__(self, kinds: Sequence[int], **kwargs):
        super().__init__(**kwargs)
        self.kinds = tf.constant(np.asarray(kinds, np.int32))
        self.project = tf.keras.layers.Dense(len(kinds))

    def build(self, input_shape):
        self.log_tau = self.add_weight(
            name="log_tau", shape=(len(LEXICAL_KINDS),), initializer="zeros"
        )

    def call(self, hidden, targets, weights):
        return kind_tempered_nll(
            self.project(hidden),
            tf.convert_to_tensor(self.log_tau),
            self.kinds,
            targets,
            weights,
        )


# ------------------------------------------------------- keystroke saving


class SuggestionPanel:
    """The ghost text shown after the caret.

    Attributes:
      visible: how many tokens fit on the panel; those behind it cannot be
        accepted and so save nothing.
      glance_cost: keystrokes' worth of attention lost if the first token
        is already turned down.
    """

    def __init__(self, visible=DEFAULT_VISIBLE, glance_cost=DEFAULT_GLANCE_COST):
        self.visible = visible
        self.glance_cost = glance_cost

    def shown(self, length):
        return min(self.visible, length)

    def expected_saving(self, accept, characters):
        """Expected keystrokes saved per suggestion.

        The user takes tokens from the left and stops at the first one they do
        not want, so token k is taken with the product of accept[:k + 1].
        Both inputs are [suggestions, tokens].
        """
        shown = self.shown(accept.shape[1])
        glance = self.glance_cost

        @tf.custom_gradient
        def saving(accept, characters):
            taken = tf.math.cumprod(accept[:, :shown], axis=1)
            gain = tf.reduce_sum(taken * characters[:, :shown], axis=1)
            value = gain - glance * (1.0 - accept[:, 0])

            def grad(upstream):
                length = accept.shape[1]
                before = tf.math.cumprod(accept, axis=1, exclusive=True)
                onward = [characters[:, length - 1]]
                for i in reversed(range(length - 1)):
                    onward.append(characters[:, i] + accept[:, i + 1] * onward[-1])
                onward = tf.stack(onward[::-1], axis=1)
                first = tf.one_hot(0, length, dtype=accept.dtype)
                d_accept = upstream[:, None] * (before * onward + glance * first)
                d_characters = tf.pad(
                    upstream[:, None] * taken, [[0, 0], [0, length - shown]]
                )
                return d_accept, d_characters

            return value, grad

        return saving(accept, characters)

    def log_loss(self, accept, characters, saved, spread=3.0):
        """Squared misfit against the keystrokes that were really saved."""
        miss = (self.expected_saving(accept, characters) - saved) / spread
        return 0.5 * tf.reduce_mean(miss * miss)


def accept_probabilities(log_probs, sharpness=1.0, offset=1.5):
    """Map the model's token log-probabilities to accept odds."""
    return tf.sigmoid(sharpness * log_probs + offset)


def demo(seed=0):
    rng = np.random.default_rng(seed)
    spec = BufferSpec()
    batch, length = 2, 12
    opens = (rng.random((batch, length)) < 0.3).astype(int)
    closes = np.zeros_like(opens)
    closes[:, 6:] = rng.random((batch, length - 6)) < 0.2
    distance = scope_distance(scope_depths(opens, closes))

    mixer = ScopeAttention(spec)
    head = TokenHead(rng.integers(0, len(LEXICAL_KINDS), spec.vocab))
    hidden = tf.constant(rng.normal(size=(batch, length, spec.width)), tf.float32)
    targets = tf.constant(rng.integers(0, spec.vocab, (batch, length)), tf.int32)
    weights = tf.constant((rng.random((batch, length)) < 0.9), tf.float32)

    with tf.GradientTape() as tape:
        mixed = mixer(hidden, distance)
        loss = head(mixed, targets, weights)
    trainable = mixer.trainable_variables + head.trainable_variables
    norms = [float(tf.norm(g)) for g in tape.gradient(loss, trainable)]
    print("loss", float(loss), "gradient norms", np.round(norms, 4))

    panel = SuggestionPanel(visible=6)
    accept = accept_probabilities(tf.constant(-rng.random((3, 9)), tf.float32))
    characters = tf.constant(rng.integers(1, 9, (3, 9)), tf.float32)
    print("saved keystrokes", panel.expected_saving(accept, characters).numpy())


if __name__ == "__main__":
    demo()
