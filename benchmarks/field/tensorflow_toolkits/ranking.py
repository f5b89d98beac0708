"""Learning-to-rank losses."""

import tensorflow as tf


def _valid_pairs(relevance, mask):
    better = relevance[..., :, None] > relevance[..., None, :]
    if mask is not None:
        better &= mask[..., :, None] & mask[..., None, :]
    return better


def pairwise_logistic_loss(scores, relevance, mask=None, *, temperature=1.0, reduction="mean"):
    """RankNet loss over the ordered pairs of each list.

    Args:
      scores: `[..., items]` predicted scores.
      relevance: `[..., items]` graded labels; a pair counts where the first
        label is larger than the second.
      mask: optional boolean `[..., items]`, True for real items.
      temperature: divides the score differences.
      reduction: "mean", "sum" or "none" over the lists. Each list's loss is the
        mean over its pairs, zero for a list without pairs.

    Returns:
      A scalar, or a loss for each list with `reduction="none"`.
    """
    scores = tf.convert_to_tensor(scores)
    pairs = tf.cast(_valid_pairs(tf.convert_to_tensor(relevance), mask), scores.dtype)
    pair_weight = tf.math.divide_no_nan(pairs, tf.reduce_sum(pairs, axis=[-2, -1], keepdims=True))

    @tf.custom_gradient
    def _ranknet(scores):
        margin = (scores[..., :, None] - scores[..., None, :]) / temperature
        per_list = tf.reduce_sum(pair_weight * tf.nn.softplus(-margin), axis=[-2, -1])

        def grad(upstream):
            pull = -pair_weight * tf.sigmoid(-margin) / temperature
            return upstream[..., None] * tf.reduce_sum(pull, axis=-1)

        return per_list, grad

    loss = _ranknet(scores)
    if reduction == "mean":
        return tf.reduce_mean(loss)
    if reduction == "sum":
        return tf.reduce_sum(loss)
    return loss
