"""Building blocks for the sparse decoder: routing losses, expert combine, retention, int4 projections.

Everything here keeps its own backward pass.  XLA's automatic one is correct but keeps far too much alive at
our sequence lengths (the retention state alone is ``T * Dk * Dv`` per head), and for the packed int4 weights
there is nothing to differentiate in the first place.

Shape letters used throughout:

    B   batch (packed rows)            T   tokens per row
    E   experts                        K   experts per token
    H   heads                          N   flattened tokens, B * T
    V   vocabulary                     G   quantization groups along the input dimension
"""
from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Optional

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.dtypes import float0

IGNORE_INDEX = -100
DROPPED = -1  # slot id of a (token, choice) pair that exceeded expert capacity


# ---------------------------------------------------------------------------------------------------------
# router
# ---------------------------------------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnames=("coef",))
def router_z_loss(logits: Array, token_mask: Array, coef: float) -> Array:
    """Penalty on the log-partition of the router (ST-MoE, eq. 5).

        L = coef * mean_{valid t} logsumexp_e(logits[t, e]) ** 2

    Args:
      logits: ``[B, T, E]`` router logits, before any jitter.
      token_mask: ``[B, T]`` bool, False at padding.  The mean is over valid tokens only.
      coef: static weight, 1e-3 in all our configs.

    Returns:
      Scalar loss.
    """
    lse = jax.nn.logsumexp(logits, axis=-1)
    n_valid = jnp.maximum(token_mask.sum(), 1)
    return coef * jnp.sum(jnp.where(token_mask, lse * lse, 0.0)) / n_valid


def _router_z_fwd(logits, token_mask, coef):
    return router_z_loss(logits, token_mask, coef), (logits, token_mask)


def _router_z_bwd(coef, res, g):
    logits, token_mask = res
    lse = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    probs = jnp.exp(logits - lse)
    per_token = jnp.where(token_mask[..., None], 2.0 * lse * probs, 0.0)
    return g * coef * per_token / token_mask.size, None


router_z_loss.defvjp(_router_z_fwd, _router_z_bwd)


# ---------------------------------------------------------------------------------------------------------
# expert combine
# ---------------------------------------------------------------------------------------------------------


@jax.custom_vjp
def combine_experts(expert_out: Array, gate: Array, slots: Array) -> Array:
    """Weighted gather of expert rows back to token order.

        y[n] = sum_k gate[n, k] * expert_out[slots[n, k]]      over the k that were not dropped

    Args:
      expert_out: ``[S, D]`` rows of all experts, capacity padding included.
      gate: ``[N, K]`` combine weights.
      slots: ``[N, K]`` int32 row ids; ``DROPPED`` where the choice did not fit.  With merged (shared) slots
        several tokens read the same row.

    Returns:
      ``[N, D]`` tokens.  A token all of whose choices were dropped comes out as zeros.
    """
    kept = slots >= 0
    rows = expert_out[jnp.where(kept, slots, 0)]
    return jnp.einsum("nk,nkd->nd", jnp.where(kept, gate, 0.0), rows)


def _combine_fwd(expert_out, gate, slots):
    return combine_experts(expert_out, gate, slots), (expert_out, gate, slots)


def _combine_bwd(res, g):
    expert_out, gate, slots = res
    kept = slots >= 0
    safe = jnp.where(kept, slots, 0)
    d_gate = jnp.where(kept, jnp.einsum("nd,nkd->nk", g, expert_out[safe]), 0.0)
    contrib = jnp.where(kept, gate, 0.0)[..., None] * g[:, None, :]
    d_rows = jnp.zeros_like(expert_out).at[safe.reshape(-1)].add(contrib.reshape(-1, g.shape[-1]))
    return d_rows, d_gate, None


combine_experts.defvjp(_combine_fwd, _combine_bwd)


# ---------------------------------------------------------------------------------------------------------
# retention
# ---------------------------------------------------------------------------------------------------------


def _decay_column(decays: tuple[float, ...], dtype) -> Array:
    return jnp.asarray(decays, dtype)[None, :, None, None]


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def packed_retention(q: Array, k: Array, v: Array, starts: Array, decays: tuple[float, ...]) -> Array:
    """Causal linear attention with a fixed decay per head, over rows packed with several documents.

        S[t] = decay * S[t-1] * (not starts[t]) + k[t] v[t]^T
        o[t] = q[t]^T S[t]

    so nothing flows across a document boundary.

    Args:
      q, k: ``[B, T, H, Dk]``.
      v: ``[B, T, H, Dv]``.
      starts: ``[B, T]`` bool, True wherever a new document begins inside the row.  Column 0 is immaterial
        (the state is zero there) and the packer leaves it False.
      decays: one static float in (0, 1) per head.

    Returns:
      ``[B, T, H, Dv]``.
    """
    gamma = _decay_column(decays, q.dtype)

    def step(state, inp):
        q_t, k_t, v_t, keep_t = inp
        state = gamma * keep_t[:, None, None, None] * state + k_t[..., :, None] * v_t[..., None, :]
        return state, jnp.einsum("bhk,bhkv->bhv", q_t, state)

    state0 = jnp.zeros((q.shape[0], q.shape[2], q.shape[3], v.shape[3]), q.dtype)
    _, out = lax.scan(step, state0, _time_major(q, k, v, (~starts).astype(q.dtype)))
    return jnp.swapaxes(out, 0, 1)


def _time_major(*arrays):
    return tuple(jnp.swapaxes(a, 0, 1) for a in arrays)


def _retention_fwd(q, k, v, starts, decays):
    return packed_retention(q, k, v, starts, decays), (q, k, v, starts)


def _retention_bwd(decays, res, g):
    q, k, v, starts = res
    gamma = _decay_column(decays, q.dtype)
    keep = (~starts).astype(q.dtype)

    # states are recomputed left to right for dq ...
    def left(state, inp):
        k_t, v_t, g_t, keep_t = inp
        state = gamma * keep_t[:, None, None, None] * state + k_t[..., :, None] * v_t[..., None, :]
        return state, jnp.einsum("bhkv,bhv->bhk", state, g_t)

    # ... and the state cotangent runs right to left for dk and dv.
    def right(dstate, inp):
        q_t, k_t, v_t, g_t, keep_t = inp
        dstate = gamma * keep_t[:, None, None, None] * dstate + q_t[..., :, None] * g_t[..., None, :]
        dk_t = jnp.einsum("bhkv,bhv->bhk", dstate, v_t)
        dv_t = jnp.einsum("bhkv,bhk->bhv", dstate, k_t)
        return dstate, (dk_t, dv_t)

    zeros = jnp.zeros((q.shape[0], q.shape[2], q.shape[3], v.shape[3]), q.dtype)
    _, dq = lax.scan(left, zeros, _time_major(k, v, g, keep))
    _, (dk, dv) = lax.scan(right, zeros, _time_major(q, k, v, g, keep), reverse=True)
    return jnp.swapaxes(dq, 0, 1), jnp.swapaxes(dk, 0, 1), jnp.swapaxes(dv, 0, 1), None


packed_retention.defvjp(_retention_fwd, _retention_bwd)


def retnet_decays(num_heads: int) -> tuple[float, ...]:
    """The 1 - 2^(-5-h) ladder of the RetNet paper, as a hashable tuple."""
    return tuple(1.0 - 2.0 ** (-5.0 - h) for h in range(num_heads))


# ---------------------------------------------------------------------------------------------------------
# int4 projections
# ---------------------------------------------------------------------------------------------------------


def pack_int4(codes: Array) -> Array:
    """``[I, O]`` codes in 0..15 -> ``[I / 2, O]`` uint8, even input rows in the low nibble."""
    codes = codes.astype(jnp.uint8)
    return codes[0::2] | (codes[1::2] << 4)


def unpack_int4(packed: Array) -> Array:
    low, high = packed & 0xF, packed >> 4
    return jnp.stack([low, high], axis=1).reshape(2 * packed.shape[0], packed.shape[1])


def _centered_codes(packed, zeros, group_size, dtype):
    codes = unpack_int4(packed).astype(dtype)
    return codes - jnp.repeat(zeros.astype(dtype), group_size, axis=0)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def int4_matmul(x: Array, packed: Array, scales: Array, zeros: Array, group_size: int) -> Array:
    """``x @ ((codes - zeros) * scales)`` with the weight unpacked on the fly.

    Only the codes are frozen: scales and zero points are trained during the recovery phase.

    Args:
      x: ``[..., I]`` activations.
      packed: ``[I / 2, O]`` uint8, see :func:`pack_int4`.
      scales, zeros: ``[G, O]`` with ``G = I / group_size``.
      group_size: static number of input rows which share a scale.
    """
    w = _centered_codes(packed, zeros, group_size, x.dtype) * jnp.repeat(scales, group_size, axis=0)
    return x @ w


def _int4_fwd(x, packed, scales, zeros, group_size):
    return int4_matmul(x, packed, scales, zeros, group_size), (x, packed, scales, zeros)


def _int4_bwd(group_size, res, g):
    x, packed, scales, zeros = res
    centered = _centered_codes(packed, zeros, group_size, x.dtype)
    scale_rows = jnp.repeat(scales, group_size, axis=0)
    dx = g @ (centered * scale_rows).T
    # gradient with respect to the dense weight, folded group by group; never leaves this function
    dw = x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])
    fold = lambda a: a.reshape(scales.shape[0], group_size, -1).sum(axis=1)
    d_scales = fold(dw * centered)
    d_zeros = -fold(dw) * scales
    return dx, None, d_scales, d_zeros


int4_matmul.defvjp(_int4_fwd, _int4_bwd)


@dataclasses.dataclass(frozen=True)
class Int4Projection:
    """Linear layer with frozen 4-bit codes; ``params`` holds ``packed``, ``scales``, ``zeros``."""

    features_in: int
    features_out: int
    group_size: int = 64

    def init(self, key: Array) -> dict[str, Array]:
        w = jax.random.normal(key, (self.features_in, self.features_out)) / math.sqrt(self.features_in)
        grouped = w.reshape(-1, self.group_size, self.features_out)
        lo, hi = grouped.min(axis=1), grouped.max(axis=1)
        scales = (hi - lo) / 15.0
        zeros = -lo / scales
        codes = jnp.clip(jnp.round(grouped / scales[:, None] + zeros[:, None]), 0, 15)
        return {"packed": pack_int4(codes.reshape(w.shape)), "scales": scales, "zeros": zeros}

    def __call__(self, params: dict[str, Array], x: Array) -> Array:
        return int4_matmul(x, params["packed"], params["scales"], params["zeros"], self.group_size)


# ---------------------------------------------------------------------------------------------------------
# language-model head
# ---------------------------------------------------------------------------------------------------------


def fused_cross_entropy(
    logits: Array,
    labels: Array,
    *,
    label_smoothing: float = 0.0,
    softcap: Optional[float] = None,
    reduction: str = "mean",
) -> Array:
    """Cross entropy which recomputes the probabilities in the backward pass.

    Args:
      logits: ``[N, V]``.
      labels: ``[N]`` int; positions equal to ``IGNORE_INDEX`` count neither in the sum nor in the mean.
      label_smoothing: mass spread evenly over the vocabulary.
      softcap: if given, logits go through ``softcap * tanh(logits / softcap)`` first (Gemma 2).
      reduction: ``"mean"`` (over the counted positions), ``"sum"`` or ``"none"`` (``[N]``).
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"unknown reduction {reduction!r}")
    vocab = logits.shape[-1]

    def cap(z):
        return z if softcap is None else softcap * jnp.tanh(z / softcap)

    @jax.custom_gradient
    def nll(z, ids):
        counted = ids != IGNORE_INDEX
        safe_ids = jnp.where(counted, ids, 0)
        denom = jnp.maximum(counted.sum(), 1) if reduction == "mean" else 1
        capped = cap(z)
        lse = jax.nn.logsumexp(capped, axis=-1)
        picked = jnp.take_along_axis(capped, safe_ids[:, None], axis=-1)[:, 0]
        target = (1.0 - label_smoothing) * picked + label_smoothing * capped.mean(axis=-1)
        per_token = jnp.where(counted, lse - target, 0.0)
        loss = per_token if reduction == "none" else per_token.sum() / denom

        def vjp(g):
            scores = cap(z)
            p = jnp.exp(scores - lse[:, None])
            p = p - label_smoothing / vocab
            p = p.at[jnp.arange(z.shape[0]), safe_ids].add(-(1.0 - label_smoothing))
            row = jnp.where(counted, jnp.broadcast_to(g / denom, counted.shape), 0.0)
            dz = row[:, None] * p
            if softcap is not None:
                dz = dz * (1.0 - jnp.square(scores / softcap))
            return dz.astype(z.dtype), np.zeros(ids.shape, float0)

        return loss, vjp

    return nll(logits, labels)


# ---------------------------------------------------------------------------------------------------------
# a block, to see the pieces together
# ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SparseRetentionBlock:
    """One decoder block: packed retention, then a top-k mixture of linear experts with shared capacity."""

    dim: int = 32
    heads: int = 4
    experts: int = 4
    top_k: int = 2
    z_coef: float = 1e-3

    def init(self, key):
        kq, kr, ke = jax.random.split(key, 3)
        return {
            "qkv": Int4Projection(self.dim, 3 * self.dim, group_size=16).init(kq),
            "router": 0.1 * jax.random.normal(kr, (self.dim, self.experts)),
            "experts": jax.random.normal(ke, (self.experts, self.dim, self.dim)) / math.sqrt(self.dim),
        }

    def __call__(self, params, x, token_mask, starts):
        b, t, d = x.shape
        qkv = Int4Projection(d, 3 * d, group_size=16)(params["qkv"], x)
        q, k, v = jnp.split(qkv.reshape(b, t, self.heads, -1), 3, axis=-1)
        x = x + packed_retention(q, k, v, starts, retnet_decays(self.heads)).reshape(b, t, d)

        logits = x @ params["router"]
        aux = router_z_loss(logits, token_mask, self.z_coef)
        gate, choice = lax.top_k(jax.nn.softmax(logits), self.top_k)
        tokens = x.reshape(b * t, d)
        rows = jnp.einsum("nd,edf->enf", tokens, params["experts"]).reshape(-1, d)
        slots = choice.reshape(b * t, -1) * (b * t) + jnp.arange(b * t)[:, None]
        slots = jnp.where(token_mask.reshape(-1, 1), slots, DROPPED)
        y = combine_experts(rows, gate.reshape(b * t, -1), slots)
        return x + y.reshape(b, t, d), aux


if __name__ == "__main__":
    key = jax.random.PRNGKey(0)
    block = SparseRetentionBlock()
    params = block.init(key)
    x = jax.random.normal(key, (2, 12, block.dim))
    mask = jnp.arange(12)[None] < jnp.array([[12], [9]])
    starts = jnp.zeros((2, 12), bool).at[0, 5].set(True)

    def loss_fn(trainable):
        y, aux = block({**params, **trainable}, x, mask, starts)
        labels = jnp.where(mask.reshape(-1), 3, IGNORE_INDEX)
        return fused_cross_entropy(y.reshape(-1, block.dim), labels, softcap=30.0) + aux

    print(jax.value_and_grad(loss_fn)({"router": params["router"], "experts": params["experts"]})[0])
