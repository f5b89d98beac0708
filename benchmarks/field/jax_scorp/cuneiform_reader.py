"""Reading photographed clay tablets line by line.

A tablet photo is cut into lines, every line into signs.  A sign is described
by the ids of its scribal *variants* (up to ``K`` of them, padded), the line
is mixed by a small attention block with a head-wise distance penalty, and a
softmax over the sign list is trained on the lines that are not broken off.

Shapes used throughout:  B tablets, L signs in a line, K variants, H heads,
D features, V signs in the sign list.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp


class ReaderParams(NamedTuple):
    table: jax.Array      # [V, D]
    qkv: jax.Array        # [3, H, D, D // H]
    tilt: jax.Array       # [H]
    readout: jax.Array    # [D, V]


# --------------------------------------------------------------- embeddings
def _present(ids, pad_id, dtype):
    return (ids != pad_id).astype(dtype)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def variant_embed(table, ids, pad_id=0, combine="mean"):
    """Embed every sign as the mean (or sum) of its variants' rows.

    Args:
        table: ``[V, D]`` rows of the sign list.
        ids: integers ``[..., K]``; slots equal to ``pad_id`` are empty.
        pad_id: the id which marks an empty slot.  Older corpora use 0, the
            exports of the museum use -1.
        combine: ``"mean"`` over the filled slots, or ``"sum"``.

    Returns:
        ``[..., D]``; zeros for a sign without any variant.
    """
    on = _present(ids, pad_id, table.dtype)
    rows = table[jnp.clip(ids, 0, table.shape[0] - 1)] * on[..., None]
    out = rows.sum(-2)
    if combine == "mean":
        out = out / jnp.maximum(on.sum(-1), 1)[..., None]
    return out


def _variant_fwd(table, ids, pad_id, combine):
    return variant_embed(table, ids, pad_id, combine), (ids, table)


def _variant_bwd(pad_id, combine, res, g):
    ids, table = res
    on = (ids > 0).astype(g.dtype)
    if combine == "mean":
        g = g / jnp.maximum(on.sum(-1), 1)[..., None]
    spread = g[..., None, :] * on[..., None]
    safe = jnp.clip(ids, 0, table.shape[0] - 1)
    return jnp.zeros_like(table).at[safe].add(spread), None


variant_embed.defvjp(_variant_fwd, _variant_bwd)


# ---------------------------------------------------------------- attention
def _scores(q, k, tilt, key_ok, causal):
    lq, lk = q.shape[-2], k.shape[-2]
    # the queries are the last lq positions of the keys
    at = jnp.arange(lq) + (lk - lq)
    dist = jnp.abs(at[:, None] - jnp.arange(lk)[None, :]).astype(q.dtype)
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    s = s - tilt[:, None, None] * dist
    ok = key_ok[:, None, None, :]
    if causal:
        ok = ok & (jnp.arange(lk)[None, :] <= at[:, None])
    ok = jnp.broadcast_to(ok, s.shape)
    top = jnp.max(jnp.where(ok, s, -1e30), -1, keepdims=True)
    e = jnp.where(ok, jnp.exp(jnp.where(ok, s - top, 0.0)), 0.0)
    z = e.sum(-1, keepdims=True)
    return e / jnp.where(z > 0, z, 1.0), dist


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def tilt_bias_attention(q, k, v, tilt, key_ok, causal=False):
    """Softmax attention with the penalty ``tilt[h] * |i - j|`` on the scores.

    q [B,H,Lq,E], k and v [B,H,Lk,E], tilt [H], key_ok bool [B,Lk].  With a cache
    Lk may exceed Lq.  A query that sees no key returns zeros.
    """
    p, _ = _scores(q, k, tilt, key_ok, causal)
    return p @ v


def _attn_fwd(q, k, v, tilt, key_ok, causal):
    p, dist = _scores(q, k, tilt, key_ok, causal)
    return p @ v, (q, k, v, p, dist)


def _attn_bwd(causal, res, g):
    q, k, v, p, dist = res
    dv = jnp.einsum("bhqk,bhqd->bhkd", p, g)
    dp = jnp.einsum("bhqd,bhkd->bhqk", g, v)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    c = q.shape[-1] ** -0.5
    dq = c * jnp.einsum("bhqk,bhkd->bhqd", ds, k)
    dk = c * jnp.einsum("bhqk,bhqd->bhkd", ds, q)
    dtilt = -jnp.einsum("bhqk,qk->h", ds, dist)
    return dq, dk, dv, dtilt, None


tilt_bias_attention.defvjp(_attn_fwd, _attn_bwd)


# ------------------------------------------------------------------ pooling
@jax.custom_jvp
def stroke_pool(x, mask, sharpness):
    """Soft maximum over strokes: log of the mean of exp(sharpness * x), over
    sharpness.  x [..., S, D], mask [..., S] (one stroke at least is present),
    sharpness a positive scalar: small is the mean, large is the maximum."""
    m = mask[..., None]
    n = m.sum(-2).astype(x.dtype)
    t = jnp.where(m, sharpness * x, -jnp.inf)
    return (jax.nn.logsumexp(t, axis=-2) - jnp.log(n)) / sharpness


@stroke_pool.defjvp
def _stroke_pool_jvp(primals, tangents):
    x, mask, sharpness = primals
    dx, _, dsharp = tangents
    out = stroke_pool(x, mask, sharpness)
    p = jax.nn.softmax(jnp.where(mask[..., None], sharpness * x, -jnp.inf), axis=-2)
    return out, (p * dx).sum(-2) + dsharp * ((p * x).sum(-2) - out)


# --------------------------------------------------------------------- loss
@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def line_ce(logits, targets, sign_weight, smoothing=0.0, reduction="mean"):
    """Weighted, label-smoothed cross entropy of a line of signs.

    ``logits`` [..., V]; ``targets`` ints [...], negative where the clay is
    broken; ``sign_weight`` [V], positive.  ``"mean"`` is the weighted mean
    over the readable signs (0 for a line with none), ``"sum"`` and ``"none"``
    are the weighted sum and the weighted terms.
    """
    return _line_ce_parts(logits, targets, sign_weight, smoothing, reduction)[0]


def _line_ce_parts(logits, targets, sign_weight, smoothing, reduction):
    seen = (targets >= 0).astype(logits.dtype)
    t = jnp.maximum(targets, 0)
    logp = jax.nn.log_softmax(logits, -1)
    hit = jnp.take_along_axis(logp, t[..., None], -1)[..., 0]
    nll = -(1 - smoothing) * hit - smoothing * logp.mean(-1)
    w = seen * sign_weight[t]
    if reduction == "none":
        return w * nll, (logp, t, seen, w, nll, sign_weight)
    total = (w * nll).sum()
    if reduction == "mean":
        total = total / jnp.where(w.sum() > 0, w.sum(), 1.0)
    return total, (logp, t, seen, w, nll, sign_weight)


def _line_ce_bwd(smoothing, reduction, res, g):
    logp, t, seen, w, nll, sign_weight = res
    coef, excess = g, nll
    if reduction == "mean":
        z = jnp.where(w.sum() > 0, w.sum(), 1.0)
        coef = g / z
        excess = nll - (w * nll).sum() / z
    v = logp.shape[-1]
    soft = (1 - smoothing) * jax.nn.one_hot(t, v, dtype=logp.dtype) + smoothing / v
    dlogits = (coef * w)[..., None] * (jnp.exp(logp) - soft)
    dweight = jnp.zeros_like(sign_weight).at[t].add(coef * seen * excess)
    return dlogits, None, dweight


line_ce.defvjp(_line_ce_parts, _line_ce_bwd)


def read_line(params: ReaderParams, ids, pad_id=0):
    """Logits [B, L, V] of the signs whose variants are ``ids`` [B, L, K]."""
    x = variant_embed(params.table, ids, pad_id, "mean")
    q, k, v = jnp.einsum("bld,shde->sbhle", x, params.qkv)
    y = tilt_bias_attention(q, k, v, params.tilt, (ids != pad_id).any(-1), False)
    y = jnp.moveaxis(y, 1, 2).reshape(x.shape)
    return (x + y) @ params.readout
