"""Pieces of decoder-only language models and of text embedders, backend agnostic."""
import math

from keras import ops

IGNORE = -100


def _angles(length, dim, start, wavelength, dtype):
    inv = ops.power(
        ops.cast(wavelength, dtype), -ops.cast(ops.arange(0, dim, 2), dtype) / dim
    )
    pos = ops.cast(ops.arange(start, start + length), dtype)
    theta = ops.expand_dims(pos, -1) * inv  # (T, D/2)
    return ops.cos(theta)[:, None, :], ops.sin(theta)[:, None, :]


def _rotate(x, cos, sin):
    x1, x2 = ops.split(x, 2, axis=-1)
    return ops.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def rotary_embedding(x, start_index=0, max_wavelength=10000.0):
    """Rotary position embedding ("half" layout).

    Args:
        x: `(batch, length, heads, head_dim)` queries or keys, head_dim even.
        start_index: int, the position of the first token, for decoding with a cache.
        max_wavelength: float.
    """
    length, dim = x.shape[1], x.shape[-1]

    @ops.custom_gradient
    def rope(x):
        cos, sin = _angles(length, dim, start_index, max_wavelength, x.dtype)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            # tables are cheap, rebuild them instead of keeping them
            cos, sin = _angles(length, dim, 0, max_wavelength, upstream.dtype)
            return _rotate(upstream, cos, -sin)

        return _rotate(x, cos, sin), grad

    return rope(x)


@ops.custom_gradient
def token_cross_entropy(logits, labels):
    """Mean next-token cross entropy over the tokens that count.

    logits: (batch, length, vocab)
    labels: (batch, length) integers, IGNORE at padding and prompt positions

    Gives 0 if there is no token to count.
    """
    valid = ops.cast(ops.not_equal(labels, IGNORE), logits.dtype)
    safe = ops.where(ops.not_equal(labels, IGNORE), labels, ops.zeros_like(labels))
    logp = ops.log_softmax(logits, axis=-1)
    picked = ops.squeeze(ops.take_along_axis(logp, safe[..., None], axis=-1), axis=-1)
    count = ops.maximum(ops.sum(valid), 1.0)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        hot = ops.one_hot(safe, logits.shape[-1], dtype=logits.dtype)
        return (ops.exp(logp) - hot) * (upstream * valid / count)[..., None], None

    return -ops.sum(picked * valid) / count, grad


@ops.custom_gradient
def info_nce(queries, keys, temperature):
    """In-batch contrastive loss.

    Args:
        queries: `(batch, dim)`; row i belongs to row i of `keys`.
        keys: `(batch, dim)`.
        temperature: scalar tensor, positive.

    Returns:
        The scalar mean over the batch of the cross entropy query -> keys.
    """
    n = queries.shape[0]
    sim = ops.matmul(queries, ops.transpose(keys)) / temperature
    logp = ops.log_softmax(sim, axis=-1)
    loss = -ops.mean(ops.diagonal(logp))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_sim = upstream * (ops.exp(logp) - ops.eye(n, dtype=sim.dtype)) / n
        d_queries = ops.matmul(d_sim, keys) / temperature
        d_keys = ops.matmul(d_sim, queries) / temperature
        d_temperature = -ops.sum(d_sim * sim) / temperature
        return d_queries, d_keys, d_temperature

    return loss, grad


@ops.custom_gradient
def grouped_query_scores(q, k):
    # q: (B, T, Hq, D), k: (B, S, Hk, D) with Hq a multiple of Hk  ->  (B, Hq, T, S)
    _, t, hq, d = q.shape
    s, hk = k.shape[1], k.shape[2]
    rep = hq // hk
    scale = 1.0 / math.sqrt(d)
    qg = ops.reshape(q, (-1, t, hk, rep, d))
    scores = ops.einsum("bthrd,bshd->bhrts", qg, k) * scale

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g = ops.reshape(upstream, (-1, hk, rep, t, s)) * scale
        dq = ops.einsum("bhrts,bshd->bthrd", g, k)
        dk = ops.einsum("bhrts,bthrd->bshd", g, qg)
        return ops.reshape(dq, (-1, t, hq, d)), dk

    return ops.reshape(scores, (-1, hq, t, s)), grad


def attention(q, k, v, start_index=0):
    """Causal grouped-query attention with rotary positions, for a prompt chunk."""
    q = rotary_embedding(q, start_index)
    k = rotary_embedding(k)
    scores = grouped_query_scores(q, k)
    i = ops.arange(q.shape[1])[:, None] + start_index
    allowed = i >= ops.arange(k.shape[1])[None, :]
    scores = ops.where(allowed, scores, -1e9)
    v = ops.repeat(v, q.shape[2] // v.shape[2], axis=2)
    return ops.einsum("bhts,bshd->bthd", ops.softmax(scores, axis=-1), v)


if __name__ == "__main__":
    import numpy as np

    r = np.random.default_rng(0)
    q, k, v = (
        ops.convert_to_tensor(r.normal(size=(2, 5, h, 8)), "float32") for h in (4, 2, 2)
    )
    print(attention(q, k, v).shape)
