"""Attention kernels in plain JAX: reference implementations for the Pallas ones.

Shapes follow the usual letters

    B batch   T query length   S key length
    H query heads   K key/value heads   D head dim
"""
from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

NEG = -1e30


# --- masked softmax -----------------------------------------------------------

def _masked_softmax(logits, mask, axis):
    z = jnp.where(mask, logits, -jnp.inf)
    m = jnp.max(z, axis=axis, keepdims=True)
    m = jnp.where(jnp.isfinite(m), m, 0.0)
    e = jnp.where(mask, jnp.exp(z - m), 0.0)
    s = jnp.sum(e, axis=axis, keepdims=True)
    return e / jnp.where(s > 0, s, 1.0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def masked_softmax(logits, mask, axis=-1):
    """Softmax over ``axis`` restricted to the entries where ``mask`` is True.

    ``mask`` is boolean and broadcastable to ``logits``. Masked entries get
    probability zero; a row without any valid entry is all zeros.
    """
    return _masked_softmax(logits, mask, axis)


def _masked_softmax_fwd(logits, mask, axis):
    p = _masked_softmax(logits, mask, axis)
    return p, (p, mask.shape)


def _masked_softmax_bwd(axis, res, g):
    p, mask_shape = res
    dot = jnp.sum(p * g, axis=axis, keepdims=True)
    return p * (g - dot), np.zeros(mask_shape, jax.dtypes.float0)


masked_softmax.defvjp(_masked_softmax_fwd, _masked_softmax_bwd)


# --- grouped query attention --------------------------------------------------

def _causal(t, s):
    # queries are aligned with the end of the keys
    return jnp.arange(s)[None, :] <= jnp.arange(t)[:, None] + (s - t)


def _gqa_probs(q, k_full, causal):
    scale = 1.0 / math.sqrt(q.shape[-1])
    logits = jnp.einsum("bthd,bshd->bhts", q, k_full) * scale
    if causal:
        logits = jnp.where(_causal(q.shape[1], k_full.shape[1]), logits, NEG)
    return jax.nn.softmax(logits, axis=-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def grouped_query_attention(
    q,  # B T H D
    k,  # B S K D
    v,  # B S K D
    causal: bool = False,
):  # -> B T H D
    """Scaled dot product attention; H / K consecutive query heads share a key/value head.

    With K == H this is ordinary multi-head attention, with K == 1 multi-query
    attention. The probabilities are recomputed in the backward pass.
    """
    rep = q.shape[2] // k.shape[2]
    kf, vf = jnp.repeat(k, rep, axis=2), jnp.repeat(v, rep, axis=2)
    return jnp.einsum("bhts,bshd->bthd", _gqa_probs(q, kf, causal), vf)


def _gqa_fwd(q, k, v, causal):
    return grouped_query_attention(q, k, v, causal), (q, k, v)


def _gqa_bwd(causal, res, do):
    q, k, v = res
    b, s, kv_heads, d = k.shape
    rep = q.shape[2] // kv_heads
    kf, vf = jnp.repeat(k, rep, axis=2), jnp.repeat(v, rep, axis=2)
    p = _gqa_probs(q, kf, causal)

    dv = jnp.einsum("bhts,bthd->bshd", p, do)
    dp = jnp.einsum("bthd,bshd->bhts", do, vf)
    ds = p * (dp - jnp.sum(dp * p, axis=-1, keepdims=True))
    ds = ds / math.sqrt(d)
    dq = jnp.einsum("bhts,bshd->bthd", ds, kf)
    dk = jnp.einsum("bhts,bthd->bshd", ds, q)

    # fold the query heads back on their kv head
    dk = dk.reshape(b, s, rep, kv_heads, d).sum(axis=2)
    dv = dv.reshape(b, s, rep, kv_heads, d).sum(axis=2)
    return dq, dk, dv


grouped_query_attention.defvjp(_gqa_fwd, _gqa_bwd)


# --- attention over one block of keys, to be merged with others ---------------

@jax.custom_vjp
def block_attention(q, k, v):
    """Attention of all queries over one block of keys.

    q: [B, H, T, D], k and v: [B, H, S, D]

    Returns the normalised output [B, H, T, D] together with the log-sum-exp of
    the logits [B, H, T], which `merge_blocks` needs to combine several blocks.
    """
    return _block_attention_fwd(q, k, v)[0]


def _block_attention_fwd(q, k, v):
    scale = q.shape[-1] ** -0.5
    logits = jnp.einsum("bhtd,bhsd->bhts", q, k) * scale
    lse = jax.nn.logsumexp(logits, axis=-1)
    p = jnp.exp(logits - lse[..., None])
    out = jnp.einsum("bhts,bhsd->bhtd", p, v)
    return (out, lse), (q, k, v, out, lse)


def _block_attention_bwd(res, cts):
    q, k, v, out, lse = res
    do, _ = cts
    scale = q.shape[-1] ** -0.5
    p = jnp.exp(jnp.einsum("bhtd,bhsd->bhts", q, k) * scale - lse[..., None])
    delta = jnp.sum(do * out, axis=-1, keepdims=True)
    dv = jnp.einsum("bhts,bhtd->bhsd", p, do)
    dp = jnp.einsum("bhtd,bhsd->bhts", do, v)
    ds = p * (dp - delta) * scale
    dq = jnp.einsum("bhts,bhsd->bhtd", ds, k)
    dk = jnp.einsum("bhts,bhtd->bhsd", ds, q)
    return dq, dk, dv


block_attention.defvjp(_block_attention_fwd, _block_attention_bwd)


def merge_blocks(outs, lses):
    """Combine block outputs [N, B, H, T, D] by their lse [N, B, H, T]."""
    w = jax.nn.softmax(lses, axis=0)
    return jnp.sum(w[..., None] * outs, axis=0)


def chunked_attention(q, k, v, block: int):
    """Attention with the keys visited in blocks of `block` (has to divide S)."""
    outs, lses = [], []
    for i in range(0, k.shape[2], block):
        o, l = block_attention(q, k[:, :, i:i + block], v[:, :, i:i + block])
        outs.append(o)
        lses.append(l)
    return merge_blocks(jnp.stack(outs), jnp.stack(lses))


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    q, k, v = jax.random.normal(key, (3, 2, 4, 8, 16))
    print(chunked_attention(q, k, v, 4).shape)
