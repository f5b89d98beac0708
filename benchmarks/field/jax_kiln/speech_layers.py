"""Building blocks of the acoustic model: layers, alignment and cache attention."""
from functools import partial
from typing import Optional, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_NEG = -1e30


@jax.custom_jvp
def smelu(x, beta=1.0):
    """Smooth rectifier: zero under ``-beta``, identity over ``beta``, quadratic between.

    ``beta`` is positive and broadcasts against ``x`` (a scalar or one value per channel).
    """
    blend = (x + beta) ** 2 / (4.0 * beta)
    return jnp.where(x <= -beta, 0.0, jnp.where(x >= beta, x, blend))


@smelu.defjvp
def _smelu_jvp(primals, tangents):
    x, beta = primals
    dx, dbeta = tangents
    slope = jnp.clip((x + beta) / (2.0 * beta), 0.0, 1.0)
    wrt_beta = jnp.where(jnp.abs(x) < beta, 0.25 * (1.0 - (x / beta) ** 2), 0.0)
    return smelu(x, beta), slope * dx + wrt_beta * dbeta


def _window_index(length, width, stride):
    count = (length - width) // stride + 1
    return np.arange(count)[:, None] * stride + np.arange(width)[None, :]


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _partial_conv(x, mask, kernel, bias, stride, padding):
    return _partial_conv_fwd(x, mask, kernel, bias, stride, padding)[0]


def _partial_conv_fwd(x, mask, kernel, bias, stride, padding):
    width = kernel.shape[0]
    m = mask.astype(x.dtype)
    xm = jnp.pad(x * m[..., None], ((0, 0), (padding, padding), (0, 0)))
    index = _window_index(xm.shape[1], width, stride)
    windows = xm[:, index]
    seen = jnp.pad(m, ((0, 0), (padding, padding)))[:, index].sum(axis=-1)
    ratio = jnp.where(seen > 0, width / jnp.maximum(seen, 1.0), 0.0)
    valid = (seen > 0).astype(x.dtype)
    out = jnp.einsum("blkc,kcd->bld", windows, kernel) * ratio[..., None]
    out = out + bias * valid[..., None]
    return out, (windows, m, ratio, valid, kernel)


def _partial_conv_bwd(stride, padding, saved, ct):
    windows, m, ratio, valid, kernel = saved
    scaled = ct * ratio[..., None]
    d_kernel = jnp.einsum("blkc,bld->kcd", windows, scaled)
    d_bias = jnp.einsum("bld,bl->d", ct, valid)
    d_windows = jnp.einsum("bld,kcd->blkc", scaled, kernel)
    batch, length = m.shape
    padded = length + 2 * padding
    index = _window_index(padded, kernel.shape[0], stride)
    d_x = jnp.zeros((batch, padded, kernel.shape[1]), ct.dtype).at[:, index].add(d_windows)
    d_x = d_x[:, padding : padding + length] * m[..., None]
    return d_x, None, d_kernel, d_bias


_partial_conv.defvjp(_partial_conv_fwd, _partial_conv_bwd)


def partial_conv_1d(x, mask, kernel, bias=None, *, stride: int = 1, padding: int = 0):
    """Convolution over observed frames only, rescaled by the share that is observed.

    Parameters
    ----------
    x : array (batch, time, in)
    mask : bool array (batch, time)
        True where a frame is observed; padding counts as unobserved.
    kernel : array (width, in, out)
    bias : array (out,), optional
        Added where at least one frame of the window is observed.

    Returns
    -------
    array (batch, time', out)
    """
    if bias is None:
        bias = jnp.zeros((kernel.shape[-1],), kernel.dtype)
    return _partial_conv(x, mask, kernel, bias, stride, padding)


class PartialConv(nn.Module):
    """Flax layer around :func:`partial_conv_1d`."""

    features: int
    width: int = 3
    stride: int = 1

    @nn.compact
    def __call__(self, x, mask):
        shape = (self.width, x.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), shape)
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        return partial_conv_1d(
            x, mask, kernel, bias, stride=self.stride, padding=self.width // 2
        )


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def masked_batch_standardize(x, mask, params, eps=1e-5):
    return _masked_batch_fwd(x, mask, params, eps)[0]


def _masked_batch_fwd(x, mask, params, eps):
    axes = tuple(range(x.ndim - 1))
    m = mask[..., None].astype(x.dtype)
    count = jnp.maximum(m.sum(), 1.0)
    mean = jnp.sum(x * m, axis=axes) / count
    centred = (x - mean) * m
    rstd = lax.rsqrt(jnp.sum(centred**2, axis=axes) / count + eps)
    xhat = centred * rstd
    out = (xhat * params["scale"] + params["bias"]) * m
    return out, (xhat, rstd, m, params["scale"])


def _masked_batch_bwd(eps, saved, ct):
    xhat, rstd, m, scale = saved
    axes = tuple(range(xhat.ndim - 1))
    ct = ct * m
    d_params = {"scale": jnp.sum(ct * xhat, axis=axes), "bias": jnp.sum(ct, axis=axes)}
    g = ct * scale
    g_mean = jnp.mean(g, axis=axes)
    g_proj = jnp.mean(g * xhat, axis=axes)
    d_x = rstd * m * (g - g_mean - xhat * g_proj)
    return d_x, None, d_params


masked_batch_standardize.defvjp(_masked_batch_fwd, _masked_batch_bwd)


def _paged_probs(q, k_pages, table, lengths, scale):
    k = k_pages[table]
    k = k.reshape(k.shape[0], -1, *k.shape[3:])
    scores = jnp.einsum("bhd,bthd->bht", q, k) * scale
    keep = jnp.arange(k.shape[1])[None, :] < lengths[:, None]
    scores = jnp.where(keep[:, None, :], scores, _NEG)
    return jax.nn.softmax(scores, axis=-1), k


@partial(jax.custom_vjp, nondiff_argnums=(5,))
def _paged_attention(q, k_pages, v_pages, table, lengths, scale):
    return _paged_fwd(q, k_pages, v_pages, table, lengths, scale)[0]


def _paged_fwd(q, k_pages, v_pages, table, lengths, scale):
    probs, _ = _paged_probs(q, k_pages, table, lengths, scale)
    v = v_pages[table].reshape(probs.shape[0], probs.shape[2], *v_pages.shape[2:])
    out = jnp.einsum("bht,bthd->bhd", probs, v)
    return out, (q, k_pages, v_pages, table, lengths, out)


def _paged_bwd(scale, saved, ct):
    q, k_pages, v_pages, table, lengths, out = saved
    probs, k = _paged_probs(q, k_pages, table, lengths, scale)
    v = v_pages[table].reshape(probs.shape[0], probs.shape[2], *v_pages.shape[2:])
    d_v = jnp.einsum("bht,bhd->bthd", probs, ct)
    d_probs = jnp.einsum("bhd,bthd->bht", ct, v)
    delta = jnp.sum(ct * out, axis=-1)
    d_scores = probs * (d_probs - delta[..., None]) * scale
    d_q = jnp.einsum("bht,bthd->bhd", d_scores, k)
    d_k = jnp.einsum("bht,bhd->bthd", d_scores, q)
    paged = table.shape + k_pages.shape[1:2]
    d_k_pages = jnp.zeros_like(k_pages).at[table].set(d_k.reshape(*paged, *d_k.shape[2:]))
    d_v_pages = jnp.zeros_like(v_pages).at[table].set(d_v.reshape(*paged, *d_v.shape[2:]))
    return d_q, d_k_pages, d_v_pages, None, None


_paged_attention.defvjp(_paged_fwd, _paged_bwd)


def paged_attention(q, k_pages, v_pages, table, lengths, *, scale: Optional[float] = None):
    """Single-token attention over a paged key/value cache.

    Args:
      q: queries ``[batch, heads, dim]``.
      k_pages: key pages ``[pages, page_size, heads, dim]``.
      v_pages: value pages ``[pages, page_size, heads, v_dim]``.
      table: page ids of each sequence ``[batch, pages_per_sequence]``. Sequences with a
        common prompt point to the same pages.
      lengths: tokens in use per sequence ``[batch]``, at least one.
      scale: factor on the scores, ``dim ** -0.5`` if not given.

    Returns:
      ``[batch, heads, v_dim]``.
    """
    if scale is None:
        scale = q.shape[-1] ** -0.5
    return _paged_attention(q, k_pages, v_pages, table, lengths, float(scale))


def _alpha(scores, frames):
    start = jnp.where(jnp.arange(scores.shape[1]) == 0, scores[0], _NEG)

    def forward(prev, item):
        row, t = item
        moved = jnp.concatenate([jnp.full((1,), _NEG, row.dtype), prev[:-1]])
        new = jnp.where(t < frames, jnp.logaddexp(prev, moved) + row, prev)
        return new, new

    _, rest = lax.scan(forward, start, (scores[1:], jnp.arange(1, scores.shape[0])))
    return jnp.concatenate([start[None], rest], axis=0)


def _beta(scores, frames, tokens):
    total, width = scores.shape
    end = jnp.where(jnp.arange(width) == tokens - 1, 0.0, _NEG).astype(scores.dtype)

    def backward(nxt, item):
        row, t = item
        carried = nxt + row
        moved = jnp.concatenate([carried[1:], jnp.full((1,), _NEG, row.dtype)])
        new = jnp.where(t < frames, jnp.logaddexp(carried, moved), end)
        return new, new

    _, rest = lax.scan(backward, end, (scores[1:], jnp.arange(1, total)), reverse=True)
    return jnp.concatenate([rest, end[None]], axis=0)


@jax.custom_vjp
def _forward_sum(scores, frames, tokens):
    return _forward_sum_fwd(scores, frames, tokens)[0]


def _forward_sum_fwd(scores, frames, tokens):
    alpha = jax.vmap(_alpha)(scores, frames)
    pick = jnp.arange(scores.shape[0])
    log_z = alpha[pick, frames - 1, tokens - 1]
    return -log_z, (scores, alpha, log_z, frames, tokens)


def _forward_sum_bwd(saved, ct):
    scores, alpha, log_z, frames, tokens = saved
    beta = jax.vmap(_beta)(scores, frames, tokens)
    posterior = jnp.exp(alpha + beta - log_z[:, None, None])
    inside = jnp.arange(scores.shape[1])[None, :] < frames[:, None]
    posterior = jnp.where(inside[..., None], posterior, 0.0)
    return -ct[:, None, None] * posterior, None, None


_forward_sum.defvjp(_forward_sum_fwd, _forward_sum_bwd)


def forward_sum_loss(scores, frames, tokens, *, reduction: str = "mean"):
    """Negative log-sum over monotonic alignments of speech frames to text tokens.

    :param scores: log-probability of token n at frame t, ``[batch, frames, tokens]``.
    :param frames: frames in use per item, ``[batch]``.
    :param tokens: tokens in use per item, ``[batch]``, not more than ``frames``.
    :param reduction: ``"mean"`` over the batch, ``"sum"`` or ``"none"``.
    """
    losses = _forward_sum(scores, frames, tokens)
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses


class LevelBook:
    """Finite scalar quantiser: one grid of levels per latent channel.

    Args:
      levels: number of levels of each channel, two or more.
      slack: relative widening of the bound.
    """

    def __init__(self, levels: Sequence[int], slack: float = 1e-3):
        grid = np.asarray(levels)
        self.half = (grid - 1) * (1.0 + slack) / 2.0
        self.offset = np.where(grid % 2 == 0, 0.5, 0.0)
        self.shift = np.arctanh(self.offset / self.half)
        self.width = grid // 2

    def quantize_ste(self, z):
        """Bound each channel by a shifted tanh, then round to its grid in ``[-1, 1]``.

        Rounding is passed straight through: the derivative is that of the bounded value
        before rounding, divided by the half width of the grid.
        """
        half, offset, shift, width = self.half, self.offset, self.shift, self.width

        @jax.custom_jvp
        def snap(z):
            return (jnp.round(jnp.tanh(z + shift) * half - offset) / width).astype(z.dtype)

        @snap.defjvp
        def snap_jvp(primals, tangents):
            (z,), (dz,) = primals, tangents
            slope = (1.0 - jnp.tanh(z + shift) ** 2) * half / width
            return snap(z), (slope * dz).astype(z.dtype)

        return snap(z)
