from functools import partial

import jax
import jax.numpy as jnp


def init_monarch(key, d_in, d_out, blocks):
    k, q = blocks
    k1, k2 = jax.random.split(key)
    right = jax.random.normal(k1, (k, q, d_in // k)) * (k / d_in) ** 0.5
    left = jax.random.normal(k2, (q, d_out // q, k)) * k**-0.5
    return left, right


def _to_blocks(x, k):
    return x.reshape(*x.shape[:-1], k, -1)


@jax.custom_vjp
def monarch_matmul(x, left, right):
    return _monarch(x, left, right)[0]


def _monarch(x, left, right):
    xb = _to_blocks(x, right.shape[0])
    mid = jnp.einsum("...kp,kqp->...qk", xb, right)
    out = jnp.einsum("...qk,qrk->...rq", mid, left)
    return out.reshape(*out.shape[:-2], -1), mid


def _monarch_fwd(x, left, right):
    # mid is cheap next to the matmuls that follow it, so it is rebuilt in the backward
    return _monarch(x, left, right)[0], (x, left, right)


def _monarch_bwd(res, g):
    x, left, right = res
    k, q, p = right.shape
    xb = x.reshape(-1, k, p)
    gb = g.reshape(-1, left.shape[1], q)
    mid = jnp.einsum("bkp,kqp->bqk", xb, right)
    d_left = jnp.einsum("brq,bqk->qrk", gb, mid)
    d_mid = jnp.einsum("brq,qrk->bqk", gb, left)
    d_right = jnp.einsum("bqk,bkp->kqp", d_mid, xb)
    d_x = jnp.einsum("bqk,kqp->bkp", d_mid, right).reshape(x.shape)
    return d_x, d_left, d_right


monarch_matmul.defvjp(_monarch_fwd, _monarch_bwd)


def _trilinear(core, a, r, b):
    return jnp.einsum("irk,...i,...r,...k->...", core, a, r, b)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def tucker_score(core, head, rel, tail, reciprocal=False):
    """TuckER link-prediction score.

    ``s = sum_{irk} W[i, r, k] head[i] rel[r] tail[k]``

    Args:
      core: core tensor ``(E, R, E)``.
      head, tail: entity embeddings ``(..., E)``.
      rel: relation embeddings ``(..., R)`` with the same leading dims.
      reciprocal: score the undirected link, i.e. the mean of ``s(head, rel, tail)`` and
        ``s(tail, rel, head)``. Used for the symmetric relations (``spouse``, ``borders``).

    Returns:
      scores, shape ``(...)``.
    """
    s = _trilinear(core, head, rel, tail)
    if reciprocal:
        s = 0.5 * (s + _trilinear(core, tail, rel, head))
    return s


def _tucker_fwd(core, head, rel, tail, reciprocal):
    return tucker_score(core, head, rel, tail, reciprocal), (core, head, rel, tail)


def _tucker_bwd(reciprocal, res, g):
    core, head, rel, tail = res
    d_core = jnp.einsum("...,...i,...r,...k->irk", g, head, rel, tail)
    if reciprocal:
        core = 0.5 * (core + jnp.swapaxes(core, 0, 2))
    d_head = g[..., None] * jnp.einsum("irk,...r,...k->...i", core, rel, tail)
    d_rel = g[..., None] * jnp.einsum("irk,...i,...k->...r", core, head, tail)
    d_tail = g[..., None] * jnp.einsum("irk,...i,...r->...k", core, head, rel)
    return d_core, d_head, d_rel, d_tail


tucker_score.defvjp(_tucker_fwd, _tucker_bwd)


@jax.custom_vjp
def fourier_features(x, freqs, log_scale, log_amp):
    """RBF random features of x (..., d), freqs (F, d); log_scale () or (d,) for ARD, log_amp (). Returns (..., 2F)."""
    phase = (x * jnp.exp(-log_scale)) @ freqs.T
    amp = jnp.exp(log_amp) / jnp.sqrt(freqs.shape[0])
    return amp * jnp.concatenate([jnp.cos(phase), jnp.sin(phase)], axis=-1)


def _fourier_fwd(x, freqs, log_scale, log_amp):
    out = fourier_features(x, freqs, log_scale, log_amp)
    return out, (x, freqs, log_scale, out)


def _fourier_bwd(res, g):
    x, freqs, log_scale, out = res
    c, s = jnp.split(out, 2, axis=-1)
    g_cos, g_sin = jnp.split(g, 2, axis=-1)
    d_phase = g_sin * c - g_cos * s
    z = x * jnp.exp(-log_scale)
    d_z = d_phase @ freqs
    n_feat, dim = freqs.shape
    d_freqs = d_phase.reshape(-1, n_feat).T @ z.reshape(-1, dim)
    d_scale = -(d_z * z).reshape(-1, dim).sum(axis=0)
    if jnp.ndim(log_scale) == 0:
        d_scale = d_scale.sum()
    return d_z * jnp.exp(-log_scale), d_freqs, d_scale, jnp.sum(g * out)


fourier_features.defvjp(_fourier_fwd, _fourier_bwd)


def kernel_ridge_head(params, x):
    phi = fourier_features(x, params["freqs"], params["log_scale"], params["log_amp"])
    return monarch_matmul(phi, params["left"], params["right"])
