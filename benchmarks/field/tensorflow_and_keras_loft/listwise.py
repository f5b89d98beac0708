"""Listwise objectives for learning to rank.

All objectives take one row per query.  Rows are padded to a common list size; the number of
documents that belong to a query is given in ``lengths`` and everything past it is ignored.

The objectives return one value per query, so that callers can weight queries (by traffic, by
propensity) before they reduce.
"""

import dataclasses
import math

import tensorflow as tf

_LN2 = math.log(2.0)


def _valid(lengths, size, dtype):
    return tf.cast(tf.sequence_mask(lengths, size), dtype)


def ideal_dcg(relevance, valid, dtype):
    """DCG of the best ordering.

    Args:
      relevance: int32 `[queries, docs]`, grades 0, 1, 2, ...
      valid: `[queries, docs]`, 1 for documents, 0 for padding.
      dtype: the floating dtype of the result.

    Returns:
      `[queries]`.
    """
    gains = (tf.pow(tf.constant(2.0, dtype), tf.cast(relevance, dtype)) - 1.0) * valid
    ordered = tf.sort(gains, axis=-1, direction="DESCENDING")
    size = tf.shape(relevance)[-1]
    discount = tf.math.log(2.0 + tf.cast(tf.range(size), dtype)) / _LN2
    return tf.reduce_sum(ordered / discount, axis=-1)


def make_approx_ndcg(temperature=0.1):
    """Builds the ApproxNDCG loss of Qin, Liu and Li (2010).

    The rank of a document is replaced by

        rank_i = 1 + sum_{j != i} sigmoid((s_j - s_i) / temperature)

    with the sum taken over documents of the same query.

    Args:
      temperature: positive float.  Smaller is closer to the true rank.

    Returns:
      A function `(scores, relevance, lengths) -> loss` with
        scores: float `[queries, docs]`.
        relevance: int32 `[queries, docs]`, grades in `[0, 4]`.
        lengths: int32 `[queries]`, from 1 to docs.
        loss: `[queries]`, `1 - ApproxNDCG`.  Queries without a relevant document have loss 0.
    """

    @tf.custom_gradient
    def approx_ndcg(scores, relevance, lengths):
        size = tf.shape(scores)[-1]
        dtype = scores.dtype
        valid = _valid(lengths, size, dtype)
        gains = (tf.pow(tf.constant(2.0, dtype), tf.cast(relevance, dtype)) - 1.0) * valid
        ideal = ideal_dcg(relevance, valid, dtype)
        inverse_ideal = tf.math.divide_no_nan(tf.ones_like(ideal), ideal)

        pairs = valid[:, :, None] * valid[:, None, :] * (1.0 - tf.eye(size, dtype=dtype))
        beats = tf.sigmoid((scores[:, None, :] - scores[:, :, None]) / temperature)
        ranks = 1.0 + tf.reduce_sum(beats * pairs, axis=-1)
        discount = tf.math.log1p(ranks) / _LN2
        dcg = tf.reduce_sum(gains / discount, axis=-1)
        loss = tf.where(ideal > 0, 1.0 - dcg * inverse_ideal, tf.zeros_like(ideal))

        def grad(upstream):
            d_rank = gains / (tf.square(discount) * (1.0 + ranks) * _LN2)
            d_rank *= (upstream * inverse_ideal)[:, None]
            slope = beats * (1.0 - beats) * pairs / temperature
            d_scores = tf.einsum("qi,qij->qj", d_rank, slope)
            d_scores -= d_rank * tf.reduce_sum(slope, axis=-1)
            return d_scores, None, None

        return loss, grad

    return approx_ndcg


@tf.custom_gradient
def cascade_click_nll(logits, clicked, lengths):
    """Negative log-likelihood of the cascade click model (Craswell et al., 2008).

    A user scans the list from the top, is attracted by document k with probability
    `sigmoid(logits[k])`, clicks the first document that attracts and leaves.  A user who is not
    attracted by any of the documents leaves at the end of the list.

    Args:
      logits: float `[queries, docs]`.
      clicked: int32 `[queries]`, the clicked position, smaller than the query's length, or -1 for
        a list that was abandoned without a click.
      lengths: int32 `[queries]`, from 1 to docs.

    Returns:
      `[queries]`.
    """
    size = tf.shape(logits)[-1]
    position = tf.range(size)[None, :]
    stop = tf.where(clicked < 0, lengths, clicked)
    skipped = tf.cast(position < stop[:, None], logits.dtype)
    hit = tf.one_hot(clicked, size, dtype=logits.dtype)
    nll = tf.reduce_sum(
        skipped * tf.nn.softplus(logits) + hit * tf.nn.softplus(-logits), axis=-1
    )

    def grad(upstream):
        attraction = tf.sigmoid(logits)
        seen = tf.cast(position <= clicked[:, None], logits.dtype)
        return upstream[:, None] * (seen * attraction - hit), None, None

    return nll, grad


@dataclasses.dataclass(frozen=True)
class ListwiseConfig:
    """What a ranker is trained on: weights of the two objectives and their options."""

    ndcg_weight: float = 1.0
    click_weight: float = 0.2
    temperature: float = 0.5


class ListwiseObjective(tf.Module):
    """Weighted sum of the ApproxNDCG loss and the cascade likelihood, averaged over queries."""

    def __init__(self, config=ListwiseConfig(), name=None):
        super().__init__(name=name)
        self.config = config
        self._ndcg = make_approx_ndcg(config.temperature)

    def __call__(self, scores, batch):
        """`batch` is a dict with "relevance", "lengths", "clicked" and optionally "weight"."""
        ndcg = self._ndcg(scores, batch["relevance"], batch["lengths"])
        clicks = cascade_click_nll(scores, batch["clicked"], batch["lengths"])
        loss = self.config.ndcg_weight * ndcg + self.config.click_weight * clicks
        weight = batch.get("weight")
        if weight is not None:
            loss = loss * tf.cast(weight, loss.dtype)
        return tf.reduce_mean(loss)
