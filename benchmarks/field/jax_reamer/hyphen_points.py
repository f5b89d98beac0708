"""Hyphenation points for a small typesetting engine.

A word comes in as letter ids, padded with 0 to the longest word of the batch.
A character model scores every gap between letters; this file has the pieces
around that model whose gradients we wrote out by hand because the compiled
version on the editors' laptops ran out of memory.
"""
from functools import partial

import jax
import jax.numpy as jnp

PAD = 0
EMPTY_SCORE = -30.0


def _shifted(x, radius, fill):
    """(words, letters) -> (words, letters, 2*radius+1); the last axis runs over the neighbours."""
    n = x.shape[1]
    padded = jnp.pad(x, ((0, 0), (radius, radius)), constant_values=fill)
    return jnp.stack([padded[:, o:o + n] for o in range(2 * radius + 1)], axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def smooth_gap_scores(scores, temperature, valid, radius=1):
    """Soft maximum (log-mean-exp) of the gap scores around each letter.

    Args:
      scores: (words, letters) float scores.
      temperature: positive scalar; small values approach the plain maximum.
      valid: (words, letters) bool, letters that exist.
      radius: how many letters either side are looked at (static).

    Returns:
      (words, letters). Where no valid letter lies within reach the score is
      ``EMPTY_SCORE``.
    """
    return _gap_fwd(scores, temperature, valid, radius)[0]


def _gap_fwd(scores, temperature, valid, radius):
    near = _shifted(scores, radius, 0.0)
    ok = _shifted(valid, radius, False)
    count = ok.sum(-1)
    z = jnp.where(ok, near / temperature, -jnp.inf)
    top = jnp.where(count > 0, z.max(-1), 0.0)
    e = jnp.where(ok, jnp.exp(jnp.where(ok, z, 0.0) - top[..., None]), 0.0)
    total = e.sum(-1)
    lme = jnp.log(jnp.where(count > 0, total / jnp.maximum(count, 1), 1.0)) + top
    out = jnp.where(count > 0, temperature * lme, EMPTY_SCORE)
    share = e / jnp.where(count > 0, total, 1.0)[..., None]
    spread = jnp.where(count > 0, lme - (share * near).sum(-1) / temperature, 0.0)
    return out, (share, spread)


def _gap_bwd(radius, res, g):
    share, spread = res
    n = g.shape[1]
    pull = share * g[..., None]
    buf = jnp.zeros((g.shape[0], n + 2 * radius), g.dtype)
    for o in range(2 * radius + 1):
        buf = buf.at[:, o:o + n].add(pull[..., o])
    return buf[:, radius:radius + n], (g * spread).sum(), None


smooth_gap_scores.defvjp(_gap_fwd, _gap_bwd)


@jax.custom_vjp
def letter_blend(table, ids, weights):
    """Weighted mean of letter vectors, one vector per word.

    table (alphabet, dim); ids int (words, letters) where PAD letters are left
    out of the mean; weights (words, letters), positive, usually the output of
    a small scoring layer.
    """
    return _blend_fwd(table, ids, weights)[0]


def _blend_fwd(table, ids, weights):
    keep = (ids != PAD).astype(table.dtype)
    w = weights * keep
    total = jnp.maximum(w.sum(1), 1e-9)
    vecs = table[ids]
    out = jnp.einsum("bl,bld->bd", w, vecs) / total[:, None]
    return out, (table, ids, w, total, out)


def _blend_bwd(res, g):
    table, ids, w, total, out = res
    g = g / total[:, None]
    vecs = table[ids]
    d_w = jnp.einsum("bd,bld->bl", g, vecs - out[:, None])
    d_vec = w[..., None] * g[:, None]
    d_table = jnp.zeros_like(table).at[ids.reshape(-1)].add(d_vec.reshape(-1, table.shape[1]))
    return d_table, None, d_w


letter_blend.defvjp(_blend_fwd, _blend_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def hyphen_bce(logits, targets, mask, positive_weight, reduction="word"):
    """Binary cross entropy of hyphen / no hyphen.

    ``targets`` are integers 0 or 1, ``mask`` is boolean; both (words, gaps).
    ``positive_weight`` (scalar) multiplies the loss of true hyphens.
    reduction: "word" averages inside each word and then over the words that
    have a gap at all, "gap" averages over all gaps, "sum" adds up.
    """
    return _bce_fwd(logits, targets, mask, positive_weight, reduction)[0]


def _gap_weights(mask, reduction, dtype):
    m = mask.astype(dtype)
    if reduction == "sum":
        return m
    if reduction == "gap":
        return m / jnp.maximum(m.sum(), 1)
    if reduction == "word":
        per_word = m.sum(1, keepdims=True)
        words = jnp.maximum((per_word > 0).sum(), 1)
        return m / jnp.maximum(per_word, 1) / words
    raise ValueError(f"unknown reduction {reduction!r}")


def _bce_fwd(logits, targets, mask, positive_weight, reduction):
    y = targets.astype(logits.dtype)
    w = _gap_weights(mask, reduction, logits.dtype)
    hit = y * jax.nn.softplus(-logits)
    miss = (1 - y) * jax.nn.softplus(logits)
    loss = (w * (positive_weight * hit + miss)).sum()
    return loss, (logits, y, w, positive_weight, (w * hit).sum())


def _bce_bwd(reduction, res, g):
    logits, y, w, positive_weight, hits = res
    p = jax.nn.sigmoid(logits)
    d = w * ((1 - y) * p - positive_weight * y * (1 - p))
    return g * d, None, None, g * hits


hyphen_bce.defvjp(_bce_fwd, _bce_bwd)


def make_prefix_memory(from_end=False):
    """Exponentially fading memory of the letters read so far.

    ``from_end=True`` reads the word from its last letter, so suffixes count.
    The returned ``memory(x, decay, start)`` takes x (letters, dim), decay
    (dim,) in (0, 1) and start (dim,), the state before the first letter that
    is read, and gives the state at each letter in the word's own order.
    """

    @jax.custom_vjp
    def memory(x, decay, start):
        return fwd(x, decay, start)[0]

    def fwd(x, decay, start):
        def step(h, xt):
            h = decay * h + xt
            return h, h

        _, hs = jax.lax.scan(step, start, x, reverse=from_end)
        return hs, (hs, decay, start)

    def bwd(res, g):
        hs, decay, start = res

        def step(carry, gt):
            total = gt + carry
            return decay * total, total

        d_start, d_x = jax.lax.scan(step, jnp.zeros_like(start), g, reverse=not from_end)
        before = jnp.concatenate([start[None], hs[:-1]])
        return d_x, (d_x * before).sum(0), d_start

    memory.defvjp(fwd, bwd)
    return memory
