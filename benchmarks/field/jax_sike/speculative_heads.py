"""Losses and scores for training draft models used in speculative decoding.

Shapes follow the rest of the code base: ``B`` rows, ``T`` positions, ``V``
vocabulary entries, ``H`` draft heads, ``N`` nodes of a draft tree.
"""

from __future__ import annotations

from functools import partial
from typing import Tuple

import jax
import jax.numpy as jnp
from jax import Array, lax


def _softmax_pull(probs: Array, grad: Array) -> Array:
    """Pulls a cotangent of probabilities back to their logits."""
    return probs * (grad - jnp.sum(probs * grad, axis=-1, keepdims=True))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def acceptance_rate(
    target_logits: Array, draft_logits: Array, temperatures: Tuple[float, float]
) -> Array:
    """Chance that a drafted token is accepted, ``sum_v min(p_v, q_v)``.

    Args:
      target_logits: Logits of the large model, ``[..., V]``.
      draft_logits: Logits of the draft model, ``[..., V]``.
      temperatures: Sampling temperatures of the target and of the draft.

    Returns:
      Acceptance probability of each position, ``[...]``.
    """
    p = jax.nn.softmax(target_logits / temperatures[0], axis=-1)
    q = jax.nn.softmax(draft_logits / temperatures[1], axis=-1)
    return jnp.sum(jnp.minimum(p, q), axis=-1)


def _acceptance_fwd(target_logits, draft_logits, temperatures):
    p = jax.nn.softmax(target_logits / temperatures[0], axis=-1)
    q = jax.nn.softmax(draft_logits / temperatures[1], axis=-1)
    return jnp.sum(jnp.minimum(p, q), axis=-1), (p, q)


def _acceptance_bwd(temperatures, residuals, ct):
    p, q = residuals
    scaled = ct[..., None] / temperatures[0]
    from_p = (p < q).astype(p.dtype)
    return (_softmax_pull(p, scaled * from_p), _softmax_pull(q, scaled * (1.0 - from_p)))


acceptance_rate.defvjp(_acceptance_fwd, _acceptance_bwd)


@jax.custom_vjp
def residual_distribution(target_logits: Array, draft_logits: Array) -> Array:
    """Distribution that is sampled after a rejection.

    Computes ``max(p - q, 0)`` renormalised to sum to one.

    Args:
      target_logits: ``[..., V]``.
      draft_logits: ``[..., V]``, not equal to the target's up to a shift.

    Returns:
      Probabilities, ``[..., V]``.
    """
    return _residual_fwd(target_logits, draft_logits)[0]


def _residual_fwd(target_logits, draft_logits):
    p = jax.nn.softmax(target_logits, axis=-1)
    q = jax.nn.softmax(draft_logits, axis=-1)
    excess = jnp.maximum(p - q, 0.0)
    mass = jnp.sum(excess, axis=-1, keepdims=True)
    out = excess / mass
    return out, (p, q, out, mass)


def _residual_bwd(residuals, ct):
    p, q, out, mass = residuals
    kept = p > q
    inner = jnp.sum(ct * out, axis=-1, keepdims=True)
    d_excess = jnp.where(kept, ct - inner, 0.0) / mass
    centre = jnp.sum(p * d_excess, axis=-1, keepdims=True)
    return p * (d_excess - centre), q * (centre - d_excess)


residual_distribution.defvjp(_residual_fwd, _residual_bwd)


@jax.custom_vjp
def path_log_probs(node_log_probs: Array, parents: Array) -> Array:
    """Log-probability of the path from the root to every node of a draft tree.

    Args:
      node_log_probs: Conditional log-probability of each node, ``[B, N]``.
      parents: Index of each node's parent, ``[N]``; a parent comes before its
        children, and the nodes of the first level have ``-1``.

    Returns:
      Joint log-probabilities, ``[B, N]``.
    """

    def body(i, total):
        above = jnp.where(parents[i] >= 0, total[:, parents[i]], 0.0)
        return total.at[:, i].add(above)

    return lax.fori_loop(0, parents.shape[0], body, node_log_probs)


def _path_fwd(node_log_probs, parents):
    return path_log_probs(node_log_probs, parents), parents


def _path_bwd(parents, ct):
    n = parents.shape[0]

    def body(k, acc):
        i = n - 1 - k
        passed = jnp.where(parents[i] >= 0, acc[:, i], 0.0)
        return acc.at[:, parents[i]].add(passed)

    return lax.fori_loop(0, n, body, ct), None


path_log_probs.defvjp(_path_fwd, _path_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def lookahead_loss(logits: Array, tokens: Array, lengths: Array, decay: float = 0.8) -> Array:
    """Cross entropy of draft heads that look several tokens ahead.

    Head ``h`` at position ``t`` predicts ``tokens[:, t + h + 1]``. Targets
    beyond the length of a row do not count. Each head's loss is a mean over its
    targets, and head ``h`` weighs ``decay ** h``.

    Args:
      logits: ``[H, B, T, V]``.
      tokens: Integer ids, ``[B, T]``, padded on the right.
      lengths: Valid tokens of each row, ``[B]``.
      decay: Weight ratio of successive heads.

    Returns:
      Scalar loss.
    """
    return _lookahead_fwd(logits, tokens, lengths, decay)[0]


def _lookahead_fwd(logits, tokens, lengths, decay):
    loss, counts = 0.0, []
    for h in range(logits.shape[0]):
        span = tokens.shape[1] - h - 1
        logp = jax.nn.log_softmax(logits[h, :, :span], axis=-1)
        picked = jnp.take_along_axis(logp, tokens[:, h + 1 :, None], axis=-1)[..., 0]
        valid = jnp.arange(span)[None, :] + h + 1 < lengths[:, None]
        counts.append(jnp.maximum(jnp.sum(valid), 1))
        loss -= decay**h * jnp.sum(jnp.where(valid, picked, 0.0)) / counts[-1]
    return loss, (logits, tokens, lengths, jnp.stack(counts))


def _lookahead_bwd(decay, residuals, ct):
    logits, tokens, lengths, counts = residuals
    heads, _, width, vocab = logits.shape
    grad = jnp.zeros_like(logits)
    for h in range(heads):
        span = width - h - 1
        probs = jax.nn.softmax(logits[h, :, :span], axis=-1)
        delta = probs - jax.nn.one_hot(tokens[:, h + 1 :], vocab, dtype=probs.dtype)
        valid = jnp.arange(span)[None, :] < lengths[:, None]
        scale = ct * decay**h / counts[h]
        grad = grad.at[h, :, :span].set(scale * jnp.where(valid[..., None], delta, 0.0))
    return grad, None, None


lookahead_loss.defvjp(_lookahead_fwd, _lookahead_bwd)


def draft_objective(
    params, hidden, tokens, lengths, target_logits, temperatures=(1.0, 1.0), mix=0.5
):
    """Training objective: lookahead loss less the mean acceptance of head 0."""
    logits = jnp.einsum("btd,hdv->hbtv", hidden, params["heads"])
    accept = acceptance_rate(target_logits, logits[0], temperatures)
    valid = jnp.arange(tokens.shape[1])[None, :] < lengths[:, None]
    mean_accept = jnp.sum(jnp.where(valid, accept, 0.0)) / jnp.sum(valid)
    return lookahead_loss(logits, tokens, lengths, 0.8) - mix * mean_accept
