"""Training pieces for a query auto-completion ranker.

While a user types, the trie offers up to ``N`` completions of the prefix.  The
ranker scores them from a hashed representation of the prefix, is trained on
the completions the user would have accepted, and is watched (and lightly
regularised) by the expected number of keystrokes the shown list saves.

Layout of a batch, as produced by :func:`collate`::

    grams    int32 [B, T, H]   hash buckets of each n-gram, one per hash function
    words    int32 [B, T]      importance bucket of each n-gram, 0 is padding
    present  bool  [B, T]      padding mask
    offered  bool  [B, N]      the trie's completions
    accepted bool  [B, N]      the ones the session ended on

Prefixes whose session was abandoned have nothing accepted; they stay in the
batch because the list-value term still uses them.
"""

import dataclasses
import zlib
from typing import List, Optional

import numpy as np
import tensorflow as tf

PAD = 0
NEGATIVE = -1e9
HASH_SALTS = (b"left", b"right", b"third")


@dataclasses.dataclass(frozen=True)
class RankerConfig:
    buckets: int = 512
    importance_buckets: int = 128
    hashes: int = 2
    width: int = 16
    candidates: int = 8
    gram: int = 3
    patience: float = 0.85
    value_weight: float = 0.01


# --------------------------------------------------------------------------
# text -> integers
# --------------------------------------------------------------------------


def char_grams(prefix: str, n: int) -> List[str]:
    padded = "^" + prefix
    if len(padded) <= n:
        return [padded]
    return [padded[i : i + n] for i in range(len(padded) - n + 1)]


def bucket(gram: str, salt: bytes, size: int) -> int:
    return zlib.crc32(salt + gram.encode("utf8")) % size


def collate(prefixes, config: RankerConfig):
    """Integer tables of a list of prefixes, padded to the longest one."""
    rows = [char_grams(p, config.gram) for p in prefixes]
    longest = max(len(r) for r in rows)
    grams = np.zeros((len(rows), longest, config.hashes), np.int32)
    words = np.full((len(rows), longest), PAD, np.int32)
    present = np.zeros((len(rows), longest), bool)
    for i, row in enumerate(rows):
        for t, gram in enumerate(row):
            for h in range(config.hashes):
                grams[i, t, h] = bucket(gram, HASH_SALTS[h], config.buckets)
            words[i, t] = 1 + bucket(gram, b"importance", config.importance_buckets - 1)
            present[i, t] = True
    return grams, words, present


# --------------------------------------------------------------------------
# prefix representation
# --------------------------------------------------------------------------


@tf.custom_gradient
def hashed_prefix(table, importance, grams, words, present):
    """Importance-weighted sum of hash embeddings of a prefix.

    Args:
        table: [V, D] shared embedding buckets.
        importance: [W, H] weight of each hash function for an n-gram.
        grams: [B, T, H] rows of `table`.
        words: [B, T] rows of `importance`.
        present: [B, T] bool.

    Returns:
        [B, D], scaled by one over the root of the number of n-grams present.
    """
    mask = tf.cast(present, table.dtype)
    count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)
    share = mask * tf.math.rsqrt(count)[:, None]
    vectors = tf.gather(table, grams)
    weights = tf.gather(importance, words)
    bag = tf.einsum("bt,bth,bthd->bd", share, weights, vectors)

    def grad(upstream):
        # table: one row per lookup, left sparse for the optimizer
        rows = tf.einsum("bt,bth,bd->bthd", share, weights, upstream)
        d_table = tf.IndexedSlices(
            tf.reshape(rows, [-1, table.shape[1]]),
            tf.reshape(grams, [-1]),
            dense_shape=tf.shape(table),
        )
        per_hash = tf.einsum("bt,bthd,bd->bth", share, vectors, upstream)
        d_importance = tf.tensor_scatter_nd_update(
            tf.zeros_like(importance),
            tf.reshape(words, [-1, 1]),
            tf.reshape(per_hash, [-1, importance.shape[1]]),
        )
        return d_table, d_importance, None, None, None

    return bag, grad


# --------------------------------------------------------------------------
# losses
# --------------------------------------------------------------------------


def _masked_softmax(scores, mask):
    shifted = tf.where(mask, scores, tf.cast(NEGATIVE, scores.dtype))
    shifted = shifted - tf.reduce_max(shifted, axis=-1, keepdims=True)
    weights = tf.where(mask, tf.exp(shifted), tf.zeros_like(shifted))
    total = tf.reduce_sum(weights, axis=-1, keepdims=True)
    return tf.math.divide_no_nan(weights, total)


def _masked_logsumexp(scores, mask):
    return tf.reduce_logsumexp(
        tf.where(mask, scores, tf.cast(NEGATIVE, scores.dtype)), axis=-1
    )


@tf.custom_gradient
def accepted_mass_nll(scores, offered, accepted):
    """Mean negative log of the probability mass on the accepted completions.

    `scores`, `offered` and `accepted` are [B, N]; the softmax runs over what
    was offered.  The mean is over the prefixes with something accepted.
    """
    hit = tf.logical_and(offered, accepted)
    decided = tf.reduce_any(hit, axis=-1)
    n_decided = tf.maximum(tf.reduce_sum(tf.cast(decided, scores.dtype)), 1.0)
    gap = _masked_logsumexp(scores, offered) - _masked_logsumexp(scores, hit)
    gap = tf.where(decided, gap, tf.zeros_like(gap))
    loss = tf.reduce_sum(gap) / n_decided

    def grad(upstream):
        pull = _masked_softmax(scores, offered) - _masked_softmax(scores, hit)
        pull = tf.where(decided[:, None], pull, tf.zeros_like(pull))
        rows = tf.cast(tf.shape(scores)[0], scores.dtype)
        return upstream * pull / rows, None, None

    return loss, grad


def make_list_value(patience: float = 1.0):
    """Cascade value of a shown list.

    The user reads the list from the top.  At rank ``i`` they take the
    completion with probability ``take[i]``, which saves them ``saved[i]``
    keystrokes; otherwise they go on to the next one with probability
    ``patience`` and back to typing with the rest.
    """

    @tf.custom_gradient
    def list_value(take, saved, shown):
        live = tf.cast(shown, take.dtype)
        chance = live * take
        onward = patience * (1.0 - chance)
        reach = tf.math.cumprod(onward, axis=-1, exclusive=True)
        value = tf.reduce_sum(reach * chance * saved, axis=-1)

        def grad(upstream):
            # value still to be had below each rank, given the rank is reached
            below = []
            rest = tf.zeros_like(value)
            steps = zip(
                tf.unstack(chance, axis=-1)[::-1],
                tf.unstack(onward, axis=-1)[::-1],
                tf.unstack(saved, axis=-1)[::-1],
            )
            for c, o, s in steps:
                below.append(rest)
                rest = c * s + o * rest
            below = tf.stack(below[::-1], axis=-1)
            g = upstream[..., None]
            d_take = g * live * reach * (saved - patience * below)
            d_saved = g * reach * chance
            return d_take, d_saved, None

        return value, grad

    return list_value


# --------------------------------------------------------------------------
# model
# --------------------------------------------------------------------------


class PrefixEncoder(tf.keras.layers.Layer):
    """Hash embedding of the typed prefix followed by a small projection."""

    def __init__(self, config: RankerConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config

    def build(self, input_shape=None):
        c = self.config
        self.table = self.add_weight(
            name="table", shape=(c.buckets, c.width), initializer="glorot_uniform"
        )
        self.importance = self.add_weight(
            name="importance", shape=(c.importance_buckets, c.hashes), initializer="ones"
        )
        self.kernel = self.add_weight(name="kernel", shape=(c.width, c.width))
        self.built = True

    def call(self, inputs):
        grams, words, present = inputs
        bag = hashed_prefix(
            tf.convert_to_tensor(self.table),
            tf.convert_to_tensor(self.importance),
            grams,
            words,
            present,
        )
        return tf.nn.tanh(tf.matmul(bag, self.kernel))


class CompletionRanker:
    """Scores the offered completions of a batch of prefixes.

    Candidate vectors come from a frozen query encoder; only the prefix side
    and the rank gate are trained here.
    """

    def __init__(self, config: RankerConfig, candidate_vectors, saved_keys):
        self.config = config
        self.encoder = PrefixEncoder(config)
        self.encoder.build()
        self.candidates = tf.convert_to_tensor(candidate_vectors)
        self.saved = tf.convert_to_tensor(saved_keys)
        self.gate = tf.Variable(tf.zeros([config.candidates]), name="rank_gate")
        self.list_value = make_list_value(config.patience)

    @property
    def trainable(self):
        return [weight.value for weight in self.encoder.trainable_weights] + [self.gate]

    def scores(self, grams, words, present):
        prefix = self.encoder((grams, words, present))
        return tf.einsum("bd,bnd->bn", prefix, self.candidates)

    def loss(self, batch, offered, accepted, saved: Optional[tf.Tensor] = None):
        saved = self.saved if saved is None else saved
        scores = self.scores(*batch)
        nll = accepted_mass_nll(scores, offered, accepted)
        take = tf.sigmoid(scores + self.gate)
        value = self.list_value(take, saved, offered)
        return nll - self.config.value_weight * tf.reduce_mean(value)


def train_step(ranker: CompletionRanker, batch, offered, accepted, rate=0.1):
    with tf.GradientTape() as tape:
        loss = ranker.loss(batch, offered, accepted)
    variables = ranker.trainable
    for variable, slope in zip(variables, tape.gradient(loss, variables)):
        if slope is not None:
            variable.assign_sub(rate * tf.convert_to_tensor(slope))
    return float(loss)


if __name__ == "__main__":
    cfg = RankerConfig()
    rng = np.random.default_rng(3)
    typed = ["how to de", "weather am", "cheap fl", "pyth"]
    tables = collate(typed, cfg)
    shape = (len(typed), cfg.candidates)
    vectors = rng.normal(size=shape + (cfg.width,)).astype(np.float32)
    keys = rng.integers(3, 20, size=shape).astype(np.float32)
    offered_ = np.ones(shape, bool)
    accepted_ = rng.random(shape) < 0.25
    accepted_[:, 0] = True
    model = CompletionRanker(cfg, vectors, keys)
    for step in range(5):
        print(step, train_step(model, tables, offered_, accepted_))
