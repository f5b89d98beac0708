"""Embedding, routing and quantisation primitives (gathers, scatters, segments)."""
import dataclasses
import functools

import jax
import jax.numpy as jnp


# --------------------------------------------------------------------------- embeddings


@jax.custom_vjp
def embedding_lookup(table, ids):
    """Rows of ``table`` at ``ids``; the id -1 pads and gives a row of zeros.

    table: [vocab, d] · ids: [...] integers in [-1, vocab) · returns [..., d]
    """
    rows = jnp.take(table, jnp.maximum(ids, 0), axis=0)
    return jnp.where(ids[..., None] >= 0, rows, 0)


def _embedding_fwd(table, ids):
    return embedding_lookup(table, ids), (table, ids)


def _embedding_bwd(res, g):
    table, ids = res
    flat = g.reshape(-1, g.shape[-1]).astype(table.dtype)
    return jnp.zeros_like(table).at[ids.reshape(-1)].add(flat), None


embedding_lookup.defvjp(_embedding_fwd, _embedding_bwd)


# --------------------------------------------------------------------------- routing


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def topk_gating(logits, k, normalize=True):
    """Pick the ``k`` best experts of every token.

    Parameters
    ----------
    logits : Array, shape (..., experts)
        Router scores.
    k : int
        Experts per token.
    normalize : bool
        If true the weights of the chosen experts sum to one, otherwise they
        are the plain softmax probabilities.

    Returns
    -------
    weights : Array, shape (..., k)
    indices : Array of int, shape (..., k)
        Both ordered by decreasing score.
    """
    return _topk_gating_fwd(logits, k, normalize)[0]


def _topk_gating_fwd(logits, k, normalize):
    top, idx = jax.lax.top_k(logits, k)
    if normalize:
        w = jax.nn.softmax(top, axis=-1)
        return (w, idx), (w, idx, logits)
    lse = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    w = jnp.exp(top - lse)
    return (w, idx), (w, idx, logits)


def _topk_gating_bwd(k, normalize, res, cts):
    w, idx, logits = res
    g, _ = cts
    inner = jnp.sum(g * w, axis=-1, keepdims=True)
    if normalize:
        picked = w * (g - inner)
        rest = jnp.zeros_like(logits)
    else:
        picked = w * g
        rest = -inner * jax.nn.softmax(logits, axis=-1)
    hot = jax.nn.one_hot(idx, logits.shape[-1], dtype=logits.dtype)
    return (rest + jnp.einsum("...k,...ke->...e", picked, hot),)


topk_gating.defvjp(_topk_gating_fwd, _topk_gating_bwd)


@dataclasses.dataclass(frozen=True)
class Dispatch:
    """Where each token's copies went: ``expert`` and ``slot``, both [tokens, k].

    A negative slot marks a copy that was dropped for lack of capacity.
    """

    expert: jax.Array
    slot: jax.Array


jax.tree_util.register_dataclass(Dispatch, data_fields=["expert", "slot"], meta_fields=[])


def _gather_copies(expert_out, where):
    rows = expert_out[where.expert, jnp.maximum(where.slot, 0)]
    return jnp.where((where.slot >= 0)[..., None], rows, 0)


@jax.custom_vjp
def combine_experts(expert_out, gates, where: Dispatch):
    """Weighted sum of the experts' outputs, back in token order.

    Args:
      expert_out: ``[experts, capacity, d]``.
      gates: ``[tokens, k]`` weights.
      where: the dispatch that filled ``expert_out``'s slots.

    Returns:
      ``[tokens, d]``.
    """
    return jnp.einsum("tk,tkd->td", gates, _gather_copies(expert_out, where))


def _combine_fwd(expert_out, gates, where):
    return combine_experts(expert_out, gates, where), (expert_out, gates, where)


def _combine_bwd(res, g):
    expert_out, gates, where = res
    dgates = jnp.einsum("td,tkd->tk", g, _gather_copies(expert_out, where))
    kept = jnp.where(where.slot >= 0, gates, 0)
    updates = kept[..., None] * g[:, None, :]
    dout = jnp.zeros_like(expert_out).at[where.expert, jnp.maximum(where.slot, 0)].add(updates)
    return dout, dgates, None


combine_experts.defvjp(_combine_fwd, _combine_bwd)


# --------------------------------------------------------------------------- segments


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def segment_softmax(scores, segment_ids, num_segments):
    seg = functools.partial(jax.ops.segment_sum, segment_ids=segment_ids, num_segments=num_segments)
    top = jax.ops.segment_max(scores, segment_ids, num_segments)
    e = jnp.exp(scores - top[segment_ids])
    return e / seg(e)[segment_ids]


@segment_softmax.defjvp
def _segment_softmax_jvp(num_segments, primals, tangents):
    scores, segment_ids = primals
    ds, _ = tangents
    p = segment_softmax(scores, segment_ids, num_segments)
    mean = jax.ops.segment_sum(p * ds, segment_ids, num_segments)
    return p, p * (ds - mean[segment_ids])


def graph_attention_pool(values, scores, segment_ids, num_segments):
    """Softmax-weighted sum of ``values`` [edges, d] at each receiving node."""
    w = segment_softmax(scores, segment_ids, num_segments)
    return jax.ops.segment_sum(w[:, None] * values, segment_ids, num_segments)


# --------------------------------------------------------------------------- quantisation


def straight_through_quantize(x, scale, *, bits=8):
    """Symmetric fake quantisation with a straight-through estimator.

    Rounding counts as the identity for the gradient of ``x``: cotangents pass
    unchanged where ``x / scale`` lies in the representable range and are zero
    where it saturates. ``scale`` is a calibrated constant and gets no gradient.

    :param x: values
    :param scale: step size, broadcastable to ``x``
    :param bits: width of the signed integer grid
    """
    qmax = 2 ** (bits - 1) - 1

    @jax.custom_vjp
    def quantize(v, s):
        return jnp.clip(jnp.round(v / s), -qmax, qmax) * s

    def fwd(v, s):
        return quantize(v, s), (jnp.abs(v) <= qmax * s, s)

    def bwd(res, g):
        inside, s = res
        return jnp.where(inside, g, 0), jnp.zeros_like(s)

    quantize.defvjp(fwd, bwd)
    return quantize(x, scale)
