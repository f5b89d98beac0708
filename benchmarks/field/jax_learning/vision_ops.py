"""NHWC image operations."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


def _same_pads(size, k, s):
    out = -(-size // s)
    total = max((out - 1) * s + k - size, 0)
    return out, total // 2, total - total // 2


def _window_sum(x, window, stride, pads):
    return lax.reduce_window(x, jnp.zeros((), x.dtype), lax.add, (1, *window, 1), (1, *stride, 1),
                             ((0, 0), pads[0], pads[1], (0, 0)))


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def avg_pool_same(x, window=(2, 2), stride=(2, 2)):
    """Average pooling with SAME padding; padding does not count in the average.

    Args:
        x: (N, H, W, C)
        window, stride: pairs of ints
    """
    (_, t, b), (_, l, r) = (_same_pads(x.shape[i + 1], window[i], stride[i]) for i in (0, 1))
    pads = ((t, b), (l, r))
    count = _window_sum(jnp.ones((1,) + x.shape[1:3] + (1,), x.dtype), window, stride, pads)
    return _window_sum(x, window, stride, pads) / count


def _pool_fwd(x, window, stride):
    return avg_pool_same(x, window, stride), x


def _pool_bwd(window, stride, x, g):
    n, h, w, c = x.shape
    oh, t, b = _same_pads(h, window[0], stride[0])
    ow, l, r = _same_pads(w, window[1], stride[1])
    count = _window_sum(jnp.ones((1, h, w, 1), x.dtype), window, stride, ((t, b), (l, r)))
    g = g / count
    # rows of the padded image a window may touch
    ph = max(h + t + b, (oh - 1) * stride[0] + window[0])
    pw = max(w + l + r, (ow - 1) * stride[1] + window[1])
    full = jnp.zeros((n, ph, pw, c), x.dtype)
    for i in range(window[0]):
        for j in range(window[1]):
            full = full.at[:, i:i + oh * stride[0]:stride[0], j:j + ow * stride[1]:stride[1]].add(g)
    return (full[:, b:b + h, r:r + w],)


avg_pool_same.defvjp(_pool_fwd, _pool_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def group_norm(x, params, groups=32, eps=1e-5):
    """params: {'scale': (C,), 'bias': (C,)}; neighbouring channels form a group."""
    xhat, _ = _normalise(x, groups, eps)
    return xhat * params["scale"] + params["bias"]


def _normalise(x, groups, eps):
    n, h, w, c = x.shape
    z = x.reshape(n, h * w, groups, c // groups)
    mu = z.mean((1, 3), keepdims=True)
    inv = lax.rsqrt(jnp.mean((z - mu) ** 2, (1, 3), keepdims=True) + eps)
    return ((z - mu) * inv).reshape(x.shape), inv


def _gn_fwd(x, params, groups, eps):
    xhat, inv = _normalise(x, groups, eps)
    return xhat * params["scale"] + params["bias"], (xhat, inv, params["scale"])


def _gn_bwd(groups, eps, res, g):
    xhat, inv, scale = res
    n, h, w, c = g.shape
    shape = (n, h * w, groups, c // groups)
    d = (g * scale).reshape(shape)
    xh = xhat.reshape(shape)
    dx = inv * (d - d.mean((1, 3), keepdims=True) - xh * (d * xh).mean((1, 3), keepdims=True))
    return dx.reshape(g.shape), {"scale": jnp.sum(g * xhat, (0, 1, 2)), "bias": jnp.sum(g, (0, 1, 2))}


group_norm.defvjp(_gn_fwd, _gn_bwd)


@jax.custom_gradient
def gem_pool(x, p):
    """Generalised mean over the spatial axes. x: (N, H, W, C), p: (C,) exponents > 0."""
    floor = 1e-6
    xc = jnp.maximum(x, floor)
    powed = xc**p
    m = powed.mean((1, 2))
    y = m ** (1.0 / p)

    def grad(g):
        cells = x.shape[1] * x.shape[2]
        ratio = (g * y / m)[:, None, None, :]
        dx = jnp.where(x > floor, ratio * powed / xc / cells, 0.0)
        mean_log = jnp.mean(powed * jnp.log(xc), (1, 2))
        dp = jnp.sum(g * y * (mean_log / m - jnp.log(m) / p) / p, 0)
        return dx, dp

    return y, grad


def _interp_weights(n_in, n_out, dtype):
    """(n_out, n_in) linear interpolation, half-pixel centres, edges clamped."""
    pos = jnp.clip((jnp.arange(n_out, dtype=dtype) + 0.5) * (n_in / n_out) - 0.5, 0, n_in - 1)
    return jnp.maximum(1.0 - jnp.abs(pos[:, None] - jnp.arange(n_in, dtype=dtype)), 0.0)


def _resize(x, h, w):
    wh = _interp_weights(x.shape[1], h, x.dtype)
    ww = _interp_weights(x.shape[2], w, x.dtype)
    return jnp.einsum("ai,bj,nijc->nabc", wh, ww, x)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def resize_bilinear(x, size):
    """Bilinear resize without antialiasing, x: (N, H, W, C) -> (N, *size, C)."""
    return _resize(x, *size)


def _resize_fwd(x, size):
    return _resize(x, *size), x


def _resize_bwd(size, x, g):
    h, w = x.shape[1:3]
    ratio = (size[0] * size[1]) / (h * w)
    return (_resize(g, h, w) * ratio,)


resize_bilinear.defvjp(_resize_fwd, _resize_bwd)


class PyramidFuse:
    """Adds a coarse level onto a fine one: conv-free FPN step with group norm."""

    def __init__(self, groups):
        self.groups = groups

    def __call__(self, params, fine, coarse):
        up = resize_bilinear(coarse, fine.shape[1:3])
        return group_norm(fine + up, params["norm"], self.groups)
