"""Ranking visitor photographs for trailhead boards and park web pages.

Volunteers grade a photograph from 0 (unusable) to G-1 (cover page).  A backbone gives
region features; the head pools them, compares with palette prototypes and is trained on
the grades.
"""
from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

TINY = 1e-12


@dataclass(frozen=True)
class RankerConfig:
    grades: int = 5
    reduction: str = "mean"
    temperature: float = 0.7


def make_ladder_loss(grades: int, reduction: str = "mean"):
    """Loss of an ordinal ladder with ``grades - 1`` rungs.

    Parameters
    ----------
    grades : int
        Number of grades a volunteer can give.
    reduction : {"mean", "sum", "weighted"}
        "mean" divides the weighted sum by the number of photographs, "weighted"
        divides it by the total weight, "sum" does not divide.

    Returns
    -------
    callable
        ``loss(score, cuts, grade, weight)`` with score (N,), cuts (grades-1,),
        integer grade (N,) and non-negative weight (N,).
    """
    if reduction not in ("mean", "sum", "weighted"):
        raise ValueError(reduction)
    rungs = jnp.arange(grades - 1)

    def per_photo(score, cuts, grade):
        z = score[:, None] - cuts
        passed = (grade[:, None] > rungs).astype(z.dtype)
        return (jax.nn.softplus(z) - passed * z).sum(axis=1), jax.nn.sigmoid(z) - passed

    def reduce(losses, weight):
        total = (weight * losses).sum()
        if reduction == "sum":
            return total
        if reduction == "mean":
            return total / losses.shape[0]
        return total / weight.sum()

    @jax.custom_vjp
    def ladder_loss(score, cuts, grade, weight):
        return reduce(per_photo(score, cuts, grade)[0], weight)

    def fwd(score, cuts, grade, weight):
        losses, resid = per_photo(score, cuts, grade)
        out = reduce(losses, weight)
        return out, (losses, resid, weight, out)

    def bwd(res, g):
        losses, resid, weight, out = res
        scale = g if reduction == "sum" else g / losses.shape[0]
        dz = scale * weight[:, None] * resid
        d_weight = scale * (losses - out if reduction == "weighted" else losses)
        return dz.sum(axis=1), -dz.sum(axis=0), None, d_weight

    ladder_loss.defvjp(fwd, bwd)
    return ladder_loss


def _vote(scores, seen, temperature):
    z = jnp.where(seen, scores / temperature, -jnp.inf)
    top = jnp.max(z, axis=-1, keepdims=True)
    e = jnp.where(seen, jnp.exp(z - jnp.where(jnp.isfinite(top), top, 0.0)), 0.0)
    total = e.sum(axis=-1, keepdims=True)
    return e / jnp.where(total > 0, total, 1.0)


@jax.custom_vjp
def region_vote_pool(scores: Array, feats: Array, seen: Array, temperature: Array) -> Array:
    """Pool region features by softmaxed votes.

    ``scores`` is [photo, region], ``feats`` [photo, region, feature], ``seen`` a boolean
    [photo, region], ``temperature`` a scalar that is learned as well.  A photograph of
    which no region is seen pools to zeros.
    """
    return jnp.einsum("nr,nrd->nd", _vote(scores, seen, temperature), feats)


def _pool_fwd(scores, feats, seen, temperature):
    w = _vote(scores, seen, temperature)
    return jnp.einsum("nr,nrd->nd", w, feats), (w, scores, feats, seen, temperature)


def _pool_bwd(res, g):
    w, scores, feats, seen, temperature = res
    gw = jnp.einsum("nd,nrd->nr", g, feats)
    gz = w * (gw - (w * gw).sum(axis=-1, keepdims=True))
    d_temp = -jnp.where(seen, gz * scores, 0.0).sum() / temperature ** 2
    return gz / temperature, w[..., None] * g[:, None, :], None, d_temp


region_vote_pool.defvjp(_pool_fwd, _pool_bwd)


def _unit(v):
    n = jnp.sqrt((v * v).sum(-1, keepdims=True) + TINY)
    return v / n, n


@jax.custom_vjp
def palette_cosine_head(feats, prototypes, sharpness):
    """sharpness * cosine between every photograph (N, D) and every prototype (K, D)."""
    return sharpness * _unit(feats)[0] @ _unit(prototypes)[0].T


def _head_fwd(feats, prototypes, sharpness):
    f, nf = _unit(feats)
    p, _ = _unit(prototypes)
    cos = f @ p.T
    return sharpness * cos, (f, nf, p, cos, sharpness)


def _head_bwd(res, g):
    f, nf, p, cos, sharpness = res
    gc = sharpness * g
    gf = gc @ p
    gp = gc.T @ f
    d_feats = (gf - f * (f * gf).sum(-1, keepdims=True)) / nf
    d_protos = gp - p * (p * gp).sum(-1, keepdims=True)
    return d_feats, d_protos, (g * cos).sum()


palette_cosine_head.defvjp(_head_fwd, _head_bwd)


def init_head(key, k, d):
    """Prototypes start on the sphere; training moves them freely."""
    p = jax.random.normal(key, (k, d))
    return {"prototypes": _unit(p)[0], "sharpness": jnp.asarray(8.0), "mix": jnp.zeros((k,))}


def training_loss(head, batch, config: RankerConfig = RankerConfig()):
    loss = make_ladder_loss(config.grades, config.reduction)
    pooled = region_vote_pool(batch["scores"], batch["feats"], batch["seen"],
                              jnp.asarray(config.temperature))
    logits = palette_cosine_head(pooled, head["prototypes"], head["sharpness"])
    return loss(logits @ head["mix"], head["cuts"], batch["grade"], batch["weight"])
