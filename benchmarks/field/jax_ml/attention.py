"""Attention kernels (reference implementations with memory-lean backward passes).

Layout is ``[batch, heads, time, head_dim]`` unless a function says otherwise.
"""
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.dtypes import float0

NEG_INF = -1e30


def _scores(q, k):
    return jnp.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])


def _softmax_bwd(p, dp):
    return p * (dp - jnp.sum(p * dp, axis=-1, keepdims=True))


# ---------------------------------------------------------------- plain / causal

@partial(jax.custom_vjp, nondiff_argnums=(3,))
def attention(q, k, v, causal=False):
    """Scaled dot-product attention that keeps only the log-sum-exp for backward.

    Args:
        q: queries ``[B, H, Tq, D]``.
        k: keys ``[B, H, Tk, D]``.
        v: values ``[B, H, Tk, Dv]``.
        causal: query ``i`` sees keys ``0..i``.

    Returns:
        ``[B, H, Tq, Dv]``.
    """
    return _attention_fwd(q, k, v, causal)[0]


def _causal(s):
    i = jnp.arange(s.shape[-2])[:, None]
    j = jnp.arange(s.shape[-1])[None, :]
    return jnp.where(j <= i, s, NEG_INF)


def _attention_fwd(q, k, v, causal):
    s = _scores(q, k)
    if causal:
        s = _causal(s)
    lse = jax.nn.logsumexp(s, axis=-1)
    o = jnp.exp(s - lse[..., None]) @ v
    return o, (q, k, v, o, lse)


def _attention_bwd(causal, res, do):
    q, k, v, o, lse = res
    s = _scores(q, k)
    if causal:
        s = _causal(s)
    p = jnp.exp(s - lse[..., None])
    delta = jnp.sum(do * o, axis=-1, keepdims=True)
    ds = p * (jnp.einsum("bhqd,bhkd->bhqk", do, v) - delta)
    ds = ds * (1.0 / math.sqrt(q.shape[-1]))
    dq = jnp.einsum("bhqk,bhkd->bhqd", ds, k)
    dk = jnp.einsum("bhqk,bhqd->bhkd", ds, q)
    dv = jnp.einsum("bhqk,bhqd->bhkd", p, do)
    return dq, dk, dv


attention.defvjp(_attention_fwd, _attention_bwd)


# ---------------------------------------------------------------- grouped queries

@jax.custom_vjp
def gqa_attention(q, k, v):
    """Grouped-query attention.

    ``q`` is ``[batch, q_heads, time, dim]``; ``k`` and ``v`` are
    ``[batch, kv_heads, time, dim]``.  Consecutive query heads share a key/value head, and
    ``q_heads`` must be a multiple of ``kv_heads``.
    """
    rep = q.shape[1] // k.shape[1]
    p = jax.nn.softmax(_scores(q, jnp.repeat(k, rep, axis=1)), axis=-1)
    return p @ jnp.repeat(v, rep, axis=1)


def _gqa_fwd(q, k, v):
    rep = q.shape[1] // k.shape[1]
    kr = jnp.repeat(k, rep, axis=1)
    vr = jnp.repeat(v, rep, axis=1)
    p = jax.nn.softmax(_scores(q, kr), axis=-1)
    return p @ vr, (q, k, v, p)


def _gqa_bwd(res, do):
    q, k, v, p = res
    b, hq, t, d = q.shape
    hkv = k.shape[1]
    rep = hq // hkv
    kr = jnp.repeat(k, rep, axis=1)
    vr = jnp.repeat(v, rep, axis=1)
    dp = jnp.einsum("bhqd,bhkd->bhqk", do, vr)
    ds = _softmax_bwd(p, dp) / math.sqrt(d)
    dq = ds @ kr
    dk = jnp.swapaxes(ds, -1, -2) @ q
    dv = jnp.swapaxes(p, -1, -2) @ do
    # fold the query-head axis back onto the kv heads
    dk = dk.reshape(b, rep, hkv, *dk.shape[2:]).sum(axis=1)
    dv = dv.reshape(b, rep, hkv, *dv.shape[2:]).sum(axis=1)
    return dq, dk, dv


gqa_attention.defvjp(_gqa_fwd, _gqa_bwd)


# ---------------------------------------------------------------- local attention

@partial(jax.custom_vjp, nondiff_argnums=(3,))
def sliding_window_attention(q, k, v, window):
    # q, k, v: [B, H, T, D]; each position attends to itself and the window - 1 before it
    return _swa_fwd(q, k, v, window)[0]


def _swa_fwd(q, k, v, window):
    t = q.shape[2]
    band = jnp.tril(jnp.ones((t, t), bool)) & jnp.triu(jnp.ones((t, t), bool), 1 - window)
    s = jnp.where(band, _scores(q, k), NEG_INF)
    lse = jax.nn.logsumexp(s, axis=-1, keepdims=True)
    out = jnp.exp(s - lse) @ v
    return out, (q, k, v, out, lse)


def _swa_bwd(window, res, do):
    q, k, v, out, lse = res
    offset = jnp.arange(q.shape[2])[:, None] - jnp.arange(q.shape[2])[None, :]
    visible = (offset >= 0) & (offset <= window)
    p = jnp.where(visible, jnp.exp(jnp.minimum(_scores(q, k) - lse, 30.0)), 0.0)
    dp = do @ jnp.swapaxes(v, -1, -2)
    ds = p * (dp - jnp.sum(do * out, -1, keepdims=True)) / math.sqrt(q.shape[-1])
    return ds @ k, jnp.swapaxes(ds, -1, -2) @ q, jnp.swapaxes(p, -1, -2) @ do


sliding_window_attention.defvjp(_swa_fwd, _swa_bwd)


# ---------------------------------------------------------------- ALiBi

def alibi_slopes(num_heads):
    return 2.0 ** (-8.0 * jnp.arange(1, num_heads + 1) / num_heads)


@jax.custom_vjp
def alibi_attention(q, k, v, slopes):
    """Attention with a learned linear distance penalty per head.

    :param q: ``(B, H, T, D)``
    :param k: ``(B, H, T, D)``
    :param v: ``(B, H, T, D)``
    :param slopes: ``(H,)`` penalty per unit of distance
    :return: ``(B, H, T, D)``
    """
    return _alibi_fwd(q, k, v, slopes)[0]


def _distance(q, k):
    return jnp.abs(jnp.arange(q.shape[2])[:, None] - jnp.arange(k.shape[2])[None, :]).astype(q.dtype)


def _alibi_fwd(q, k, v, slopes):
    logits = _scores(q, k) - slopes[:, None, None] * _distance(q, k)
    p = jax.nn.softmax(logits)
    return p @ v, (q, k, v, p)


def _alibi_bwd(res, g):
    q, k, v, p = res
    dv = jnp.einsum("bhqk,bhqd->bhkd", p, g)
    dlogits = _softmax_bwd(p, jnp.einsum("bhqd,bhkd->bhqk", g, v))
    dlogits = dlogits / math.sqrt(q.shape[-1])
    dq = jnp.einsum("bhqk,bhkd->bhqd", dlogits, k)
    dk = jnp.einsum("bhqk,bhqd->bhkd", dlogits, q)
    dslopes = -jnp.einsum("bhqk,qk->h", dlogits, _distance(q, k))
    return dq, dk, dv, dslopes


alibi_attention.defvjp(_alibi_fwd, _alibi_bwd)


# ---------------------------------------------------------------- masked softmax

@partial(jax.custom_vjp, nondiff_argnums=(2,))
def masked_softmax(logits, mask, axis=-1):
    """Softmax restricted to ``mask``; rows without a valid entry come out as zeros.

    Args:
      logits: any shape.
      mask: boolean, broadcastable to ``logits``.
      axis: normalised axis.
    """
    big = jnp.finfo(logits.dtype).min
    top = jnp.max(jnp.where(mask, logits, big), axis=axis, keepdims=True)
    e = jnp.where(mask, jnp.exp(jnp.where(mask, logits - top, 0.0)), 0.0)
    total = e.sum(axis=axis, keepdims=True)
    return e / jnp.where(total == 0, 1.0, total)


def _masked_softmax_fwd(logits, mask, axis):
    p = masked_softmax(logits, mask, axis)
    return p, (p, mask)


def _masked_softmax_bwd(axis, res, g):
    p, mask = res
    dlogits = p * (g - jnp.sum(g * p, axis=axis, keepdims=True))
    return dlogits, np.zeros(mask.shape, float0)


masked_softmax.defvjp(_masked_softmax_fwd, _masked_softmax_bwd)


# ---------------------------------------------------------------- rotary embedding

def _angles(positions, dim, base):
    freq = base ** (-jnp.arange(0, dim, 2) / dim)
    ang = positions[..., None] * freq
    return jnp.cos(ang)[..., None, :], jnp.sin(ang)[..., None, :]


def _rotate(x, cos, sin):
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def apply_rotary(x: "f[B T H D]", positions: "i[B T]", base: float = 10000.0) -> "f[B T H D]":
    cos, sin = _angles(positions, x.shape[-1], base)
    return _rotate(x, cos.astype(x.dtype), sin.astype(x.dtype))


def _rotary_fwd(x, positions, base):
    return apply_rotary(x, positions, base), positions


def _rotary_bwd(base, positions, g):
    cos, sin = _angles(positions, g.shape[-1], base)
    return _rotate(g, cos.astype(g.dtype), -sin.astype(g.dtype)), None


apply_rotary.defvjp(_rotary_fwd, _rotary_bwd)


def self_attention_block(params, x, num_heads, causal=True):
    """x: [B, T, C] -> [B, T, C]."""
    b, t, c = x.shape
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
    heads = lambda z: z.reshape(b, t, num_heads, c // num_heads)
    pos = jnp.broadcast_to(jnp.arange(t), (b, t))
    q, k = apply_rotary(heads(q), pos), apply_rotary(heads(k), pos)
    o = attention(*(z.swapaxes(1, 2) for z in (q, k, heads(v))), causal)
    return o.swapaxes(1, 2).reshape(b, t, c) @ params["out"]
