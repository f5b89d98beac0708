"""Shop and league models: next basket, list calibration, online ratings."""

from functools import partial
from typing import Dict

import jax
import jax.numpy as jnp
from jax import Array, lax

ELO_SCALE = 173.7178  # 400 / ln 10


# next basket ---------------------------------------------------------------


def _basket_weights(baskets):
    present = baskets >= 0
    size = jnp.maximum(present.sum(axis=1, keepdims=True), 1)
    return present, present / size


@jax.custom_vjp
def fpmc_score(params: Dict[str, Array], users: Array, baskets: Array, items: Array) -> Array:
    """Factorised Markov chain score of ``items`` after ``baskets``.

    params:  user (U, D), item_user (I, D), item_last (I, D), last (I, D)
    users:   (B,) ids
    baskets: (B, L) ids, one entry per unit bought, -1 pads
    items:   (B,) candidate ids
    returns  (B,)
    """
    taste = jnp.sum(params["user"][users] * params["item_user"][items], axis=-1)
    present, weight = _basket_weights(baskets)
    rows = params["last"][jnp.where(present, baskets, 0)]
    context = jnp.einsum("bl,bld->bd", weight.astype(rows.dtype), rows)
    return taste + jnp.sum(params["item_last"][items] * context, axis=-1)


def _fpmc_fwd(params, users, baskets, items):
    return fpmc_score(params, users, baskets, items), (params, users, baskets, items)


def _fpmc_bwd(res, g):
    params, users, baskets, items = res
    n_items = params["last"].shape[0]
    present, weight = _basket_weights(baskets)
    ids = jnp.where(present, baskets, n_items)
    batch = jnp.arange(baskets.shape[0])[:, None]
    # (B, I) membership: two dense products beat a scatter of (B, L, D)
    member = jnp.zeros((baskets.shape[0], n_items), g.dtype)
    member = member.at[batch, ids].set(weight.astype(g.dtype), mode="drop")

    g = g[:, None]
    last = jnp.where(present, baskets, 0)
    context = jnp.einsum("bl,bld->bd", weight.astype(g.dtype), params["last"][last])
    grads = {
        "user": jnp.zeros_like(params["user"]).at[users].add(g * params["item_user"][items]),
        "item_user": jnp.zeros_like(params["item_user"]).at[items].add(g * params["user"][users]),
        "item_last": jnp.zeros_like(params["item_last"]).at[items].add(g * context),
        "last": member.T @ (g * params["item_last"][items]),
    }
    return grads, None, None, None


fpmc_score.defvjp(_fpmc_fwd, _fpmc_bwd)


def bpr_step(params, users, baskets, bought, sampled, lr=0.05, l2=1e-4):
    """One SGD step on the pairwise ranking loss."""

    def loss(p):
        margin = fpmc_score(p, users, baskets, bought) - fpmc_score(p, users, baskets, sampled)
        reg = sum(jnp.sum(v**2) for v in p.values())
        return jnp.mean(jax.nn.softplus(-margin)) + l2 * reg

    value, grads = jax.value_and_grad(loss)(params)
    return value, jax.tree_util.tree_map(lambda p, d: p - lr * d, params, grads)


# list calibration ----------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def calibration_kl(weights: Array, genres: Array, target: Array, alpha: float = 0.01) -> Array:
    """KL(target || genre mix of a slate), mix smoothed by alpha.

    weights (K,) positive, any scale; genres (K, G) nonnegative; target (G,) positive.
    0 <= alpha <= 1; alpha 0 wants every genre in the slate.
    """
    mix = weights @ genres / jnp.sum(weights)
    smooth = (1.0 - alpha) * mix + alpha * target
    return jnp.sum(target * jnp.log(target / smooth))


@calibration_kl.defjvp
def _calibration_kl_jvp(alpha, primals, tangents):
    weights, genres, target = primals
    d_weights, d_genres, d_target = tangents
    total = jnp.sum(weights)
    mix = weights @ genres / total
    smooth = (1.0 - alpha) * mix + alpha * target
    d_mix = (d_weights @ (genres - mix) + weights @ d_genres) / total
    d_smooth = (1.0 - alpha) * d_mix + alpha * d_target
    log_ratio = jnp.log(target / smooth)
    out = jnp.sum(target * log_ratio)
    return out, jnp.sum(d_target * (log_ratio + 1.0) - target / smooth * d_smooth)


# online ratings ------------------------------------------------------------


def _play(ratings, k, winner, loser):
    gap = ratings[winner] - ratings[loser]
    gain = k * jax.nn.sigmoid(-gap / ELO_SCALE)
    return ratings.at[winner].add(gain).at[loser].add(-gain), jax.nn.softplus(-gap / ELO_SCALE)


@jax.custom_vjp
def elo_replay(ratings: Array, k: Array, winners: Array, losers: Array):
    """Replay games in order; (final ratings (N,), log loss of the forecasts).

    ratings (N,) at the start, k scalar gain, winners / losers (G,) player ids.
    """

    def step(carry, game):
        ratings, loss = carry
        ratings, nll = _play(ratings, k, *game)
        return (ratings, loss + nll), None

    zero = jnp.zeros((), ratings.dtype)
    (ratings, loss), _ = lax.scan(step, (ratings, zero), (winners, losers))
    return ratings, loss


def _elo_fwd(ratings, k, winners, losers):
    def step(carry, game):
        ratings, loss = carry
        ratings, nll = _play(ratings, k, *game)
        winner, loser = game
        return (ratings, loss + nll), ratings[winner] - ratings[loser]

    zero = jnp.zeros((), ratings.dtype)
    (ratings, loss), gaps = lax.scan(step, (ratings, zero), (winners, losers))
    return (ratings, loss), (k, winners, losers, gaps)


def _elo_bwd(res, cotangents):
    k, winners, losers, gaps = res
    g_ratings, g_loss = cotangents

    def step(carry, game):
        g, g_k = carry
        winner, loser, gap = game
        upset = jax.nn.sigmoid(-gap / ELO_SCALE)
        g_gain = g[winner] - g[loser]
        slope = -upset * (1.0 - upset) / ELO_SCALE
        g_gap = g_gain * k * slope - g_loss * upset / ELO_SCALE
        return (g.at[winner].add(g_gap).at[loser].add(-g_gap), g_k + g_gain * upset), None

    init = (g_ratings, jnp.zeros_like(k))
    (g, g_k), _ = lax.scan(step, init, (winners, losers, gaps), reverse=True)
    return g, g_k, None, None


elo_replay.defvjp(_elo_fwd, _elo_bwd)


def tune_k(ratings, winners, losers, k=24.0, steps=50, lr=2.0):
    """Gradient descent on the gain for a season of games."""
    k = jnp.asarray(k, ratings.dtype)
    grad = jax.jit(jax.grad(lambda k: elo_replay(ratings, k, winners, losers)[1]))
    for _ in range(steps):
        k = k - lr * grad(k)
    return k
