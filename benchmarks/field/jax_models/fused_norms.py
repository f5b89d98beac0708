"""Normalisation primitives with hand-written backward passes.

The layers of this package keep their activations in bfloat16 for most of the
network; what autodiff stores for the normalisations (mean, variance, centred
input, normalised input, ...) is a sizeable share of the activation memory.
The functions below store the input and the per-row statistics only.

Layout convention: channels last.
"""
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array
Dtype = Any


def _acc(x: Array) -> Array:
    """Promote half precision inputs to float32 for the statistics."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _leading_axes(x: Array) -> tuple:
    return tuple(range(x.ndim - 1))


# ----------------------------------------------------------------------------
# LayerNorm
# ----------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def layer_norm(x: Array, scale: Array, bias: Array, eps: float = 1e-6) -> Array:
    """Layer normalisation over the last axis.

    Args:
      x: activations of shape ``[..., features]``.
      scale: ``[features]``.
      bias: ``[features]``.
      eps: added to the variance.

    Returns:
      Array of the shape and dtype of ``x``.
    """
    return _layer_norm_fwd(x, scale, bias, eps)[0]


def _layer_norm_fwd(x, scale, bias, eps):
    xf = _acc(x)
    mean = jnp.mean(xf, axis=-1, keepdims=True)
    var = jnp.mean(jnp.square(xf - mean), axis=-1, keepdims=True)
    rstd = lax.rsqrt(var + eps)
    y = (xf - mean) * rstd * scale + bias
    return y.astype(x.dtype), (x, scale, bias, mean, rstd)


def _layer_norm_bwd(eps, res, g):
    x, scale, bias, mean, rstd = res
    g = _acc(g)
    xhat = (_acc(x) - mean) * rstd
    axes = _leading_axes(x)
    dscale = jnp.sum(g * xhat, axis=axes)
    dbias = jnp.sum(g, axis=axes)
    gs = g * scale
    c1 = jnp.mean(gs, axis=-1, keepdims=True)
    c2 = jnp.mean(gs * xhat, axis=-1, keepdims=True)
    dx = rstd * (gs - c1 - xhat * c2)
    return dx.astype(x.dtype), dscale.astype(scale.dtype), dbias.astype(bias.dtype)


layer_norm.defvjp(_layer_norm_fwd, _layer_norm_bwd)


# ----------------------------------------------------------------------------
# RMSNorm
# ----------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def rms_norm(x: Array, weight: Array, eps: float = 1e-6) -> Array:
    """``x / rms(x) * weight`` as in LLaMA; the mean square is over the last axis."""
    xf = _acc(x)
    inv = lax.rsqrt(jnp.mean(xf * xf, axis=-1, keepdims=True) + eps)
    return (xf * inv * weight).astype(x.dtype)


def _rms_norm_fwd(x, weight, eps):
    xf = _acc(x)
    inv = lax.rsqrt(jnp.mean(xf * xf, axis=-1, keepdims=True) + eps)
    return (xf * inv * weight).astype(x.dtype), (x, weight, inv)


def _rms_norm_bwd(eps, res, g):
    x, weight, inv = res
    g = _acc(g)
    xhat = _acc(x) * inv
    dweight = jnp.sum(g * xhat, axis=_leading_axes(x))
    proj = jnp.mean(g * xhat, axis=-1, keepdims=True)
    dx = inv * (g * weight - xhat * proj)
    return dx.astype(x.dtype), dweight.astype(weight.dtype)


rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)


# ----------------------------------------------------------------------------
# GroupNorm
# ----------------------------------------------------------------------------


def _split_groups(x: Array, groups: int) -> Array:
    n, h, w, c = x.shape
    return x.reshape(n, h, w, groups, c // groups)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def group_norm(x, gamma, beta, groups=8, eps=1e-5):
    """Group normalisation of NHWC feature maps.

    Args:
      x: ``[batch, height, width, channels]``.
      gamma: per channel gain, ``[channels]``.
      beta: per channel offset, ``[channels]``.
      groups: number of groups, has to divide ``channels``.
      eps: added to the variance.
    """
    return _group_norm_fwd(x, gamma, beta, groups, eps)[0]


def _group_norm_fwd(x, gamma, beta, groups, eps):
    xg = _split_groups(_acc(x), groups)
    mean = xg.mean(axis=(1, 2, 4), keepdims=True)
    rstd = lax.rsqrt(xg.var(axis=(1, 2, 4), keepdims=True) + eps)
    xhat = ((xg - mean) * rstd).reshape(x.shape)
    return (xhat * gamma + beta).astype(x.dtype), (x, gamma, mean, rstd)


def _group_norm_bwd(groups, eps, res, g):
    x, gamma, mean, rstd = res
    g = _acc(g)
    xhat = (_split_groups(_acc(x), groups) - mean) * rstd
    dgamma = jnp.sum(g * xhat.reshape(x.shape), axis=(0, 1, 2))
    dbeta = jnp.sum(g, axis=(0, 1, 2))

    count = x.shape[1] * x.shape[2]
    dxhat = _split_groups(g * gamma, groups)
    s1 = jnp.sum(dxhat, axis=(1, 2, 4), keepdims=True) / count
    s2 = jnp.sum(dxhat * xhat, axis=(1, 2, 4), keepdims=True) / count
    dx = rstd * (dxhat - s1 - xhat * s2)
    return (
        dx.reshape(x.shape).astype(x.dtype),
        dgamma.astype(gamma.dtype),
        dbeta.astype(gamma.dtype),
    )


group_norm.defvjp(_group_norm_fwd, _group_norm_bwd)


# ----------------------------------------------------------------------------
# Reparametrised kernels
# ----------------------------------------------------------------------------


def _per_axis(vec: Array, ndim: int, axis: int) -> Array:
    shape = [1] * ndim
    shape[axis] = vec.shape[0]
    return vec.reshape(shape)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def weight_norm(v: Array, g: Array, axis: int = -1) -> Array:
    """Weight normalisation, ``w = g * v / ||v||`` (Salimans & Kingma, 2016).

    The norm is taken over all axes of ``v`` but ``axis``; ``g`` has shape
    ``(v.shape[axis],)``.
    """
    others = tuple(a for a in range(v.ndim) if a != axis % v.ndim)
    norm = jnp.sqrt(jnp.sum(v * v, axis=others, keepdims=True) + 1e-12)
    return _per_axis(g, v.ndim, axis) * v / norm


@weight_norm.defjvp
def _weight_norm_jvp(axis, primals, tangents):
    v, g = primals
    v_dot, g_dot = tangents
    others = tuple(a for a in range(v.ndim) if a != axis % v.ndim)
    norm = jnp.sqrt(jnp.sum(v * v, axis=others, keepdims=True) + 1e-12)
    direction = v / norm
    gain = _per_axis(g, v.ndim, axis)
    along = jnp.sum(direction * v_dot, axis=others, keepdims=True)
    w_dot = gain * (v_dot - direction * along) / norm
    w_dot = w_dot + _per_axis(g_dot, v.ndim, axis) * direction
    return gain * direction, w_dot


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def spectral_bound(kernel: Array, bound: float = 0.95) -> Array:
    """Rescales a matrix so that its spectral norm is at most ``bound``.

    Kernels whose spectral norm is below the bound are returned as they are.
    The largest singular value is assumed to be simple. Meant for small
    kernels: the singular vectors come from a full SVD rather than from power
    iteration, and they are kept for the backward pass.
    """
    sigma = jnp.linalg.norm(kernel, ord=2)
    return jnp.where(sigma > bound, kernel * (bound / jnp.maximum(sigma, bound)), kernel)


def _spectral_bound_fwd(kernel, bound):
    u, s, vt = jnp.linalg.svd(kernel, full_matrices=False)
    u1, sigma, v1 = u[:, 0], s[0], vt[0]
    safe = jnp.maximum(sigma, bound)
    out = jnp.where(sigma > bound, kernel * (bound / safe), kernel)
    return out, (kernel, u1, safe, v1, sigma > bound)


def _spectral_bound_bwd(bound, res, g):
    kernel, u1, safe, v1, active = res
    inner = jnp.sum(g * kernel)
    scaled = (bound / safe) * (g - (inner / safe) * jnp.outer(u1, v1))
    return (jnp.where(active, scaled, g),)


spectral_bound.defvjp(_spectral_bound_fwd, _spectral_bound_bwd)


# ----------------------------------------------------------------------------
# Layers
# ----------------------------------------------------------------------------


class LayerNorm(nn.Module):
    epsilon: float = 1e-6
    param_dtype: Dtype = jnp.float32

    @nn.compact
    def __call__(self, x):
        d = x.shape[-1]
        scale = self.param("scale", nn.initializers.ones, (d,), self.param_dtype)
        bias = self.param("bias", nn.initializers.zeros, (d,), self.param_dtype)
        return layer_norm(x, scale, bias, self.epsilon)


class RMSNorm(nn.Module):
    epsilon: float = 1e-6

    @nn.compact
    def __call__(self, x):
        return rms_norm(x, self.param("scale", nn.initializers.ones, (x.shape[-1],)), self.epsilon)


class GroupNorm(nn.Module):
    num_groups: int = 32
    epsilon: float = 1e-5

    @nn.compact
    def __call__(self, x):
        c = x.shape[-1]
        if c % self.num_groups:
            raise ValueError(f"{c} channels cannot be split into {self.num_groups} groups")
        gamma = self.param("scale", nn.initializers.ones, (c,))
        beta = self.param("bias", nn.initializers.zeros, (c,))
        return group_norm(x, gamma, beta, self.num_groups, self.epsilon)


class SpectralDense(nn.Module):
    """Dense layer with bounded Lipschitz constant, as used for SNGP heads."""

    features: int
    bound: float = 0.95

    @nn.compact
    def __call__(self, x):
        kernel = self.param(
            "kernel", nn.initializers.lecun_normal(), (x.shape[-1], self.features)
        )
        return x @ spectral_bound(kernel, self.bound)
