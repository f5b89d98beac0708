from functools import partial
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp
from jax import lax

NEG = -1e30


class Adapter(NamedTuple):
    a: jax.Array      # (d_in, r)      shared, random
    b: jax.Array      # (r, d_out)     shared, random
    d_vec: jax.Array  # (n_adapters, r)
    b_vec: jax.Array  # (n_adapters, d_out)


def init_adapter(key, d_in, d_out, r, n):
    ka, kb = jax.random.split(key)
    return Adapter(
        a=jax.random.normal(ka, (d_in, r)) / jnp.sqrt(d_in),
        b=jax.random.normal(kb, (r, d_out)) / jnp.sqrt(r),
        d_vec=jnp.full((n, r), 0.1),
        b_vec=jnp.zeros((n, d_out)),
    )


# ---------------------------------------------------------------- gMLP gate


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def spatial_gate(
    u,             # (batch, seq, dim)
    v,             # (batch, seq, dim)
    weight,        # (seq, seq), row t mixes the positions into t
    bias,          # (seq,)
    causal=False,  # keep only the positions up to t
):
    w = jnp.tril(weight) if causal else weight
    return u * (jnp.einsum("ts,bsd->btd", w, v) + bias[:, None])


def _gate_fwd(u, v, weight, bias, causal):
    w = jnp.tril(weight) if causal else weight
    mixed = jnp.einsum("ts,bsd->btd", w, v) + bias[:, None]
    return u * mixed, (u, v, w, mixed)


def _gate_bwd(causal, res, g):
    u, v, w, mixed = res
    gm = g * u
    dv = jnp.einsum("ts,btd->bsd", w, gm)
    dw = jnp.einsum("btd,bsd->ts", gm, v)
    return g * mixed, dv, dw, gm.sum((0, 2))


spatial_gate.defvjp(_gate_fwd, _gate_bwd)


# ------------------------------------------------------- rectified softmax


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def softpick(
    x,           # logits, any shape
    mask,        # bool, broadcasts to x; False entries get weight 0. A row may be all False
    axis=-1,
):
    """relu(e^x - 1) / (sum |e^x - 1| + 1e-6), without the overflow."""
    return _softpick_fwd(x, mask, axis)[0]


def _softpick_fwd(x, mask, axis):
    keep = jnp.broadcast_to(mask, x.shape)
    # the row is divided by e^m, with m >= 0 so that the guard cannot blow up
    m = jnp.maximum(jnp.max(jnp.where(keep, x, NEG), axis=axis, keepdims=True), 0.0)
    rel = jnp.where(keep, jnp.exp(jnp.minimum(x, m) - m), 0.0)
    # expm1 keeps the digits of small logits
    diff = jnp.where(keep, jnp.where(jnp.abs(x) < 1.0, jnp.expm1(jnp.clip(x, -1.0, 1.0)) * jnp.exp(-m), rel - jnp.exp(-m)), 0.0)
    den = jnp.sum(jnp.abs(diff), axis=axis, keepdims=True) + 1e-6 * jnp.exp(-m)
    y = jnp.maximum(diff, 0.0) / den
    return y, (y, rel, jnp.sign(diff), den)


def _softpick_bwd(axis, res, g):
    y, rel, sign, den = res
    inner = jnp.sum(g * y, axis=axis, keepdims=True)
    dx = rel / den * (jnp.where(sign > 0, g, 0.0) - sign * inner)
    return dx, None


softpick.defvjp(_softpick_fwd, _softpick_bwd)


# ------------------------------------------------- vector adapters per user


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def vector_adapter(
    x,          # (batch, seq, d_in)
    p,          # Adapter
    ids,        # (batch,) int, which adapter serves the sample
    scale=1.0,  # alpha of the config
):
    return _adapter_fwd(x, p, ids, scale)[0]


def _adapter_fwd(x, p, ids, scale):
    low = x @ p.a
    up = (low * p.d_vec[ids][:, None]) @ p.b
    return scale * up * p.b_vec[ids][:, None], (x, p, ids, low, up)


def _adapter_bwd(scale, res, g):
    x, p, ids, low, up = res
    n = p.d_vec.shape[0]
    d = p.d_vec[ids][:, None]
    g_up = scale * g * p.b_vec[ids][:, None]
    g_mid = g_up @ p.b.T
    g_low = g_mid * d
    dp = Adapter(
        a=jnp.einsum("bsi,bsr->ir", x, g_low),
        b=jnp.einsum("bsr,bso->ro", low * d, g_up),
        d_vec=jax.ops.segment_sum((g_mid * low).sum(1), ids, num_segments=n),
        b_vec=jax.ops.segment_sum((g * up).sum(1), ids, num_segments=n),
    )
    return g_low @ p.a.T, dp, None


vector_adapter.defvjp(_adapter_fwd, _adapter_bwd)


# ------------------------------------------------------------- butterfly mix


def _pairs(x, stride):
    return x.reshape(*x.shape[:-1], -1, 2, stride)


@jax.custom_vjp
def butterfly_mix(
    x,        # (..., n), n = 2 ** stages
    twiddle,  # (stages, n // 2, 2, 2), stage i pairs entries 2 ** i apart
):
    return _butterfly_fwd(x, twiddle)[0]


def _butterfly_fwd(x, twiddle):
    stages, half = twiddle.shape[:2]
    trail = []
    for i in range(stages):
        trail.append(x)
        w = twiddle[i].reshape(half >> i, 1 << i, 2, 2)
        x = jnp.einsum("gsij,...gjs->...gis", w, _pairs(x, 1 << i)).reshape(x.shape)
    return x, (trail, twiddle)


def _butterfly_bwd(res, g):
    trail, twiddle = res
    stages, half = twiddle.shape[:2]
    grads = []
    for i in reversed(range(stages)):
        w = twiddle[i].reshape(half >> i, 1 << i, 2, 2)
        gp, xp = _pairs(g, 1 << i), _pairs(trail[i], 1 << i)
        grads.append(jnp.einsum("...gis,...gjs->gsij", gp, xp).reshape(half, 2, 2))
        g = jnp.einsum("gsij,...gis->...gjs", w, gp).reshape(g.shape)
    return g, jnp.stack(grads[::-1])


butterfly_mix.defvjp(_butterfly_fwd, _butterfly_bwd)


class TokenBlock:
    """gMLP-like block with an adapter branch, params in a dict."""

    def __init__(self, dim, seq, causal=True, adapter_scale=1.0):
        self.dim, self.seq = dim, seq
        self.causal, self.adapter_scale = causal, adapter_scale

    def init(self, key, n_users=8, rank=4):
        k = jax.random.split(key, 3)
        return {
            "inp": jax.random.normal(k[0], (self.dim, 2 * self.dim)) / jnp.sqrt(self.dim),
            "spatial": 1e-3 * jax.random.normal(k[1], (self.seq, self.seq)),
            "bias": jnp.ones((self.seq,)),
            "adapter": init_adapter(k[2], self.dim, self.dim, rank, n_users),
        }

    def __call__(self, params, x, ids: Optional[jax.Array] = None):
        u, v = jnp.split(jax.nn.gelu(x @ params["inp"]), 2, axis=-1)
        y = spatial_gate(u, v, params["spatial"], params["bias"], self.causal)
        if ids is not None:
            y = y + vector_adapter(x, params["adapter"], ids, self.adapter_scale)
        return x + y


def pick_attention(q, k, v, mask):
    # q (b, t, d), k and v (b, s, d), mask (b, 1, s)
    logits = jnp.einsum("btd,bsd->bts", q, k) * lax.rsqrt(float(q.shape[-1]))
    return softpick(logits, mask, -1) @ v
