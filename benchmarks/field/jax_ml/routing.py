"""Mixture-of-experts routing and ragged (segment) operations."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


def _f0(x):
    return np.zeros(x.shape, dtype=jax.dtypes.float0)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def topk_gates(logits, k=2):
    """Sparse gate matrix: softmax, keep the ``k`` largest per token, renormalise.

    Args:
      logits: router scores, [tokens, experts].
      k: experts per token.

    Returns:
      [tokens, experts], rows sum to one, k non-zeros per row.
    """
    return _topk_fwd(logits, k)[0]


def _topk_fwd(logits, k):
    probs = jax.nn.softmax(logits, axis=-1)
    _, idx = jax.lax.top_k(probs, k)
    keep = jax.nn.one_hot(idx, logits.shape[-1], dtype=probs.dtype).sum(axis=-2)
    kept = probs * keep
    total = kept.sum(axis=-1, keepdims=True)
    return kept / total, (probs, keep, total)


def _topk_bwd(k, res, g):
    probs, keep, total = res
    dprobs = keep * g / total
    dlogits = probs * (dprobs - jnp.sum(dprobs * probs, axis=-1, keepdims=True))
    return (dlogits,)


topk_gates.defvjp(_topk_fwd, _topk_bwd)


# tokens (T, D); expert (T, K) and slot (T, K) int.  Assignments whose slot is beyond the
# capacity are dropped.
@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def moe_dispatch(tokens, expert, slot, num_experts, capacity):
    buf = jnp.zeros((num_experts, capacity, tokens.shape[-1]), tokens.dtype)
    vals = jnp.broadcast_to(tokens[:, None], expert.shape + tokens.shape[-1:])
    return buf.at[expert, slot].add(vals, mode="drop")


def _dispatch_fwd(tokens, expert, slot, num_experts, capacity):
    return moe_dispatch(tokens, expert, slot, num_experts, capacity), (expert, slot)


def _dispatch_bwd(num_experts, capacity, res, g):
    expert, slot = res
    return g[expert, slot].sum(axis=1), _f0(expert), _f0(slot)


moe_dispatch.defvjp(_dispatch_fwd, _dispatch_bwd)


@jax.custom_vjp
def moe_combine(expert_out, gates, expert, slot):
    """Weighted sum of the expert outputs back in token order.

    Parameters
    ----------
    expert_out : (E, C, D)
    gates : (T, K)
    expert, slot : (T, K) int
        Where each assignment sits in the buffer; a slot >= C means that it was dropped.

    Returns
    -------
    (T, D)
    """
    return _combine_fwd(expert_out, gates, expert, slot)[0]


def _combine_fwd(expert_out, gates, expert, slot):
    kept = slot < expert_out.shape[1]
    safe = jnp.where(kept, slot, 0)
    picked = expert_out[expert, safe] * kept[..., None].astype(expert_out.dtype)
    return jnp.einsum("tk,tkd->td", gates, picked), (expert_out, gates, picked, expert, safe, kept)


def _combine_bwd(res, g):
    expert_out, gates, picked, expert, safe, kept = res
    dgates = jnp.einsum("td,tkd->tk", g, picked)
    w = gates * kept
    dout = jnp.zeros_like(expert_out).at[expert, safe].add(w[..., None] * g[:, None, :])
    return dout, dgates, _f0(expert), _f0(safe)


moe_combine.defvjp(_combine_fwd, _combine_bwd)


def assign_slots(expert, num_experts):
    """Position of each (token, choice) within its expert's queue, first come first served."""
    flat = expert.reshape(-1)
    hot = jax.nn.one_hot(flat, num_experts, dtype=jnp.int32)
    pos = jnp.take_along_axis(jnp.cumsum(hot, axis=0) - hot, flat[:, None], axis=1)
    return pos[:, 0].reshape(expert.shape)


def moe_layer(params, x, k=2, capacity=4):
    num_experts = params["router"].shape[1]
    gates = topk_gates(x @ params["router"], k)
    w, expert = jax.lax.top_k(gates, k)
    slot = assign_slots(expert, num_experts)
    buf = moe_dispatch(x, expert, slot, num_experts, capacity)
    hidden = jax.nn.relu(jnp.einsum("ecd,edf->ecf", buf, params["w1"]))
    return moe_combine(jnp.einsum("ecf,efd->ecd", hidden, params["w2"]), w, expert, slot)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def segment_softmax(scores, segment_ids, num_segments):
    """Softmax over the entries that share a segment id (graph attention).

    :param scores: (edges,) or (edges, heads)
    :param segment_ids: (edges,) destination of each edge, in any order
    :param num_segments: number of nodes
    """
    top = jax.ops.segment_max(scores, segment_ids, num_segments)
    e = jnp.exp(scores - top[segment_ids])
    return e / jax.ops.segment_sum(e, segment_ids, num_segments)[segment_ids]


def _segsm_fwd(scores, segment_ids, num_segments):
    p = segment_softmax(scores, segment_ids, num_segments)
    return p, (p, segment_ids)


def _segsm_bwd(num_segments, res, g):
    p, ids = res
    dot = jax.ops.segment_sum(p * g, ids, num_segments)
    return p * (g - dot[ids]), None


segment_softmax.defvjp(_segsm_fwd, _segsm_bwd)
