"""Sparse dictionaries (gated / top-k autoencoders) on residual-stream activations."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

EPS = 1e-12


class DictParams(NamedTuple):
    w_enc: jax.Array  # (d_model, n_latent)
    b_gate: jax.Array  # (n_latent,)
    r_mag: jax.Array  # (n_latent,)
    b_mag: jax.Array  # (n_latent,)
    w_dec: jax.Array  # (n_latent, d_model)
    b_dec: jax.Array  # (d_model,)


def init_params(key, d_model: int, n_latent: int) -> DictParams:
    w = jax.random.normal(key, (n_latent, d_model))
    w = w / jnp.linalg.norm(w, axis=1, keepdims=True)
    zeros = jnp.zeros((n_latent,))
    return DictParams(w.T, zeros, zeros, zeros, w, jnp.zeros((d_model,)))


@jax.custom_vjp
def gated_latents(proj, b_gate, r_mag, b_mag):
    """Heaviside gate times rectified magnitude, weights tied through ``exp(r_mag)``.

    Args:
      proj: ``x @ w_enc``, shape (tokens, n_latent).
      b_gate: gate bias (n_latent,). Piecewise constant, it learns through the auxiliary loss only.
      r_mag: log-scale of the magnitude path (n_latent,).
      b_mag: bias of the magnitude path (n_latent,).

    Returns:
      (tokens, n_latent) latents.
    """
    gate = (proj + b_gate > 0).astype(proj.dtype)
    return gate * jax.nn.relu(jnp.exp(r_mag) * proj + b_mag)


def _gated_fwd(proj, b_gate, r_mag, b_mag):
    out = gated_latents(proj, b_gate, r_mag, b_mag)
    return out, (out, r_mag)


def _gated_bwd(res, g):
    out, r_mag = res
    # a latent that came out zero was closed by the gate or by the rectifier
    g = jnp.where(out > 0, g, 0.0)
    d_proj = g * jnp.exp(r_mag)
    d_r = jnp.sum(g * out, axis=0)
    d_b = jnp.sum(g, axis=0)
    return d_proj, jnp.zeros_like(d_b), d_r, d_b


gated_latents.defvjp(_gated_fwd, _gated_bwd)


def _selection(pre, k, across_batch):
    if across_batch:
        flat = pre.reshape(-1)
        _, idx = jax.lax.top_k(flat, k * pre.shape[0])
        return jnp.zeros(flat.shape, bool).at[idx].set(True).reshape(pre.shape)
    _, idx = jax.lax.top_k(pre, k)
    rows = jnp.arange(pre.shape[0])[:, None]
    return jnp.zeros(pre.shape, bool).at[rows, idx].set(True)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def topk_latents(pre, k, across_batch=False, rectify=True):
    """Keep the largest pre-activations.

    Args:
      pre: (tokens, n_latent).
      k: latents kept per token (on average per token when ``across_batch``).
      across_batch: rank the whole batch at once instead of each token.
      rectify: also drop kept entries that are not positive.
    """
    kept = jnp.where(_selection(pre, k, across_batch), pre, 0.0)
    return jax.nn.relu(kept) if rectify else kept


def _topk_fwd(pre, k, across_batch, rectify):
    live = _selection(pre, k, across_batch)
    if rectify:
        live &= pre > 0
    return jnp.where(live, pre, 0.0), live


def _topk_bwd(k, across_batch, rectify, live, g):
    return (g * live,)


topk_latents.defvjp(_topk_fwd, _topk_bwd)


def make_sparsity_penalty(kind="l1", reduction="mean"):
    """Penalty on latents measured in units of what they write to the stream.

    ``kind`` is "l1", "log" (log1p) or "tanh"; ``reduction`` is "mean" over tokens, "sum" or "none".
    """
    if kind not in ("l1", "log", "tanh"):
        raise ValueError(kind)

    @jax.custom_gradient
    def penalty(acts, w_dec):
        norms = jnp.sqrt(jnp.sum(w_dec**2, axis=1) + EPS)
        u = acts * norms
        if kind == "l1":
            val, slope = jnp.abs(u), jnp.sign(u)
        elif kind == "log":
            val, slope = jnp.log1p(jnp.abs(u)), jnp.sign(u) / (1.0 + jnp.abs(u))
        else:
            val = jnp.tanh(jnp.abs(u))
            slope = jnp.sign(u) * (1.0 - val * val)
        rows = val.sum(axis=-1)
        n = rows.size
        out = {"mean": rows.mean(), "sum": rows.sum(), "none": rows}[reduction]

        def grad(g):
            per_row = g[..., None] if reduction == "none" else (g / n if reduction == "mean" else g)
            du = per_row * slope
            d_norm = jnp.sum((du * acts).reshape(-1, norms.shape[0]), axis=0)
            return du * norms, (d_norm / norms)[:, None] * w_dec

        return out, grad

    return penalty


@jax.custom_vjp
def unexplained_fraction(recon, x, token_mask):
    """Fraction of variance unexplained over the tokens where ``token_mask`` is true.

    Args:
      recon: (tokens, d_model) reconstruction.
      x: (tokens, d_model) activations; pad rows may hold anything finite.
      token_mask: (tokens,) bool, at least two true.
    """
    return _fvu(recon, x, token_mask)[0]


def _fvu(recon, x, token_mask):
    m = token_mask.astype(x.dtype)[:, None]
    mean = jnp.sum(m * x, axis=0) / jnp.sum(m)
    centred = m * (x - mean)
    err = recon - x
    total = jnp.sum(centred**2)
    return jnp.sum(m * err**2) / total, (err, centred, total)


def _fvu_fwd(recon, x, token_mask):
    value, (err, centred, total) = _fvu(recon, x, token_mask)
    return value, (value, err, centred, total)


def _fvu_bwd(res, g):
    value, err, centred, total = res
    d_recon = 2.0 * g * err / total
    d_x = -d_recon - 2.0 * g * value * centred / total
    return d_recon, d_x, None


unexplained_fraction.defvjp(_fvu_fwd, _fvu_bwd)


def dictionary_loss(params: DictParams, x, token_mask, coef=1e-2, kind="l1"):
    proj = (x - params.b_dec) @ params.w_enc
    acts = gated_latents(proj, params.b_gate, params.r_mag, params.b_mag)
    recon = acts @ params.w_dec + params.b_dec
    sparsity = make_sparsity_penalty(kind, "none")(acts, params.w_dec)
    weight = token_mask / jnp.sum(token_mask)
    return unexplained_fraction(recon, x, token_mask) + coef * jnp.sum(weight * sparsity)


@partial(jax.jit, static_argnames=("kind",))
def sgd_step(params, x, token_mask, lr=1e-3, kind="l1"):
    loss, grads = jax.value_and_grad(dictionary_loss)(params, x, token_mask, 1e-2, kind)
    return jax.tree_util.tree_map(lambda p, d: p - lr * d, params, grads), loss
