"""Normalisation layers."""
import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp


# ---- RMSNorm ---------------------------------------------------------------------------

@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def rms_norm(x, scale, eps=1e-6, zero_centered=False):
    """RMSNorm over the last axis.

    Args:
        x: (..., D)
        scale: (D,). With ``zero_centered`` the effective gain is ``1 + scale``.
        eps: added to the mean square.
        zero_centered: Gemma-style parametrisation.
    """
    return _rms_fwd(x, scale, eps, zero_centered)[0]


def _rms_fwd(x, scale, eps, zero_centered):
    inv = jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)
    gain = 1.0 + scale if zero_centered else scale
    return x * inv * gain, (x, gain, inv)


def _rms_bwd(eps, zero_centered, res, g):
    x, gain, inv = res
    xhat = x * inv
    gg = g * gain
    dx = inv * (gg - xhat * jnp.mean(gg * xhat, axis=-1, keepdims=True))
    dscale = jnp.sum(g * xhat, axis=tuple(range(g.ndim - 1)))
    return dx, dscale


rms_norm.defvjp(_rms_fwd, _rms_bwd)


# ---- LayerNorm -------------------------------------------------------------------------

@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def layer_norm(x, weight, bias, eps=1e-5):
    """Layer normalisation over the trailing axis with affine parameters of shape (D,)."""
    return _ln_fwd(x, weight, bias, eps)[0]


def _ln_fwd(x, weight, bias, eps):
    mu = x.mean(-1, keepdims=True)
    xc = x - mu
    rstd = jax.lax.rsqrt((xc * xc).mean(-1, keepdims=True) + eps)
    xhat = xc * rstd
    return xhat * weight + bias, (xhat, rstd, weight)


def _ln_bwd(eps, res, dy):
    xhat, rstd, weight = res
    wdy = dy * weight
    c1 = (xhat * dy).mean(-1, keepdims=True)
    c2 = wdy.mean(-1, keepdims=True)
    dx = (wdy - (xhat * c1 + c2)) * rstd
    lead = tuple(range(dy.ndim - 1))
    return dx, (dy * xhat).sum(lead), dy.sum(lead)


layer_norm.defvjp(_ln_fwd, _ln_bwd)


# ---- GroupNorm -------------------------------------------------------------------------

class Affine(NamedTuple):
    scale: jax.Array
    bias: jax.Array


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def group_norm(x, affine, num_groups=32, eps=1e-6):
    y, _ = _gn_fwd(x, affine, num_groups, eps)
    return y


def _split(x, num_groups):
    # [N, *spatial, C] -> [N, P, G, C/G]
    return x.reshape(x.shape[0], -1, num_groups, x.shape[-1] // num_groups)


def _gn_fwd(x, affine, num_groups, eps):
    xg = _split(x, num_groups)
    mu = jnp.mean(xg, axis=(1, 3), keepdims=True)
    var = jnp.mean(jnp.square(xg - mu), axis=(1, 3), keepdims=True)
    inv = jax.lax.rsqrt(var + eps)
    xhat = ((xg - mu) * inv).reshape(x.shape)
    return xhat * affine.scale + affine.bias, (xhat, inv, affine.scale)


def _gn_bwd(num_groups, eps, res, g):
    xhat, inv, scale = res
    lead = tuple(range(g.ndim - 1))
    daffine = Affine(jnp.sum(g * xhat, axis=lead), jnp.sum(g, axis=lead))
    gg, xg = _split(g * scale, num_groups), _split(xhat, num_groups)
    m0 = jnp.mean(gg, axis=(1, 3), keepdims=True)
    m1 = jnp.mean(gg * xg, axis=(1, 3), keepdims=True)
    dx = inv * (gg - m0 - xg * m1)
    return dx.reshape(g.shape), daffine


group_norm.defvjp(_gn_fwd, _gn_bwd)


# ---- unit vectors ----------------------------------------------------------------------

@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def l2_normalize(x, axis=-1, eps=1e-12):
    """Scale ``x`` to unit Euclidean length along ``axis``.

    :param x: array of any rank
    :param axis: int, the axis along which vectors are laid out
    :param eps: keeps the division finite for null vectors
    """
    return x * jax.lax.rsqrt(jnp.sum(x * x, axis=axis, keepdims=True) + eps)


@l2_normalize.defjvp
def _l2_jvp(axis, eps, primals, tangents):
    (x,), (dx,) = primals, tangents
    inv = jax.lax.rsqrt(jnp.sum(x * x, axis=axis, keepdims=True) + eps)
    y = x * inv
    radial = jnp.sum(y * dx, axis=-1, keepdims=True)
    return y, (dx - y * radial) * inv


# ---- masked batch statistics ------------------------------------------------------------

@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def masked_batch_norm(x, scale, bias, mask, eps=1e-5):
    """Batch normalisation of padded sequences.

    Parameters
    ----------
    x : (B, T, C) features
    scale, bias : (C,)
    mask : (B, T) bool, True on real frames; padding does not enter the statistics
    eps : float

    Returns
    -------
    y : (B, T, C), zero on padding
    mean, var : (C,) biased batch statistics
    """
    return _mbn_fwd(x, scale, bias, mask, eps)[0]


def _mbn_fwd(x, scale, bias, mask, eps):
    m = mask[..., None].astype(x.dtype)
    n = jnp.maximum(m.sum(), 1.0)
    mean = jnp.sum(m * x, axis=(0, 1)) / n
    xc = (x - mean) * m
    var = jnp.sum(xc * xc, axis=(0, 1)) / n
    rstd = jax.lax.rsqrt(var + eps)
    y = (xc * rstd * scale + bias) * m
    return (y, mean, var), (xc, m, n, rstd, scale)


def _mbn_bwd(eps, res, cts):
    xc, m, n, rstd, scale = res
    dy, dmean, dvar = cts
    dy = dy * m
    dbias = dy.sum((0, 1))
    dscale = (dy * xc).sum((0, 1)) * rstd
    dvar = dvar - 0.5 * scale * rstd ** 3 * (dy * xc).sum((0, 1))
    dmean = dmean - scale * rstd * dbias
    dx = m * (dy * scale * rstd + dmean / n) + xc * (2.0 / n) * dvar
    return dx, dscale, dbias, None


masked_batch_norm.defvjp(_mbn_fwd, _mbn_bwd)


# ---- modules ---------------------------------------------------------------------------

class RMSNorm(eqx.Module):
    scale: jax.Array
    eps: float = eqx.field(static=True)

    def __init__(self, dim, eps=1e-6):
        self.scale = jnp.zeros((dim,))
        self.eps = eps

    def __call__(self, x):
        return rms_norm(x, self.scale, self.eps, True)


class CosineClassifier(eqx.Module):
    """Logits are scaled cosines between features (N, D) and class columns (D, K)."""
    weight: jax.Array
    temperature: float = eqx.field(static=True)

    def __init__(self, dim, classes, *, key, temperature=16.0):
        self.weight = jax.random.normal(key, (dim, classes)) / jnp.sqrt(dim)
        self.temperature = temperature

    def __call__(self, feats):
        return self.temperature * l2_normalize(feats) @ l2_normalize(self.weight, 0)
