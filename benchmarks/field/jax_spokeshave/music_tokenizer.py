"""Discrete tokens for a small neural music codec.

The encoder emits latent frames of shape (batch, frames, dim).  They are snapped onto a stack of
codebooks (coarse to fine), and a decoder-only transformer later models the code streams with each
stream delayed by its level, so that the coarse code of a frame is always known before its details.

Everything here is pure; parameters travel in plain NamedTuples.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class CodecParams(NamedTuple):
    codebooks: jax.Array   # (levels, codes, dim)
    log_alpha: jax.Array   # (dim,)
    pad: jax.Array         # (dim,)


def init_codec(key, levels: int = 4, codes: int = 32, dim: int = 8) -> CodecParams:
    k1, k2 = jax.random.split(key)
    books = jax.random.normal(k1, (levels, codes, dim)) / (1.0 + jnp.arange(levels))[:, None, None]
    return CodecParams(books, jnp.zeros((dim,)), 0.02 * jax.random.normal(k2, (dim,)))


# --------------------------------------------------------------------------- encoder activation


@jax.custom_vjp
def channel_celu(x, log_alpha):
    """Continuously differentiable ELU with one learned knee per channel.

    ``x`` has channels last, ``log_alpha`` has shape (channels,).  The knee is alpha = exp(log_alpha),
    and the negative side is alpha * (exp(x / alpha) - 1).
    """
    alpha = jnp.exp(log_alpha)
    neg = jnp.minimum(x, 0.0)
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(neg / alpha)


def _celu_fwd(x, log_alpha):
    return channel_celu(x, log_alpha), (x, jnp.exp(log_alpha))


def _celu_bwd(res, g):
    x, alpha = res
    ratio = jnp.minimum(x, 0.0) / alpha
    e = jnp.exp(ratio)
    dx = g * e
    d_alpha = g * (e - 1.0 - ratio * e)
    return dx, d_alpha.reshape(-1, x.shape[-1]).sum(axis=0)


channel_celu.defvjp(_celu_fwd, _celu_bwd)


# --------------------------------------------------------------------------- quantizer


def _nearest(residual, book):
    d2 = (jnp.sum(residual**2, -1, keepdims=True) - 2.0 * residual @ book.T + jnp.sum(book**2, -1))
    return jnp.argmin(d2, axis=-1)


def _snap_stages(latents, codebooks):
    residual, total, picks = latents, jnp.zeros_like(latents), []
    for book in codebooks:
        idx = _nearest(residual, book)
        code = book[idx]
        residual, total = residual - code, total + code
        picks.append(idx)
    return total, jnp.stack(picks)


@jax.custom_vjp
def residual_snap(latents, codebooks):
    """Residual quantization: the sum of the nearest code of every level.

    Straight-through on purpose: the cotangent is handed to the latents unchanged, as if the
    quantizer were the identity (its true derivative there is zero).  The codebooks receive the exact
    derivative of the sum of the codes that were chosen.
    """
    return _snap_stages(latents, codebooks)[0]


def _snap_fwd(latents, codebooks):
    total, picks = _snap_stages(latents, codebooks)
    return total, (picks, codebooks)


def _snap_bwd(res, g):
    picks, codebooks = res
    flat = g.reshape(-1, g.shape[-1])
    per_level = [jnp.zeros_like(book).at[idx.reshape(-1)].add(flat) for book, idx in zip(codebooks, picks)]
    return g, jnp.stack(per_level)


residual_snap.defvjp(_snap_fwd, _snap_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def usage_entropy(logits, frame_mask, scaled=False):
    """Entropy of the mean code distribution over the frames that are present.

    logits: (batch, frames, codes); frame_mask: bool (batch, frames).  With ``scaled`` the entropy is
    given as a fraction of log(codes).  A batch without any frame has entropy zero.
    """
    return _usage(logits, frame_mask, scaled)[0]


def _usage(logits, frame_mask, scaled):
    probs = jax.nn.softmax(logits, axis=-1)
    count = jnp.maximum(jnp.sum(frame_mask), 1)
    mean = jnp.sum(jnp.where(frame_mask[..., None], probs, 0.0), axis=(0, 1)) / count
    log_mean = jnp.log(jnp.where(mean > 0, mean, 1.0))
    unit = np.log(logits.shape[-1]) if scaled else 1.0
    return -jnp.sum(mean * log_mean) / unit, (probs, log_mean, count, frame_mask)


def _usage_fwd(logits, frame_mask, scaled):
    return _usage(logits, frame_mask, scaled)


def _usage_bwd(scaled, res, g):
    probs, log_mean, count, frame_mask = res
    unit = np.log(probs.shape[-1]) if scaled else 1.0
    inner = jnp.einsum("btk,k->bt", probs, log_mean)
    d = -probs * (log_mean - inner[..., None])
    return g * jnp.where(frame_mask[..., None], d, 0.0) / (count * unit), None


usage_entropy.defvjp(_usage_fwd, _usage_bwd)


# --------------------------------------------------------------------------- language model input


@jax.custom_gradient
def delay_streams(streams, pad):
    """Delays stream q by q frames; the gap in front is filled with ``pad``.

    (batch, levels, frames, dim), (dim,) -> (batch, levels, frames, dim).  The number of frames is
    kept: the last q frames of stream q fall off the end.
    """
    _, levels, frames, _ = streams.shape
    source = np.arange(frames)[None, :] - np.arange(levels)[:, None]
    started = jnp.asarray(source >= 0)[None, :, :, None]
    index = jnp.asarray(np.maximum(source, 0))[None, :, :, None]
    out = jnp.where(started, jnp.take_along_axis(streams, index, axis=2), pad)

    def pull(g):
        d_streams = jnp.stack([jnp.roll(g[:, q], -q, axis=1) for q in range(levels)], axis=1)
        d_pad = jnp.sum(jnp.where(started, 0.0, g), axis=(0, 1, 2))
        return d_streams, d_pad

    return out, pull


def tokenizer_loss(params: CodecParams, frames, frame_mask, balance: float = 0.1):
    """Reconstruction plus a bonus for using all codes of the first level."""
    h = channel_celu(frames, params.log_alpha)
    snapped = residual_snap(h, params.codebooks)
    logits = h @ params.codebooks[0].T
    rec = jnp.sum(jnp.where(frame_mask[..., None], (snapped - frames) ** 2, 0.0)) / jnp.maximum(frame_mask.sum(), 1)
    return rec - balance * usage_entropy(logits, frame_mask, True)


if __name__ == "__main__":
    p = init_codec(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (2, 12, 8))
    print(tokenizer_loss(p, x, jnp.ones((2, 12), bool)))
