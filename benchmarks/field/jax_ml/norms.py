"""Normalisation layers with hand-written backward passes.

XLA keeps too many intermediates alive for the naive versions, so each function
below saves only what its backward pass really needs.
"""
from functools import partial
from typing import Sequence

import jax
import jax.numpy as jnp
import flax.linen as nn


# --------------------------------------------------------------------------
# RMS norm
# --------------------------------------------------------------------------

@partial(jax.custom_vjp, nondiff_argnums=(2,))
def rms_norm(x, scale, eps=1e-6):
    """Root-mean-square normalisation over the last axis.

    Parameters
    ----------
    x : array, shape (..., dim)
        Activations.
    scale : array, shape (dim,)
        Learned gain.
    eps : float
        Added to the mean square.

    Returns
    -------
    array, shape (..., dim)
    """
    ms = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(ms + eps) * scale


def _rms_norm_fwd(x, scale, eps):
    rstd = jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps)
    return x * rstd * scale, (x, scale, rstd)


def _rms_norm_bwd(eps, res, g):
    x, scale, rstd = res
    xhat = x * rstd
    gs = g * scale
    dx = rstd * (gs - xhat * jnp.mean(gs * xhat, axis=-1, keepdims=True))
    dscale = jnp.sum((g * xhat).reshape(-1, x.shape[-1]), axis=0)
    return dx, dscale


rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)


# fused: the transformer block always does `h = x + residual; norm(h)` and needs
# both the normalised value and h itself for the next skip connection
@partial(jax.custom_vjp, nondiff_argnums=(3,))
def add_rms_norm(x, residual, scale, eps=1e-6):
    h = x + residual
    return rms_norm(h, scale, eps), h


def _add_rms_fwd(x, residual, scale, eps):
    h = x + residual
    rstd = jax.lax.rsqrt(jnp.mean(h * h, axis=-1, keepdims=True) + eps)
    return (h * rstd * scale, h), (h, rstd, scale)


def _add_rms_bwd(eps, res, cts):
    h, rstd, scale = res
    g_out, g_res = cts
    hhat = h * rstd
    gs = g_out * scale
    dh = rstd * (gs - hhat * jnp.mean(gs * hhat, axis=-1, keepdims=True))
    dscale = jnp.einsum("nd,nd->d", g_out.reshape(-1, h.shape[-1]), hhat.reshape(-1, h.shape[-1]))
    return dh, dh + g_res, dscale


add_rms_norm.defvjp(_add_rms_fwd, _add_rms_bwd)


# --------------------------------------------------------------------------
# Group norm
# --------------------------------------------------------------------------

def make_group_norm(num_groups: int, eps: float = 1e-5):
    """Build a channels-last group norm ``f(x, scale, bias)``.

    Args:
      num_groups: number of channel groups; must divide the channel count.
      eps: variance floor.

    Returns:
      A function of ``x: [batch, length, channels]``, ``scale: [channels]`` and
      ``bias: [channels]``.
    """

    def stats(x):
        n, l, c = x.shape
        xg = x.reshape(n, l, num_groups, c // num_groups)
        mean = xg.mean(axis=(1, 3))
        var = xg.var(axis=(1, 3))
        return xg, mean, jax.lax.rsqrt(var + eps)

    @jax.custom_vjp
    def group_norm(x, scale, bias):
        xg, mean, rstd = stats(x)
        xhat = (xg - mean[:, None, :, None]) * rstd[:, None, :, None]
        return xhat.reshape(x.shape) * scale + bias

    def fwd(x, scale, bias):
        xg, mean, rstd = stats(x)
        xhat = ((xg - mean[:, None, :, None]) * rstd[:, None, :, None]).reshape(x.shape)
        return xhat * scale + bias, (xhat, rstd, scale)

    def bwd(res, g):
        xhat, rstd, scale = res
        n, l, c = xhat.shape
        per_group = c // num_groups
        grouped = (n, l, num_groups, per_group)
        dxhat = (g * scale).reshape(grouped)
        xg = xhat.reshape(grouped)
        m1 = dxhat.mean(axis=(1, 3), keepdims=True)
        m2 = (dxhat * xg).mean(axis=(1, 3), keepdims=True)
        inner = (dxhat - m1 - xg * m2).reshape(n, l, c)
        rstd_c = jnp.tile(rstd, (1, per_group))
        dx = inner * rstd_c[:, None, :]
        return dx, (g * xhat).sum(axis=(0, 1)), g.sum(axis=(0, 1))

    group_norm.defvjp(fwd, bwd)
    return group_norm


group_norm4 = make_group_norm(4)


class GroupNorm4(nn.Module):
    """Learned affine on top of :func:`group_norm4`."""

    @nn.compact
    def __call__(self, x):
        c = x.shape[-1]
        scale = self.param("scale", nn.initializers.ones, (c,))
        bias = self.param("bias", nn.initializers.zeros, (c,))
        return group_norm4(x, scale, bias)


# --------------------------------------------------------------------------
# Batch norm (training)
# --------------------------------------------------------------------------

@partial(jax.custom_vjp, nondiff_argnums=(3,))
def batch_norm_train(x, gamma, beta, eps=1e-5):
    """Training-mode batch norm.

    Everything except the trailing channel axis is reduced.  Returns the
    normalised activations together with the batch mean and (biased) variance so
    that the caller may update the running averages.  The statistics are
    differentiable, some of our regularisers penalise them.

    :param x: activations, ``(N, ..., C)``
    :param gamma: ``(C,)``
    :param beta: ``(C,)``
    :param eps: float
    :returns: ``(y, mean, var)``
    """
    (y, mean, var), _ = _bn_fwd(x, gamma, beta, eps)
    return y, mean, var


def _bn_axes(x):
    return tuple(range(x.ndim - 1))


def _bn_fwd(x, gamma, beta, eps):
    ax = _bn_axes(x)
    mean = jnp.mean(x, ax)
    var = jnp.mean((x - mean) ** 2, ax)
    rstd = 1.0 / jnp.sqrt(var + eps)
    y = (x - mean) * rstd * gamma + beta
    return (y, mean, var), (x, gamma, mean, rstd)


def _bn_bwd(eps, res, cts):
    gy, gmean, gvar = cts
    x, gamma, mean, rstd = res
    ax = _bn_axes(x)
    n = x.size // x.shape[-1]
    centred = x - mean
    xhat = centred * rstd
    dgamma = jnp.sum(gy * xhat, ax)
    dbeta = jnp.sum(gy, ax)
    dx = gamma * rstd * (gy - dbeta / n - xhat * dgamma / n)
    dx = dx + gmean / n + 2.0 * gvar * centred / n
    return dx, dgamma, dbeta


batch_norm_train.defvjp(_bn_fwd, _bn_bwd)


# --------------------------------------------------------------------------
# Weight reparametrisations
# --------------------------------------------------------------------------

@partial(jax.custom_vjp, nondiff_argnums=(2,))
def weight_norm(v, g, axis=0):
    """w = g * v / ||v||, the norm being taken along ``axis``.

    Args:
      v: direction matrix, ``(fan_in, fan_out)``.
      g: magnitudes, same shape as ``v`` with ``axis`` kept as size one.
      axis: reduced axis, 0 (one magnitude per output) or 1 (per input).
    """
    return g * v / jnp.linalg.norm(v, axis=axis, keepdims=True)


def _wn_fwd(v, g, axis):
    norm = jnp.sqrt(jnp.sum(v * v, axis=axis, keepdims=True))
    return g * v / norm, (v, g, norm)


def _wn_bwd(axis, res, dw):
    v, g, norm = res
    unit = v / norm
    dg = jnp.sum(dw * unit, axis=axis, keepdims=True)
    radial = jnp.sum(dw * unit, axis=0, keepdims=True)
    dv = (g / norm) * (dw - unit * radial)
    return dv, dg


weight_norm.defvjp(_wn_fwd, _wn_bwd)


@jax.custom_vjp
def spectral_normalize(w, u):
    # one half-step of power iteration from the running left vector u
    return w / jnp.linalg.norm(w.T @ u)


def _sn_fwd(w, u):
    wtu = w.T @ u
    sigma = jnp.sqrt(jnp.vdot(wtu, wtu))
    return w / sigma, (w, u, wtu / sigma, sigma)


def _sn_bwd(res, g):
    w, u, v, sigma = res
    dsigma = -jnp.vdot(g, w) / sigma**2
    dw = g / sigma + dsigma * jnp.outer(u, v)
    du = dsigma * (w @ v)
    return dw, du


spectral_normalize.defvjp(_sn_fwd, _sn_bwd)


class SNDense(nn.Module):
    features: int

    @nn.compact
    def __call__(self, x):
        w = self.param("kernel", nn.initializers.lecun_normal(), (x.shape[-1], self.features))
        u = self.variable("sn", "u", lambda: jnp.ones((x.shape[-1],)) / jnp.sqrt(x.shape[-1]))
        return x @ spectral_normalize(w, jax.lax.stop_gradient(u.value))


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def l2_normalize(x: "float[...]", axis: int = -1, eps: float = 1e-12) -> "float[...]":
    """Scale ``x`` to unit Euclidean length along ``axis``."""
    return x * jax.lax.rsqrt(jnp.sum(x * x, axis=axis, keepdims=True) + eps)


@l2_normalize.defjvp
def _l2_normalize_jvp(axis, eps, primals, tangents):
    (x,), (dx,) = primals, tangents
    r = jax.lax.rsqrt(jnp.sum(x * x, axis=axis, keepdims=True) + eps)
    y = x * r
    return y, r * (dx - y * jnp.sum(y * dx, axis=axis, keepdims=True))
