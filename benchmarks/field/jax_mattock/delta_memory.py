"""Fast-weight memory layers trained with the delta rule.

The layer keeps, per head, a matrix ``S`` (value_dim x key_dim).  At each token
it reads what is stored under the key, writes back a fraction ``beta`` of the
residual, and reads with the query.  Keys and queries go through a positive,
normalised feature map; the read-out goes through a gated per-head RMS norm.

    S_t = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T
    o_t = S_t q_t

Shapes in this file
    B batch, T tokens, H heads, K key width, V value width, M model width
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple, Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


class MemoryParams(NamedTuple):
    w_query: Array  # M, H, K
    w_key: Array  # M, H, K
    w_value: Array  # M, H, V
    w_beta: Array  # M, H
    w_gate: Array  # M, H, V
    w_out: Array  # H, V, M
    scale: Array  # H, V


class MemoryState(NamedTuple):
    weights: Array  # B, H, V, K
    seen: Array  # B


def init_params(key: Array, model: int, heads: int, key_dim: int, value_dim: int) -> MemoryParams:
    ks = jax.random.split(key, 6)

    def dense(k, *shape):
        return jax.random.normal(k, shape) / math.sqrt(shape[0])

    return MemoryParams(
        dense(ks[0], model, heads, key_dim),
        dense(ks[1], model, heads, key_dim),
        dense(ks[2], model, heads, value_dim),
        dense(ks[3], model, heads),
        dense(ks[4], model, heads, value_dim),
        jax.random.normal(ks[5], (heads, value_dim, model)) / math.sqrt(heads * value_dim),
        jnp.ones((heads, value_dim)),
    )


def empty_state(batch: int, heads: int, key_dim: int, value_dim: int) -> MemoryState:
    return MemoryState(
        jnp.zeros((batch, heads, value_dim, key_dim)), jnp.zeros((batch,), jnp.int32)
    )


# ---------------------------------------------------------------------------
# feature map
# ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def simplex_features(x, axis=-1, eps=1e-6):
    """``elu(x) + 1`` divided by its sum along ``axis``.

    Args:
      x: pre-activations, any rank.
      axis: feature axis; -1 in the [B, T, H, K] layout, 1 in the
        channels-first layout [B, K, T].
      eps: added to the sum.
    """
    phi = jnp.where(x > 0, x + 1.0, jnp.exp(jnp.minimum(x, 0.0)))
    return phi / (jnp.sum(phi, axis=axis, keepdims=True) + eps)


def _simplex_fwd(x, axis, eps):
    grow = jnp.exp(jnp.minimum(x, 0.0))
    phi = jnp.where(x > 0, x + 1.0, grow)
    total = jnp.sum(phi, axis=axis, keepdims=True) + eps
    y = phi / total
    return y, (y, grow, total)


def _simplex_bwd(axis, eps, res, g):
    y, grow, total = res
    mean_g = jnp.sum(g * y, keepdims=True, axis=-1)
    return ((g - mean_g) * grow / total,)


simplex_features.defvjp(_simplex_fwd, _simplex_bwd)


# ---------------------------------------------------------------------------
# delta rule
# ---------------------------------------------------------------------------


def _run_memory(q, k, v, beta, state, valid):
    def step(s, inp):
        qt, kt, vt, bt, mt = inp
        err = vt - s @ kt
        new = s + (mt * bt) * jnp.outer(err, kt)
        return new, (mt * (new @ qt), s)

    keep = valid.astype(q.dtype)
    last, (out, before) = jax.lax.scan(step, state, (q, k, v, beta, keep))
    return out, last, before


@jax.custom_vjp
def delta_memory(q, k, v, beta, state, valid):
    """Delta-rule recurrence for one head of one sequence.

    Padding tokens (``valid`` False) neither write nor read: the state passes
    through and their output is zero.

    Parameters
    ----------
    q, k : [T, K]
    v : [T, V]
    beta : [T]
    state : [V, K]
        Memory left by the previous chunk.
    valid : bool [T]

    Returns
    -------
    out : [T, V]
    state : [V, K]
    """
    out, last, _ = _run_memory(q, k, v, beta, state, valid)
    return out, last


def _delta_fwd(q, k, v, beta, state, valid):
    out, last, before = _run_memory(q, k, v, beta, state, valid)
    return (out, last), (q, k, v, beta, before, valid)


def _delta_bwd(res, cotangents):
    q, k, v, beta, before, valid = res
    g_out, g_last = cotangents
    keep = valid.astype(q.dtype)

    def step(g_state, inp):
        qt, kt, vt, bt, mt, s, go = inp
        err = vt - s @ kt
        new = s + (mt * bt) * jnp.outer(err, kt)
        go = mt * go
        dq = new.T @ go
        g_state = g_state + jnp.outer(go, qt)
        along = g_state @ kt
        d_err = (mt * bt) * along
        d_beta = mt * jnp.dot(err, along)
        dk = (mt * bt) * (g_state.T @ err) - s.T @ d_err
        return g_state - jnp.outer(d_err, kt), (dq, dk, d_err, d_beta)

    d_state, (dq, dk, dv, d_beta) = jax.lax.scan(
        step, g_last, (q, k, v, beta, keep, before, g_out), reverse=True
    )
    return dq, dk, dv, d_beta, d_state, np.zeros(valid.shape, jax.dtypes.float0)


delta_memory.defvjp(_delta_fwd, _delta_bwd)

# [B, T, H, .] inputs, state [B, H, V, K], valid [B, T]
_per_head = jax.vmap(delta_memory, in_axes=(1, 1, 1, 1, 0, None), out_axes=(1, 0))
batched_memory = jax.vmap(_per_head)


# ---------------------------------------------------------------------------
# read-out
# ---------------------------------------------------------------------------


def make_readout(eps: float = 1e-5):
    """Gated RMS norm over each head's values, as a function of (out, gate, scale)."""

    def _rms_inv(out):
        return jax.lax.rsqrt(jnp.mean(out * out, axis=-1, keepdims=True) + eps)

    @jax.custom_vjp
    def gated_readout(out, gate, scale):
        """[..., H, V], [..., H, V], [H, V] -> [..., H, V]"""
        return out * _rms_inv(out) * scale * jax.nn.silu(gate)

    def gated_readout_fwd(out, gate, scale):
        inv = _rms_inv(out)
        return out * inv * scale * jax.nn.silu(gate), (out, gate, scale, inv)

    def gated_readout_bwd(res, g):
        out, gate, scale, inv = res
        width = scale.size
        sig = jax.nn.sigmoid(gate)
        act = gate * sig
        normed = out * inv
        d_gate = g * normed * scale * (sig + act * (1.0 - sig))
        d_scale = (g * normed * act).reshape((-1,) + scale.shape).sum(axis=0)
        d_normed = g * scale * act
        dot = jnp.sum(d_normed * normed, axis=-1, keepdims=True) / width
        return inv * (d_normed - normed * dot), d_gate, d_scale

    gated_readout.defvjp(gated_readout_fwd, gated_readout_bwd)
    return gated_readout


# ---------------------------------------------------------------------------
# layer
# ---------------------------------------------------------------------------


class DeltaMemoryLayer:
    """Token mixer with a delta-rule memory, usable in chunks."""

    def __init__(self, model: int, heads: int = 4, key_dim: int = 16, value_dim: int = 16,
                 eps: float = 1e-5):
        self.model = model
        self.heads = heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.readout = make_readout(eps)

    def init(self, key: Array) -> MemoryParams:
        return init_params(key, self.model, self.heads, self.key_dim, self.value_dim)

    def start(self, batch: int) -> MemoryState:
        return empty_state(batch, self.heads, self.key_dim, self.value_dim)

    def __call__(self, params: MemoryParams, x: Array, state: Optional[MemoryState] = None,
                 valid: Optional[Array] = None) -> Tuple[Array, MemoryState]:
        batch, tokens, _ = x.shape
        if state is None:
            state = self.start(batch)
        if valid is None:
            valid = jnp.ones((batch, tokens), bool)

        q = simplex_features(jnp.einsum("btm,mhk->bthk", x, params.w_query))
        k = simplex_features(jnp.einsum("btm,mhk->bthk", x, params.w_key))
        v = jnp.einsum("btm,mhv->bthv", x, params.w_value)
        beta = jax.nn.sigmoid(jnp.einsum("btm,mh->bth", x, params.w_beta))
        gate = jnp.einsum("btm,mhv->bthv", x, params.w_gate)

        out, weights = batched_memory(q, k, v, beta, state.weights, valid)
        read = self.readout(out, gate, params.scale)
        y = jnp.einsum("bthv,hvm->btm", read, params.w_out)
        return y, MemoryState(weights, state.seen + valid.sum(axis=1))

    def in_chunks(self, params: MemoryParams, x: Array, chunk: int) -> Array:
        """Same as ``__call__`` with the state handed from chunk to chunk."""
        state, pieces = None, []
        for begin in range(0, x.shape[1], chunk):
            y, state = self(params, x[:, begin : begin + chunk], state)
            pieces.append(y)
        return jnp.concatenate(pieces, axis=1)


def channel_first_keys(frames: Array, weight: Array) -> Array:
    """Key map of the convolutional front end.  frames [B, C, T], weight [K, C]"""
    return simplex_features(jnp.einsum("kc,bct->bkt", weight, frames), 1)


def recall_loss(layer: DeltaMemoryLayer, params: MemoryParams, x: Array, target: Array,
                valid: Array) -> Array:
    """Mean squared error over valid tokens."""
    y, _ = layer(params, x, valid=valid)
    w = valid.astype(y.dtype)[..., None]
    return jnp.sum(w * (y - target) ** 2) / jnp.maximum(jnp.sum(w) * y.shape[-1], 1.0)


if __name__ == "__main__":
    layer = DeltaMemoryLayer(model=24, heads=2, key_dim=8, value_dim=6)
    params = layer.init(jax.random.PRNGKey(1))
    x = jax.random.normal(jax.random.PRNGKey(2), (3, 10, 24))
    valid = jnp.arange(10)[None, :] < jnp.asarray([10, 7, 4])[:, None]
    loss, grads = jax.value_and_grad(lambda p: recall_loss(layer, p, x, x, valid))(params)
    print("loss", loss, "scale grad", grads.scale.shape)
    whole, _ = layer(params, x)
    print("chunked agrees:", jnp.allclose(whole, layer.in_chunks(params, x, 4), atol=1e-5))
    print(channel_first_keys(x.transpose(0, 2, 1), jnp.ones((5, 24))).shape)
