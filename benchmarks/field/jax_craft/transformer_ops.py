"""Memory-lean building blocks for decoder-only transformers.

All functions are plain JAX and work under ``jit`` / ``vmap`` / ``shard_map``.
The backward passes are written out by hand, because the default ones keep far
more activations alive than we can afford at 32k context.

Shape letters
-------------
B  batch            T  query length       S  key length
H  query heads      G  key/value heads    D  width (model or head)
F  hidden width of the MLP                V  vocabulary     E  experts
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Optional

import jax
import jax.numpy as jnp
import numpy as np

IGNORE_INDEX = -100
NEG_INF = -1e30


# ----------------------------------------------------------------------------
# Rotary position embedding
# ----------------------------------------------------------------------------


def _rope_tables(positions: jax.Array, dim: int, base: float, dtype) -> tuple[jax.Array, jax.Array]:
    """cos/sin tables of shape (..., T, 1, dim // 2)."""
    inv_freq = base ** (-jnp.arange(0, dim, 2, dtype=dtype) / dim)
    angles = positions[..., None].astype(dtype) * inv_freq
    return jnp.cos(angles)[..., None, :], jnp.sin(angles)[..., None, :]


def _rotate(x: jax.Array, cos: jax.Array, sin: jax.Array, interleaved: bool = False) -> jax.Array:
    """Rotate the pairs of the last axis.

    ``interleaved=False`` pairs feature ``i`` with ``i + dim // 2`` (NeoX layout),
    ``interleaved=True`` pairs ``2 i`` with ``2 i + 1`` (GPT-J layout).
    """
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        out = jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1)
        return out.reshape(x.shape)
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def apply_rope(x: jax.Array, positions: jax.Array, base: float = 10000.0, interleaved: bool = False) -> jax.Array:
    """Rotary embedding.

    Args:
      x: queries or keys, (B, T, H, D) with even D.
      positions: int token positions, (B, T) or (T,).
      base: wavelength base.
      interleaved: pair layout, see ``_rotate``.

    Returns:
      Array of the shape of ``x``.
    """
    cos, sin = _rope_tables(positions, x.shape[-1], base, x.dtype)
    return _rotate(x, cos, sin, interleaved)


def _rope_fwd(x, positions, base, interleaved):
    return apply_rope(x, positions, base, interleaved), positions


def _rope_bwd(base, interleaved, positions, g):
    # A rotation is orthogonal: pull back by turning the other way. Only the
    # positions are kept, the tables are cheap to rebuild.
    cos, sin = _rope_tables(positions, g.shape[-1], base, g.dtype)
    return _rotate(g, cos, -sin), None


apply_rope.defvjp(_rope_fwd, _rope_bwd)


# ----------------------------------------------------------------------------
# Residual add + RMSNorm
# ----------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnames=("eps",))
def add_rms_norm(x: jax.Array, residual: jax.Array, weight: jax.Array, eps: float = 1e-6):
    """Adds the block output to the stream and normalises the sum.

    Args:
      x: block output, (..., D).
      residual: residual stream, (..., D).
      weight: gain, (D,).
      eps: added to the mean square.

    Returns:
      ``(normed, stream)``, both (..., D): the normalised sum and the sum itself.
    """
    stream = x + residual
    inv = jax.lax.rsqrt(jnp.mean(stream * stream, axis=-1, keepdims=True) + eps)
    return stream * inv * weight, stream


def _add_rms_fwd(x, residual, weight, eps):
    stream = x + residual
    inv = jax.lax.rsqrt(jnp.mean(stream * stream, axis=-1, keepdims=True) + eps)
    return (stream * inv * weight, stream), (stream, inv, weight)


def _add_rms_bwd(eps, res, cotangents):
    stream, inv, weight = res
    g_normed, g_stream = cotangents
    xhat = stream * inv
    gw = g_normed * weight
    dstream = inv * (gw - xhat * jnp.mean(gw * xhat, axis=-1, keepdims=True)) + g_stream
    lead = tuple(range(g_normed.ndim - 1))
    return dstream, dstream, jnp.sum(g_normed * xhat, axis=lead)


add_rms_norm.defvjp(_add_rms_fwd, _add_rms_bwd)


# ----------------------------------------------------------------------------
# Gated MLP
# ----------------------------------------------------------------------------

_SQRT_2 = float(np.sqrt(2.0))
_INV_SQRT_2PI = float(1.0 / np.sqrt(2.0 * np.pi))


def _act_and_slope(z: jax.Array, activation: str) -> tuple[jax.Array, jax.Array]:
    if activation == "silu":
        s = jax.nn.sigmoid(z)
        return z * s, s * (1.0 + z * (1.0 - s))
    if activation == "gelu":
        cdf = 0.5 * (1.0 + jax.lax.erf(z / _SQRT_2))
        pdf = _INV_SQRT_2PI * jnp.exp(-0.5 * z * z)
        return z * cdf, cdf + z * pdf
    if activation == "sigmoid":
        s = jax.nn.sigmoid(z)
        return s, s * (1.0 - s)
    raise ValueError(f"unknown activation {activation!r}")


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def gated_mlp(params: dict[str, Any], x: jax.Array, activation: str = "silu") -> jax.Array:
    """Gated MLP ``down(act(gate(x)) * up(x))`` that stores only its input.

    Args:
      params: ``{"gate": (D, F), "up": (D, F), "down": (F, D)}``, optionally with
        ``"bias": {"gate": (F,), "up": (F,)}``.
      x: (..., D).
      activation: ``"silu"`` (SwiGLU), ``"gelu"`` (GeGLU, exact) or ``"sigmoid"`` (GLU).

    Returns:
      (..., D).
    """
    z, u = _gate_and_up(params, x)
    act, _ = _act_and_slope(z, activation)
    return (act * u) @ params["down"]


def _gate_and_up(params, x):
    z = x @ params["gate"]
    u = x @ params["up"]
    if "bias" in params:
        z = z + params["bias"]["gate"]
        u = u + params["bias"]["up"]
    return z, u


def _gated_mlp_fwd(params, x, activation):
    return gated_mlp(params, x, activation), (params, x)


def _gated_mlp_bwd(activation, res, g):
    params, x = res
    d = x.shape[-1]
    x2, g2 = x.reshape(-1, d), g.reshape(-1, g.shape[-1])
    z, u = _gate_and_up(params, x2)
    act, slope = _act_and_slope(z, activation)
    dh = g2 @ params["down"].T
    dz = dh * u * slope
    du = dh * act
    grads = {
        "gate": x2.T @ dz,
        "up": x2.T @ du,
        "down": (act * u).T @ g2,
    }
    if "bias" in params:
        grads["bias"] = {"gate": dz.sum(0), "up": du.sum(0)}
    dx = dz @ params["gate"].T + du @ params["up"].T
    return grads, dx.reshape(x.shape)


gated_mlp.defvjp(_gated_mlp_fwd, _gated_mlp_bwd)


# ----------------------------------------------------------------------------
# Mixture-of-experts router
# ----------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def top_k_router(logits: jax.Array, k: int):
    """Top-k routing with the Switch load-balancing loss.

    The combine weights are the softmax probabilities of the chosen experts,
    renormalised to one. The balance loss is ``E * sum_e f_e * P_e`` where
    ``f_e`` is the share of assignments which went to expert ``e`` (a count) and
    ``P_e`` the mean over tokens of the full softmax.

    Args:
      logits: (T, E).
      k: experts per token.

    Returns:
      weights (T, k), expert ids (T, k) int32, balance loss ().
    """
    return _route(logits, k)[0]


def _route(logits, k):
    n_tokens, n_experts = logits.shape
    probs = jax.nn.softmax(logits, axis=-1)
    top, ids = jax.lax.top_k(logits, k)
    weights = jax.nn.softmax(top, axis=-1)
    load = jnp.zeros((n_experts,), logits.dtype).at[ids.reshape(-1)].add(1.0) / (n_tokens * k)
    balance = n_experts * jnp.sum(load * probs.mean(axis=0))
    return (weights, ids, balance), (probs, weights, ids, load)


def _route_fwd(logits, k):
    return _route(logits, k)


def _route_bwd(k, res, cotangents):
    probs, weights, ids, load = res
    g_weights, _, g_balance = cotangents
    n_tokens, n_experts = probs.shape

    d_top = weights * (g_weights - jnp.sum(g_weights * weights, axis=-1, keepdims=True))
    rows = jnp.arange(n_tokens)[:, None]
    d_logits = jnp.zeros_like(probs).at[rows, ids].add(d_top)

    # load is a histogram and constant almost everywhere
    d_probs = jnp.broadcast_to(g_balance * n_experts * load, probs.shape)
    d_logits += probs * (d_probs - jnp.sum(d_probs * probs, axis=-1, keepdims=True))
    return (d_logits,)


top_k_router.defvjp(_route_fwd, _route_bwd)


# ----------------------------------------------------------------------------
# Grouped-query attention
# ----------------------------------------------------------------------------


def _visible(t: int, s: int, window: Optional[int]) -> jax.Array:
    """Causal (optionally sliding-window) mask, (T, S); queries are the last T positions."""
    qi = jnp.arange(t)[:, None] + (s - t)
    kj = jnp.arange(s)[None, :]
    ok = kj <= qi
    if window is not None:
        ok &= kj > qi - window
    return ok


def _scores(q, k_full, softcap, window):
    raw = jnp.einsum("bthd,bshd->bhts", q, k_full) / np.sqrt(q.shape[-1])
    if softcap is not None:
        raw = softcap * jnp.tanh(raw / softcap)
    return jnp.where(_visible(q.shape[1], k_full.shape[1], window), raw, NEG_INF)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def gqa_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    softcap: Optional[float] = None,
    window: Optional[int] = None,
) -> jax.Array:
    """Causal grouped-query attention; the probabilities are rebuilt in backward.

    Query head ``h`` reads key/value head ``h // (H // G)``.

    Args:
      q: (B, T, H, D).
      k, v: (B, S, G, D) with G dividing H and S >= T.
      softcap: ``c * tanh(score / c)`` on the scores, if given.
      window: width of the sliding window, if given.

    Returns:
      (B, T, H, D).
    """
    return _attend(q, k, v, softcap, window)[0]


def _attend(q, k, v, softcap, window):
    group = q.shape[2] // k.shape[2]
    scores = _scores(q, jnp.repeat(k, group, axis=2), softcap, window)
    lse = jax.nn.logsumexp(scores, axis=-1)
    probs = jnp.exp(scores - lse[..., None])
    out = jnp.einsum("bhts,bshd->bthd", probs, jnp.repeat(v, group, axis=2))
    return out, lse


def _gqa_fwd(q, k, v, softcap, window):
    out, lse = _attend(q, k, v, softcap, window)
    return out, (q, k, v, out, lse)


def _gqa_bwd(softcap, window, res, g):
    q, k, v, out, lse = res
    b, s, n_kv, d = k.shape
    group = q.shape[2] // n_kv
    k_full, v_full = jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)

    scores = _scores(q, k_full, softcap, window)
    probs = jnp.exp(scores - lse[..., None])

    dv_full = jnp.einsum("bhts,bthd->bshd", probs, g)
    d_probs = jnp.einsum("bthd,bshd->bhts", g, v_full)
    delta = jnp.einsum("bthd,bthd->bht", g, out)
    d_scores = probs * (d_probs - delta[..., None])
    if softcap is not None:
        squashed = jnp.where(probs > 0, scores / softcap, 0.0)
        d_scores = d_scores * (1.0 - squashed**2)
    d_scores = d_scores / np.sqrt(d)

    dq = jnp.einsum("bhts,bshd->bthd", d_scores, k_full)
    dk_full = jnp.einsum("bhts,bthd->bshd", d_scores, q)

    # fold the query heads of a group back onto their shared key/value head
    dk = dk_full.reshape(b, s, group, n_kv, d).sum(axis=2)
    dv = dv_full.reshape(b, s, group, n_kv, d).sum(axis=2)
    return dq, dk, dv


gqa_attention.defvjp(_gqa_fwd, _gqa_bwd)


# ----------------------------------------------------------------------------
# Chunked linear + cross entropy
# ----------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def chunked_cross_entropy(
    hidden: jax.Array,
    unembed: jax.Array,
    labels: jax.Array,
    chunk: int = 1024,
    z_weight: float = 0.0,
    reduction: str = "mean",
) -> jax.Array:
    """Cross entropy against a large vocabulary without the (T, V) logits.

    The gradients are gathered while the loss is computed and only scaled by
    the incoming cotangent in backward.

    Args:
      hidden: (T, D) final hidden states.
      unembed: (V, D) output embedding.
      labels: (T,) int targets; positions with ``IGNORE_INDEX`` do not count.
      chunk: tokens per slice.
      z_weight: weight of the ``logsumexp ** 2`` penalty.
      reduction: ``"mean"`` over counted tokens, or ``"sum"``.

    Returns:
      Scalar loss.
    """
    return _cce_scan(hidden, unembed, labels, chunk, z_weight, reduction, with_grad=False)[0]


def _cce_scan(hidden, unembed, labels, chunk, z_weight, reduction, with_grad):
    n_tokens, width = hidden.shape
    pad = -n_tokens % chunk
    h = jnp.pad(hidden, ((0, pad), (0, 0))).reshape(-1, chunk, width)
    y = jnp.pad(labels, (0, pad), constant_values=IGNORE_INDEX).reshape(-1, chunk)
    if reduction == "mean":
        scale = 1.0 / jnp.maximum((labels != IGNORE_INDEX).sum(), 1).astype(hidden.dtype)
    elif reduction == "sum":
        scale = jnp.ones((), hidden.dtype)
    else:
        raise ValueError(f"unknown reduction {reduction!r}")

    def body(carry, slab):
        loss, d_unembed = carry
        hc, yc = slab
        keep = (yc != IGNORE_INDEX).astype(hidden.dtype) * scale
        safe = jnp.where(yc == IGNORE_INDEX, 0, yc)
        logits = hc @ unembed.T
        lse = jax.nn.logsumexp(logits, axis=-1)
        picked = jnp.take_along_axis(logits, safe[:, None], axis=-1)[:, 0]
        loss = loss + jnp.sum(keep * (lse - picked + z_weight * lse**2))
        if not with_grad:
            return (loss, d_unembed), None
        probs = jnp.exp(logits - lse[:, None])
        d_logits = probs * (1.0 + 2.0 * z_weight * lse)[:, None]
        d_logits = d_logits.at[jnp.arange(chunk), safe].add(-1.0) * keep[:, None]
        return (loss, d_unembed + d_logits.T @ hc), d_logits @ unembed

    init = (jnp.zeros((), hidden.dtype), jnp.zeros_like(unembed))
    (loss, d_unembed), d_hidden = jax.lax.scan(body, init, (h, y))
    if with_grad:
        d_hidden = d_hidden.reshape(-1, width)[:n_tokens]
    return loss, d_hidden, d_unembed


def _cce_fwd(hidden, unembed, labels, chunk, z_weight, reduction):
    loss, d_hidden, d_unembed = _cce_scan(hidden, unembed, labels, chunk, z_weight, reduction, with_grad=True)
    return loss, (d_hidden, d_unembed)


def _cce_bwd(chunk, z_weight, reduction, res, g):
    d_hidden, d_unembed = res
    return g * d_hidden, g * d_unembed, None


chunked_cross_entropy.defvjp(_cce_fwd, _cce_bwd)


# ----------------------------------------------------------------------------
# A small decoder that uses the pieces
# ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    vocab: int = 64
    width: int = 32
    heads: int = 4
    kv_heads: int = 2
    mlp_width: int = 48
    experts: int = 4
    top_k: int = 2
    softcap: Optional[float] = 30.0
    window: Optional[int] = None
    interleaved: bool = False

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


def init_params(rng: jax.Array, cfg: DecoderConfig) -> dict[str, Any]:
    ks = jax.random.split(rng, 9)
    d, f, hd = cfg.width, cfg.mlp_width, cfg.head_dim

    def dense(key, *shape):
        return jax.random.normal(key, shape) / np.sqrt(shape[-2])

    return {
        "embed": dense(ks[0], cfg.vocab, d),
        "wq": dense(ks[1], d, cfg.heads * hd),
        "wk": dense(ks[2], d, cfg.kv_heads * hd),
        "wv": dense(ks[3], d, cfg.kv_heads * hd),
        "wo": dense(ks[4], cfg.heads * hd, d),
        "norm": jnp.ones((d,)),
        "router": dense(ks[5], d, cfg.experts),
        "experts": {
            "gate": dense(ks[6], cfg.experts, d, f),
            "up": dense(ks[7], cfg.experts, d, f),
            "down": dense(ks[8], cfg.experts, f, d),
        },
    }


def decoder_loss(params: dict[str, Any], tokens: jax.Array, labels: jax.Array, cfg: DecoderConfig) -> jax.Array:
    """Next-token loss of a one-block MoE decoder; tokens and labels are (B, T)."""
    b, t = tokens.shape
    x = params["embed"][tokens]
    pos = jnp.arange(t)
    q = (x @ params["wq"]).reshape(b, t, cfg.heads, -1)
    k = (x @ params["wk"]).reshape(b, t, cfg.kv_heads, -1)
    v = (x @ params["wv"]).reshape(b, t, cfg.kv_heads, -1)
    q = apply_rope(q, pos, 10000.0, cfg.interleaved)
    k = apply_rope(k, pos, 10000.0, cfg.interleaved)
    att = gqa_attention(q, k, v, cfg.softcap, cfg.window).reshape(b, t, -1) @ params["wo"]
    h, stream = add_rms_norm(att, x, params["norm"])

    flat = h.reshape(b * t, -1)
    weights, ids, balance = top_k_router(flat @ params["router"], cfg.top_k)
    per_expert = jax.vmap(lambda p: gated_mlp(p, flat))(params["experts"])
    chosen = per_expert[ids, jnp.arange(b * t)[:, None]]
    out = stream.reshape(b * t, -1) + jnp.einsum("tk,tkd->td", weights, chosen)
    loss = chunked_cross_entropy(out, params["embed"], labels.reshape(-1), 16, 1e-4)
    return loss + 0.01 * balance
