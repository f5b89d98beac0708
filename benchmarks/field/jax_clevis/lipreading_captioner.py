"""Captioning silent video from mouth crops.

The visual trunk is somewhere else; this file holds the parts between the frame features and the caption loss:
pooling frames to visemes, a leaky state that models coarticulation, a per-speaker modulation and the token loss.
They carry their own backward passes because the autodiff version kept every intermediate of a 40 s clip alive.
"""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

PAD_VISEME = -1


class CaptionerParams(NamedTuple):
    speakers: jax.Array   # [S, 2, D]: scale offsets and shifts
    decay: jax.Array      # [D], before the sigmoid
    salience: jax.Array   # [D]
    readout: jax.Array    # [D, V]


def _segment_total(values, ids, count):
    slot = jnp.where(ids >= 0, ids, count)
    return jax.ops.segment_sum(values, slot, num_segments=count + 1)[:count]


# ---------------------------------------------------------------- pooling

@partial(jax.custom_vjp, nondiff_argnums=(3,))
def viseme_means(frames, logw, ids, count):
    """Pool frames [T, D] to visemes [count, D].

    Inside one viseme the frames are averaged with weights exp(logw), normalised over that viseme. Frames whose id is
    PAD_VISEME belong to none; a viseme without frames gives a row of zeros. Ids need not be sorted.
    """
    return _viseme_forward(frames, logw, ids, count)[0]


def _viseme_forward(frames, logw, ids, count):
    alive = ids >= 0
    at = jnp.where(alive, ids, 0)
    top = jax.lax.stop_gradient(
        jax.ops.segment_max(logw, jnp.where(alive, ids, count), num_segments=count + 1))
    w = jnp.where(alive, jnp.exp(jnp.where(alive, logw - top[at], 0.0)), 0.0)
    total = _segment_total(w, ids, count)
    share = w / jnp.where(total > 0, total, 1.0)[at]
    return _segment_total(share[:, None] * frames, ids, count), share


def _viseme_fwd(frames, logw, ids, count):
    pooled, share = _viseme_forward(frames, logw, ids, count)
    return pooled, (frames, share, ids, pooled)


def _viseme_bwd(count, res, g):
    frames, share, ids, pooled = res
    at = jnp.where(ids >= 0, ids, 0)
    d_frames = share[:, None] * g[at]
    d_logw = jnp.sum(d_frames * (frames - pooled[at]), axis=-1)
    return d_frames, d_logw, None


viseme_means.defvjp(_viseme_fwd, _viseme_bwd)


# ---------------------------------------------------------------- leaky state

@jax.custom_vjp
def coarticulate(x, decay, cut, h0):
    """h[t] = decay[t] * h[t-1] + (1 - decay[t]) * x[t], all [T, D]; h[-1] is h0 [D].

    `cut` [T] is true on the first frame after a shot cut: there the history is forgotten (the first summand is dropped).
    """
    def tick(h, now):
        xt, at, ct = now
        h = jnp.where(ct, 0.0, at) * h + (1.0 - at) * xt
        return h, h
    return jax.lax.scan(tick, h0, (x, decay, cut))[1]


def _coarticulate_fwd(x, decay, cut, h0):
    h = coarticulate(x, decay, cut, h0)
    return h, (x, decay, cut, h0, h)


def _coarticulate_bwd(res, g):
    x, decay, cut, h0, h = res
    carry_on = jnp.where(cut[:, None], 0.0, decay)

    def tock(later, now):
        gt, keep = now
        lam = gt + later
        return keep * lam, lam

    d_h0, lam = jax.lax.scan(tock, jnp.zeros_like(h0), (g, carry_on), reverse=True)
    before = jnp.concatenate([h0[None], h[:-1]])
    return (1.0 - decay) * lam, lam * (before - x), None, d_h0


coarticulate.defvjp(_coarticulate_fwd, _coarticulate_bwd)


# ---------------------------------------------------------------- speakers

@jax.custom_vjp
def speaker_modulate(x, table, speaker, talking):
    """x [B, T, D] is scaled and shifted by its speaker's row of table [S, 2, D] while that speaker talks.

    speaker: [B] integers. talking: [B, T] booleans; silent frames leave this function as they came.
    """
    scale, shift = table[speaker, 0][:, None], table[speaker, 1][:, None]
    return jnp.where(talking[..., None], x * (1 + scale) + shift, x)


def _speaker_fwd(x, table, speaker, talking):
    return speaker_modulate(x, table, speaker, talking), (x, table, speaker, talking)


def _speaker_bwd(res, g):
    x, table, speaker, talking = res
    g = jnp.where(talking[..., None], g, 0.0)
    dx = g * (1 + table[speaker, 0][:, None])
    rows = jnp.stack([jnp.sum(g * x, axis=1), jnp.sum(g, axis=1)], axis=1)
    return dx, jnp.zeros_like(table).at[speaker].add(rows), None, None


speaker_modulate.defvjp(_speaker_fwd, _speaker_bwd)


# ---------------------------------------------------------------- loss

def _token_weights(lengths, steps, reduction, dtype):
    real = (jnp.arange(steps)[None] < lengths[:, None]).astype(dtype)
    if reduction == "sum":
        return real
    if reduction == "token":
        return real / jnp.maximum(real.sum(), 1.0)
    if reduction == "clip":
        filled = jnp.maximum(jnp.sum(lengths > 0), 1)
        return real / jnp.maximum(real.sum(1, keepdims=True), 1.0) / filled
    raise ValueError(f"unknown reduction {reduction!r}")


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def caption_nll(logits, tokens, lengths, smoothing=0.0, reduction="token"):
    """Label-smoothed cross-entropy of captions, logits [B, T, V], tokens [B, T], lengths [B].

    reduction: "sum", "token" (mean over real tokens) or "clip" (mean over tokens in a clip, then over non-empty clips).
    """
    return _caption_fwd(logits, tokens, lengths, smoothing, reduction)[0]


def _caption_fwd(logits, tokens, lengths, smoothing, reduction):
    logp = jax.nn.log_softmax(logits)
    w = _token_weights(lengths, logits.shape[1], reduction, logits.dtype)
    hit = jnp.take_along_axis(logp, tokens[..., None], axis=-1)[..., 0]
    each = -(1 - smoothing) * hit - smoothing * jnp.mean(logp, axis=-1)
    return jnp.sum(w * each), (logp, tokens, w)


def _caption_bwd(smoothing, reduction, res, g):
    logp, tokens, w = res
    vocab = logp.shape[-1]
    aim = (1 - smoothing) * jax.nn.one_hot(tokens, vocab, dtype=logp.dtype) + smoothing / vocab
    return g * w[..., None] * (jnp.exp(logp) - aim), None, None


caption_nll.defvjp(_caption_fwd, _caption_bwd)


def caption_logits(params, x, speaker, talking, cuts, ids, count):
    x = speaker_modulate(x, params.speakers, speaker, talking)
    decay = jnp.broadcast_to(jax.nn.sigmoid(params.decay), x.shape[1:])
    h = jax.vmap(lambda xi, ci: coarticulate(xi, decay, ci, jnp.zeros_like(params.decay)))(x, cuts)
    pooled = jax.vmap(lambda hi, si: viseme_means(hi, hi @ params.salience, si, count))(h, ids)
    return pooled @ params.readout
