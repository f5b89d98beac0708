"""Count-based word statistics and ranking metrics with cheap backward passes."""
from functools import partial
from typing import Optional

import jax
import jax.numpy as jnp
from jax import lax
import numpy as np


# -- PPMI --------------------------------------------------------------------


def _context_logprob(col, alpha):
    powered = col**alpha
    return alpha * jnp.log(col) - jnp.log(powered.sum())


@partial(jax.custom_vjp, nondiff_argnames=("alpha", "shift"))
def ppmi_matrix(counts, alpha=1.0, shift=1.0):
    """(Shifted) positive pointwise mutual information.

    Parameters
    ----------
    counts : (words, contexts) array
        Soft co-occurrence counts, non-negative, with no empty row or column.
    alpha : float
        Context distribution smoothing of Levy, Goldberg & Dagan (2015); 0.75 is their recommendation, 1 is off.
    shift : float
        Number of negative samples ``k``; ``log k`` is subtracted before clipping at zero.
    """
    return _ppmi(counts, alpha, shift)[0]


def _ppmi(counts, alpha, shift):
    row, col = counts.sum(1), counts.sum(0)
    safe = jnp.where(counts > 0, counts, 1.0)
    pmi = jnp.log(safe) - jnp.log(row)[:, None] - _context_logprob(col, alpha)[None, :] - np.log(shift)
    keep = (counts > 0) & (pmi > 0)
    return jnp.where(keep, pmi, 0.0), keep


def _ppmi_fwd(counts, alpha, shift):
    out, keep = _ppmi(counts, alpha, shift)
    return out, (counts, keep)


def _ppmi_bwd(alpha, shift, res, g):
    counts, keep = res
    g = jnp.where(keep, g, 0.0)
    row, col = counts.sum(1), counts.sum(0)
    d = g / jnp.where(keep, counts, 1.0)
    d = d - (g.sum(1) / row)[:, None]
    # log-normaliser of the smoothed context distribution
    norm = col ** (alpha - 1.0) / jnp.sum(col**alpha)
    d = d - (alpha * g.sum(0) / col - g.sum() * norm)[None, :]
    return (d,)


ppmi_matrix.defvjp(_ppmi_fwd, _ppmi_bwd)


# -- ERR ---------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def expected_reciprocal_rank(grades, mask, max_grade=4):
    """Expected reciprocal rank (Chapelle et al. 2009) of lists that are already in rank order.

    Args:
      grades: float `(..., docs)`, expected relevance grade in `[0, max_grade]`.
      mask: bool `(..., docs)`, False for padding; padded positions take no rank, wherever they stand.
      max_grade: int.

    Returns:
      `(...)` metric.
    """
    return _err(grades, mask, max_grade)[0]


def _stop_prob(grades, mask, max_grade):
    return jnp.where(mask, (jnp.exp2(grades) - 1.0) / 2.0**max_grade, 0.0)


def _err(grades, mask, max_grade):
    stop = _stop_prob(grades, mask, max_grade)
    gain = jnp.where(mask, 1.0 / jnp.maximum(jnp.cumsum(mask, -1), 1), 0.0).astype(stop.dtype)
    reach = jnp.cumprod(1.0 - stop, -1)
    reach = jnp.concatenate([jnp.ones_like(reach[..., :1]), reach[..., :-1]], -1)
    return jnp.sum(gain * stop * reach, -1), (stop, gain, reach)


def _err_fwd(grades, mask, max_grade):
    out, aux = _err(grades, mask, max_grade)
    return out, (grades, mask) + aux


def _err_bwd(max_grade, res, g):
    grades, mask, stop, gain, reach = res

    # value of what follows position k given that the user gets past it; no division by 1 - stop
    def step(after, inp):
        r, c = inp
        return c * r + (1.0 - r) * after, after

    xs = (jnp.moveaxis(stop, -1, 0), jnp.moveaxis(gain, -1, 0))
    _, after = lax.scan(step, jnp.zeros_like(stop[..., 0]), xs, reverse=True)
    d_stop = reach * (gain - jnp.moveaxis(after, 0, -1)) * g[..., None]
    d_grade = d_stop * np.log(2.0) * jnp.exp2(grades) / 2.0**max_grade
    return jnp.where(mask, d_grade, 0.0), None


expected_reciprocal_rank.defvjp(_err_fwd, _err_bwd)


# -- sub-word embeddings -------------------------------------------------------


def hash_trigrams(word: str, buckets: int, width: int) -> np.ndarray:
    """Bucket ids of the character trigrams of ``<word>``, padded with -1 to ``width``."""
    text = f"<{word}>"
    ids = [sum(ord(c) * 131**k for k, c in enumerate(text[i : i + 3])) % buckets for i in range(len(text) - 2)]
    ids = ids[:width]
    return np.array(ids + [-1] * (width - len(ids)), dtype=np.int32)


def trigram_embedding(table: jax.Array, ids: jax.Array, weights: Optional[jax.Array] = None) -> jax.Array:
    """Word vectors as scaled sums of hashed trigram vectors.

    Args:
      table: [buckets, dim].
      ids: [words, width] integer buckets, -1 where a word has fewer trigrams. Ids may repeat.
      weights: optional [words, width] weight per trigram (e.g. inverse document frequency); what it holds at padded
        places does not matter.

    Returns:
      [words, dim], each sum divided by the square root of the number of trigrams of the word.
    """
    if weights is None:
        weights = jnp.ones(ids.shape, table.dtype)
    valid = ids >= 0
    scale = lax.rsqrt(jnp.maximum(valid.sum(-1, keepdims=True), 1).astype(table.dtype))

    @jax.custom_gradient
    def gather_sum(table, weights):
        rows = table[ids]
        w = jnp.where(valid, weights, 0.0) * scale

        def backward(g):
            spread = (weights * scale)[..., None] * g[:, None, :]
            d_table = jnp.zeros_like(table).at[ids].add(spread)
            d_weights = jnp.where(valid, scale * jnp.einsum("wkd,wd->wk", table[ids], g), 0.0)
            return d_table, d_weights

        return jnp.einsum("wk,wkd->wd", w, rows), backward

    return gather_sum(table, weights)


def nearest_loss(params, ids, targets):
    """Cosine regression of word vectors to targets."""
    v = trigram_embedding(params["table"], ids) @ params["proj"]
    v = v / (jnp.linalg.norm(v, axis=-1, keepdims=True) + 1e-6)
    return jnp.mean(1.0 - jnp.sum(v * targets, -1))
