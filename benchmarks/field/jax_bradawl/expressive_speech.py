"""Style control of a speech synthesiser.

A style is a diagonal Gaussian.  It may be described by a reference recording, by a written instruction, by a slider
position -- whichever the user has given; descriptions that are missing are left out row by row.
"""
import functools
import math

import jax
import jax.numpy as jnp


def _heads(x, n):
    return x.reshape(x.shape[:-1] + (n, x.shape[-1] // n))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def style_tokens(query, bank, sharpness, heads=4):
    """Read a bank of learned styles.

    query (batch, width), bank (tokens, width), sharpness (heads,).  The tokens are squashed with tanh, compared with the
    query head by head (dot product over the square root of the head's width, times the head's sharpness) and averaged
    with the softmax of that; keys and values are the same squashed tokens.  Returns (batch, width).
    """
    return _tokens_fwd(query, bank, sharpness, heads)[0]


def _tokens_fwd(query, bank, sharpness, heads):
    soft = _heads(jnp.tanh(bank), heads)                   # k h d
    q = _heads(query, heads)                               # b h d
    dots = jnp.einsum("bhd,khd->bhk", q, soft) / math.sqrt(q.shape[-1])
    weight = jax.nn.softmax(dots * sharpness[:, None], axis=-1)
    out = jnp.einsum("bhk,khd->bhd", weight, soft)
    return out.reshape(query.shape), (q, soft, dots, weight, sharpness)


def _tokens_bwd(heads, saved, g):
    q, soft, dots, weight, sharpness = saved
    g = _heads(g, heads)
    d_weight = jnp.einsum("bhd,khd->bhk", g, soft)
    inner = jnp.sum(d_weight * weight, axis=-1, keepdims=True)
    d_logit = weight * (d_weight - inner)
    d_sharp = jnp.sum(d_logit * dots, axis=(0, 2))
    d_dots = d_logit * sharpness[:, None] / math.sqrt(q.shape[-1])
    d_query = jnp.einsum("bhk,khd->bhd", d_dots, soft)
    d_soft = jnp.einsum("bhk,bhd->khd", weight, g) + jnp.einsum("bhk,bhd->khd", d_dots, q)
    d_bank = d_soft * (1.0 - soft**2)
    flat = (-1, heads * q.shape[-1])
    return d_query.reshape(flat), d_bank.reshape(flat), d_sharp


style_tokens.defvjp(_tokens_fwd, _tokens_bwd)


@jax.custom_vjp
def blend_styles(styles, trust, given):
    """Barycentre of the styles that are given.

    Args:
        styles: dict of name -> (mean, spread), both (batch, width), spread positive.
        trust: dict of name -> scalar logit, learned, one for each kind of description.
        given: dict of name -> bool (batch,).  Every row has one description at least.

    Returns:
        (mean, spread) of the Wasserstein barycentre of the given Gaussians, whose weights are the softmax of their
        trust among the descriptions that the row has.
    """
    return _blend_fwd(styles, trust, given)[0]


def _stack(tree, names):
    return jnp.stack([tree[n] for n in names])


def _blend_fwd(styles, trust, given):
    names = sorted(styles)
    logit = _stack(trust, names)
    share = jax.nn.softmax(logit)
    here = _stack(given, names)
    raw = jnp.where(here, share[:, None], 0.0)
    weight = raw / raw.sum(axis=0)                          # (kinds, batch)
    means = jnp.stack([styles[n][0] for n in names])
    spreads = jnp.stack([styles[n][1] for n in names])
    mean = jnp.einsum("kb,kbw->bw", weight, means)
    spread = jnp.einsum("kb,kbw->bw", weight, spreads)
    return (mean, spread), (names_of(names), share, weight, means, spreads)


def names_of(names):
    """The names as the keys of a tree without leaves, which may travel through a transformation."""
    return {n: None for n in names}


def _blend_bwd(saved, g):
    names, share, weight, means, spreads = saved
    g_mean, g_spread = g
    value = jnp.sum(g_mean * means + g_spread * spreads, axis=-1)   # (kinds, batch)
    average = share @ value                                         # (batch,)
    d_trust = jnp.sum(weight * (value - average), axis=1)
    d_styles, d_logit = {}, {}
    for i, name in enumerate(sorted(names)):
        w = weight[i][:, None]
        d_styles[name] = (w * g_mean, w * g_spread)
        d_logit[name] = d_trust[i]
    return d_styles, d_logit, None


blend_styles.defvjp(_blend_fwd, _blend_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def voiced_zscore(pitch, voiced, ddof=0, eps=1e-5):
    """Standard scores of the log pitch of each utterance.

    ``pitch`` (batch, frames), ``voiced`` bool of the same shape.  Mean and variance are taken over the voiced frames
    of the utterance, the variance with ``ddof`` degrees of freedom removed as in numpy.  Unvoiced frames get zero.
    """
    return _voiced_fwd(pitch, voiced, ddof, eps)[0]


def _voiced_fwd(pitch, voiced, ddof, eps):
    n = jnp.maximum(voiced.sum(axis=1, keepdims=True), 1)
    mean = jnp.where(voiced, pitch, 0.0).sum(axis=1, keepdims=True) / n
    away = jnp.where(voiced, pitch - mean, 0.0)
    var = (away**2).sum(axis=1, keepdims=True) / jnp.maximum(n - ddof, 1)
    scale = jax.lax.rsqrt(var + eps)
    return away * scale, (away * scale, scale, voiced, n)


def _voiced_bwd(ddof, eps, saved, g):
    score, scale, voiced, n = saved
    g = jnp.where(voiced, g, 0.0)
    g_mean = g.sum(axis=1, keepdims=True) / n
    g_score = (g * score).sum(axis=1, keepdims=True) / n
    return jnp.where(voiced, scale * (g - g_mean - score * g_score), 0.0), None


voiced_zscore.defvjp(_voiced_fwd, _voiced_bwd)


class StyleEncoder:
    """Turns what the user gave into one style vector and a normalised pitch track."""

    def __init__(self, tokens=10, width=16, heads=4):
        self.tokens, self.width, self.heads = tokens, width, heads

    def init(self, key):
        return {
            "bank": 0.5 * jax.random.normal(key, (self.tokens, self.width)),
            "sharpness": jnp.ones(self.heads),
            "spread": jnp.zeros(self.width),
            "trust": {"recording": jnp.zeros(()), "text": jnp.zeros(())},
        }

    def __call__(self, params, recording, text, given, pitch, voiced):
        spread = jax.nn.softplus(params["spread"])
        styles = {}
        for name, query in (("recording", recording), ("text", text)):
            mean = style_tokens(query, params["bank"], params["sharpness"], self.heads)
            styles[name] = (mean, jnp.broadcast_to(spread, mean.shape))
        return blend_styles(styles, params["trust"], given), voiced_zscore(pitch, voiced, 1)
