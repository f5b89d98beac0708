"""Message-passing and set layers on flat edge lists and padded neighbour tables.

Node features are ``(num_nodes, features)``; an edge list is a pair of int vectors
``senders`` and ``receivers``; neighbour tables are ``(num_queries, K)`` ints.
"""

from functools import partial
from typing import Callable, Dict, Optional, Tuple

import jax
import jax.numpy as jnp

Params = Dict[str, jax.Array]


def _segsum(data: jax.Array, ids: jax.Array, n: int) -> jax.Array:
    return jax.ops.segment_sum(data, ids, num_segments=n)


def _counts(ids: jax.Array, n: int, dtype) -> jax.Array:
    return jnp.maximum(_segsum(jnp.ones(ids.shape, dtype), ids, n), 1.0)


def _col(v: jax.Array, like: jax.Array) -> jax.Array:
    return v.reshape(v.shape + (1,) * (like.ndim - v.ndim))


# ---------------------------------------------------------------- segment ops


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def segment_softmax(logits: jax.Array, segment_ids: jax.Array, num_segments: int) -> jax.Array:
    """Softmax over the entries of each segment; logits ``(E, ...)``, ids ``(E,)``."""
    top = jax.ops.segment_max(logits, segment_ids, num_segments=num_segments)
    e = jnp.exp(logits - top[segment_ids])
    return e / _segsum(e, segment_ids, num_segments)[segment_ids]


def _segment_softmax_fwd(logits, segment_ids, num_segments):
    p = segment_softmax(logits, segment_ids, num_segments)
    return p, (p, segment_ids)


def _segment_softmax_bwd(num_segments, res, g):
    p, segment_ids = res
    pg = p * g
    return pg - p * _segsum(pg, segment_ids, num_segments)[segment_ids], None


segment_softmax.defvjp(_segment_softmax_fwd, _segment_softmax_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def segment_moments(
    x: jax.Array, segment_ids: jax.Array, num_segments: int, eps: float = 1e-5
) -> Tuple[jax.Array, jax.Array]:
    """Mean and (population) standard deviation per segment, as used by PNA.

    x ``(E, F)`` -> two arrays ``(num_segments, F)``. Empty segments give mean zero
    and ``sqrt(eps)``.
    """
    mean, std, _ = _moments(x, segment_ids, num_segments, eps)
    return mean, std


def _moments(x, ids, n, eps):
    count = _counts(ids, n, x.dtype)[:, None]
    mean = _segsum(x, ids, n) / count
    dev = x - mean[ids]
    std = jnp.sqrt(_segsum(dev * dev, ids, n) / count + eps)
    return mean, std, count


def _segment_moments_fwd(x, segment_ids, num_segments, eps):
    mean, std, count = _moments(x, segment_ids, num_segments, eps)
    return (mean, std), (x, segment_ids, mean, std, count)


def _segment_moments_bwd(num_segments, eps, res, cts):
    x, ids, mean, std, count = res
    g_mean, g_std = cts
    return (g_mean / count)[ids] + (x - mean[ids]) * (g_std / (count * std))[ids], None


segment_moments.defvjp(_segment_moments_fwd, _segment_moments_bwd)


# ---------------------------------------------------------------- propagation


def _gather_scatter(x, weight, senders, receivers, n, reduce):
    out = _segsum(weight[:, None] * x[senders], receivers, n)
    return out * _reduction_scale(receivers, n, reduce, x.dtype)[:, None]


def _reduction_scale(receivers, n, reduce, dtype):
    if reduce == "sum":
        return jnp.ones((n,), dtype)
    if reduce == "mean":
        return 1.0 / _counts(receivers, n, dtype)
    if reduce == "sqrt":
        return jax.lax.rsqrt(_counts(receivers, n, dtype))
    raise ValueError(f"reduce must be sum, mean or sqrt, got {reduce!r}")


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def propagate(
    x: jax.Array,
    edge_weight: jax.Array,
    senders: jax.Array,
    receivers: jax.Array,
    reduce: str = "sum",
) -> jax.Array:
    """Weighted neighbourhood aggregation without storing the messages.

    ``reduce`` divides the sum at a node by its in-degree ("mean"), by the root of
    it ("sqrt"), or leaves it ("sum"). x ``(N, F)``, edge_weight ``(E,)``.
    """
    return _gather_scatter(x, edge_weight, senders, receivers, x.shape[0], reduce)


def _propagate_fwd(x, edge_weight, senders, receivers, reduce):
    return propagate(x, edge_weight, senders, receivers, reduce), (x, edge_weight, senders, receivers)


def _propagate_bwd(reduce, res, g):
    x, edge_weight, senders, receivers = res
    n = x.shape[0]
    # transpose of the adjacency: run the edges in the other direction
    dx = _gather_scatter(g, edge_weight, receivers, senders, n, reduce)
    scaled = g * _reduction_scale(receivers, n, reduce, g.dtype)[:, None]
    dw = jnp.sum(x[senders] * scaled[receivers], axis=-1)
    return dx, dw, None, None


propagate.defvjp(_propagate_fwd, _propagate_bwd)


# ---------------------------------------------------------------- neighbour attention


def _masked_softmax(scores, mask):
    if mask is None:
        return jax.nn.softmax(scores, axis=1)
    scores = jnp.where(mask[..., None], scores, -1e30)
    e = jnp.exp(scores - scores.max(axis=1, keepdims=True)) * mask[..., None]
    return e / jnp.maximum(e.sum(axis=1, keepdims=True), 1e-30)


@jax.custom_vjp
def neighbour_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, nbr: jax.Array, mask: Optional[jax.Array] = None
) -> jax.Array:
    """Each query attends to its K listed points.

    q ``(N, H, D)``; k, v ``(M, H, D)``; nbr ``(N, K)`` rows of k and v;
    mask ``(N, K)`` bool, False for padding. Returns ``(N, H, D)``.
    """
    return _neighbour_attention_fwd(q, k, v, nbr, mask)[0]


def _neighbour_attention_fwd(q, k, v, nbr, mask):
    kn = k[nbr]
    scores = jnp.einsum("nhd,nkhd->nkh", q, kn) * q.shape[-1] ** -0.5
    p = _masked_softmax(scores, mask)
    out = jnp.einsum("nkh,nkhd->nhd", p, v[nbr])
    return out, (q, k, v, nbr, p)


def _neighbour_attention_bwd(res, g):
    q, k, v, nbr, p = res
    dp = jnp.einsum("nhd,nkhd->nkh", g, v[nbr])
    ds = p * (dp - jnp.sum(p * dp, axis=1, keepdims=True)) * q.shape[-1] ** -0.5
    dq = jnp.einsum("nkh,nkhd->nhd", ds, k[nbr])
    dk = jnp.zeros_like(k).at[nbr].set(ds[..., None] * q[:, None])
    dv = jnp.zeros_like(v).at[nbr].add(p[..., None] * g[:, None])
    return dq, dk, dv, None, None


neighbour_attention.defvjp(_neighbour_attention_fwd, _neighbour_attention_bwd)


# ---------------------------------------------------------------- layers


class GraphNorm:
    """Normalisation per graph with a learnable share of the mean removed.

    ``y = gamma * (x - alpha * mean) / sqrt(var + eps) + beta`` where ``var`` is the
    mean square of ``x - alpha * mean`` over the nodes of the graph.
    """

    def __init__(self, features: int, num_graphs: int, eps: float = 1e-5):
        self.features = features
        self.num_graphs = num_graphs
        self.eps = eps

    def init(self) -> Params:
        return {
            "alpha": jnp.ones((self.features,)),
            "gamma": jnp.ones((self.features,)),
            "beta": jnp.zeros((self.features,)),
        }

    def __call__(self, params: Params, x: jax.Array, graph_ids: jax.Array) -> jax.Array:
        n, eps = self.num_graphs, self.eps
        count = _counts(graph_ids, n, x.dtype)[:, None]

        def per_graph_mean(a):
            return (_segsum(a, graph_ids, n) / count)[graph_ids]

        @jax.custom_gradient
        def norm(x, alpha, gamma, beta):
            mean = per_graph_mean(x)
            centred = x - alpha * mean
            inv = jax.lax.rsqrt(per_graph_mean(centred * centred) + eps)
            xhat = centred * inv

            def grad(g):
                gh = g * gamma
                dcentred = inv * (gh - xhat * per_graph_mean(gh * xhat))
                dx = dcentred - per_graph_mean(dcentred)
                dalpha = -jnp.sum(dcentred * mean, axis=0)
                return dx, dalpha, jnp.sum(g * xhat, axis=0), jnp.sum(g, axis=0)

            return gamma * xhat + beta, grad

        return norm(x, params["alpha"], params["gamma"], params["beta"])


class GATLayer:
    """Additive graph attention, mean over heads at the end."""

    def __init__(self, heads: int, width: int, act: Callable = jax.nn.elu):
        self.heads, self.width, self.act = heads, width, act

    def __call__(self, params: Params, x: jax.Array, senders: jax.Array, receivers: jax.Array) -> jax.Array:
        n = x.shape[0]
        h = jnp.einsum("nf,fhw->nhw", x, params["w"])
        logits = jnp.einsum("nhw,hw->nh", h, params["a_src"])[senders]
        logits += jnp.einsum("nhw,hw->nh", h, params["a_dst"])[receivers]
        att = segment_softmax(jax.nn.leaky_relu(logits, 0.2), receivers, n)
        out = _segsum(att[..., None] * h[senders], receivers, n)
        return self.act(out.mean(axis=1))


def sage_layer(params: Params, x, senders, receivers, reduce: str = "mean"):
    agg = propagate(x, jnp.ones(senders.shape, x.dtype), senders, receivers, reduce)
    return jax.nn.relu(x @ params["self"] + agg @ params["nbr"])


def pna_readout(params: Params, x, graph_ids, num_graphs: int):
    """Graph embedding from node means and spreads."""
    mean, std = segment_moments(x, graph_ids, num_graphs)
    return jnp.concatenate([mean, std], axis=-1) @ params["out"]
