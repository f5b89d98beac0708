"""Normalisation, attention and loss kernels with memory-lean backward passes.

The forward passes keep only what the backward passes cannot cheaply recompute.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Optional

import jax
import jax.numpy as jnp

Array = jax.Array


def _compute_dtype(x):
    return jnp.promote_types(x.dtype, jnp.float32)


# ----------------------------------------------------------------------------
# RMSNorm
# ----------------------------------------------------------------------------


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def rms_norm(x: Array, weight: Array, bias: Optional[Array] = None, eps: float = 1e-6) -> Array:
    """Root-mean-square normalisation of the last axis.

    Args:
      x: input of shape ``[..., d]``.
      weight: gain of shape ``[d]``.
      bias: optional offset of shape ``[d]``.
      eps: added to the mean square.

    Returns:
      Array of the shape and type of ``x``.
    """
    return _rms_norm_fwd(x, weight, bias, eps)[0]


def _rms_norm_fwd(x, weight, bias, eps):
    xf = x.astype(_compute_dtype(x))
    rstd = jax.lax.rsqrt(jnp.mean(jnp.square(xf), axis=-1, keepdims=True) + eps)
    out = xf * rstd * weight
    if bias is not None:
        out = out + bias
    return out.astype(x.dtype), (x, weight, bias, rstd)


def _rms_norm_bwd(eps, res, g):
    x, weight, bias, rstd = res
    xhat = x.astype(rstd.dtype) * rstd
    g = g.astype(rstd.dtype)
    lead = tuple(range(x.ndim - 1))
    gw = g * weight
    dx = rstd * (gw - xhat * jnp.mean(gw * xhat, axis=-1, keepdims=True))
    dweight = jnp.sum(g * xhat, axis=lead).astype(weight.dtype)
    dbias = None if bias is None else jnp.sum(g, axis=lead).astype(bias.dtype)
    return dx.astype(x.dtype), dweight, dbias


rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)


# ----------------------------------------------------------------------------
# GroupNorm
# ----------------------------------------------------------------------------


def _split_groups(x, num_groups):
    b, c = x.shape[0], x.shape[-1]
    return x.reshape(b, -1, num_groups, c // num_groups)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def _group_norm(x, scale, bias, num_groups, epsilon):
    return _group_norm_fwd(x, scale, bias, num_groups, epsilon)[0]


def _group_norm_fwd(x, scale, bias, num_groups, epsilon):
    xg = _split_groups(x, num_groups)
    mean = jnp.mean(xg, axis=(1, 3), keepdims=True)
    var = jnp.mean(jnp.square(xg - mean), axis=(1, 3), keepdims=True)
    rstd = jax.lax.rsqrt(var + epsilon)
    xhat = ((xg - mean) * rstd).reshape(x.shape)
    return xhat * scale + bias, (xhat, rstd, scale)


def _group_norm_bwd(num_groups, epsilon, res, g):
    xhat, rstd, scale = res
    lead = tuple(range(g.ndim - 1))
    dscale = jnp.sum(g * xhat, axis=lead)
    dbias = jnp.sum(g, axis=lead)
    gg = _split_groups(g, num_groups)
    hg = _split_groups(xhat, num_groups)
    centred = gg - jnp.mean(gg, axis=(1, 3), keepdims=True)
    centred = centred - hg * jnp.mean(gg * hg, axis=(1, 3), keepdims=True)
    dx = (centred * rstd).reshape(g.shape) * scale
    return dx, dscale, dbias


_group_norm.defvjp(_group_norm_fwd, _group_norm_bwd)


def group_norm(x: Array, scale: Array, bias: Array, *, num_groups: int = 1, epsilon: float = 1e-5) -> Array:
    """Group normalisation, channels last.

    Args:
      x: ``[batch, *spatial, channels]``.
      scale: ``[channels]``.
      bias: ``[channels]``.
      num_groups: number of groups; divides ``channels``.
      epsilon: variance offset.
    """
    if x.shape[-1] % num_groups:
        raise ValueError(f"{x.shape[-1]} channels do not split into {num_groups} groups")
    return _group_norm(x, scale, bias, num_groups, epsilon)


@dataclasses.dataclass(frozen=True)
class GroupNorm:
    features: int
    num_groups: int = 8
    epsilon: float = 1e-5

    def init(self):
        return {"scale": jnp.ones((self.features,)), "bias": jnp.zeros((self.features,))}

    def apply(self, params, x):
        return group_norm(
            x, params["scale"], params["bias"], num_groups=self.num_groups, epsilon=self.epsilon
        )


# ----------------------------------------------------------------------------
# Cross entropy
# ----------------------------------------------------------------------------


def _soft_targets(labels, vocab, smoothing, dtype):
    hot = jax.nn.one_hot(labels, vocab, dtype=dtype)
    return (1.0 - smoothing) * hot + smoothing / vocab


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def fused_cross_entropy(
    logits: "Float[Array, '*batch vocab']",
    labels: "Int[Array, '*batch']",
    label_smoothing: float = 0.0,
) -> "tuple[Float[Array, '*batch'], Float[Array, '*batch']]":
    """Softmax cross entropy which also returns the log normaliser.

    The log normaliser comes for free and is what auxiliary losses such as the
    z-loss, ``1e-4 * lse**2``, are made of.

    Args:
      logits: unnormalised log probabilities.
      labels: class indices.
      label_smoothing: share of the target spread evenly over the vocabulary.

    Returns:
      The loss and ``logsumexp(logits, -1)``, one of each per label.
    """
    return _fused_cross_entropy_fwd(logits, labels, label_smoothing)[0]


def _fused_cross_entropy_fwd(logits, labels, label_smoothing):
    top = jnp.max(logits, axis=-1, keepdims=True)
    lse = jnp.log(jnp.sum(jnp.exp(logits - top), axis=-1)) + top[..., 0]
    target = _soft_targets(labels, logits.shape[-1], label_smoothing, logits.dtype)
    loss = lse - jnp.sum(target * logits, axis=-1)
    return (loss, lse), (logits, labels, lse)


def _fused_cross_entropy_bwd(label_smoothing, res, g):
    logits, labels, lse = res
    g_loss, _ = g
    prob = jnp.exp(logits - lse[..., None])
    target = _soft_targets(labels, logits.shape[-1], label_smoothing, logits.dtype)
    return g_loss[..., None] * (prob - target), None


fused_cross_entropy.defvjp(_fused_cross_entropy_fwd, _fused_cross_entropy_bwd)


# ----------------------------------------------------------------------------
# Attention
# ----------------------------------------------------------------------------


def _sum_to_shape(x, shape):
    extra = x.ndim - len(shape)
    x = jnp.sum(x, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return jnp.sum(x, axis=axes, keepdims=True)


def _attention_weights(q, k, bias, scale, causal):
    logits = scale * jnp.einsum("bqhd,bkhd->bhqk", q, k)
    if bias is not None:
        logits = logits + bias
    mask = None
    if causal:
        tq, tk = logits.shape[-2:]
        mask = jnp.arange(tk)[None, :] <= jnp.arange(tq)[:, None] + (tk - tq)
        logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
    return jax.nn.softmax(logits, axis=-1), mask


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def dot_product_attention(q, k, v, bias=None, scale=None, causal=False):
    """Multi-head attention.

    Args:
      q: ``[b, tq, h, d]``.
      k: ``[b, tk, h, d]``.
      v: ``[b, tk, h, dv]``.
      bias: ``None``, or an array that broadcasts to ``[b, h, tq, tk]``.
      scale: factor on the logits, ``d ** -0.5`` if ``None``.
      causal: whether the last query sees all keys, the one before it all but
        the last key, and so on.

    Returns:
      ``[b, tq, h, dv]``.
    """
    return _attention_fwd(q, k, v, bias, scale, causal)[0]


def _attention_fwd(q, k, v, bias, scale, causal):
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    p, _ = _attention_weights(q, k, bias, factor, causal)
    return jnp.einsum("bhqk,bkhd->bqhd", p, v), (q, k, v, bias)


def _attention_bwd(scale, causal, res, g):
    q, k, v, bias = res
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    p, mask = _attention_weights(q, k, bias, factor, causal)
    dv = jnp.einsum("bhqk,bqhd->bkhd", p, g)
    dp = jnp.einsum("bqhd,bkhd->bhqk", g, v)
    ds = p * (dp - jnp.sum(dp * p, axis=-1, keepdims=True))
    if mask is not None:
        ds = jnp.where(mask, ds, 0.0)
    dq = factor * jnp.einsum("bhqk,bkhd->bqhd", ds, k)
    dk = factor * jnp.einsum("bhqk,bqhd->bkhd", ds, q)
    dbias = None if bias is None else _sum_to_shape(ds, bias.shape)
    return dq, dk, dv, dbias


dot_product_attention.defvjp(_attention_fwd, _attention_bwd)


# ----------------------------------------------------------------------------
# Softmax
# ----------------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def tempered_softmax(x, temperature, axis=-1):
    scaled = x / temperature
    shifted = scaled - jnp.max(scaled, axis=axis, keepdims=True)
    e = jnp.exp(shifted)
    return e / jnp.sum(e, axis=axis, keepdims=True)


@tempered_softmax.defjvp
def _tempered_softmax_jvp(axis, primals, tangents):
    x, temperature = primals
    dx, dtemp = tangents
    y = tempered_softmax(x, temperature, axis)
    ds = (dx - x * dtemp / temperature) / temperature
    inner = jnp.sum(y * ds, axis=-1, keepdims=True)
    return y, y * (ds - inner)
