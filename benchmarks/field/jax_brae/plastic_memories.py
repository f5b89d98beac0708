"""Pieces for recurrent networks with fast memories."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


def _plastic_pass(w, plasticity, rate, x, awake, trace):
    def tick(h, inp):
        x_t, on = inp
        y = jnp.tanh(jnp.einsum("bi,bio->bo", x_t, w + plasticity * h))
        step = x_t[:, :, None] * y[:, None, :] - h * y[:, None, :] ** 2
        return h + rate * jnp.where(on[:, None, None], step, 0.0), (y, h)

    last, (ys, before) = lax.scan(tick, trace, (x, awake))
    return ys, last, before


@jax.custom_vjp
def oja_plastic_layer(w, plasticity, rate, x, awake, trace):
    """tanh layer with an Oja trace: w, plasticity [I, O], x [T, B, I], awake [T, B], trace [B, I, O]; returns (ys, trace)."""
    ys, last, _ = _plastic_pass(w, plasticity, rate, x, awake, trace)
    return ys, last


def _plastic_fwd(w, plasticity, rate, x, awake, trace):
    ys, last, before = _plastic_pass(w, plasticity, rate, x, awake, trace)
    return (ys, last), (w, plasticity, rate, x, awake, ys, before)


def _plastic_bwd(res, cts):
    w, plasticity, rate, x, awake, ys, before = res
    g_ys, g_last = cts

    def untick(carry, inp):
        g_h, d_w, d_p, d_rate = carry
        g_y, x_t, on, y, h = inp
        taught = jnp.where(on[:, None, None], g_h, 0.0)
        y_row = y[:, None, :]
        d_rate = d_rate + jnp.sum(taught * (x_t[:, :, None] * y_row - h * y_row**2))
        taught = rate * taught
        g_y = g_y + jnp.sum(taught * (x_t[:, :, None] - 2.0 * h * y_row), axis=1)
        d_pre = g_y * (1.0 - y * y)
        d_x = jnp.einsum("bio,bo->bi", taught, y)
        d_x = d_x + jnp.einsum("bio,bo->bi", w + plasticity * h, d_pre)
        outer = x_t[:, :, None] * d_pre[:, None, :]
        g_h = g_h - taught * y_row**2 + plasticity * outer
        return (g_h, d_w + outer.sum(0), d_p + (outer * h).sum(0), d_rate), d_x

    start = (g_last, jnp.zeros_like(w), jnp.zeros_like(plasticity), jnp.zeros_like(rate))
    (d_trace, d_w, d_p, d_rate), d_x = lax.scan(
        untick, start, (g_ys, x, awake, ys, before), reverse=True
    )
    return d_w, d_p, d_rate, d_x, None, d_trace


oja_plastic_layer.defvjp(_plastic_fwd, _plastic_bwd)


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
