"""Fused ops for the decoder-only model (norm, rotary, attention, routing, loss).

Everything here is a memory-lean version of a few lines of plain jnp: the backward
passes recompute instead of keeping per-token intermediates alive.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Optional

import jax
import jax.numpy as jnp
from jax import Array

Reduction = Literal["mean", "sum", "none"]


# ---------------------------------------------------------------------------
# RMSNorm
# ---------------------------------------------------------------------------
@partial(jax.custom_vjp, nondiff_argnames=("eps", "zero_centered"))
def rms_norm(x: Array, weight: Array, eps: float = 1e-6, zero_centered: bool = False) -> Array:
    """Root-mean-square normalisation over the feature axis.

    Args:
        x: activations, ``[..., d]``.
        weight: learned gain, ``[d]``.
        eps: added to the mean square.
        zero_centered: if set, the gain is ``1 + weight`` (Gemma convention).

    Returns:
        Array of the shape of ``x``.
    """
    gain = 1.0 + weight if zero_centered else weight
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * gain


def _rms_norm_fwd(x, weight, eps, zero_centered):
    inv = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)
    gain = 1.0 + weight if zero_centered else weight
    return x * inv * gain, (x, weight, inv)


def _rms_norm_bwd(eps, zero_centered, res, dy):
    x, weight, inv = res
    xhat = x * inv
    gain = 1.0 + weight if zero_centered else weight
    dxhat = dy * gain
    dx = inv * (dxhat - xhat * jnp.mean(dxhat * xhat, axis=-1, keepdims=True))
    dweight = jnp.sum(dy * xhat, axis=tuple(range(x.ndim - 1)))
    return dx, dweight


rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)


# ---------------------------------------------------------------------------
# Rotary position embedding
# ---------------------------------------------------------------------------
def rotary_angles(positions: Array, head_dim: int, base: float) -> tuple[Array, Array]:
    inv_freq = base ** (-jnp.arange(0, head_dim, 2) / head_dim)
    angle = positions[..., None] * inv_freq  # [B, T, D/2]
    return jnp.cos(angle)[:, :, None, :], jnp.sin(angle)[:, :, None, :]


def _split(x: Array, interleaved: bool) -> tuple[Array, Array]:
    if interleaved:
        return x[..., 0::2], x[..., 1::2]
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def _merge(a: Array, b: Array, interleaved: bool) -> Array:
    if interleaved:
        return jnp.stack([a, b], axis=-1).reshape(*a.shape[:-1], 2 * a.shape[-1])
    return jnp.concatenate([a, b], axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def apply_rotary(x: Array, positions: Array, interleaved: bool = False, base: float = 10000.0) -> Array:
    """Rotates pairs of features by a position dependent angle.

    Args:
        x: queries or keys, ``[B, T, H, D]`` with even ``D``.
        positions: integer positions, ``[B, T]``.
        interleaved: pairs are ``(0, 1), (2, 3), ...`` (GPT-J) instead of
            ``(0, D/2), (1, D/2 + 1), ...`` (GPT-NeoX, Llama).
        base: wavelength base.
    """
    cos, sin = rotary_angles(positions, x.shape[-1], base)
    a, b = _split(x, interleaved)
    return _merge(a * cos - b * sin, b * cos + a * sin, interleaved)


def _apply_rotary_fwd(x, positions, interleaved, base):
    return apply_rotary(x, positions, interleaved, base), positions


def _apply_rotary_bwd(interleaved, base, positions, dy):
    # The map is orthogonal: its transpose rotates back.
    cos, sin = rotary_angles(positions, dy.shape[-1], base)
    half = dy.shape[-1] // 2
    da, db = dy[..., :half], dy[..., half:]
    return jnp.concatenate([da * cos + db * sin, db * cos - da * sin], axis=-1), None


apply_rotary.defvjp(_apply_rotary_fwd, _apply_rotary_bwd)


# ---------------------------------------------------------------------------
# Grouped-query attention
# ---------------------------------------------------------------------------
def _attention_probs(q: Array, k: Array, causal: bool) -> Array:
    scores = jnp.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
    if causal:
        t, s = scores.shape[-2:]
        visible = jnp.tril(jnp.ones((t, s), bool), k=s - t)
        scores = jnp.where(visible, scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def grouped_attention(q: Array, k: Array, v: Array, causal: bool = True) -> Array:
    """Attention in which groups of query heads share one key/value head.

    Query head ``h`` reads key/value head ``h // (Hq // Hkv)``.

    Args:
        q: ``[B, T, Hq, D]``.
        k: ``[B, S, Hkv, D]`` with ``S >= T``; the last query sees all keys.
        v: ``[B, S, Hkv, D]``.
        causal: hide keys that lie in the future.

    Returns:
        ``[B, T, Hq, D]``.
    """
    n_rep = q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, n_rep, axis=2), jnp.repeat(v, n_rep, axis=2)
    return jnp.einsum("bhts,bshd->bthd", _attention_probs(q, k, causal), v)


def _grouped_attention_fwd(q, k, v, causal):
    return grouped_attention(q, k, v, causal), (q, k, v)


def _grouped_attention_bwd(causal, res, do):
    q, k, v = res
    b, s, n_kv, d = k.shape
    n_rep = q.shape[2] // n_kv
    k_full, v_full = jnp.repeat(k, n_rep, axis=2), jnp.repeat(v, n_rep, axis=2)
    p = _attention_probs(q, k_full, causal)  # recomputed

    dv = jnp.einsum("bhts,bthd->bshd", p, do)
    dp = jnp.einsum("bthd,bshd->bhts", do, v_full)
    ds = p * (dp - jnp.sum(dp * p, axis=-1, keepdims=True)) * d**-0.5
    dq = jnp.einsum("bhts,bshd->bthd", ds, k_full)
    dk = jnp.einsum("bhts,bthd->bshd", ds, q)

    # fold the copies of each kv head
    dk = dk.reshape(b, s, n_rep, n_kv, d).sum(axis=2)
    dv = dv.reshape(b, s, n_rep, n_kv, d).sum(axis=2)
    return dq, dk, dv


grouped_attention.defvjp(_grouped_attention_fwd, _grouped_attention_bwd)


# ---------------------------------------------------------------------------
# Mixture-of-experts routing
# ---------------------------------------------------------------------------
@dataclass
class TopKRouter:
    """Token-choice router.

    Attributes:
        num_experts: E.
        k: experts per token.
        renormalize: rescale the kept weights to sum to one per token.
    """

    num_experts: int
    k: int = 2
    renormalize: bool = True

    def combine_weights(self, logits: Array) -> Array:
        """Dense combine matrix ``[tokens, E]``; zero for experts not chosen."""

        @jax.custom_gradient
        def gate(logits):
            probs = jax.nn.softmax(logits, axis=-1)
            _, top = jax.lax.top_k(logits, self.k)
            chosen = jax.nn.one_hot(top, self.num_experts, dtype=logits.dtype).sum(axis=-2)
            if self.renormalize:
                weights = jax.nn.softmax(jnp.where(chosen > 0, logits, -jnp.inf), axis=-1)
            else:
                weights = probs * chosen

            def backward(g):
                if self.renormalize:
                    inner = jnp.sum(g * weights, axis=-1, keepdims=True)
                    return weights * (g - inner)
                g = g * chosen
                return probs * (g - jnp.sum(g * probs, axis=-1, keepdims=True))

            return weights, backward

        return gate(logits)

    def __call__(self, x: Array, w_gate: Array) -> Array:
        return self.combine_weights(x @ w_gate)


# ---------------------------------------------------------------------------
# Token loss
# ---------------------------------------------------------------------------
@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def token_cross_entropy(
    logits: Array,
    targets: Array,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Array:
    """Cross entropy with integer targets.

    Args:
        logits: ``[N, V]``.
        targets: ``[N]`` token ids; positions equal to ``ignore_index`` carry no loss.
        ignore_index: see above.
        label_smoothing: mass spread evenly over the vocabulary.
        reduction: ``"mean"`` over the positions that are not ignored, ``"sum"``,
            or ``"none"`` for the ``[N]`` vector.
    """
    return _token_cross_entropy_fwd(logits, targets, ignore_index, label_smoothing, reduction)[0]


def _token_cross_entropy_fwd(logits, targets, ignore_index, label_smoothing, reduction):
    valid = targets != ignore_index
    safe = jnp.where(valid, targets, 0)
    lse = jax.nn.logsumexp(logits, axis=-1)
    picked = jnp.take_along_axis(logits, safe[:, None], axis=-1)[:, 0]
    nll = lse - (1.0 - label_smoothing) * picked - label_smoothing * jnp.mean(logits, axis=-1)
    nll = jnp.where(valid, nll, 0.0)
    if reduction == "mean":
        loss = jnp.sum(nll) / jnp.maximum(jnp.sum(valid), 1)
    elif reduction == "sum":
        loss = jnp.sum(nll)
    else:
        loss = nll
    return loss, (logits, safe, valid, lse)


def _token_cross_entropy_bwd(ignore_index, label_smoothing, reduction, res, g):
    logits, safe, valid, lse = res
    n, vocab = logits.shape
    if reduction == "mean":
        g = g / n
    per_token = jnp.where(valid, g, 0.0)
    target = (1.0 - label_smoothing) * jax.nn.one_hot(safe, vocab, dtype=logits.dtype) + label_smoothing / vocab
    return per_token[:, None] * (jnp.exp(logits - lse[:, None]) - target), None


token_cross_entropy.defvjp(_token_cross_entropy_fwd, _token_cross_entropy_bwd)


# ---------------------------------------------------------------------------
# One block, to show how the pieces meet
# ---------------------------------------------------------------------------
@dataclass
class AttentionBlock:
    n_heads: int
    n_kv_heads: int
    head_dim: int
    interleaved_rope: bool = False
    params: dict = field(default_factory=dict)

    def init(self, key: Array, d_model: int) -> "AttentionBlock":
        names = {"q": self.n_heads, "k": self.n_kv_heads, "v": self.n_kv_heads}
        keys = jax.random.split(key, len(names) + 1)
        self.params = {
            n: jax.random.normal(kk, (d_model, h, self.head_dim)) * d_model**-0.5
            for kk, (n, h) in zip(keys, names.items())
        }
        self.params["norm"] = jnp.zeros(d_model)
        return self

    def __call__(self, x: Array, positions: Optional[Array] = None) -> Array:
        b, t, _ = x.shape
        if positions is None:
            positions = jnp.broadcast_to(jnp.arange(t), (b, t))
        h = rms_norm(x, self.params["norm"], eps=1e-6, zero_centered=True)
        q, k, v = (jnp.einsum("btm,mhd->bthd", h, self.params[n]) for n in "qkv")
        q = apply_rotary(q, positions, self.interleaved_rope)
        k = apply_rotary(k, positions, self.interleaved_rope)
        return grouped_attention(q, k, v, True)
