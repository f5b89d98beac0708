"""Losses and poolers for the two-stage recommender (candidate retrieval + re-ranking).

Everything here works on dense, padded lists.  The conventions are those of the data pipeline:

* ``B``  number of queries (users, sessions) in the batch
* ``L``  padded list length, ``mask`` is 1 for a real document and 0 for padding
* ``E``  embedding width

The gradients are written by hand because the automatic ones keep several ``[B, L, L]``
intermediates alive between the forward and the backward pass.
"""

import dataclasses
from typing import Optional

import tensorflow as tf

_NEG = -1e9


@dataclasses.dataclass(frozen=True)
class RetrievalConfig:
    """Settings of the retrieval tower."""

    embedding_dim: int = 64
    vocab_size: int = 50_000
    temperature: float = 0.05
    maxsim_tau: float = 0.1
    listmle_depth: Optional[int] = None


def _masked(scores, mask):
    """Scores with the padding pushed out of every softmax."""
    return tf.where(mask > 0, scores, tf.cast(_NEG, scores.dtype))


# --------------------------------------------------------------------------------------
# list-wise re-ranking losses
# --------------------------------------------------------------------------------------


@tf.custom_gradient
def listnet_loss(scores, gains, mask):
    """ListNet top-one cross entropy, one value per list.

    The gains of a list are normalised to a distribution over its real documents and
    compared with the softmax of the scores.

    Args:
      scores: ``[B, L]`` float tensor, raw model scores.
      gains: ``[B, L]`` float tensor of non-negative gains; each list has at least one
        real document with a positive gain.
      mask: ``[B, L]`` float tensor of 0/1. Treated as a constant.

    Returns:
      ``[B]`` float tensor of losses.
    """
    kept = gains * mask
    total = tf.reduce_sum(kept, axis=-1, keepdims=True)
    target = tf.math.divide_no_nan(kept, total)
    log_p = tf.nn.log_softmax(_masked(scores, mask), axis=-1)
    log_p = log_p * mask
    loss = -tf.reduce_sum(target * log_p, axis=-1)

    def grad(upstream):
        up = upstream[:, tf.newaxis]
        p = tf.exp(log_p) * mask
        d_scores = up * (p * tf.reduce_sum(target, -1, keepdims=True) - target)
        d_gains = up * mask * tf.math.divide_no_nan(-log_p - loss[:, tf.newaxis], total)
        return d_scores, d_gains, None

    return loss, grad


def make_listmle(depth: Optional[int] = None):
    """Plackett-Luce negative log-likelihood of an observed ranking.

    With ``depth`` only the first ``depth`` choices of each list are scored (the observed
    order is usually meaningless below the fold).
    """

    @tf.custom_gradient
    def listmle(scores, ranking, lengths):
        size = tf.shape(scores)[1]
        place = tf.range(size)[tf.newaxis, :]
        valid = place < lengths[:, tf.newaxis]
        stages = valid if depth is None else tf.logical_and(valid, place < depth)

        ordered = tf.gather(scores, ranking, batch_dims=1)
        ordered = tf.where(valid, ordered, tf.cast(_NEG, ordered.dtype))
        # log of the mass that is still on the table at each stage
        remaining = tf.math.cumulative_logsumexp(ordered, axis=1, reverse=True)
        nll = tf.reduce_sum(
            tf.where(stages, remaining - ordered, tf.zeros_like(ordered)), axis=1
        )

        def grad(upstream):
            # choice[b, k, j]: probability that document j is taken at stage k
            later = place[0][tf.newaxis, :] >= place[0][:, tf.newaxis]
            live = later[tf.newaxis] & stages[:, :, tf.newaxis] & valid[:, tf.newaxis, :]
            gap = ordered[:, tf.newaxis, :] - remaining[:, :, tf.newaxis]
            gap = tf.where(live, gap, tf.cast(_NEG, gap.dtype))
            choice = tf.exp(gap)
            d_ordered = tf.reduce_sum(choice, axis=1) - tf.cast(stages, scores.dtype)
            d_ordered = upstream[:, tf.newaxis] * d_ordered
            back = tf.argsort(ranking, axis=1)
            return tf.gather(d_ordered, back, batch_dims=1), None, None

        return nll, grad

    return listmle


def listmle_from_labels(scores, labels, mask, depth=None):
    """ListMLE against the order given by ``labels`` (high is good), padding last."""
    key = tf.where(mask > 0, tf.cast(labels, scores.dtype), tf.cast(_NEG, scores.dtype))
    ranking = tf.argsort(key, axis=1, direction="DESCENDING", stable=True)
    lengths = tf.cast(tf.reduce_sum(mask, axis=1), tf.int32)
    return make_listmle(depth)(scores, ranking, lengths)


# --------------------------------------------------------------------------------------
# retrieval tower
# --------------------------------------------------------------------------------------


@tf.custom_gradient
def in_batch_softmax(queries, keys, log_q, temperature):
    """Sampled softmax over in-batch candidates with the log-Q correction.

    Args:
      queries: ``[B, E]`` query embeddings.
      keys: ``[N, E]`` candidate embeddings, ``N >= B``. Key ``i`` is the positive of
        query ``i``; keys from ``B`` on are mined negatives shared by the batch.
      log_q: ``[N]`` log of the sampling probability of each candidate (constant).
      temperature: scalar.

    Returns:
      Scalar, the cross entropy averaged over the queries.
    """
    sim = tf.matmul(queries, keys, transpose_b=True)
    logits = sim / temperature - log_q[tf.newaxis, :]
    log_p = tf.nn.log_softmax(logits, axis=-1)
    loss = -tf.reduce_mean(tf.linalg.diag_part(log_p))

    def grad(upstream):
        n = tf.shape(log_p)[1]
        labels = tf.one_hot(tf.range(tf.shape(log_p)[0]), n, dtype=log_p.dtype)
        err = upstream * (tf.exp(log_p) - labels) / tf.cast(n, log_p.dtype)
        d_queries = tf.matmul(err, keys) / temperature
        d_keys = tf.matmul(err, queries, transpose_a=True) / temperature
        d_temperature = -tf.reduce_sum(err * sim) / tf.square(temperature)
        return d_queries, d_keys, None, d_temperature

    return loss, grad


def make_late_interaction(tau: float = 0.1):
    """Late interaction (ColBERT style) with a smooth maximum over document tokens."""

    @tf.custom_gradient
    def smooth_maxsim(query_tokens, doc_tokens, query_mask, doc_mask):
        """score[b] = sum over real query tokens of tau * logsumexp(sim / tau).

        query_tokens ``[B, Q, E]``, doc_tokens ``[B, D, E]``, masks ``[B, Q]``, ``[B, D]``;
        the masks are constants.
        """
        sim = tf.einsum("bqe,bde->bqd", query_tokens, doc_tokens)
        logits = _masked(sim / tau, tf.broadcast_to(doc_mask[:, tf.newaxis, :], tf.shape(sim)))
        soft = tau * tf.reduce_logsumexp(logits, axis=-1)
        score = tf.reduce_sum(soft * query_mask, axis=-1)

        def grad(upstream):
            align = tf.nn.softmax(logits, axis=-1)
            per_token = upstream[:, tf.newaxis] * query_mask
            d_query = per_token[..., tf.newaxis] * tf.einsum("bqd,bde->bqe", align, doc_tokens)
            d_doc = upstream[:, tf.newaxis, tf.newaxis] * tf.einsum(
                "bqd,bqe->bde", align, query_tokens
            )
            return d_query, d_doc, None, None

        return score, grad

    return smooth_maxsim


@tf.custom_gradient
def pooled_history(table, ids, weights):
    rows = tf.gather(table, ids)
    total = tf.reduce_sum(weights, axis=1, keepdims=True)
    share = weights / total
    pooled = tf.einsum("bl,ble->be", share, rows)

    def grad(upstream):
        spread = share[..., tf.newaxis] * upstream[:, tf.newaxis, :]
        flat_ids = tf.reshape(ids, [-1, 1])
        flat = tf.reshape(spread, [-1, tf.shape(table)[1]])
        d_table = tf.tensor_scatter_nd_update(tf.zeros_like(table), flat_ids, flat)
        centred = rows - pooled[:, tf.newaxis, :]
        d_weights = tf.einsum("ble,be->bl", centred, upstream) / total
        return d_table, None, d_weights

    return pooled, grad


class HistoryTower(tf.keras.layers.Layer):
    """User tower: recency-weighted mean of the embeddings of the clicked items.

    Call with ``item_ids`` ``[B, L]`` int and ``age_days`` ``[B, L]`` float.
    """

    def __init__(self, config: RetrievalConfig, half_life: float = 14.0, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.half_life = half_life

    def build(self, input_shape):
        self.table = self.add_weight(
            name="table",
            shape=(self.config.vocab_size, self.config.embedding_dim),
            initializer="uniform",
        )

    def call(self, item_ids, age_days):
        weights = tf.pow(tf.cast(0.5, age_days.dtype), age_days / self.half_life)
        return pooled_history(tf.convert_to_tensor(self.table), item_ids, weights)


class RetrievalLoss(tf.keras.layers.Layer):
    """In-batch softmax with a learned temperature and an optional pool of hard negatives."""

    def __init__(self, config: RetrievalConfig, **kwargs):
        super().__init__(**kwargs)
        self.log_t = self.add_weight(
            name="log_temperature",
            shape=(),
            initializer=tf.keras.initializers.Constant(config.temperature),
        )

    def call(self, queries, positives, log_q, hard_negatives=None):
        keys = positives
        if hard_negatives is not None:
            keys = tf.concat([positives, hard_negatives], axis=0)
        temperature = tf.exp(tf.convert_to_tensor(self.log_t))
        return in_batch_softmax(queries, keys, log_q, temperature)
