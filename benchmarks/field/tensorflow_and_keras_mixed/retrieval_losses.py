"""Losses and lookups for two-tower retrieval and listwise re-ranking."""

import tensorflow as tf


def in_batch_softmax_loss(query, candidate, log_q, item_ids, temperature=0.2):
    """Sampled softmax over the candidates of the batch, with logQ correction.

    Args:
      query: [B, D] query embeddings.
      candidate: [B, D] embeddings of the clicked items, row i belongs to query i.
      log_q: [B] log sampling probability of every candidate.
      item_ids: [B] integer ids; another row holding the same item as the
        positive one is an accidental hit and does not compete with it.
      temperature: Python float.

    Returns:
      [B] negative log likelihoods.
    """

    @tf.custom_gradient
    def _loss(q, c, logq, ids):
        batch = tf.shape(q)[0]
        eye = tf.eye(batch, dtype=q.dtype)
        same = tf.cast(tf.equal(ids[:, None], ids[None, :]), q.dtype)
        hits = same - eye
        scores = tf.matmul(q, c, transpose_b=True) / temperature - logq[None, :]
        scores = tf.where(hits > 0, tf.constant(-1e9, q.dtype), scores)
        log_p = tf.nn.log_softmax(scores, axis=-1)
        loss = -tf.linalg.diag_part(log_p)

        def grad(dloss):
            d_scores = dloss[:, None] * (tf.exp(log_p) - eye)
            d_q = tf.matmul(d_scores, c) / temperature
            d_c = tf.matmul(d_scores, q, transpose_a=True) / temperature
            return d_q, d_c, -tf.reduce_sum(d_scores, axis=0), None

        return loss, grad

    return _loss(query, candidate, log_q, item_ids)


@tf.custom_gradient
def embedding_bag(table, ids, weights, combiner="mean"):
    """Weighted bag of embeddings.

    Args:
      table: [V, D] embedding table.
      ids: [B, L] int ids, -1 marks padding.
      weights: [B, L] positive per-id weights (ignored at padding).
      combiner: "sum", "mean" (divide by the sum of weights) or "sqrtn" (divide
        by the root of the sum of squared weights). Pass by keyword.

    Returns:
      [B, D].
    """
    valid = tf.cast(ids >= 0, table.dtype)
    safe_ids = tf.maximum(ids, 0)
    w = weights * valid
    rows = tf.gather(table, safe_ids)
    total = tf.einsum("bl,bld->bd", w, rows)
    if combiner == "sum":
        norm = tf.ones_like(total[:, :1])
    elif combiner == "mean":
        norm = tf.reduce_sum(w, axis=1, keepdims=True)
    elif combiner == "sqrtn":
        norm = tf.sqrt(tf.reduce_sum(w * w, axis=1, keepdims=True))
    else:
        raise ValueError("unknown combiner %r" % (combiner,))
    bag = tf.math.divide_no_nan(total, norm)

    def grad(dbag):
        d_total = tf.math.divide_no_nan(dbag, norm)
        flat = tf.reshape(w[:, :, None] * d_total[:, None, :], [-1, tf.shape(table)[1]])
        d_table = tf.math.unsorted_segment_sum(
            flat, tf.reshape(safe_ids, [-1]), tf.shape(table)[0]
        )
        d_w = tf.einsum("bd,bld->bl", d_total, rows)
        if combiner != "sum":
            d_w -= tf.reduce_sum(d_total * bag, axis=1, keepdims=True)
        return d_table, None, d_w * valid

    return bag, grad


@tf.custom_gradient
def soft_rank(scores, temperature):
    """Differentiable 1-based ranks (best score -> rank 1), as in ApproxNDCG.

    Args:
      scores: [B, N].
      temperature: scalar tensor; 1.0 in the published experiments, annealed
        towards 0.1 in ours.

    Returns:
      [B, N] soft ranks.
    """
    z = (scores[:, None, :] - scores[:, :, None]) / temperature
    p = tf.sigmoid(z)
    ranks = 0.5 + tf.reduce_sum(p, axis=2)

    def grad(dranks):
        slope = dranks[:, :, None] * p * (1.0 - p)
        d_scores = (tf.reduce_sum(slope, axis=1) - tf.reduce_sum(slope, axis=2)) / temperature
        d_temperature = -tf.reduce_sum(slope * z)
        return d_scores, d_temperature

    return ranks, grad


def approx_ndcg(scores, gains, temperature=1.0):
    """Mean negative ApproxNDCG of a batch of lists."""
    temperature = tf.convert_to_tensor(temperature, scores.dtype)
    ranks = soft_rank(scores, temperature)
    log2 = tf.math.log(tf.constant(2.0, scores.dtype))
    dcg = tf.reduce_sum(gains * log2 / tf.math.log1p(ranks), axis=1)
    best = tf.sort(gains, axis=1, direction="DESCENDING")
    pos = tf.cast(tf.range(1, tf.shape(scores)[1] + 1), scores.dtype)
    ideal = tf.reduce_sum(best * log2 / tf.math.log1p(pos), axis=1)
    return -tf.reduce_mean(tf.math.divide_no_nan(dcg, ideal))


@tf.custom_gradient
def list_mle(scores, labels):
    """Plackett-Luce negative log likelihood of the label order.

    Args:
      scores: [B, N] float.
      labels: [B, N] int graded relevance, -1 for padded documents. Ties are
        broken by position.

    Returns:
      [B] losses.
    """
    order = tf.argsort(labels, axis=1, direction="DESCENDING", stable=True)
    s = tf.gather(scores, order, batch_dims=1)
    real = tf.gather(labels, order, batch_dims=1) >= 0
    keep = tf.cast(real, scores.dtype)
    s = tf.where(real, s, tf.constant(-1e9, s.dtype))
    lse = tf.math.cumulative_logsumexp(s, axis=1, reverse=True)
    loss = tf.reduce_sum(keep * (lse - s), axis=1)

    def grad(dloss):
        n = tf.shape(s)[1]
        # choice[b, i, k]: probability that document k is drawn at step i
        choice = tf.exp(tf.minimum(s[:, None, :] - lse[:, :, None], 0.0))
        later = tf.linalg.band_part(tf.ones([n, n], s.dtype), 0, -1)
        choice = choice * later * keep[:, :, None] * keep[:, None, :]
        ds = dloss[:, None] * (tf.reduce_sum(choice, axis=1) - keep)
        back = tf.argsort(order, axis=1)
        return tf.gather(ds, back, batch_dims=1), None

    return loss, grad


class TwoTower(tf.Module):
    """Minimal two-tower model over bags of ids."""

    def __init__(self, vocab, dim, combiner="mean", name=None):
        super().__init__(name=name)
        init = tf.random.stateless_normal([2, vocab, dim], seed=[3, 5], stddev=0.1)
        self.users = tf.Variable(init[0])
        self.items = tf.Variable(init[1])
        self.combiner = combiner

    def __call__(self, history, history_weights, item, log_q):
        q = embedding_bag(tf.convert_to_tensor(self.users), history, history_weights,
                          combiner=self.combiner)
        c = tf.gather(self.items, item)
        return tf.reduce_mean(in_batch_softmax_loss(q, c, log_q, item))
