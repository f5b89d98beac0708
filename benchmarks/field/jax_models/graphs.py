"""Gather / scatter building blocks for graph networks and embedding tables.

Graphs are in COO form as in jraph: ``senders`` and ``receivers`` are integer
arrays of shape [n_edge], node features have shape [n_node, ...].
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Graph(NamedTuple):
    nodes: jnp.ndarray
    edges: jnp.ndarray        # scalar weight per edge
    senders: jnp.ndarray
    receivers: jnp.ndarray


def _int_ct(x):
    """Cotangent of an integer array."""
    return np.zeros(np.shape(x), dtype=jax.dtypes.float0)


# segment softmax

@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def segment_softmax(logits, segment_ids, num_segments):
    """Softmax within segments, over the first axis.

    Args:
      logits: [n, ...] array.
      segment_ids: [n] integers in [0, num_segments), in any order.
      num_segments: static number of segments.

    Returns:
      Array like logits; entries of the same segment sum to one.
    """
    return _segment_softmax(logits, segment_ids, num_segments)


def _segment_softmax(logits, segment_ids, num_segments):
    peak = jax.ops.segment_max(logits, segment_ids, num_segments)
    e = jnp.exp(logits - peak[segment_ids])
    z = jax.ops.segment_sum(e, segment_ids, num_segments)
    return e / z[segment_ids]


def _segment_softmax_fwd(logits, segment_ids, num_segments):
    p = _segment_softmax(logits, segment_ids, num_segments)
    return p, (p, segment_ids)


def _segment_softmax_bwd(num_segments, res, g):
    p, ids = res
    inner = jax.ops.segment_sum(p * g, ids, num_segments)
    return p * (g - inner[ids]), _int_ct(ids)


segment_softmax.defvjp(_segment_softmax_fwd, _segment_softmax_bwd)


# sparse adjacency product

@jax.custom_vjp
def propagate(nodes, edge_weight, senders, receivers):
    """One step of message passing: sum of weighted sender features per receiver.

    nodes [n_node, d], edge_weight [n_edge] -> [n_node, d]
    """
    msg = nodes[senders] * edge_weight[:, None]
    return jax.ops.segment_sum(msg, receivers, nodes.shape[0])


def _propagate_fwd(nodes, edge_weight, senders, receivers):
    out = propagate(nodes, edge_weight, senders, receivers)
    return out, (nodes, edge_weight, senders, receivers)


def _propagate_bwd(res, g):
    nodes, edge_weight, senders, receivers = res
    d_nodes = jax.ops.segment_sum(g[senders] * edge_weight[:, None], receivers, nodes.shape[0])
    d_weight = jnp.sum(nodes[senders] * g[receivers], axis=-1)
    return d_nodes, d_weight, _int_ct(senders), _int_ct(receivers)


propagate.defvjp(_propagate_fwd, _propagate_bwd)


def gcn_layer(graph: Graph, kernel):
    """GCN layer with symmetric degree normalisation."""
    n = graph.nodes.shape[0]
    ones = jnp.ones_like(graph.edges)
    deg_out = jax.ops.segment_sum(ones, graph.senders, n)
    deg_in = jax.ops.segment_sum(ones, graph.receivers, n)
    norm = jax.lax.rsqrt(jnp.maximum(deg_out, 1.0))[graph.senders]
    norm = norm * jax.lax.rsqrt(jnp.maximum(deg_in, 1.0))[graph.receivers]
    return propagate(graph.nodes @ kernel, graph.edges * norm, graph.senders, graph.receivers)


# embedding tables

@jax.custom_vjp
def embed(table, ids):
    """Token embedding scaled by sqrt(dim); ``ids`` may have any shape."""
    return jnp.take(table, ids, axis=0) * table.shape[1] ** 0.5


def _embed_fwd(table, ids):
    return embed(table, ids), (ids, table)


def _embed_bwd(res, g):
    ids, table = res
    dim = table.shape[1]
    rows = g.reshape(-1, dim) * dim ** 0.5
    d_table = jnp.zeros_like(table).at[ids.reshape(-1)].set(rows)
    return d_table, None


embed.defvjp(_embed_fwd, _embed_bwd)


def _bag_weights(ids, weights, mode):
    valid = (ids >= 0).astype(weights.dtype)
    if mode == "mean":
        valid = valid / jnp.maximum(valid.sum(axis=1, keepdims=True), 1.0)
    elif mode != "sum":
        raise ValueError(f"unknown mode {mode!r}")
    return valid


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def embedding_bag(table, ids, weights, mode="sum"):
    """Reduces a bag of embeddings per example.

    Args:
      table: [vocab, dim].
      ids: [batch, bag] integers; negative ids are padding.
      weights: [batch, bag] weight of every id.
      mode: "sum", or "mean" to divide by the number of ids that are not padding.

    Returns:
      [batch, dim]; zero for an empty bag.
    """
    coef = weights * _bag_weights(ids, weights, mode)
    return jnp.einsum("bk,bkd->bd", coef, table[jnp.maximum(ids, 0)])


def _embedding_bag_fwd(table, ids, weights, mode):
    return embedding_bag(table, ids, weights, mode), (table, ids, weights)


def _embedding_bag_bwd(mode, res, g):
    table, ids, weights = res
    norm = _bag_weights(ids, weights, mode)
    safe = jnp.maximum(ids, 0)
    rows = (weights * norm)[..., None] * g[:, None, :]
    d_table = jnp.zeros_like(table).at[safe].add(rows)
    d_weights = norm * jnp.einsum("bd,bkd->bk", g, table[safe])
    return d_table, None, d_weights


embedding_bag.defvjp(_embedding_bag_fwd, _embedding_bag_bwd)


def graph_attention(nodes, senders, receivers, query, key):
    """GAT-like aggregation with dot product logits."""
    n = nodes.shape[0]
    logits = jnp.sum((nodes @ query)[receivers] * (nodes @ key)[senders], axis=-1)
    alpha = segment_softmax(logits, receivers, n)
    return propagate(nodes, alpha, senders, receivers)
