"""Pieces of the session / slate recommender."""

from __future__ import annotations

from functools import partial
from typing import Sequence

import jax
import jax.numpy as jnp


# candidates' risk


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def minimum_risk_loss(logp, cost, sharpness=1.0):
    """Expected cost under softmax(sharpness * logp) over the K candidates, mean over the batch."""
    q = jax.nn.softmax(sharpness * logp, axis=-1)
    return jnp.mean(jnp.sum(q * cost, axis=-1))


def _risk_fwd(logp, cost, sharpness):
    q = jax.nn.softmax(sharpness * logp, axis=-1)
    risk = jnp.sum(q * cost, axis=-1)
    return risk.mean(), (q, cost, risk)


def _risk_bwd(sharpness, res, g):
    q, cost, risk = res
    gq = g * q / risk.size
    return gq * (cost - risk[..., None]), gq


minimum_risk_loss.defvjp(_risk_fwd, _risk_bwd)


# pooling of a session


def _bin_edges(length: int, bins: int):
    return [((i * length) // bins, -((-(i + 1) * length) // bins)) for i in range(bins)]


def _level_argmax(x, bins):
    idx = [jnp.argmax(x[:, lo:hi], axis=1) + lo for lo, hi in _bin_edges(x.shape[1], bins)]
    return jnp.stack(idx, axis=1)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def pyramid_max_pool(x: jax.Array, levels: Sequence[int] = (1, 2, 4)) -> jax.Array:
    """Temporal pyramid of max-pooled session embeddings.

    For each level ``n`` the session is cut into ``n`` bins, and the maximum over each
    bin is taken, per channel.  Bin ``i`` covers the steps from ``floor(i T / n)`` up to
    but not including ``ceil((i + 1) T / n)``, so that every bin holds at least one step,
    whatever the length ``T``.

    Args:
        x: Session embeddings ``(B, T, D)``.
        levels: Tuple with the number of bins of each level.

    Returns:
        ``(B, sum(levels), D)``, level after level.  When several steps of one bin hold
        the maximum, the first one receives the gradient.
    """
    return jnp.concatenate(
        [jnp.take_along_axis(x, _level_argmax(x, n), axis=1) for n in levels], axis=1
    )


def _pyramid_fwd(x, levels):
    index = [_level_argmax(x, n) for n in levels]
    out = jnp.concatenate([jnp.take_along_axis(x, i, axis=1) for i in index], axis=1)
    return out, (index, jnp.zeros_like(x))


def _pyramid_bwd(levels, res, g):
    index, blank = res
    b = jnp.arange(blank.shape[0])[:, None, None]
    d = jnp.arange(blank.shape[2])
    gx, start = blank, 0
    for n, idx in zip(levels, index):
        gx = gx + blank.at[b, idx, d].set(g[:, start : start + n])
        start += n
    return (gx,)


pyramid_max_pool.defvjp(_pyramid_fwd, _pyramid_bwd)


# biased matrix factorisation


def _live(items, pad_id, dtype):
    return (items != pad_id).astype(dtype)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def biased_score(params, users, items, pad_id=0):
    """users (B,), items (B, L) -> scores (B, L), 0 at pad_id."""
    p = params["user"][users]
    q = params["item"][items]
    s = params["mu"] + params["user_bias"][users][:, None] + params["item_bias"][items]
    return _live(items, pad_id, p.dtype) * (s + jnp.einsum("bk,blk->bl", p, q))


def _score_fwd(params, users, items, pad_id):
    return biased_score(params, users, items, pad_id), (params, users, items)


def _score_bwd(pad_id, res, g):
    params, users, items = res
    g = g * _live(items, pad_id, g.dtype)
    p, q = params["user"][users], params["item"][items]
    out = jax.tree_util.tree_map(jnp.zeros_like, params)
    return (
        {
            "user": out["user"].at[users].add(jnp.einsum("bl,blk->bk", g, q)),
            "item": out["item"].at[items].add(g[..., None] * p[:, None, :]),
            "user_bias": out["user_bias"].at[users].add(g.sum(1)),
            "item_bias": out["item_bias"].at[items].add(g),
            "mu": g.sum(),
        },
        None,
        None,
    )


biased_score.defvjp(_score_fwd, _score_bwd)


def init_factors(key, num_users, num_items, rank=16):
    ku, ki = jax.random.split(key)
    return {
        "user": 0.1 * jax.random.normal(ku, (num_users, rank)),
        "item": 0.1 * jax.random.normal(ki, (num_items, rank)),
        "user_bias": jnp.zeros(num_users),
        "item_bias": jnp.zeros(num_items),
        "mu": jnp.zeros(()),
    }


# slot assignment


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def harden_assignment(logits: jax.Array, temperature: float = 1.0) -> jax.Array:
    """Assign every item to its best slot, with a surrogate gradient.

    The forward pass is the one-hot argmax over the last axis, which is piecewise constant
    and so has no useful derivative.  The backward pass deliberately is NOT the derivative
    of the forward pass: it is that of ``softmax(logits / temperature)`` at the same logits
    (straight-through softmax), so that the slot scores can be trained.

    Args:
        logits: ``(..., slots)``.
        temperature: Temperature of the surrogate softmax, positive.

    Returns:
        One-hot array of the shape and dtype of ``logits``.
    """
    return jax.nn.one_hot(jnp.argmax(logits, -1), logits.shape[-1], dtype=logits.dtype)


def _harden_fwd(logits, temperature):
    return harden_assignment(logits, temperature), jax.nn.softmax(logits / temperature, axis=-1)


def _harden_bwd(temperature, soft, g):
    return (soft * (g - jnp.sum(soft * g, axis=-1, keepdims=True)) / temperature,)


harden_assignment.defvjp(_harden_fwd, _harden_bwd)
