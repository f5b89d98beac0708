"""Search by picture and motif in a museum's archive of printed textiles.

A cloth is described twice: by the motifs that a curator ticked ("paisley",
"trellis", ...) and by a photograph.  Both descriptions end up in one embedding
space, trained contrastively; a photograph may belong to several catalogue
entries, since the same print was often sold in several colourways.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

NO_MOTIF = -1          # filler in the id table, cloths have 1..12 motifs
SHORT_VECTOR = 0.5


# ---------------------------------------------------------------------------
# motif side

def _bag_scale(w, how):
    """What the weighted sum of motif vectors is divided by, one per cloth."""
    if how == "sum":
        return jnp.ones(w.shape[:-1], w.dtype)
    if how == "mean":
        total = w.sum(-1)
    elif how == "sqrtn":
        total = jnp.sqrt((w * w).sum(-1))
    else:
        raise ValueError(f"unknown combiner {how!r}")
    return jnp.where(total > 0, total, 1.0)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def blend_motifs(table, ids, weights, how="mean"):
    """Weighted bag of motif vectors.

    Args:
      table: (V, D) motif embeddings.
      ids: (B, M) integers, NO_MOTIF where a cloth has fewer than M motifs. A
        motif may be listed twice (front and border).
      weights: (B, M) nonnegative prominence of every motif.
      how: "sum", "mean" (divide by the sum of weights) or "sqrtn" (divide by
        the root of the sum of squared weights).

    Returns:
      (B, D) vectors; zero for a cloth without motifs.
    """
    w = jnp.where(ids != NO_MOTIF, weights, 0.0)
    rows = table[jnp.maximum(ids, 0)]
    return jnp.einsum("bm,bmd->bd", w, rows) / _bag_scale(w, how)[:, None]


def _blend_fwd(table, ids, weights, how):
    out = blend_motifs(table, ids, weights, how)
    return out, (table, ids, weights, out)


def _blend_bwd(how, saved, g):
    table, ids, weights, out = saved
    present = ids != NO_MOTIF
    w = jnp.where(present, weights, 0.0)
    safe = jnp.maximum(ids, 0)
    scale = _bag_scale(w, how)[:, None]
    g = g / scale
    d_table = jnp.zeros_like(table).at[safe].add(w[:, :, None] * g[:, None, :])
    d_w = jnp.einsum("bd,bmd->bm", g, table[safe])
    if how != "sum":
        d_w = d_w - (g * out).sum(-1, keepdims=True)
    return d_table, None, jnp.where(present, d_w, 0.0)


blend_motifs.defvjp(_blend_fwd, _blend_bwd)


# ---------------------------------------------------------------------------
# picture side

def _window_sum(v, before, after):
    pad = [(0, 0)] * (v.ndim - 1) + [(before, after)]
    padded = jnp.pad(v, pad)
    n = v.shape[-1]
    return sum(padded[..., i:i + n] for i in range(before + after + 1))


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def crossthread_norm(x, alpha, beta, window=4, bias=1.0):
    """Divisive normalisation over neighbouring channels (last axis).

    y_c = x_c * (bias + alpha/window * sum of x^2 over the window of c) ** -beta.
    An even window reaches one channel further to the right than to the left;
    at the ends it is cut off, still divided by the full window.
    alpha and beta are learned scalars.
    """
    left = (window - 1) // 2
    s = bias + alpha / window * _window_sum(x * x, left, window - 1 - left)
    return x * s ** -beta


def _ct_fwd(x, alpha, beta, window, bias):
    left = (window - 1) // 2
    energy = _window_sum(x * x, left, window - 1 - left)
    s = bias + alpha / window * energy
    return x * s ** -beta, (x, alpha, beta, energy, s)


def _ct_bwd(window, bias, saved, g):
    x, alpha, beta, energy, s = saved
    left = (window - 1) // 2
    right = window - 1 - left
    y = x * s ** -beta
    ds = -beta * g * y / s
    dx = g * s ** -beta + 2.0 * alpha / window * x * _window_sum(ds, right, left)
    return dx, jnp.sum(ds * energy) / window, -jnp.sum(g * y * jnp.log(s))


crossthread_norm.defvjp(_ct_fwd, _ct_bwd)


@jax.custom_jvp
def sphere_embed(x, floor=SHORT_VECTOR):
    """Unit vectors along the last axis.

    Faint prints give short vectors. Those shorter than `floor` are not blown
    up to the sphere, they are only divided by `floor`.
    """
    length = jnp.linalg.norm(x, axis=-1, keepdims=True)
    return x / jnp.maximum(length, floor)


@sphere_embed.defjvp
def _sphere_jvp(primals, tangents):
    x, floor = primals
    dx, dfloor = tangents
    length = jnp.sqrt((x * x).sum(-1, keepdims=True))
    radius = jnp.maximum(length, floor)
    y = x / radius
    dy = (dx - y * (y * dx).sum(-1, keepdims=True)) / radius
    return y, dy - jnp.where(length < floor, y / floor, 0.0) * dfloor


# ---------------------------------------------------------------------------
# training objective

@jax.custom_vjp
def colourway_contrast(photos, entries, same_print, sharpness):
    """Contrastive loss with several right entries per photograph.

    photos (B, D), entries (N, D), same_print (B, N) booleans, sharpness a
    scalar that multiplies the inner products.  Per photograph: minus the log of
    the probability mass on its own print's entries. The mean is over the
    photographs that have an entry at all.
    """
    return _contrast(photos, entries, same_print, sharpness)[0]


def _contrast(photos, entries, same_print, sharpness):
    dots = photos @ entries.T
    logits = sharpness * dots
    has = same_print.any(-1)
    own = jnp.where(same_print, logits, -jnp.inf)
    own = jnp.where(has[:, None], own, logits)
    nll = jax.nn.logsumexp(logits, -1) - jax.nn.logsumexp(own, -1)
    n = jnp.maximum(has.sum(), 1)
    return jnp.where(has, nll, 0.0).sum() / n, (dots, logits, own, has, n)


def _contrast_fwd(photos, entries, same_print, sharpness):
    loss, (dots, logits, own, has, n) = _contrast(photos, entries, same_print, sharpness)
    pull = (jax.nn.softmax(logits, -1) - jax.nn.softmax(own, -1)) * has[:, None] / n
    return loss, (photos, entries, sharpness, dots, pull)


def _contrast_bwd(saved, g):
    photos, entries, sharpness, dots, pull = saved
    pull = g * pull
    return (sharpness * pull @ entries, sharpness * pull.T @ photos, None,
            (pull * dots).sum())


colourway_contrast.defvjp(_contrast_fwd, _contrast_bwd)


class Heads(NamedTuple):
    motifs: jax.Array      # (V, D)
    lens: jax.Array        # (C, D)
    alpha: jax.Array
    beta: jax.Array
    sharpness: jax.Array


def training_loss(heads: Heads, features, ids, prominence, same_print):
    photos = sphere_embed(crossthread_norm(features, heads.alpha, heads.beta) @ heads.lens)
    entries = sphere_embed(blend_motifs(heads.motifs, ids, prominence, "mean"))
    return colourway_contrast(photos, entries, same_print, heads.sharpness)
