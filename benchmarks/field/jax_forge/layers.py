"""Functional layers with hand-written backward passes."""
from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp

__all__ = ["talking_heads_attention", "lp_normalize", "rational_activation",
           "locally_connected_1d", "init_rational"]

NEG = -1e30


@functools.partial(jax.custom_vjp, nondiff_argnums=(6,))
def talking_heads_attention(
    query: "Float[Array, 'b h q d']",
    key: "Float[Array, 'b h k d']",
    value: "Float[Array, 'b h k e']",
    pre: "Float[Array, 'h h']",
    post: "Float[Array, 'h h']",
    mask: "Bool[Array, 'b #h q k'] | None" = None,
    scale: float | None = None,
) -> "Float[Array, 'b h q e']":
    """Attention whose heads are mixed before and after the softmax.

    ``pre[i, j]`` is the share of head ``i``'s logits in head ``j``, and
    ``post[i, j]`` the share of head ``i``'s probabilities in head ``j``.
    ``mask`` is true where a query may look; every query must see one key.
    ``scale`` is ``1 / sqrt(d)`` unless given.
    """
    return _talking_fwd(query, key, value, pre, post, mask, scale)[0]


def _talking_fwd(query, key, value, pre, post, mask, scale):
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    raw = jnp.einsum("bhqd,bhkd->bhqk", query, key) * factor
    logits = jnp.einsum("bhqk,hg->bgqk", raw, pre)
    if mask is not None:
        logits = jnp.where(mask, logits, NEG)
    probs = jax.nn.softmax(logits, axis=-1)
    mixed = jnp.einsum("bhqk,hg->bgqk", probs, post)
    out = jnp.einsum("bgqk,bgke->bgqe", mixed, value)
    return out, (query, key, value, pre, post, raw, probs, mixed)


def _talking_bwd(scale, res, g):
    query, key, value, pre, post, raw, probs, mixed = res
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale

    d_value = jnp.einsum("bgqk,bgqe->bgke", mixed, g)
    d_mixed = jnp.einsum("bgqe,bgke->bgqk", g, value)
    d_post = jnp.einsum("bhqk,bgqk->hg", probs, d_mixed)
    d_probs = jnp.einsum("bgqk,gh->bhqk", d_mixed, post)

    inner = jnp.sum(d_probs * probs, axis=-1, keepdims=True)
    d_logits = probs * (d_probs - inner)
    d_pre = jnp.einsum("bhqk,bgqk->hg", raw, d_logits)
    d_raw = jnp.einsum("bgqk,hg->bhqk", d_logits, pre) * factor

    d_query = jnp.einsum("bhqk,bhkd->bhqd", d_raw, key)
    d_key = jnp.einsum("bhqk,bhqd->bhkd", d_raw, query)
    return d_query, d_key, d_value, d_pre, d_post, None


talking_heads_attention.defvjp(_talking_fwd, _talking_bwd)


def lp_normalize(x, *, p=2.0, axis=-1, eps=1e-12):
    """Divide ``x`` by its ``p``-norm along ``axis``.

    Args:
        x: a real array.
        p: order of the norm, above 1.
        axis: axis, or axes, of the norm.
        eps: added to the sum of powers.
    """

    @jax.custom_gradient
    def f(x):
        mag = jnp.abs(x)
        norm = (jnp.sum(mag**p, axis=axis, keepdims=True) + eps) ** (1.0 / p)
        y = x / norm

        def vjp(g):
            along = jnp.sum(g * x, axis=axis, keepdims=True)
            return g / norm - along * jnp.sign(x) * mag ** (p - 1.0) / norm**3

        return y, vjp

    return f(x)


def _horner(coeffs, x):
    acc = jnp.zeros_like(x)
    for i in range(coeffs.shape[0] - 1, -1, -1):
        acc = acc * x + coeffs[i]
    return acc


def _powers(x, count, start):
    return jnp.stack([x**i for i in range(start, start + count)])


@jax.custom_vjp
def rational_activation(params, x):
    """Rational unit ``P(x) / (1 + |Q(x)|)``.

    ``params["numerator"]`` holds the coefficients of ``P`` from the constant
    up; ``params["denominator"]`` those of ``Q`` from the linear one up.
    """
    num, den = params["numerator"], params["denominator"]
    return _horner(num, x) / (1.0 + jnp.abs(x * _horner(den, x)))


def _rational_fwd(params, x):
    return rational_activation(params, x), (params, x)


def _rational_bwd(res, g):
    params, x = res
    num, den = params["numerator"], params["denominator"]
    top = _horner(num, x)
    raw = x * _horner(den, x)
    sign = jnp.sign(raw)
    bottom = 1.0 + jnp.abs(raw)

    slope_top = jnp.zeros_like(x)
    for i in range(num.shape[0] - 1, 0, -1):
        slope_top = slope_top * x + i * num[i]
    slope_raw = jnp.zeros_like(x)
    for i in range(den.shape[0] - 1, -1, -1):
        slope_raw = slope_raw * x + (i + 1) * den[i]

    g_top = g / bottom
    g_raw = -g * top / bottom**2 * sign
    axes = tuple(range(1, x.ndim + 1))
    d_num = jnp.sum(g_top * _powers(x, num.shape[0], 0), axis=axes)
    d_den = jnp.sum(g_raw * _powers(x, den.shape[0], 1), axis=axes)
    return ({"numerator": d_num, "denominator": d_den},
            g_top * slope_top + g_raw * slope_raw)


rational_activation.defvjp(_rational_fwd, _rational_bwd)


def init_rational(dtype=jnp.float32):
    return {
        "numerator": jnp.array([0.022, 0.5, 1.19, 1.595, 0.5, 0.0], dtype),
        "denominator": jnp.array([0.0, 2.383, 0.0, 1.0], dtype),
    }


def _window_index(out_len, width, stride, dilation):
    return stride * jnp.arange(out_len)[:, None] + dilation * jnp.arange(width)[None, :]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def locally_connected_1d(x, kernel, bias=None, stride=1, dilation=1):
    return _local_fwd(x, kernel, bias, stride, dilation)[0]


def _local_fwd(x, kernel, bias, stride, dilation):
    out_len, width = kernel.shape[:2]
    expected = (x.shape[1] - dilation * (width - 1) - 1) // stride + 1
    if expected != out_len:
        raise ValueError(f"kernel has {out_len} positions, the input gives {expected}")
    idx = _window_index(out_len, width, stride, dilation)
    y = jnp.einsum("nokc,okcf->nof", x[:, idx], kernel)
    if bias is not None:
        y = y + bias
    return y, (x, kernel, bias)


def _local_bwd(stride, dilation, res, g):
    x, kernel, bias = res
    idx = _window_index(kernel.shape[0], kernel.shape[1], stride, dilation)
    d_kernel = jnp.einsum("nokc,nof->okcf", x[:, idx], g)
    d_patch = jnp.einsum("nof,okcf->nokc", g, kernel)
    d_x = jnp.zeros_like(x).at[:, idx].add(d_patch)
    if bias is None:
        d_bias = None
    elif bias.ndim == 1:
        d_bias = g.sum((0, 1))
    else:
        d_bias = g.sum(0)
    return d_x, d_kernel, d_bias


locally_connected_1d.defvjp(_local_fwd, _local_bwd)
