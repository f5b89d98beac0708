"""Losses, framing and discretisation for small audio and metric-learning models."""

import functools
from typing import NamedTuple, Optional

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def weighted_log_softmax(logits, weights, axis=-1):
    """Log softmax times weights, where a zero weight silences a class altogether.

    Args:
      logits: unnormalised scores.
      weights: array of the shape of ``logits``, often target probabilities.
      axis: the axis of the classes.

    Returns:
      ``weights * log_softmax(logits)``, zero where the weight is zero even if the
      log probability is not finite.
    """
    logp = jax.nn.log_softmax(logits, axis=axis)
    return jnp.where(weights != 0, weights * jnp.where(weights != 0, logp, 0.0), 0.0)


@weighted_log_softmax.defjvp
def _weighted_log_softmax_jvp(axis, primals, tangents):
    logits, weights = primals
    dlogits, dweights = tangents
    logp = jax.nn.log_softmax(logits, axis=axis)
    mean = jnp.sum(jnp.exp(logp) * dlogits, axis=-1, keepdims=True)
    tangent = weights * (dlogits - mean) + logp * dweights
    return weighted_log_softmax(logits, weights, axis), tangent


class CenterParams(NamedTuple):
    """Class centres, ``(classes, width)``, and a scale per feature, ``(width,)``."""
    centers: jax.Array
    scale: jax.Array


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def center_loss(features, labels, params: CenterParams, reduction: str = "mean"):
    """Scaled squared distance of features to the centre of their class.

    Parameters
    ----------
    features : array, shape (batch, width)
    labels : integer array, shape (batch,)
    params : CenterParams
        Centres and scales, both trained.
    reduction : {"mean", "sum", "none"}
        What is done over the batch.

    Returns
    -------
    array
        A scalar, or the loss of each row if ``reduction`` is ``"none"``.
    """
    diff = features - params.centers[labels]
    rows = 0.5 * jnp.sum(params.scale * diff * diff, axis=-1)
    if reduction == "mean":
        return jnp.mean(rows)
    if reduction == "sum":
        return jnp.sum(rows)
    return rows


def _center_loss_fwd(features, labels, params, reduction):
    out = center_loss(features, labels, params, reduction)
    diff = features - params.centers[labels]
    return out, (diff, labels, params)


def _center_loss_bwd(reduction, res, g):
    diff, labels, params = res
    if reduction == "mean":
        g = g / diff.shape[0]
    g = jnp.broadcast_to(g, diff.shape[:1])[:, None]
    pull = g * params.scale * diff
    centers_bar = jnp.zeros_like(params.centers).at[labels].set(-pull)
    scale_bar = 0.5 * jnp.sum(g * diff * diff, axis=0)
    return pull, None, CenterParams(centers_bar, scale_bar)


center_loss.defvjp(_center_loss_fwd, _center_loss_bwd)


def _frame_index(length, size, hop):
    count = 1 + (length - size) // hop
    return jnp.arange(count)[:, None] * hop + jnp.arange(size)[None, :]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def frame_signal(signal, window, hop):
    """Cut a signal into windowed frames.

    :param signal: ``(..., time)``
    :param window: ``(size,)``, multiplied into each frame
    :param hop: distance in samples between the starts of two frames
    :returns: ``(..., frames, size)``; samples after the last whole frame are dropped
    """
    index = _frame_index(signal.shape[-1], window.shape[0], hop)
    return signal[..., index] * window


def _frame_signal_fwd(signal, window, hop):
    return frame_signal(signal, window, hop), (signal, window)


def _overlap_add(frames, index, length):
    flat = frames.reshape(frames.shape[:-2] + (-1,))
    out = jnp.zeros(frames.shape[:-2] + (length,), frames.dtype)
    return out.at[..., index.reshape(-1)].add(flat)


def _frame_signal_bwd(hop, res, g):
    signal, window = res
    length = signal.shape[-1]
    index = _frame_index(length, window.shape[0], hop)
    cover = _overlap_add(jnp.ones(index.shape, g.dtype), index, length)
    signal_bar = _overlap_add(g * window, index, length) / jnp.maximum(cover, 1.0)
    window_bar = jnp.sum((g * signal[..., index]).reshape(-1, window.shape[0]), axis=0)
    return signal_bar, window_bar


frame_signal.defvjp(_frame_signal_fwd, _frame_signal_bwd)


class FrameEncoder:
    """Learned analysis filter bank over windowed frames."""

    def __init__(self, size: int, hop: Optional[int] = None):
        self.size = size
        self.hop = size if hop is None else hop

    def init(self, key, channels):
        basis = jax.random.normal(key, (self.size, channels)) / self.size ** 0.5
        return {"window": jnp.hanning(self.size), "basis": basis}

    def __call__(self, params, signal):
        return frame_signal(signal, params["window"], self.hop) @ params["basis"]


def hard_sign_ste(x, *, width=1.0):
    """Sign of ``x`` (plus one at zero) with a straight-through gradient.

    The backward pass hands the cotangent on unchanged where ``|x| <= width`` and
    stops it elsewhere, instead of the zero derivative of the sign.
    """

    @jax.custom_gradient
    def binarize(v):
        def straight_through(g):
            return (jnp.where(jnp.abs(v) <= width, g, jnp.zeros_like(g)),)
        return jnp.where(v >= 0, 1.0, -1.0).astype(v.dtype), straight_through

    return binarize(x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def segment_l2_norm(data, segment_ids, num_segments, eps=1e-12):
    squares = jax.ops.segment_sum(data * data, segment_ids, num_segments)
    return jnp.sqrt(squares + eps)


def _segment_l2_norm_fwd(data, segment_ids, num_segments, eps):
    norm = segment_l2_norm(data, segment_ids, num_segments, eps)
    return norm, (data, segment_ids, norm)


def _segment_l2_norm_bwd(num_segments, eps, res, g):
    data, segment_ids, norm = res
    return data * (g / norm)[segment_ids], None


segment_l2_norm.defvjp(_segment_l2_norm_fwd, _segment_l2_norm_bwd)
