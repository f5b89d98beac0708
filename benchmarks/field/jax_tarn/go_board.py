# Pieces of a small Go-playing network: chain pooling, symmetry mixing of the
# policy planes, the search target and the territory head.

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = Any


@dataclass
class NetConfig:
    size: int = 9
    max_chains: int = 40
    search_tau: float = 1.0
    sharpness: float = 0.3


def _symmetry(plane: Array, k: int) -> Array:
    """Apply the k-th symmetry of the square to the last two axes (k = 0 .. 7)."""
    turned = jnp.rot90(plane, k % 4, axes=(-2, -1))
    return jnp.flip(turned, axis=-1) if k >= 4 else turned


@jax.custom_vjp
def mix_symmetries(planes: Array, mixing: Array) -> Array:
    """Weighted sum of the eight views of each plane: planes (B, C, S, S), mixing (C, 8)."""
    out = jnp.zeros_like(planes)
    for k in range(8):
        out = out + mixing[:, k, None, None] * _symmetry(planes, k)
    return out


def _mix_fwd(planes, mixing):
    return mix_symmetries(planes, mixing), (planes, mixing)


def _mix_bwd(res, g):
    planes, mixing = res
    d_planes = jnp.zeros_like(planes)
    d_mixing = []
    for k in range(8):
        d_planes = d_planes + mixing[:, k, None, None] * _symmetry(g, k)
        d_mixing.append(jnp.sum(g * _symmetry(planes, k), axis=(0, 2, 3)))
    return d_planes, jnp.stack(d_mixing, axis=1)


mix_symmetries.defvjp(_mix_fwd, _mix_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def chain_pool(
    features: Array,  # (B, P, C), one row per point of the board
    gain: Array,  # (C,) or (B, 1, C)
    chains: Array,  # (B, P) integers: index of the chain, -1 on empty points
    max_chains: int,
) -> Array:
    """Replace the features of every stone by ``gain`` times the mean of its chain.

    Empty points keep their features as they are.
    """
    return _pool_fwd(features, gain, chains, max_chains)[0]


def _chain_mean(x, chains, max_chains):
    def one(x, chains):
        stone = chains >= 0
        slot = jnp.where(stone, chains, max_chains)
        sums = jnp.zeros((max_chains + 1, x.shape[-1]), x.dtype).at[slot].add(x)
        size = jnp.zeros(max_chains + 1, x.dtype).at[slot].add(1)
        return (sums / jnp.maximum(size, 1)[:, None])[slot]

    return jax.vmap(one)(x, chains)


def _pool_fwd(features, gain, chains, max_chains):
    mean = _chain_mean(features, chains, max_chains)
    out = jnp.where(chains[..., None] >= 0, gain * mean, features)
    return out, (mean, gain, chains)


def _pool_bwd(max_chains, res, g):
    mean, gain, chains = res
    stone = chains[..., None] >= 0
    g_stone = jnp.where(stone, g, 0)
    pooled = _chain_mean(g_stone * gain, chains, max_chains)
    d_features = jnp.where(stone, pooled, g)
    d_gain = jnp.sum(g_stone * mean, axis=1, keepdims=True)
    if gain.ndim == 1:
        d_gain = d_gain.sum(axis=(0, 1))
    elif gain.shape[0] == 1:
        d_gain = d_gain.sum(axis=0, keepdims=True)
    return d_features, d_gain, np.zeros(chains.shape, jax.dtypes.float0)


chain_pool.defvjp(_pool_fwd, _pool_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def search_cross_entropy(logits: Array, visits: Array, legal: Array, tau: float = 1.0) -> Array:
    """Cross entropy between the search and the network, per position.

    The target is proportional to ``visits ** (1 / tau)`` on the legal moves.
    ``logits`` and ``visits`` are (B, M); the visits (prior counts included) are
    positive.  ``legal`` is a boolean mask with at least one move per row.  The
    gradient of the visits is used to tune the prior counts.
    """
    return _search_fwd(logits, visits, legal, tau)[0]


def _search_fwd(logits, visits, legal, tau):
    log_visits = jnp.where(legal, jnp.log(visits) / tau, -jnp.inf)
    target = jax.nn.softmax(log_visits, axis=-1)
    log_p = jax.nn.log_softmax(jnp.where(legal, logits, -jnp.inf), axis=-1)
    cost = jnp.where(legal, -log_p, 0)
    loss = jnp.sum(target * cost, axis=-1)
    return loss, (target, log_p, cost, loss, visits)


def _search_bwd(tau, res, g):
    target, log_p, cost, loss, visits = res
    g = g[:, None]
    d_logits = g * (jnp.exp(log_p) - target)
    d_visits = g * target * (cost - loss[:, None]) / visits
    return d_logits, d_visits, None


search_cross_entropy.defvjp(_search_fwd, _search_bwd)


@jax.custom_jvp
def territory_win_rate(ownership: Array, komi: Array, sharpness: Array) -> Array:
    """Chance that black wins, from ownership logits (B, P); komi and sharpness
    are scalars or (B,)."""
    score = jnp.sum(jnp.tanh(ownership), axis=-1) - komi
    return jax.nn.sigmoid(sharpness * score)


@territory_win_rate.defjvp
def _territory_jvp(primals, tangents):
    ownership, komi, sharpness = primals
    d_own, d_komi, d_sharp = tangents
    held = jnp.tanh(ownership)
    score = jnp.sum(held, axis=-1) - komi
    rate = jax.nn.sigmoid(sharpness * score)
    d_score = jnp.sum((1 - held * held) * d_own, axis=-1) - d_komi
    return rate, rate * (1 - rate) * (sharpness * d_score + d_sharp * score)


def position_loss(params: dict, position: dict, config: NetConfig = NetConfig()):
    """Policy and value loss of a batch of positions."""
    x = chain_pool(position["features"], params["gain"], position["chains"], config.max_chains)
    b = x.shape[0]
    planes = jnp.swapaxes(x, 1, 2).reshape(b, -1, config.size, config.size)
    planes = mix_symmetries(planes, params["mixing"])
    logits = jnp.einsum("bcij,c->bij", planes, params["policy"]).reshape(b, -1)
    owner = jnp.einsum("bcij,c->bij", planes, params["owner"]).reshape(b, -1)
    policy = search_cross_entropy(logits, position["visits"], position["legal"], config.search_tau)
    win = territory_win_rate(owner, position["komi"], config.sharpness)
    return jnp.mean(policy + (win - position["black_won"]) ** 2)
