"""Pieces of a learned image compressor.

Rows are split by learned lifting steps, the latents are rounded, an ensemble of bit predictors is mixed by context,
and the reconstruction is judged inside of a region of interest.

Images are (batch, height, width, channels) throughout; latents likewise.
"""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

PROB_FLOOR = 1.0 / 4096.0
LN2 = 0.6931471805599453


# ---------------------------------------------------------------- transform

def _following(a, boundary):
    return jnp.roll(a, -1, axis=-1) if boundary == "wrap" else jnp.concatenate([a[..., 1:], a[..., -1:]], axis=-1)


def _preceding(a, boundary):
    return jnp.roll(a, 1, axis=-1) if boundary == "wrap" else jnp.concatenate([a[..., :1], a[..., :-1]], axis=-1)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def lifting_step(rows: Array, predict: Array, update: Array, boundary: str = "wrap") -> tuple[Array, Array]:
    """One learned lifting step along the last axis, whose size is even.

    The odd samples are predicted from the even ones on both sides (``predict``, two taps: before and after), the even
    ones are then updated from the details on both sides (``update``, likewise).  Beyond its end a row is continued
    from the other end ("wrap") or by the sample at the end ("edge").

    Returns the coarse row and the details, both half as long.
    """
    return _lifting_fwd(rows, predict, update, boundary)[0]


def _lifting_fwd(rows, predict, update, boundary):
    even, odd = rows[..., 0::2], rows[..., 1::2]
    detail = odd - predict[0] * even - predict[1] * _following(even, boundary)
    coarse = even + update[0] * _preceding(detail, boundary) + update[1] * detail
    return (coarse, detail), (even, detail, predict, update)


def _lifting_bwd(boundary, saved, g):
    even, detail, predict, update = saved
    g_coarse, g_detail = g
    d_update = jnp.stack([jnp.sum(g_coarse * _preceding(detail, boundary)), jnp.sum(g_coarse * detail)])
    g_detail = g_detail + update[0] * _following(g_coarse, boundary) + update[1] * g_coarse
    d_predict = -jnp.stack([jnp.sum(g_detail * even), jnp.sum(g_detail * _following(even, boundary))])
    g_even = g_coarse - predict[0] * g_detail - predict[1] * _preceding(g_detail, boundary)
    d_rows = jnp.stack([g_even, g_detail], axis=-1).reshape(even.shape[:-1] + (2 * even.shape[-1],))
    return d_rows, d_predict, d_update


lifting_step.defvjp(_lifting_fwd, _lifting_bwd)


# ---------------------------------------------------------------- quantizer

@jax.custom_vjp
def round_latents(latents, step):
    """Round to multiples of ``step`` (one a channel).

    Straight-through on purpose: rounding has no useful derivative, so in the backward pass the latents are treated as
    if they had not been rounded at all, and the step is held fixed (no gradient reaches it).
    """
    return step * jnp.round(latents / step)


round_latents.defvjp(lambda latents, step: (round_latents(latents, step), step),
                     lambda step, g: (g, jnp.zeros_like(step)))


# ---------------------------------------------------------------- entropy coder

@jax.custom_gradient
def mixed_code_length(weights, probs, context, bits):
    """Bits that an arithmetic coder spends on ``bits`` with logistic mixing.

    weights: (contexts, models), a set of mixing weights for each context.
    probs:   (symbols, models), each model's probability of a one, kept within [1/4096, 4095/4096].
    context: (symbols,) int, which weight set mixes a symbol; contexts recur.
    bits:    (symbols,) int, 0 or 1.

    Returns the cost of each symbol, (symbols,).
    """
    held = jnp.clip(probs, PROB_FLOOR, 1.0 - PROB_FLOOR)
    stretch = jnp.log(held) - jnp.log1p(-held)
    chosen = weights[context]
    mixed = jnp.sum(chosen * stretch, axis=-1)
    sign = 2.0 * bits - 1.0
    cost = jax.nn.softplus(-sign * mixed) / LN2

    def backward(g):
        d_mixed = (-g * sign * jax.nn.sigmoid(-sign * mixed) / LN2)[:, None]
        d_weights = jnp.zeros_like(weights).at[context].add(d_mixed * stretch)
        inside = (probs > PROB_FLOOR) & (probs < 1.0 - PROB_FLOOR)
        d_probs = jnp.where(inside, d_mixed * chosen / (held * (1.0 - held)), 0.0)
        return d_weights, d_probs, _no_tangent(context), _no_tangent(bits)

    return cost, backward


def _no_tangent(ints):
    return np.zeros(ints.shape, dtype=jax.dtypes.float0)


# ---------------------------------------------------------------- distortion

def _gap(diff, kind):
    if kind == "mse":
        return diff * diff
    if kind == "charbonnier":
        return jnp.sqrt(diff * diff + 1e-6)
    raise ValueError(kind)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def roi_distortion(original, decoded, roi, kind="mse"):
    """Distortion within the region of interest.

    Each image counts the same however large its region is: the distortion is averaged over the pixels of the image's
    own region (``roi`` is a bool mask (batch, height, width)) and its channels, then over the images of the batch.
    """
    return _roi_fwd(original, decoded, roi, kind)[0]


def _roi_fwd(original, decoded, roi, kind):
    diff = decoded - original
    pixels = roi.sum(axis=(1, 2))
    total = jnp.sum(_gap(diff, kind) * roi[..., None], axis=(1, 2, 3))
    per_image = total / (jnp.maximum(pixels, 1) * diff.shape[-1])
    return per_image.mean(), (diff, roi)


def _roi_bwd(kind, saved, g):
    diff, roi = saved
    slope = 2.0 * diff if kind == "mse" else diff / _gap(diff, kind)
    count = jnp.maximum(roi.sum(), 1) * diff.shape[-1]
    d = g * slope * roi[..., None] / count
    return -d, d, None


roi_distortion.defvjp(_roi_fwd, _roi_bwd)


def training_loss(params, image, roi, step, lam=0.01):
    """A toy codec: the channels are mixed, rounded, and mixed back; the details of the rows stand for the rate."""
    latents = image @ params["analysis"]
    back = round_latents(latents, step) @ params["synthesis"]
    _, detail = lifting_step(jnp.swapaxes(latents, -1, -2), params["predict"], params["update"], "edge")
    return roi_distortion(image, back, roi, "charbonnier") + lam * jnp.mean(jnp.abs(detail))
