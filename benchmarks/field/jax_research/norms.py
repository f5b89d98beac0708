"""Normalisation and gating kernels of the transformer blocks.

Every op keeps its statistics in at least float32 and casts the result back.
"""
from functools import partial
from typing import NamedTuple, Optional, Sequence, Union

import jax
import jax.numpy as jnp
from jax import lax

Array = jax.Array


def _wide(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


# ---------------------------------------------------------------------------
# RMS norm
# ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def rms_norm(x: Array, weight: Array, eps: float = 1e-6, offset: float = 0.0) -> Array:
    """Root-mean-square norm over the last axis.

    Args:
      x: activations ``[..., d]``.
      weight: gain ``[d]``.
      eps: added to the mean square.
      offset: constant added to ``weight`` (1.0 for gains stored around zero).

    Returns:
      ``x / rms(x) * (offset + weight)`` in the dtype of ``x``.
    """
    return _rms_norm_fwd(x, weight, eps, offset)[0]


def _rms_norm_fwd(x, weight, eps, offset):
    xw = _wide(x)
    inv = lax.rsqrt(jnp.mean(xw * xw, axis=-1, keepdims=True) + eps)
    y = xw * inv * (offset + _wide(weight))
    return y.astype(x.dtype), (x, weight, inv)


def _rms_norm_bwd(eps, offset, res, g):
    x, weight, inv = res
    xw, gw = _wide(x), _wide(g)
    xhat = xw * inv
    gy = gw * (offset + _wide(weight))
    dx = inv * (gy - xhat * jnp.mean(gy * xhat, axis=-1, keepdims=True))
    lead = tuple(range(x.ndim - 1))
    dw = jnp.sum(gw * xhat, axis=lead)
    return dx.astype(x.dtype), dw.astype(weight.dtype)


rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)


# ---------------------------------------------------------------------------
# Layer norm over one or several axes
# ---------------------------------------------------------------------------


def _canonical(axes: Union[int, Sequence[int]], ndim: int) -> tuple:
    if isinstance(axes, int):
        axes = (axes,)
    return tuple(sorted(a % ndim for a in axes))


def _as_broadcast(p, shape, axes):
    return p.reshape([shape[i] if i in axes else 1 for i in range(len(shape))])


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def layer_norm(x, scale, bias=None, axes=-1, eps=1e-5):
    """Layer norm with affine parameters.

    Parameters
    ----------
    x : Array
        Input of any rank.
    scale : Array
        Gain; its shape is that of ``x`` restricted to ``axes``.
    bias : Array, optional
        Shift of the same shape as ``scale``.
    axes : int or tuple of int
        Axes that are normalised jointly.
    eps : float
        Added to the variance.
    """
    return _layer_norm_fwd(x, scale, bias, axes, eps)[0]


def _layer_norm_fwd(x, scale, bias, axes, eps):
    ax = _canonical(axes, x.ndim)
    xw = _wide(x)
    mu = jnp.mean(xw, axis=ax, keepdims=True)
    xc = xw - mu
    rstd = lax.rsqrt(jnp.mean(xc * xc, axis=ax, keepdims=True) + eps)
    xhat = xc * rstd
    y = xhat * _as_broadcast(_wide(scale), x.shape, ax)
    if bias is not None:
        y = y + _as_broadcast(_wide(bias), x.shape, ax)
    return y.astype(x.dtype), (xhat, rstd, scale, bias)


def _layer_norm_bwd(axes, eps, res, g):
    xhat, rstd, scale, bias = res
    ax = _canonical(axes, g.ndim)
    rest = tuple(i for i in range(g.ndim) if i not in ax)
    n = g.shape[ax[-1]]
    gw = _wide(g)
    gs = gw * _as_broadcast(_wide(scale), g.shape, ax)
    c1 = jnp.sum(gs, axis=ax, keepdims=True) / n
    c2 = jnp.sum(gs * xhat, axis=ax, keepdims=True) / n
    dx = rstd * (gs - c1 - xhat * c2)
    dscale = jnp.sum(gw * xhat, axis=rest).astype(scale.dtype)
    dbias = None if bias is None else jnp.sum(gw, axis=rest).astype(bias.dtype)
    return dx.astype(g.dtype), dscale, dbias


layer_norm.defvjp(_layer_norm_fwd, _layer_norm_bwd)


class LayerNormParams(NamedTuple):
    scale: Array
    bias: Optional[Array] = None


def apply_layer_norm(params: LayerNormParams, x: Array, *, axes=-1) -> Array:
    return layer_norm(x, params.scale, params.bias, axes)


# ---------------------------------------------------------------------------
# Unit vectors
# ---------------------------------------------------------------------------


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def l2_normalize(x, axis=-1, eps=1e-12):
    sq = jnp.sum(x * x, axis=axis, keepdims=True)
    return x * lax.rsqrt(jnp.maximum(sq, eps))


@l2_normalize.defjvp
def _l2_normalize_jvp(axis, eps, primals, tangents):
    (x,), (dx,) = primals, tangents
    sq = jnp.sum(x * x, axis=axis, keepdims=True)
    inv = lax.rsqrt(jnp.maximum(sq, eps))
    y = x * inv
    radial = y * jnp.sum(y * dx, axis=axis, keepdims=True)
    return y, inv * (dx - jnp.where(sq > eps, radial, 0.0))


# ---------------------------------------------------------------------------
# Gated units
# ---------------------------------------------------------------------------


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def clamped_swiglu(gate: Array, up: Array, limit: Optional[float] = None, alpha: float = 1.702) -> Array:
    """SwiGLU of the mixture layers, ``swish_alpha(gate) * (up + 1)``.

    With ``limit`` the gate is clamped from above at ``limit`` and the linear
    branch to ``[-limit, limit]`` before the product, as in the reference model.
    """
    return _clamped_swiglu_fwd(gate, up, limit, alpha)[0]


def _clamped_swiglu_fwd(gate, up, limit, alpha):
    g, u = gate, up
    if limit is not None:
        g = jnp.minimum(g, limit)
        u = jnp.clip(u, -limit, limit)
    out = g * jax.nn.sigmoid(alpha * g) * (u + 1)
    return out, (gate, up)


def _clamped_swiglu_bwd(limit, alpha, res, ct):
    gate, up = res
    g, u = gate, up
    if limit is not None:
        g = jnp.minimum(g, limit)
        u = jnp.clip(u, -limit, limit)
    s = jax.nn.sigmoid(alpha * g)
    swish = g * s
    dgate = ct * (u + 1) * (s + alpha * swish * (1 - s))
    dup = ct * swish
    if limit is not None:
        dgate = jnp.where(gate < limit, dgate, 0)
        dup = jnp.where(up < limit, dup, 0)
    return dgate, dup


clamped_swiglu.defvjp(_clamped_swiglu_fwd, _clamped_swiglu_bwd)


def swiglu_mlp(params, x, *, limit=None):
    """Gated MLP; ``params`` holds ``w_gate``, ``w_up`` and ``w_down``."""
    hidden = clamped_swiglu(x @ params["w_gate"], x @ params["w_up"], limit)
    return hidden @ params["w_down"]
