"""Token merging for vision transformers: attend, merge, unmerge.

A merged token stands for ``sizes`` original patches.  Tokens that were pruned
have the assignment -1.
"""
from functools import partial

import jax
import jax.numpy as jnp

NEG = -1e30


@partial(jax.custom_vjp, nondiff_argnums=(6,))
def proportional_attention(q, k, v, sizes, gate, key_valid, scale=None):
    """Attention in which a key counts as often as the patches it stands for.

    Args:
        q: ``[batch, heads, queries, dim]``.
        k: ``[batch, heads, keys, dim]``.
        v: ``[batch, heads, keys, dim_v]``.
        sizes: positive ``[batch, keys]``; its logarithm is added to the scores.
        gate: ``[heads]``, multiplies the output of a head.
        key_valid: boolean ``[batch, keys]``. Without a valid key the output is zero.
        scale: factor of the scores, ``dim ** -0.5`` if None.

    Returns:
        ``[batch, heads, queries, dim_v]``.
    """
    return _attend_fwd(q, k, v, sizes, gate, key_valid, scale)[0]


def _probabilities(q, k, sizes, key_valid, scale):
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * scale + jnp.log(sizes)[:, None, None, :]
    keep = key_valid[:, None, None, :]
    s = jnp.where(keep, s, NEG)
    e = jnp.where(keep, jnp.exp(s - s.max(-1, keepdims=True)), 0.0)
    z = e.sum(-1, keepdims=True)
    return e / jnp.where(z > 0, z, 1.0)


def _attend_fwd(q, k, v, sizes, gate, key_valid, scale):
    c = q.shape[-1] ** -0.5 if scale is None else scale
    p = _probabilities(q, k, sizes, key_valid, c)
    out = jnp.einsum("bhqk,bhkd->bhqd", p, v) * gate[:, None, None]
    return out, (q, k, v, sizes, gate, key_valid, out)


def _attend_bwd(scale, res, g):
    q, k, v, sizes, gate, key_valid, out = res
    c = q.shape[-1] ** -0.5 if scale is None else scale
    p = _probabilities(q, k, sizes, key_valid, c)
    d_gate = jnp.einsum("bhqd,bhqk,bhkd->h", g, p, v)
    go = g * gate[:, None, None]
    d_v = jnp.einsum("bhqk,bhqd->bhkd", p, go)
    d_p = jnp.einsum("bhqd,bhkd->bhqk", go, v)
    delta = (go * out).sum(-1, keepdims=True)
    d_s = p * (d_p - delta)
    d_q = jnp.einsum("bhqk,bhkd->bhqd", d_s, k) * c
    d_k = jnp.einsum("bhqk,bhqd->bhkd", d_s, q) * c
    d_sizes = d_s.sum(axis=(1, 2)) / sizes
    return d_q, d_k, d_v, d_sizes, d_gate, None


proportional_attention.defvjp(_attend_fwd, _attend_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def merge_tokens(x, sizes, assign, num_out):
    """Size-weighted mean of the tokens that share a destination.

    Args:
        x: ``[batch, tokens, dim]``.
        sizes: positive ``[batch, tokens]``.
        assign: integer ``[batch, tokens]``, destination or -1 for a pruned token.
        num_out: number of destinations; one that receives nothing is zero.

    Returns:
        Tuple of merged tokens ``[batch, num_out, dim]`` and their sizes ``[batch, num_out]``.
    """
    return _merge_fwd(x, sizes, assign, num_out)[0]


def _merge_fwd(x, sizes, assign, num_out):
    member = jax.nn.one_hot(assign, num_out, dtype=x.dtype) * sizes[..., None]
    total = member.sum(1)
    safe = jnp.where(total > 0, total, 1.0)
    y = jnp.einsum("btk,btd->bkd", member, x) / safe[..., None]
    return (y, total), (x, sizes, assign, y, safe)


def _merge_bwd(num_out, res, cts):
    x, sizes, assign, y, safe = res
    gy, gt = cts
    rows = jnp.arange(x.shape[0])[:, None]
    spread = (gy / safe[..., None])[rows, assign]
    d_x = spread * sizes[..., None]
    d_sizes = (spread * (x - y[rows, assign])).sum(-1) + gt[rows, assign]
    return d_x, d_sizes, None


merge_tokens.defvjp(_merge_fwd, _merge_bwd)


@jax.custom_vjp
def unmerge_tokens(y, assign, filler, layer_scale):
    """Hand merged tokens back to the places they came from.

    Args:
        y: ``[batch, merged, dim]``.
        assign: integer ``[batch, tokens]``; several places may share a merged
            token, and places with -1 receive ``filler``.
        filler: ``[dim]``.
        layer_scale: ``[dim]`` multiplies what comes from ``y``.
    """
    return _unmerge_fwd(y, assign, filler, layer_scale)[0]


def _unmerge_fwd(y, assign, filler, layer_scale):
    kept = (assign >= 0)[..., None]
    rows = jnp.arange(y.shape[0])[:, None]
    picked = y[rows, jnp.maximum(assign, 0)]
    out = jnp.where(kept, picked * layer_scale, filler)
    return out, (picked, assign, layer_scale, y.shape)


def _unmerge_bwd(res, g):
    picked, assign, layer_scale, shape = res
    kept = (assign >= 0)[..., None]
    gk = jnp.where(kept, g, 0.0)
    rows = jnp.arange(shape[0])[:, None]
    d_y = jnp.zeros(shape, g.dtype).at[rows, jnp.maximum(assign, 0)].add(gk * layer_scale)
    d_filler = (g - gk).sum(axis=(0, 1))
    d_scale = (gk * picked).sum(axis=(0, 1))
    return d_y, None, d_filler, d_scale


unmerge_tokens.defvjp(_unmerge_fwd, _unmerge_bwd)


class MergedBlock:
    """Attention over merged tokens that restores the full sequence afterwards."""

    def __init__(self, dim, heads, num_merged):
        self.dim, self.heads, self.num_merged = dim, heads, num_merged

    def init(self, key):
        qkv, filler = jax.random.split(key)
        return {
            "qkv": jax.random.normal(qkv, (self.dim, 3 * self.dim)) * self.dim ** -0.5,
            "gate": jnp.ones((self.heads,)),
            "filler": 0.02 * jax.random.normal(filler, (self.dim,)),
            "layer_scale": jnp.ones((self.dim,)),
        }

    def __call__(self, params, x, sizes, assign):
        y, total = merge_tokens(x, sizes, assign, self.num_merged)
        b, t, _ = y.shape
        qkv = (y @ params["qkv"]).reshape(b, t, 3, self.heads, -1)
        q, k, v = jnp.moveaxis(qkv, (2, 3), (0, 2))
        alive = total > 0
        out = proportional_attention(q, k, v, jnp.where(alive, total, 1.0),
                                     params["gate"], alive, None)
        out = jnp.moveaxis(out, 1, 2).reshape(b, t, self.dim)
        return x + unmerge_tokens(out, assign, params["filler"], params["layer_scale"])
