# Text and recommendation blocks used by the shelf ranker.
from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array, Bool, Float, Int


# ---- word vectors ------------------------------------------------------------------------------


def _glove_terms(params, rows, cols, counts, x_max, power):
    dtype = params["word"].dtype
    seen = counts > 0
    x = jnp.where(seen, counts, 1).astype(dtype)
    weight = jnp.where(seen, jnp.minimum((x / x_max) ** power, 1.0), 0.0)
    w, c = params["word"][rows], params["context"][cols]
    err = (w * c).sum(-1) + params["word_bias"][rows] + params["context_bias"][cols] - jnp.log(x)
    return w, c, weight, err, seen


def _scale(seen, reduction, dtype):
    if reduction == "sum":
        return jnp.ones((), dtype)
    return 1.0 / jnp.maximum(seen.sum(), 1).astype(dtype)


@partial(jax.custom_vjp, nondiff_argnums=(4, 5, 6))
def glove_objective(
    params: dict[str, Float[Array, "..."]],
    rows: Int[Array, "pairs"],
    cols: Int[Array, "pairs"],
    counts: Int[Array, "pairs"],
    x_max: float = 100.0,
    power: float = 0.75,
    reduction: str = "mean",
) -> Float[Array, ""]:
    """Weighted least squares of GloVe.

    ``params`` has "word" and "context" (V, D) and "word_bias" and "context_bias" (V,). A pair with
    count 0 is padding. "mean" averages over the pairs that are not padding. A word may occur in
    any number of pairs.
    """
    _, _, weight, err, seen = _glove_terms(params, rows, cols, counts, x_max, power)
    return _scale(seen, reduction, err.dtype) * jnp.sum(weight * err**2)


def _glove_fwd(params, rows, cols, counts, x_max, power, reduction):
    return (
        glove_objective(params, rows, cols, counts, x_max, power, reduction),
        (params, rows, cols, counts),
    )


def _glove_bwd(x_max, power, reduction, res, g):
    params, rows, cols, counts = res
    w, c, weight, err, seen = _glove_terms(params, rows, cols, counts, x_max, power)
    e = 2.0 * g * _scale(seen, reduction, err.dtype) * weight * err
    zeros = jax.tree_util.tree_map(jnp.zeros_like, params)
    grads = {
        "word": zeros["word"].at[rows].add(e[:, None] * c),
        "context": zeros["context"].at[cols].add(e[:, None] * w),
        "word_bias": zeros["word_bias"].at[rows].add(e),
        "context_bias": zeros["context_bias"].at[cols].add(e),
    }
    return grads, None, None, None


glove_objective.defvjp(_glove_fwd, _glove_bwd)


# ---- user profile ------------------------------------------------------------------------------


def _recency(half_life, items, ages):
    w = jnp.exp2(-ages / half_life)
    return jnp.where(items >= 0, w, 0.0)


@jax.custom_vjp
def decayed_profile(
    table: Float[Array, "items dim"],
    half_life: Float[Array, ""],
    items: Int[Array, "users time"],
    ages: Int[Array, "users time"],
) -> Float[Array, "users dim"]:
    """Recency weighted mean of the vectors of what each user has read.

    ``items`` are table rows, -1 pads short histories; people re-read, so that an item can come
    back in a history at another age. ``ages`` are whole days. A user without history gets zeros.
    """
    return _profile_fwd(table, half_life, items, ages)[0]


def _profile_fwd(table, half_life, items, ages):
    w = _recency(half_life, items, ages)
    total = w.sum(-1, keepdims=True)
    total = jnp.where(total > 0, total, 1.0)
    p = jnp.einsum("ut,utd->ud", w, table[jnp.maximum(items, 0)]) / total
    return p, (table, half_life, items, ages, w, total, p)


def _profile_bwd(res, g):
    table, half_life, items, ages, w, total, p = res
    g = g / total
    n_items = table.shape[0]
    # (users, items) weights, so that the table gradient is one matmul
    slot = jnp.where(items >= 0, items, n_items)
    user = jnp.arange(items.shape[0])[:, None]
    dense = jnp.zeros((items.shape[0], n_items), w.dtype).at[user, slot].set(w, mode="drop")
    table_bar = dense.T @ g
    # d w / d half_life = w * ln2 * age / half_life**2
    dw = w * (jnp.log(2.0) * ages / half_life**2)
    pull = jnp.einsum("utd,ud->ut", table[jnp.maximum(items, 0)] - p[:, None, :], g)
    return table_bar, (dw * pull).sum(), None, None


decayed_profile.defvjp(_profile_fwd, _profile_bwd)


# ---- encoder -----------------------------------------------------------------------------------

_ACT = {
    "tanh": (jnp.tanh, lambda a, h: 1.0 - h * h),
    "relu": (lambda a: jnp.maximum(a, 0.0), lambda a, h: (a > 0).astype(a.dtype)),
    "softplus": (jax.nn.softplus, lambda a, h: jax.nn.sigmoid(a)),
}


class HighwayLayer:
    """y = t * act(x Wh + bh) + (1 - t) * x with t = sigmoid(x Wt + bt)."""

    def __init__(self, dim: int, activation: str = "tanh", gate_bias: float = -1.0):
        self.dim = dim
        self.activation = activation
        self.gate_bias = gate_bias

    def init(self, key):
        k1, k2 = jax.random.split(key)
        s = self.dim**-0.5
        return {
            "wh": s * jax.random.normal(k1, (self.dim, self.dim)),
            "bh": jnp.zeros((self.dim,)),
            "wt": s * jax.random.normal(k2, (self.dim, self.dim)),
            "bt": jnp.full((self.dim,), self.gate_bias),
        }

    @staticmethod
    @partial(jax.custom_vjp, nondiff_argnums=(2,))
    def carry(x, params, activation="tanh"):
        """x is (..., dim). Only x is kept for the backward pass, both branches are recomputed."""
        h = _ACT[activation][0](x @ params["wh"] + params["bh"])
        t = jax.nn.sigmoid(x @ params["wt"] + params["bt"])
        return x + t * (h - x)

    def __call__(self, params, x):
        return self.carry(x, params, self.activation)


def _carry_fwd(x, params, activation):
    return HighwayLayer.carry(x, params, activation), (x, params)


def _carry_bwd(activation, res, g):
    x, params = res
    act, slope = _ACT[activation]
    a = x @ params["wh"] + params["bh"]
    h = act(a)
    t = jax.nn.sigmoid(x @ params["wt"] + params["bt"])
    da = g * t * slope(a, h)
    dz = g * (h - x) * t * (1.0 - t)
    x_bar = g * (1.0 - t) + da @ params["wh"].T + dz @ params["wt"].T
    flat = x.reshape(-1, x.shape[-1])
    da, dz = da.reshape(flat.shape), dz.reshape(flat.shape)
    return x_bar, {"wh": flat.T @ da, "bh": da.sum(0), "wt": flat.T @ dz, "bt": dz.sum(0)}


HighwayLayer.carry.defvjp(_carry_fwd, _carry_bwd)


# ---- ranking -----------------------------------------------------------------------------------


def _soft_positions(scores, mask, temperature):
    n = scores.shape[-1]
    diff = (scores[:, None, :] - scores[:, :, None]) / temperature
    beats = jnp.where(mask[:, None, :] & ~jnp.eye(n, dtype=bool), jax.nn.sigmoid(diff), 0.0)
    return beats.sum(-1)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def rank_biased_utility(
    scores: Float[Array, "lists docs"],
    gains: Float[Array, "lists docs"],
    mask: Bool[Array, "lists docs"],
    persistence: float = 0.8,
    temperature: float = 1.0,
) -> Float[Array, "lists"]:
    """Smooth rank-biased precision: (1 - p) sum_i gain_i p ** position_i.

    position_i counts, softly, the documents that score above document i. Documents with mask False
    are padding: they have no position, push nobody down, and their scores and gains are arbitrary.
    """
    return _utility_fwd(scores, gains, mask, persistence, temperature)[0]


def _utility_fwd(scores, gains, mask, persistence, temperature):
    position = _soft_positions(scores, mask, temperature)
    discount = jnp.where(mask, (1.0 - persistence) * persistence**position, 0.0)
    return (gains * discount).sum(-1), (scores, gains, discount)


def _utility_bwd(persistence, temperature, res, g):
    scores, gains, discount = res
    g = g[:, None]
    # discount is zero for padding, which keeps it out of the sums below
    position_bar = g * gains * discount * jnp.log(persistence)
    p = jax.nn.sigmoid((scores[:, None, :] - scores[:, :, None]) / temperature)
    slope = p * (1.0 - p) / temperature
    flow = position_bar[:, :, None] * slope
    scores_bar = flow.sum(1) - flow.sum(2)
    return scores_bar, g * discount, None


rank_biased_utility.defvjp(_utility_fwd, _utility_bwd)


# ---- self-supervision --------------------------------------------------------------------------


@jax.custom_gradient
def frozen_target_similarity(pred, target):
    """Negative cosine similarity, averaged over the batch, as in SimSiam.

    The target branch is frozen on purpose: no gradient reaches ``target`` (its cotangent is zero),
    only the predictor learns. Vectors shorter than 1e-8 are divided by 1e-8.
    """
    eps = 1e-8
    n_p = jnp.linalg.norm(pred, axis=-1, keepdims=True)
    n_t = jnp.linalg.norm(target, axis=-1, keepdims=True)
    d_p = jnp.maximum(n_p, eps)
    u = pred / d_p
    v = target / jnp.maximum(n_t, eps)
    cos = (u * v).sum(-1, keepdims=True)

    def grad(g):
        tangent = v - jnp.where(n_p > eps, cos * u, 0.0)
        return -g / cos.size * tangent / d_p, jnp.zeros_like(target)

    return -cos.mean(), grad
