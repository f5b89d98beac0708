"""Attention blocks, retrieval losses and likelihood heads (TensorFlow 2)."""
import math

import tensorflow as tf


def _attention_probs(q, k, causal=False):
    d = tf.cast(tf.shape(q)[-1], q.dtype)
    s = tf.einsum("bhtd,bhsd->bhts", q, k) / tf.sqrt(d)
    if causal:
        keep = tf.linalg.band_part(tf.ones(tf.shape(s)[-2:], tf.bool), -1, 0)
        s = tf.where(keep, s, tf.constant(-1e9, s.dtype))
    return tf.nn.softmax(s, axis=-1)


def recompute_attention(q, k, v, causal=False):
    """Attention which recomputes the probabilities in the backward pass instead of storing them.

    Args:
        q: `[batch, heads, length, depth]` queries.
        k: `[batch, heads, length, depth]` keys.
        v: `[batch, heads, length, depth_v]` values.
        causal: Forbid positions from looking ahead.

    Returns:
        `[batch, heads, length, depth_v]`.
    """

    @tf.custom_gradient
    def _attend(q, k, v):
        out = tf.matmul(_attention_probs(q, k, causal), v)

        def grad(dout):
            p = _attention_probs(q, k)
            dv = tf.matmul(p, dout, transpose_a=True)
            dp = tf.matmul(dout, v, transpose_b=True)
            ds = p * (dp - tf.reduce_sum(dp * p, axis=-1, keepdims=True))
            ds = ds / math.sqrt(q.shape[-1])
            return tf.matmul(ds, k), tf.matmul(ds, q, transpose_a=True), dv

        return out, grad

    return _attend(q, k, v)


def grouped_query_attention(q, k, v, key_mask=None):
    # q [B, Hq, T, D]   k, v [B, Hkv, S, D]   key_mask [B, S] bool, Hq % Hkv == 0
    rep = q.shape[1] // k.shape[1]

    @tf.custom_gradient
    def _gqa(q, k, v):
        kk = tf.repeat(k, rep, axis=1)
        vv = tf.repeat(v, rep, axis=1)
        scale = 1.0 / math.sqrt(q.shape[-1])
        s = tf.matmul(q, kk, transpose_b=True) * scale
        if key_mask is not None:
            s = tf.where(key_mask[:, None, None, :], s, tf.constant(-1e9, s.dtype))
        p = tf.nn.softmax(s)

        def _fold(g):
            b, _, t, d = g.shape
            return tf.reduce_sum(tf.reshape(g, [b, -1, rep, t, d]), axis=2)

        def grad(do):
            dp = tf.einsum("bhtd,bhsd->bhts", do, vv)
            ds = p * (dp - tf.einsum("bhtd,bhtd->bht", do, tf.matmul(p, vv))[..., None]) * scale
            dk = _fold(tf.einsum("bhts,bhtd->bhsd", ds, q))
            dv = _fold(tf.einsum("bhts,bhtd->bhsd", p, do))
            return tf.matmul(ds, kk), dk, dv

        return tf.matmul(p, vv), grad

    return _gqa(q, k, v)


def in_batch_softmax_loss(user, item, temperature=0.1):
    """Two-tower retrieval loss with the other rows of the batch as negatives.

    Parameters
    ----------
    user : (B, D) tensor
        Query embeddings.
    item : (B, D) tensor
        Embedding of the positive item of each query.
    temperature : float

    Returns
    -------
    scalar tensor
    """

    @tf.custom_gradient
    def _loss(user, item):
        logits = tf.matmul(user, item, transpose_b=True) / temperature
        logp = tf.nn.log_softmax(logits)
        n = logits.shape[0]
        value = -tf.reduce_mean(tf.linalg.diag_part(logp))

        def grad(dy):
            g = (tf.exp(logp) - tf.eye(n, dtype=logits.dtype)) * (dy / (n * temperature))
            return tf.matmul(g, item), tf.matmul(g, user)

        return value, grad

    return _loss(user, item)


def segment_softmax(logits, segment_ids, num_segments):
    """Softmax inside each segment (edges grouped by their target node).

    :param logits: edge scores, ``(E,)`` or ``(E, heads)``
    :param segment_ids: int, ``(E,)``, need not be sorted
    :param num_segments: number of nodes
    :return: like ``logits``; sums to one inside a segment
    """

    @tf.custom_gradient
    def _softmax(logits):
        top = tf.math.unsorted_segment_max(logits, segment_ids, num_segments)
        e = tf.exp(logits - tf.gather(top, segment_ids))
        z = tf.math.unsorted_segment_sum(e, segment_ids, num_segments)
        p = e / tf.gather(z, segment_ids)

        def grad(dp):
            inner = tf.math.unsorted_segment_sum(p * dp, segment_ids, num_segments)
            return p * (dp - tf.gather(inner, segment_ids))

        return p, grad

    return _softmax(logits)


def embedding_bag(table, ids, weights, combiner="mean"):
    """Weighted bag of embeddings; negative ids are padding.

    table (vocab, dim), ids (batch, bag) int, weights (batch, bag) -> (batch, dim)
    """
    valid = ids >= 0
    safe = tf.where(valid, ids, tf.zeros_like(ids))

    @tf.custom_gradient
    def _bag(table, weights):
        w = tf.where(valid, weights, tf.zeros_like(weights))
        rows = tf.gather(table, safe)
        total = tf.einsum("bl,bld->bd", w, rows)
        mass = tf.reduce_sum(w, axis=1, keepdims=True)
        y = tf.math.divide_no_nan(total, mass) if combiner == "mean" else total

        def grad(dy):
            if combiner == "mean":
                d = tf.math.divide_no_nan(dy, mass)
                dw = tf.einsum("bd,bld->bl", d, rows - y[:, None, :])
            else:
                d = dy
                dw = tf.einsum("bd,bld->bl", d, rows)
            dw = tf.where(valid, dw, tf.zeros_like(dw))
            values = tf.reshape(w[:, :, None] * d[:, None, :], [-1, table.shape[1]])
            dtable = tf.IndexedSlices(values, tf.reshape(safe, [-1]), tf.shape(table))
            return dtable, dw

        return y, grad

    return _bag(table, weights)


def focal_loss(logits, labels, gamma=2.0, class_weights=None, reduction="mean"):
    """Multi-class focal loss.

    Args:
        logits: float `[n, classes]`.
        labels: int `[n]`.
        gamma: Focusing exponent.
        class_weights: Optional sequence of `classes` floats.
        reduction: One of "mean", "sum", "none".
    """

    @tf.custom_gradient
    def _focal(logits):
        logp = tf.nn.log_softmax(logits)
        onehot = tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
        lp = tf.reduce_sum(onehot * logp, axis=-1)
        p = tf.exp(lp)
        per_row = -tf.pow(1.0 - p, gamma) * lp
        if class_weights is not None:
            per_row *= tf.gather(tf.constant(class_weights, logits.dtype), labels)
        if reduction == "mean":
            value = tf.reduce_mean(per_row)
        elif reduction == "sum":
            value = tf.reduce_sum(per_row)
        else:
            value = per_row

        def grad(dy):
            if reduction == "mean":
                dy = dy / tf.cast(tf.shape(lp)[0], dy.dtype)
            coef = gamma * tf.pow(1.0 - p, gamma - 1.0) * p * lp - tf.pow(1.0 - p, gamma)
            return (dy * coef)[..., None] * (onehot - tf.exp(logp))

        return value, grad

    return _focal(logits)


def _sum_to(g, like):
    lead = g.shape.rank - like.shape.rank
    if lead:
        g = tf.reduce_sum(g, axis=list(range(lead)))
    axes = [i for i, (a, b) in enumerate(zip(g.shape, like.shape)) if b == 1 and a != 1]
    return tf.reduce_sum(g, axis=axes, keepdims=True) if axes else g


@tf.custom_gradient
def student_t_log_prob(x, df, loc, scale):
    """Log density of Student's t; the four arguments broadcast against each other."""
    z = (x - loc) / scale
    t = tf.square(z) / df
    lp = (
        tf.math.lgamma(0.5 * (df + 1.0))
        - tf.math.lgamma(0.5 * df)
        - 0.5 * tf.math.log(math.pi * df)
        - tf.math.log(scale)
        - 0.5 * (df + 1.0) * tf.math.log1p(t)
    )

    def grad(dlp):
        dz = -(df + 1.0) * z / (df + tf.square(z))
        ddf = 0.5 * (
            tf.math.digamma(0.5 * (df + 1.0))
            - tf.math.digamma(0.5 * df)
            - 1.0 / df
            - tf.math.log1p(t)
            + (df + 1.0) * t / (df + tf.square(z))
        )
        return (
            _sum_to(dlp * dz / scale, x),
            _sum_to(dlp * ddf, df),
            _sum_to(-dlp * dz / scale, loc),
            _sum_to(-dlp * (1.0 + z * dz) / scale, scale),
        )

    return lp, grad


@tf.custom_gradient
def log_softmax_with_entropy(logits):
    logp = tf.nn.log_softmax(logits, axis=-1)
    p = tf.exp(logp)
    entropy = -tf.reduce_sum(p * logp, axis=-1)

    def grad(dlogp, dentropy):
        from_logp = dlogp - p * tf.reduce_sum(dlogp, keepdims=True)
        from_entropy = -p * (logp + entropy[..., None]) * dentropy[..., None]
        return from_logp + from_entropy

    return (logp, entropy), grad


def policy_objective(logits, actions, advantages, entropy_coef=0.01):
    """A2C policy term: `logits` [T, B, A], `actions` and `advantages` [T, B]."""
    logp, ent = log_softmax_with_entropy(logits)
    chosen = tf.gather(logp, actions, axis=-1, batch_dims=2)
    return -tf.reduce_mean(chosen * advantages + entropy_coef * ent)
