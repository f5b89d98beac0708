"""Tagging the bowls of a thali from one photograph.

The canteen's photos come with partial annotations: the person at the counter ticks the dishes that she sees, crosses those she is
sure are missing, and leaves the rest open.  Three pieces of the training loop have custom derivatives.
"""
from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

OPEN = -1          # neither ticked nor crossed
_FAR = -1e30       # stands for log 0 in the counting tables

DISHES = ("dal", "sabzi", "rice", "roti", "raita", "papad", "pickle", "kheer", "sambar", "poriyal")


@dataclasses.dataclass(frozen=True)
class TaggerConfig:
    width: int = 32
    dishes: int = len(DISHES)
    count_weight: float = 0.2
    reduction: str = "mean"


# ---------------------------------------------------------------------------
# partial labels
# ---------------------------------------------------------------------------

def _platter_terms(logits, labels):
    known = labels != OPEN
    target = jnp.where(known, labels, 0).astype(logits.dtype)
    bce = jnp.maximum(logits, 0) - logits * target + jnp.log1p(jnp.exp(-jnp.abs(logits)))
    n_known = jnp.sum(known, axis=-1)
    per_platter = jnp.sum(jnp.where(known, bce, 0.0), axis=-1) / jnp.maximum(n_known, 1)
    return per_platter, known, target, n_known


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def platter_bce(logits, labels, reduction="mean"):
    """Binary cross-entropy over the known dishes of each platter.

    Args:
        logits: float array [platters, dishes].
        labels: int array [platters, dishes] of 1 (there), 0 (missing), -1 (open).
        reduction: "none" gives one value a platter, "sum" their total, "mean" the mean over the platters that carry at least one
            known dish (platters that nobody annotated do not count).

    Returns:
        A scalar, or [platters] for "none".
    """
    per_platter, _, _, n_known = _platter_terms(logits, labels)
    if reduction == "none":
        return per_platter
    total = jnp.sum(per_platter)
    if reduction == "sum":
        return total
    return total / jnp.maximum(jnp.sum(n_known > 0), 1)


def _platter_fwd(logits, labels, reduction):
    return platter_bce(logits, labels, reduction), (logits, labels)


def _platter_bwd(reduction, res, g):
    logits, labels = res
    _, known, target, n_known = _platter_terms(logits, labels)
    d = jnp.where(known, jax.nn.sigmoid(logits) - target, 0.0) / jnp.maximum(n_known, 1)[:, None]
    if reduction == "none":
        d = d * g[:, None]
    elif reduction == "sum":
        d = d * g
    else:
        d = d * (g / logits.shape[0])
    return d, None


platter_bce.defvjp(_platter_fwd, _platter_bwd)


# ---------------------------------------------------------------------------
# how many bowls are on the tray
# ---------------------------------------------------------------------------

def _count_tables(logits):
    """Log pmf of the number of dishes among the first i of one platter, for i = 0..n.  [n+1, n+1]"""
    n = logits.shape[0]
    first = jnp.full((n + 1,), _FAR, logits.dtype).at[0].set(0.0)

    def add(pmf, z):
        shifted = jnp.concatenate([jnp.full((1,), _FAR, pmf.dtype), pmf[:-1]])
        new = jnp.logaddexp(pmf + jax.nn.log_sigmoid(-z), shifted + jax.nn.log_sigmoid(z))
        return new, new

    _, rest = lax.scan(add, first, logits)
    return jnp.concatenate([first[None], rest])


@jax.custom_vjp
def dish_count_nll(logits, count):
    """-log P(exactly ``count`` dishes), dishes being independent with probability sigmoid(logit).

    logits [platters, dishes]; count int [platters], between 0 and the number of dishes.  Returns [platters].
    """
    tables = jax.vmap(_count_tables)(logits)
    return -jnp.take_along_axis(tables[:, -1], count[:, None], axis=1)[:, 0]


def _count_fwd(logits, count):
    before = jax.vmap(_count_tables)(logits)
    return -jnp.take_along_axis(before[:, -1], count[:, None], axis=1)[:, 0], (logits, count, before)


def _count_bwd(res, g):
    logits, count, before = res
    n = logits.shape[1]
    after = jax.vmap(_count_tables)(logits[:, ::-1])[:, ::-1]      # after[:, i]: dishes i..n-1

    def one(z, k, pre, suf):
        j = jnp.arange(n + 1)
        left = k - 1 - j
        others = pre[:-1] + jnp.where(left >= 0, suf[1:][:, jnp.clip(left, 0, n)], _FAR)
        log_with = jax.nn.log_sigmoid(z) + jax.nn.logsumexp(others, axis=-1)
        present = jnp.exp(log_with - pre[-1, k])
        return jax.nn.sigmoid(z) - present

    return g[:, None] * jax.vmap(one)(logits, count, before, after), None


dish_count_nll.defvjp(_count_fwd, _count_bwd)


# ---------------------------------------------------------------------------
# from patches to one vector
# ---------------------------------------------------------------------------

@jax.custom_vjp
def region_logmeanexp(feats, beta, valid):
    """(1/beta) log mean exp(beta x) over the valid regions: a mean for small beta, a maximum for large.

    feats: [batch, regions, channels], beta: [channels] (nonzero), valid: bool [batch, regions], at least one region each.
    """
    z = jnp.where(valid[..., None], beta * feats, _FAR)
    n = jnp.sum(valid, axis=1).astype(feats.dtype)[:, None]
    return (jax.nn.logsumexp(z, axis=1) - jnp.log(n)) / beta


def _lme_fwd(feats, beta, valid):
    z = jnp.where(valid[..., None], beta * feats, _FAR)
    lse = jax.nn.logsumexp(z, axis=1)
    n = jnp.sum(valid, axis=1).astype(feats.dtype)[:, None]
    return (lse - jnp.log(n)) / beta, (feats, beta, z, lse)


def _lme_bwd(res, g):
    feats, beta, z, lse = res
    weight = jnp.exp(z - lse[:, None])
    d_feats = g[:, None] * weight
    tilted = jnp.sum(weight * feats, axis=1)
    pooled = (lse - jnp.log(feats.shape[1])) / beta
    d_beta = jnp.sum(g * (tilted - pooled) / beta, axis=0)
    return d_feats, d_beta, None


region_logmeanexp.defvjp(_lme_fwd, _lme_bwd)


def init(seed: int, cfg: TaggerConfig = TaggerConfig()) -> dict:
    rng = np.random.default_rng(seed)
    return {"beta": jnp.full((cfg.width,), 2.0),
            "head": jnp.asarray(rng.normal(size=(cfg.width, cfg.dishes)) / cfg.width**0.5, jnp.float32),
            "bias": jnp.zeros((cfg.dishes,))}


def training_loss(params, feats, valid, labels, count, cfg: TaggerConfig = TaggerConfig()):
    pooled = region_logmeanexp(feats, params["beta"], valid)
    logits = pooled @ params["head"] + params["bias"]
    return platter_bce(logits, labels, cfg.reduction) + cfg.count_weight * jnp.mean(dish_count_nll(logits, count))
