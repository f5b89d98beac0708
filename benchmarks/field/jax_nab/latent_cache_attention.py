"""Attention over a compressed key cache, with the variants we train against.

Layouts: b batch, t queries, s keys, h heads, d head width, r latent rank.
"""
import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

NEG = -1e9


class CacheDims(NamedTuple):
    heads: int = 8
    kv_heads: int = 2
    window: int | None = None
    layout: str = "blocked"


# ----------------------------------------------------------------------
# scores straight from the latent cache


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def absorbed_scores(q, q_rot, w_up, latent, k_rot, scale=None):
    """Query-key scores without materialising the keys.

    Args:
        q: (b, t, h, d) content queries.
        q_rot: (b, t, h, p) rotary queries.
        w_up: (h, d, r) key up-projection.
        latent: (b, s, r) cache.
        k_rot: (b, s, p) rotary keys, one set for all heads.
        scale: float, 1/sqrt(d + p) if None.

    Returns:
        (b, h, t, s) scores.
    """
    return _absorbed_fwd(q, q_rot, w_up, latent, k_rot, scale)[0]


def _scale(q, q_rot, scale):
    return 1.0 / math.sqrt(q.shape[-1] + q_rot.shape[-1]) if scale is None else scale


def _absorbed_fwd(q, q_rot, w_up, latent, k_rot, scale):
    ql = jnp.einsum("bthd,hdr->bthr", q, w_up)
    s = jnp.einsum("bthr,bsr->bhts", ql, latent) + jnp.einsum("bthp,bsp->bhts", q_rot, k_rot)
    return s * _scale(q, q_rot, scale), (q, q_rot, w_up, latent, k_rot, ql)


def _absorbed_bwd(scale, res, g):
    q, q_rot, w_up, latent, k_rot, ql = res
    g = g * _scale(q, q_rot, scale)
    gl = jnp.einsum("bhts,bsr->bthr", g, latent)
    return (
        jnp.einsum("bthr,hdr->bthd", gl, w_up),
        jnp.einsum("bhts,bsp->bthp", g, k_rot),
        jnp.einsum("bthr,bthd->hdr", gl, q),
        jnp.einsum("bhts,bthr->bsr", g, ql),
        jnp.einsum("bhts,bthp->bsp", g, q_rot),
    )


absorbed_scores.defvjp(_absorbed_fwd, _absorbed_bwd)


# ----------------------------------------------------------------------
# differential attention


def _causal(x):
    t, s = x.shape[-2:]
    return jnp.where(jnp.arange(t)[:, None] + (s - t) >= jnp.arange(s)[None, :], x, NEG)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def differential_mix(scores_a, scores_b, lam, values, causal=True):
    """(softmax(a) - lam * softmax(b)) @ values.

    Args:
        scores_a, scores_b: (b, h, t, s).
        lam: (h,) weight of the subtracted map.
        values: (b, h, s, d).
        causal: mask keys after the query, aligned at the end.
    """
    return _diff_fwd(scores_a, scores_b, lam, values, causal)[0]


def _diff_fwd(scores_a, scores_b, lam, values, causal):
    if causal:
        scores_a, scores_b = _causal(scores_a), _causal(scores_b)
    pa = jax.nn.softmax(scores_a, -1)
    pb = jax.nn.softmax(scores_b, -1)
    out = (pa - lam[:, None, None] * pb) @ values
    return out, (pa, pb, lam, values, out)


def _diff_bwd(causal, res, g):
    pa, pb, lam, values, out = res
    l = lam[:, None, None]
    dp = jnp.einsum("bhtd,bhsd->bhts", g, values)
    delta = (g * out).sum(-1, keepdims=True)
    da = pa * (dp - delta)
    db = -l * pb * (dp - delta)
    dlam = -(dp * pb).sum((0, 2, 3))
    dv = jnp.einsum("bhts,bhtd->bhsd", pa - l * pb, g)
    return da, db, dlam, dv


differential_mix.defvjp(_diff_fwd, _diff_bwd)


# ----------------------------------------------------------------------
# reading values shared by several heads


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def shared_value_read(probs, values, layout="blocked"):
    """Weighted read where ``values`` has fewer heads than ``probs``.

    Args:
        probs: (b, h, t, s).
        values: (b, k, s, d) with k dividing h.
        layout: "blocked" gives head i the values i // (h // k), "cyclic" i % k.
    """
    return _read_fwd(probs, values, layout)[0]


def _split(x, k, layout):
    b, h = x.shape[:2]
    if layout == "blocked":
        return x.reshape(b, k, h // k, *x.shape[2:])
    return x.reshape(b, h // k, k, *x.shape[2:]).swapaxes(1, 2)


def _join(x, layout):
    if layout != "blocked":
        x = x.swapaxes(1, 2)
    return x.reshape(x.shape[0], -1, *x.shape[3:])


def _read_fwd(probs, values, layout):
    p = _split(probs, values.shape[1], layout)
    return _join(jnp.einsum("bkgts,bksd->bkgtd", p, values), layout), (probs, values)


def _read_bwd(layout, res, g):
    probs, values = res
    k = values.shape[1]
    gs = _split(g, k, layout)
    dp = jnp.einsum("bkgtd,bksd->bkgts", gs, values)
    dv = jnp.einsum("bkgts,bkgtd->bksd", _split(probs, k, layout), gs)
    return _join(dp, layout), dv


shared_value_read.defvjp(_read_fwd, _read_bwd)


# ----------------------------------------------------------------------
# tanh cap with a learned ceiling


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def capped_logits(scores, ceiling, key_lens, window=None):
    """Per-head soft cap, then padding and locality masks.

    Args:
        scores: (b, h, t, t).
        ceiling: (h,) positive.
        key_lens: (b,) ints, number of valid keys.
        window: a query sees itself and this many earlier keys; None sees all.
    """
    return _cap_fwd(scores, ceiling, key_lens, window)[0]


def _cap_fwd(scores, ceiling, key_lens, window):
    c = ceiling[:, None, None]
    th = jnp.tanh(scores / c)
    pos = jnp.arange(scores.shape[-1])
    seen = (pos < key_lens[:, None])[:, None, None, :]
    if window is not None:
        lag = pos[:, None] - pos[None, :]
        seen = seen & (lag >= 0) & (lag <= window)
    return jnp.where(seen, c * th, NEG), (scores, ceiling, key_lens, th)


def _cap_bwd(window, res, g):
    scores, ceiling, key_lens, th = res
    pos = jnp.arange(scores.shape[-1])
    g = jnp.where((pos < key_lens[:, None])[:, None, None, :], g, 0.0)
    if window is not None:
        i, j = pos[:, None], pos[None, :]
        g = jnp.where((j <= i) & (j > i - window), g, 0.0)
    slope = 1.0 - th * th
    u = scores / ceiling[:, None, None]
    return g * slope, (g * (th - u * slope)).sum((0, 2, 3)), None


capped_logits.defvjp(_cap_fwd, _cap_bwd)


def local_attention(dims: CacheDims, params, q, q_rot, latent, k_rot, values, key_lens):
    """Scores, cap, softmax, read."""
    s = absorbed_scores(q, q_rot, params["w_up"], latent, k_rot)
    s = capped_logits(s, params["ceiling"], key_lens, dims.window)
    return shared_value_read(jax.nn.softmax(s, -1), values, dims.layout)
