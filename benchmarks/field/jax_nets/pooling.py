"""Pooling and light convolutions (channels last throughout)."""
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def avg_pool_1d(x, window=2, stride=2):
    """Average pooling along time without padding, (B, T, C) -> (B, (T - window) // stride + 1, C)."""
    n = (x.shape[1] - window) // stride + 1
    idx = stride * jnp.arange(n)[:, None] + jnp.arange(window)[None, :]
    return x[:, idx].mean(axis=2)


def _avg_fwd(x, window, stride):
    # only the static length is needed; an empty array carries it
    return avg_pool_1d(x, window, stride), jnp.zeros((x.shape[1], 0), x.dtype)


def _avg_bwd(window, stride, res, g):
    length = res.shape[0]
    # every output step covers `stride` input steps
    spread = jnp.repeat(g / window, stride, axis=1)
    missing = max(length - spread.shape[1], 0)
    return (jnp.pad(spread, ((0, 0), (0, missing), (0, 0)))[:, :length],)


avg_pool_1d.defvjp(_avg_fwd, _avg_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def gem_pool(x, p, eps=1e-6):
    """Generalised-mean pooling of magnitudes over the spatial axes.

    x : (N, H, W, C) feature map
    p : (C,) learned exponent, > 0
    """
    return _gem_fwd(x, p, eps)[0]


def _gem_fwd(x, p, eps):
    a = jnp.maximum(jnp.abs(x), eps)
    m = jnp.mean(a ** p, axis=(1, 2))
    y = m ** (1.0 / p)
    return y, (x, p, a, m, y)


def _gem_bwd(eps, res, g):
    x, p, a, m, y = res
    area = x.shape[1] * x.shape[2]
    coef = g * y / m                                     # (N, C)
    dx = coef[:, None, None] * a ** (p - 1.0) / area
    dx = jnp.where(jnp.abs(x) > eps, dx, 0.0)
    mean_log = jnp.mean(a ** p * jnp.log(a), axis=(1, 2))
    dp = jnp.sum(coef * mean_log / p - g * y * jnp.log(m) / p ** 2, axis=0)
    return dx, dp


gem_pool.defvjp(_gem_fwd, _gem_bwd)


def _shift(x, n):
    """Delay a (B, T, C) signal by n steps (advance when n < 0), filling with zeros."""
    t = x.shape[1]
    if n >= 0:
        return jnp.pad(x, ((0, 0), (n, 0), (0, 0)))[:, :t]
    return jnp.pad(x, ((0, 0), (0, -n), (0, 0)))[:, -n:]


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def causal_depthwise_conv(x, kernel, bias, dilation=1):
    y = bias
    width = kernel.shape[0]
    for j in range(width):
        y = y + kernel[j] * _shift(x, (width - 1 - j) * dilation)
    return y


def _cdc_fwd(x, kernel, bias, dilation):
    return causal_depthwise_conv(x, kernel, bias, dilation), (x, kernel)


def _cdc_bwd(dilation, res, g):
    x, kernel = res
    width = kernel.shape[0]
    lags = [(width - 1 - j) * dilation for j in range(width)]
    dx = sum(kernel[j] * _shift(g, -lag) for j, lag in enumerate(lags))
    dk = jnp.stack([jnp.einsum("btc,btc->c", g, _shift(x, lag)) for lag in lags])
    return dx, dk, g.sum((0, 1))


causal_depthwise_conv.defvjp(_cdc_fwd, _cdc_bwd)


def make_smooth_max(temperature=1.0, axis=1):
    """Build a masked log-mean-exp pooling over ``axis``; rows with an empty mask give zero."""

    @jax.custom_gradient
    def pool(x, mask):
        m = mask.astype(x.dtype)
        count = jnp.maximum(m.sum(axis, keepdims=True), 1.0)
        z = jnp.where(mask, x * temperature, -1e30)
        top = jnp.max(z, axis=axis, keepdims=True)
        e = jnp.exp(z - top) * m
        total = e.sum(axis, keepdims=True)
        some = total > 0
        safe = jnp.where(some, total, 1.0)
        y = jnp.where(some, (top + jnp.log(safe / count)) / temperature, 0.0)

        def grad(g):
            return jnp.expand_dims(g, axis) * e / safe, None

        return jnp.squeeze(y, axis), grad

    return pool


# x (B, T, D), mask (B, T, 1) or full
smooth_max_over_time = make_smooth_max(temperature=2.0)


class ConvStem(nn.Module):
    width: int = 4
    dilation: int = 1

    @nn.compact
    def __call__(self, x, mask):
        k = self.param("kernel", nn.initializers.normal(0.3), (self.width, x.shape[-1]))
        b = self.param("bias", nn.initializers.zeros, (x.shape[-1],))
        h = nn.silu(causal_depthwise_conv(x, k, b, self.dilation))
        return smooth_max_over_time(h, jnp.broadcast_to(mask[..., None], h.shape))
