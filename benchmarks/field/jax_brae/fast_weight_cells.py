"""Recurrent pieces with matrix memories."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


def _fast_weight_pass(q, k, v, rate, reset, state):
    def tick(s, inp):
        q_t, k_t, v_t, b_t, r_t = inp
        s_in = jnp.where(r_t[:, None, None], 0.0, s)
        err = v_t - jnp.einsum("bvk,bk->bv", s_in, k_t)
        s = s_in + b_t[:, None, None] * err[:, :, None] * k_t[:, None, :]
        return s, (jnp.einsum("bvk,bk->bv", s, q_t), s_in, s)

    last, (out, s_in, s_out) = lax.scan(tick, state, (q, k, v, rate, reset))
    return out, last, s_in, s_out


@jax.custom_vjp
def delta_rule_memory(q, k, v, rate, reset, state):
    """Delta-rule fast weights, time first: q, k [T, B, K], v [T, B, V], rate, reset [T, B], state [B, V, K]."""
    out, last, _, _ = _fast_weight_pass(q, k, v, rate, reset, state)
    return out, last


def _delta_fwd(q, k, v, rate, reset, state):
    out, last, s_in, s_out = _fast_weight_pass(q, k, v, rate, reset, state)
    return (out, last), (q, k, v, rate, reset, s_in, s_out)


def _delta_bwd(res, cts):
    q, k, v, rate, reset, s_in, s_out = res
    g_out, g_last = cts

    def untick(g_s, inp):
        go, q_t, k_t, v_t, b_t, r_t, s0, s1 = inp
        g_s = g_s + go[:, :, None] * q_t[:, None, :]
        d_q = jnp.einsum("bvk,bv->bk", s1, go)
        err = v_t - jnp.einsum("bvk,bk->bv", s0, k_t)
        gk = jnp.einsum("bvk,bk->bv", g_s, k_t)
        b = b_t[:, None]
        d_k = b * (jnp.einsum("bvk,bv->bk", g_s, err) - jnp.einsum("bvk,bv->bk", s0, gk))
        d_rate = jnp.sum(err * gk, axis=-1)
        g_in = g_s - b[:, :, None] * gk[:, :, None] * k_t[:, None, :]
        return jnp.where(r_t[:, None, None], 0.0, g_in), (d_q, d_k, b * gk, d_rate)

    d_state, (d_q, d_k, d_v, d_rate) = lax.scan(
        untick, g_last, (g_out, q, k, v, rate, reset, s_in, s_out), reverse=True
    )
    return d_q, d_k, d_v, d_rate, None, d_state


delta_rule_memory.defvjp(_delta_fwd, _delta_bwd)


def _gate(z):
    return 2.0 * jax.nn.sigmoid(z)


@jax.custom_vjp
def mogrify(mats, x, h):
    for i, m in enumerate(mats):
        if i % 2 == 0:
            x = _gate(h @ m) * x
        else:
            h = _gate(x @ m) * h
    return x, h


def _mogrify_fwd(mats, x, h):
    trail = []
    for i, m in enumerate(mats):
        if i % 2 == 0:
            gate = _gate(h @ m)
            trail.append((gate, x))
            x = gate * x
        else:
            gate = _gate(x @ m)
            trail.append((gate, h))
            h = gate * h
    return (x, h), (mats, tuple(trail), x, h)


def _mogrify_bwd(res, cts):
    mats, trail, x, h = res
    g_x, g_h = cts
    d_mats = [None] * len(mats)
    for i in reversed(range(len(mats))):
        gate, before = trail[i]
        m = mats[i]
        if i % 2 == 0:
            dz = g_x * before * gate * (1.0 - 0.5 * gate)
            d_mats[i] = jnp.einsum("...h,...x->hx", h, dz)
            g_h = g_h + dz @ m.T
            g_x = g_x * gate
        else:
            dz = g_h * before * gate * (1.0 - 0.5 * gate)
            d_mats[i] = jnp.einsum("...x,...h->xh", x, dz)
            g_x = g_x + dz @ m.T
            g_h = g_h * gate
    return type(mats)(d_mats), g_x, g_h


mogrify.defvjp(_mogrify_fwd, _mogrify_bwd)


def _fold(g, shape):
    if g.ndim > len(shape):
        g = g.sum(tuple(range(g.ndim - len(shape))))
    keep = tuple(i for i, n in enumerate(shape) if n == 1)
    return g.sum(keep, keepdims=True) if keep else g


def _recall(patterns, query, log_beta, stored):
    overlap = jnp.einsum("...md,...d->...m", patterns, query)
    z = jnp.where(stored, jnp.exp(log_beta)[..., None] * overlap, -jnp.inf)
    top = lax.stop_gradient(jnp.max(z, axis=-1, keepdims=True))
    e = jnp.where(stored, jnp.exp(z - jnp.where(jnp.isfinite(top), top, 0.0)), 0.0)
    p = e / jnp.maximum(e.sum(-1, keepdims=True), jnp.finfo(e.dtype).tiny)
    return p, overlap


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def hopfield_recall(patterns, query, log_beta, stored, steps=1):
    """Modern Hopfield updates; patterns [..., M, D], query [..., D], log_beta [...], stored [..., M], lead dims broadcast."""
    return _hopfield_fwd(patterns, query, log_beta, stored, steps)[0]


def _hopfield_fwd(patterns, query, log_beta, stored, steps):
    xi, trail = query, []
    for _ in range(steps):
        p, overlap = _recall(patterns, xi, log_beta, stored)
        trail.append((xi, p, overlap))
        xi = jnp.einsum("...m,...md->...d", p, patterns)
    return xi, (patterns, query, log_beta, trail)


def _hopfield_bwd(steps, res, g):
    patterns, query, log_beta, trail = res
    beta = jnp.exp(log_beta)[..., None]
    d_patterns = jnp.zeros_like(patterns)
    d_log_beta = jnp.zeros_like(log_beta)
    for xi, p, overlap in reversed(trail):
        dp = jnp.einsum("...md,...d->...m", patterns, g)
        dz = p * (dp - jnp.sum(p * dp, axis=-1, keepdims=True))
        # a pattern is matched against and read out: it is hit twice
        hit = p[..., None] * g[..., None, :] + (beta * dz)[..., None] * xi[..., None, :]
        d_patterns = d_patterns + _fold(hit, patterns.shape)
        d_log_beta = d_log_beta + _fold(jnp.sum(beta * dz * overlap, axis=-1), log_beta.shape)
        g = jnp.einsum("...m,...md->...d", beta * dz, patterns)
    return d_patterns, _fold(g, query.shape), d_log_beta, None


hopfield_recall.defvjp(_hopfield_fwd, _hopfield_bwd)


class MogrifierGate:
    def __init__(self, key, x_dim, h_dim, rounds=1, scale=0.1):
        keys = jax.random.split(key, rounds)
        dims = [(h_dim, x_dim), (x_dim, h_dim)]
        self.mats = [scale * jax.random.normal(k, dims[i % 2]) for i, k in enumerate(keys)]

    def __call__(self, x, h):
        return mogrify(self.mats, x, h)
