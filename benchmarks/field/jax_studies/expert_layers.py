"""Pieces of mixture-of-experts blocks: routing, grouped products, normalisation."""

from __future__ import annotations

from functools import partial
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class AuxConfig(NamedTuple):
    top_k: int = 1
    z_weight: float = 0.0


def _expert_load(probs, valid, top_k):
    _, chosen = jax.lax.top_k(probs, top_k)
    hits = jax.nn.one_hot(chosen, probs.shape[-1], dtype=probs.dtype).sum(axis=-2)
    return jnp.sum(hits * valid[:, None], axis=0) / (top_k * jnp.sum(valid))


def _aux_value(logits, valid, config):
    probs = jax.nn.softmax(logits, axis=-1)
    load = _expert_load(probs, valid, config.top_k)
    importance = jnp.sum(probs * valid[:, None], axis=0) / jnp.sum(valid)
    loss = logits.shape[-1] * jnp.sum(load * importance)
    if config.z_weight:
        lse = jax.nn.logsumexp(logits, axis=-1)
        loss = loss + config.z_weight * jnp.sum(valid * lse**2) / jnp.sum(valid)
    return loss, probs, load


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _aux_loss(logits, valid, config):
    return _aux_value(logits, valid, config)[0]


def _aux_loss_fwd(logits, valid, config):
    loss, probs, load = _aux_value(logits, valid, config)
    return loss, (logits, valid, probs, load)


def _aux_loss_bwd(config, res, g):
    logits, valid, probs, load = res
    tokens, experts = logits.shape
    pull = probs * (load - jnp.sum(probs * load, axis=-1, keepdims=True))
    grad = experts * pull
    if config.z_weight:
        lse = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
        grad = grad + 2.0 * config.z_weight * lse * probs
    return g * grad * valid[:, None] / tokens, None


_aux_loss.defvjp(_aux_loss_fwd, _aux_loss_bwd)


def load_balance_loss(logits, *, mask=None, top_k: int = 1, z_weight: float = 0.0):
    """Switch-style load balancing loss with an optional router z-loss.

    Args:
        logits: Router logits, ``[tokens, experts]``.
        mask: Optional boolean ``[tokens]``; padded tokens (False) count nowhere.
        top_k: Experts per token. The dispatch counts are constants of the loss.
        z_weight: Weight of the mean squared log-normaliser.
    """
    valid = jnp.ones(logits.shape[0], logits.dtype) if mask is None else mask.astype(logits.dtype)
    return _aux_loss(logits, jax.lax.stop_gradient(valid), AuxConfig(top_k, z_weight))


def make_straight_through_gate(temperature: float = 1.0, axis: int = -1) -> Callable:
    """Build a hard Gumbel gate.

    The gate returns the exact one-hot choice ``argmax(logits + noise)``. Its backward
    pass is the straight-through estimator: the cotangent of ``logits`` is that of the
    relaxed sample ``softmax((logits + noise) / temperature)``, and ``noise`` is held
    constant and gets none.
    """

    @jax.custom_vjp
    def gate(logits, noise):
        scores = logits + noise
        return jax.nn.one_hot(jnp.argmax(scores, axis=axis), scores.shape[axis], axis=axis, dtype=scores.dtype)

    def gate_fwd(logits, noise):
        soft = jax.nn.softmax((logits + noise) / temperature, axis=axis)
        return gate(logits, noise), soft

    def gate_bwd(soft, g):
        inner = jnp.sum(g * soft, axis=axis, keepdims=True)
        return soft * (g - inner) / temperature, jnp.zeros_like(soft)

    gate.defvjp(gate_fwd, gate_bwd)
    return gate


def _row_owner(rows, group_sizes):
    return jnp.searchsorted(jnp.cumsum(group_sizes), jnp.arange(rows), side="right")


@jax.custom_vjp
def grouped_matmul(x, weights, group_sizes):
    """Product of consecutive row groups of ``x`` with their own matrix.

    Args:
        x: ``[m, k]``, rows sorted by group.
        weights: ``[groups, k, n]``.
        group_sizes: ``int[groups]``, may hold zeros; rows past their sum give zeros.

    Returns:
        ``[m, n]``.
    """
    owner = _row_owner(x.shape[0], group_sizes)

    def body(acc, item):
        index, w = item
        picked = jnp.where((owner == index)[:, None], x, 0)
        return acc + picked @ w, None

    init = jnp.zeros((x.shape[0], weights.shape[2]), jnp.result_type(x, weights))
    out, _ = jax.lax.scan(body, init, (jnp.arange(weights.shape[0]), weights))
    return out


def _grouped_matmul_fwd(x, weights, group_sizes):
    return grouped_matmul(x, weights, group_sizes), (x, weights, group_sizes)


def _grouped_matmul_bwd(res, g):
    x, weights, group_sizes = res
    dx = grouped_matmul(g, jnp.swapaxes(weights, 1, 2), group_sizes).astype(x.dtype)
    owner = _row_owner(x.shape[0], group_sizes)
    groups = jnp.arange(weights.shape[0])
    dw = jax.lax.map(lambda i: jnp.where((owner == i)[:, None], x, 0).T @ g, groups)
    return dx, dw.astype(weights.dtype), np.zeros(group_sizes.shape, jax.dtypes.float0)


grouped_matmul.defvjp(_grouped_matmul_fwd, _grouped_matmul_bwd)


def _channel_shape(ndim, axis, size):
    shape = [1] * ndim
    shape[axis] = size
    return tuple(shape)


def _reduced(ndim, axis):
    return tuple(d for d in range(ndim) if d != axis)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _batch_norm(x, scale, offset, axis, eps):
    return _batch_norm_fwd(x, scale, offset, axis, eps)[0]


def _batch_norm_fwd(x, scale, offset, axis, eps):
    dims = _reduced(x.ndim, axis)
    shape = _channel_shape(x.ndim, axis, x.shape[axis])
    mean = jnp.mean(x, axis=dims)
    centred = x - mean.reshape(shape)
    var = jnp.mean(centred**2, axis=dims)
    inv = jax.lax.rsqrt(var + eps)
    normed = centred * inv.reshape(shape)
    y = normed * scale.reshape(shape) + offset.reshape(shape)
    return (y, mean, var), (normed, inv, centred, scale)


def _batch_norm_bwd(axis, eps, res, cts):
    normed, inv, centred, scale = res
    d_y, d_mean, d_var = cts
    dims = _reduced(normed.ndim, axis)
    shape = _channel_shape(normed.ndim, axis, scale.shape[0])
    count = normed.size // scale.shape[0]
    d_offset = jnp.sum(d_y, axis=dims)
    d_scale = jnp.sum(d_y * normed, axis=dims)
    core = d_y - (d_offset.reshape(shape) + normed * d_scale.reshape(shape)) / count
    dx = core * (scale * inv).reshape(shape)
    dx = dx + (d_mean.reshape(shape) + 2.0 * centred * d_var.reshape(shape)) / count
    return dx, d_scale, d_offset


_batch_norm.defvjp(_batch_norm_fwd, _batch_norm_bwd)


def batch_norm_train(x, scale, offset, *, axis: int = -1, eps: float = 1e-5):
    return _batch_norm(x, scale, offset, axis % x.ndim, eps)
