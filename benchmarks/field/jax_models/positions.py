"""Position information for transformers: rotary embedding, ALiBi, T5 buckets.

>>> x = jnp.ones((1, 6, 2, 8))
>>> rope(x, jnp.arange(6)).shape
(1, 6, 2, 8)
"""
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


# ---------------------------------------------------------------- rotary

def rope_angles(positions, rotary_dim, base):
    inv_freq = 1.0 / (base ** (np.arange(0, rotary_dim, 2) / rotary_dim))
    ang = positions[..., None] * inv_freq          # (..., T, rotary_dim // 2)
    return ang[..., None, :]                       # broadcast over heads


def _rotate(x, cos, sin):
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def rope(x, positions, rotary_dim=None, base=10000.0):
    """Rotary position embedding (NeoX convention, halves instead of pairs).

    Parameters
    ----------
    x : (B, T, H, D)
        Queries or keys.
    positions : (T,) or (B, T) integers
    rotary_dim : int, optional
        Number of leading features to rotate; the other features pass through
        as in GPT-J / GPT-NeoX with ``rotary_pct < 1``. All of them by default.
    base : float
    """
    rd = rotary_dim or x.shape[-1]
    ang = rope_angles(positions, rd, base)
    cos, sin = jnp.cos(ang).astype(x.dtype), jnp.sin(ang).astype(x.dtype)
    return jnp.concatenate([_rotate(x[..., :rd], cos, sin), x[..., rd:]], axis=-1)


def _rope_fwd(x, positions, rotary_dim, base):
    return rope(x, positions, rotary_dim, base), positions


def _rope_bwd(rotary_dim, base, positions, g):
    # rotation is orthogonal: turn back by the same angle
    rd = rotary_dim or g.shape[-1]
    ang = rope_angles(positions, rd, base)
    cos, sin = jnp.cos(ang).astype(g.dtype), jnp.sin(ang).astype(g.dtype)
    dx = jnp.zeros_like(g)
    dx = dx.at[..., :rd].set(_rotate(g[..., :rd], cos, -sin))
    return dx, None


rope.defvjp(_rope_fwd, _rope_bwd)


# ---------------------------------------------------------------- ALiBi

def alibi_slopes(num_heads):
    """Geometric slopes of Press et al. for a power-of-two number of heads."""
    start = 2.0 ** (-8.0 / num_heads)
    return jnp.array([start ** (i + 1) for i in range(num_heads)])


@jax.custom_gradient
def add_alibi(scores, slopes):
    """Adds ``-slope * |i - j|`` to attention scores, with *learned* slopes.

    scores: (..., H, T, S), slopes: (H,). If S > T, the queries are the last T
    positions (decoding with a cache).
    """
    t, s = scores.shape[-2:]
    qpos = np.arange(t) + (s - t)
    dist = jnp.asarray(np.abs(qpos[:, None] - np.arange(s)[None, :]), scores.dtype)
    out = scores - slopes[:, None, None].astype(scores.dtype) * dist

    def vjp(g):
        dslopes = -jnp.einsum("...hts,ts->h", g, dist)
        return g, dslopes.astype(slopes.dtype)

    return out, vjp


# ---------------------------------------------------------------- T5 buckets

def relative_buckets(q_len, k_len, num_buckets, max_distance, bidirectional):
    rel = np.arange(k_len)[None, :] - np.arange(q_len)[:, None]
    n = -rel
    ret = np.zeros_like(n)
    if bidirectional:
        num_buckets //= 2
        ret += (n < 0) * num_buckets
        n = np.abs(n)
    else:
        n = np.maximum(n, 0)
    exact = num_buckets // 2
    large = exact + (
        np.log(np.maximum(n, 1) / exact) / math.log(max_distance / exact) * (num_buckets - exact)
    ).astype(np.int64)
    return ret + np.where(n < exact, n, np.minimum(large, num_buckets - 1))


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3, 4))
def relative_bias(table, q_len, k_len, max_distance=128, bidirectional=True):
    """Bias ``(H, q_len, k_len)`` looked up in a ``(num_buckets, H)`` table.

    ``num_buckets`` has to be even and at least 4, ``max_distance`` larger than it.
    """
    idx = relative_buckets(q_len, k_len, table.shape[0], max_distance, bidirectional)
    return jnp.transpose(table[idx], (2, 0, 1))


def _relative_bias_fwd(table, q_len, k_len, max_distance, bidirectional):
    return relative_bias(table, q_len, k_len, max_distance, bidirectional), table


def _relative_bias_bwd(q_len, k_len, max_distance, bidirectional, table, g):
    idx = relative_buckets(q_len, k_len, table.shape[0], max_distance, bidirectional)
    rows = jnp.transpose(g, (1, 2, 0)).reshape(-1, g.shape[0])
    return (jnp.zeros_like(table).at[idx.reshape(-1)].add(rows.astype(table.dtype)),)


relative_bias.defvjp(_relative_bias_fwd, _relative_bias_bwd)


def attention_scores(q, k, slopes=None, table=None, rotary_dim=None):
    """(B, T, H, D) queries and (B, S, H, D) keys to (B, H, T, S) scores."""
    t, s = q.shape[1], k.shape[1]
    q = rope(q, jnp.arange(t) + (s - t), rotary_dim)
    k = rope(k, jnp.arange(s), rotary_dim)
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    if table is not None:
        scores = scores + relative_bias(table, t, s)
    if slopes is not None:
        scores = add_alibi(scores, slopes)
    return scores
