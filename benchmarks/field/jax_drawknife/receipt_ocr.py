"""Reading till receipts: the differentiable pieces of a small line recogniser.

A detected line of print is cut out as a strip of fixed height, padded on the right to the widest strip of the
batch.  ``lengths`` always holds the number of real columns of each strip; everything to the right is padding and must
neither influence a statistic nor receive a gradient.

Pieces, in the order in which the recogniser uses them:

* ``strip_standardise``  contrast normalisation of the strips (thermal paper fades unevenly),
* ``collapse_columns``   a learned power mean that turns a strip into one vector,
* ``make_pair_gate``     multiplicative layout gate between the boxes of a receipt,
* ``amount_nll``         the loss of the digit head.
"""
from functools import partial
from typing import Dict

import jax
import jax.numpy as jnp

EPS = 1e-5
PAD_DIGIT = -1


def column_mask(lengths, width):
    """(B,) lengths -> (B, width) booleans."""
    return jnp.arange(width)[None, :] < lengths[:, None]


# ---------------------------------------------------------------- strips

def _strip_stats(x, lengths):
    m = column_mask(lengths, x.shape[2])[:, None, :, None].astype(x.dtype)
    n = jnp.maximum(jnp.sum(m, axis=2, keepdims=True) * x.shape[1], 1.0)
    mu = jnp.sum(x * m, axis=(1, 2), keepdims=True) / n
    var = jnp.sum(m * (x - mu) ** 2, axis=(1, 2), keepdims=True) / n
    inv = jax.lax.rsqrt(var + EPS)
    return m, n, (x - mu) * inv * m, inv


@jax.custom_vjp
def strip_standardise(x, gamma, beta, lengths):
    """Standardise every channel of every strip over its real pixels.

    Args:
      x: strips, ``[batch, height, width, channel]``.
      gamma: ``[channel]`` gains.
      beta: ``[channel]`` offsets.
      lengths: ``[batch]`` integer numbers of real columns.

    Returns:
      Array like ``x``; padded columns are zero.
    """
    m, _, xhat, _ = _strip_stats(x, lengths)
    return (xhat * gamma + beta) * m


def _strip_fwd(x, gamma, beta, lengths):
    m, n, xhat, inv = _strip_stats(x, lengths)
    return (xhat * gamma + beta) * m, (m, n, xhat, inv, gamma)


def _strip_bwd(res, g):
    m, n, xhat, inv, gamma = res
    g = g * m
    dgamma = jnp.sum(g * xhat, axis=(0, 1, 2))
    dbeta = jnp.sum(g, axis=(0, 1, 2))
    gh = g * gamma
    first = jnp.sum(gh, axis=(1, 2), keepdims=True) / n
    second = jnp.sum(gh * xhat, axis=(1, 2), keepdims=True) / n
    return (gh - first - xhat * second) * inv * m, dgamma, dbeta, None


strip_standardise.defvjp(_strip_fwd, _strip_bwd)


@jax.custom_vjp
def collapse_columns(x, power, lengths):
    """Power mean over the real columns of a strip.

    x (B, W, C) holds strictly positive activations (they come from a softplus), power (C,) is learned, and
    lengths (B,) >= 1.  ``power = 1`` is the plain mean of the real columns, a large power approaches their maximum.
    """
    return _collapse(x, power, lengths)[0]


def _collapse(x, power, lengths):
    m = column_mask(lengths, x.shape[1])[:, :, None]
    n = lengths[:, None].astype(x.dtype)
    safe = jnp.where(m, x, 1.0)
    moment = jnp.sum(jnp.where(m, safe ** power, 0.0), axis=1) / n
    return moment ** (1.0 / power), moment, safe, m, n


def _collapse_fwd(x, power, lengths):
    y, moment, safe, m, n = _collapse(x, power, lengths)
    return y, (y, moment, safe, m, n, power)


def _collapse_bwd(res, g):
    y, moment, safe, m, n, power = res
    d_moment = g * y / (power * moment)
    slope = power * safe ** (power - 1.0) / safe.shape[1]
    dx = jnp.where(m, d_moment[:, None, :] * slope, 0.0)
    logs = jnp.sum(jnp.where(m, safe ** power * jnp.log(safe), 0.0), axis=1) / n
    dpower = jnp.sum(d_moment * logs - g * y * jnp.log(moment) / power ** 2, axis=0)
    return dx, dpower, None


collapse_columns.defvjp(_collapse_fwd, _collapse_bwd)


# ---------------------------------------------------------------- layout

def offset_bins(centres, n_bins, cell):
    """Signed pairwise offsets of box centres, in ``cell`` pixels, clipped into ``n_bins`` bins."""
    delta = jnp.floor((centres[None, :] - centres[:, None]) / cell).astype(jnp.int32)
    return jnp.clip(delta + n_bins // 2, 0, n_bins - 1)


def make_pair_gate(dx_bins, dy_bins):
    """Gate between all pairs of boxes of one receipt; the bins are [n, n] integers and are shared by all heads."""

    @jax.custom_gradient
    def gate(tx, ty):  # both [heads, bins]
        gx, gy = tx[:, dx_bins], ty[:, dy_bins]

        def back(g):
            return (jnp.zeros_like(tx).at[:, dx_bins].add(g * gy),
                    jnp.zeros_like(ty).at[:, dy_bins].add(g * gx))

        return gx * gy, back

    return gate


# ---------------------------------------------------------------- loss

def _token_nll(logits, digits, smoothing):
    logp = jax.nn.log_softmax(logits, axis=-1)
    hit = jnp.take_along_axis(logp, jnp.maximum(digits, 0)[..., None], axis=-1)[..., 0]
    return -(1.0 - smoothing) * hit - smoothing * jnp.mean(logp, axis=-1)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def amount_nll(logits, digits, weights, smoothing=0.0, reduction="sum"):
    """Cross entropy of the printed amount.

    ``logits`` (B, L, 11), ``digits`` (B, L) with PAD_DIGIT at unused places, ``weights`` (B, L) the confidence which the
    alignment head (trained jointly) gives to each place.  ``reduction`` is "sum", or "mean" for the weighted mean.
    """
    w = jnp.where(digits != PAD_DIGIT, weights, 0.0)
    total = jnp.sum(w * _token_nll(logits, digits, smoothing))
    return total / jnp.sum(w) if reduction == "mean" else total


def _amount_fwd(logits, digits, weights, smoothing, reduction):
    return amount_nll(logits, digits, weights, smoothing, reduction), (logits, digits, weights)


def _amount_bwd(smoothing, reduction, res, g):
    logits, digits, weights = res
    valid = digits != PAD_DIGIT
    w = jnp.where(valid, weights, 0.0)
    scale = g / jnp.sum(w) if reduction == "mean" else g
    classes = logits.shape[-1]
    target = (1.0 - smoothing) * jax.nn.one_hot(digits, classes, dtype=logits.dtype) + smoothing / classes
    dlogits = scale * w[..., None] * (jax.nn.softmax(logits, axis=-1) - target)
    dweights = jnp.where(valid, scale * _token_nll(logits, digits, smoothing), 0.0)
    return dlogits, None, dweights


amount_nll.defvjp(_amount_fwd, _amount_bwd)


def digit_head_loss(params: Dict[str, jax.Array], strips, lengths, digits, weights):
    """Toy end-to-end objective: normalise, pool, and read every place of the amount from the pooled vector."""
    h = strip_standardise(strips, params["gamma"], params["beta"], lengths)
    pooled = collapse_columns(jax.nn.softplus(jnp.mean(h, axis=1)) + EPS, params["power"], lengths)
    logits = jnp.einsum("bc,clk->blk", pooled, params["head"])
    return amount_nll(logits, digits, weights, 0.05, "mean")
