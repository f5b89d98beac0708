"""Vision blocks for the parquet line: finding knots, splits and glue marks on laid floor panels.

A panel photograph is cut into windows of `h` by `w` patches.  Attention runs inside a window with a
learned bias for each relative offset; the planks' scores are pooled into one score of the panel.
"""
from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np


def offset_index(h: int, w: int) -> np.ndarray:
    """(h*w, h*w) table of flattened relative offsets, each in [0, (2h-1)*(2w-1))."""
    yy, xx = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
    yy, xx = yy.ravel(), xx.ravel()
    dy = yy[:, None] - yy[None, :] + h - 1
    dx = xx[:, None] - xx[None, :] + w - 1
    return dy * (2 * w - 1) + dx


def make_window_attention(h: int, w: int):
    """Returns floor_attend(q, k, v, bias, blocked) for windows of h*w patches.

    q, k, v are (windows, heads, h*w, dim), bias is ((2h-1)*(2w-1), heads) and shared by all windows,
    blocked is a bool array (windows, h*w) that marks key patches off the panel. At least one patch
    of each window lies on the panel.
    """
    index = offset_index(h, w)

    def _weights(q, k, bias, blocked):
        scale = q.shape[-1] ** -0.5
        s = scale * jnp.einsum("nhqd,nhkd->nhqk", q, k)
        s = s + jnp.moveaxis(bias[index], -1, 0)[None]
        s = jnp.where(blocked[:, None, None, :], -jnp.inf, s)
        return jax.nn.softmax(s, axis=-1)

    @jax.custom_vjp
    def floor_attend(q, k, v, bias, blocked):
        return jnp.einsum("nhqk,nhkd->nhqd", _weights(q, k, bias, blocked), v)

    def fwd(q, k, v, bias, blocked):
        return floor_attend(q, k, v, bias, blocked), (q, k, v, bias, blocked)

    def bwd(res, g):
        q, k, v, bias, blocked = res
        a = _weights(q, k, bias, blocked)  # recomputed, the maps are not kept
        scale = q.shape[-1] ** -0.5
        dv = jnp.einsum("nhqk,nhqd->nhkd", a, g)
        da = jnp.einsum("nhqd,nhkd->nhqk", g, v)
        ds = a * (da - jnp.sum(da * a, axis=-1, keepdims=True))
        dq = scale * jnp.einsum("nhqk,nhkd->nhqd", ds, k)
        dk = scale * jnp.einsum("nhqk,nhqd->nhkd", ds, q)
        per_pair = jnp.moveaxis(ds.sum(axis=0), 0, -1)
        dbias = jnp.zeros_like(bias).at[index.ravel()].add(per_pair.reshape(-1, bias.shape[1]))
        return dq, dk, dv, dbias, None

    floor_attend.defvjp(fwd, bwd)
    return floor_attend


# ---- normalisation -----------------------------------------------------------------------------

def _grouped(x, groups):
    n, hh, ww, c = x.shape
    return x.reshape(n, hh * ww, groups, c // groups)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def board_norm(x, gamma, beta, groups=2, unbiased=False, eps=1e-5):
    """Group norm on NHWC maps.

    Parameters
    ----------
    x : (N, H, W, C)
    gamma, beta : (C,)
    groups : int dividing C
    unbiased : divide the squared deviations by n - 1 rather than n (matches the old C++ exporter,
        which is what runs on the line; late stages are as small as 1 x 1 or 2 x 2)
    """
    return _norm_fwd(x, gamma, beta, groups, unbiased, eps)[0]


def _norm_fwd(x, gamma, beta, groups, unbiased, eps):
    xg = _grouped(x, groups)
    mu = xg.mean(axis=(1, 3), keepdims=True)
    var = xg.var(axis=(1, 3), keepdims=True, ddof=int(unbiased))
    inv = 1.0 / jnp.sqrt(var + eps)
    xhat = ((xg - mu) * inv).reshape(x.shape)
    return xhat * gamma + beta, (xhat, inv, gamma)


def _norm_bwd(groups, unbiased, eps, res, g):
    xhat, inv, gamma = res
    dgamma = jnp.sum(g * xhat, axis=(0, 1, 2))
    dbeta = jnp.sum(g, axis=(0, 1, 2))
    dh = _grouped(g * gamma, groups)
    xh = _grouped(xhat, groups)
    m1 = dh.mean(axis=(1, 3), keepdims=True)
    m2 = (dh * xh).mean(axis=(1, 3), keepdims=True)
    dx = inv * (dh - m1 - xh * m2)
    return dx.reshape(g.shape), dgamma, dbeta


board_norm.defvjp(_norm_fwd, _norm_bwd)


# ---- pooling of plank scores -------------------------------------------------------------------

def _moments(x, mask):
    n = jnp.maximum(mask.sum(-1), 1).astype(x.dtype)
    m = jnp.where(mask, x, 0.0).sum(-1) / n
    c = jnp.where(mask, x - m[..., None], 0.0)
    return n, m, c


@jax.custom_jvp
def worst_plank_score(x, sharpness, mask):
    """Soft maximum log(mean(exp(s x))) / s over the last axis, planks with mask False left out.

    A scalar sharpness s > 0 leans to the worst plank, s < 0 to the best, and s = 0 is the plain
    mean (the limit).  A panel without planks scores 0.
    """
    n, m, c = _moments(x, mask)
    s = sharpness
    gentle = jnp.abs(s) * jnp.abs(c).max(-1) < 0.5
    s_safe = jnp.where(s == 0, 1.0, s)
    mean_small = jnp.where(mask, jnp.expm1(jnp.where(gentle[..., None], s * c, 0.0)), 0.0).sum(-1) / n
    small = jnp.log1p(mean_small) / s_safe
    lead = jnp.where(mask, s * c, -jnp.inf)
    top = jnp.where(mask.any(-1), lead.max(-1), 0.0)
    big = (top + jnp.log(jnp.maximum(jnp.exp(lead - top[..., None]).sum(-1), 1.0) / n)) / s_safe
    return m + jnp.where(s == 0, 0.0, jnp.where(gentle, small, big))


@worst_plank_score.defjvp
def _worst_jvp(primals, tangents):
    x, s, mask = primals
    dx, ds, _ = tangents
    y = worst_plank_score(x, s, mask)
    n, m, c = _moments(x, mask)
    lead = jnp.where(mask, s * c, -jnp.inf)
    top = jnp.where(mask.any(-1), lead.max(-1), 0.0)
    e = jnp.exp(lead - top[..., None])
    p = e / jnp.maximum(e.sum(-1, keepdims=True), 1.0)
    # close to s = 0 the quotient is 0/0; there use the cumulants of the planks
    near = jnp.abs(s) * jnp.abs(c).max(-1) < 1e-3
    k2 = (c**2).sum(-1) / n
    k3 = (c**3).sum(-1) / n
    k4 = (c**4).sum(-1) / n - 3.0 * k2**2
    series = k2 / 2.0 + s * k3 / 3.0 + s**2 * k4 / 8.0
    slope = ((p * c).sum(-1) - (y - m)) / jnp.where(s == 0, 1.0, s)
    slope = jnp.where(near, series, slope)
    return y, (p * jnp.where(mask, dx, 0.0)).sum(-1) + slope * ds


# ---- weights for the camera's fixed point chip ----------------------------------------------------

@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def stepped_weights(w, step, bits=4):
    """Round each row of w (out, in) to a signed grid with a learned step per row, step (out,) > 0.

    Straight-through by intention: rounding counts as the identity in the backward pass, so inside
    of the grid's range d/dw is 1 and d/dstep is (round(w/step) - w/step); beyond the range the weight
    gets nothing and the step gets the end level.
    """
    lo, hi = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    u = w / step[:, None]
    return jnp.clip(jnp.round(u), lo, hi) * step[:, None]


def _stepped_fwd(w, step, bits):
    return stepped_weights(w, step, bits), (w, step)


def _stepped_bwd(bits, res, g):
    w, step = res
    lo, hi = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    u = w / step[:, None]
    inside = (u >= lo) & (u <= hi)
    level = jnp.where(inside, jnp.round(u) - u, jnp.clip(u, lo, hi))
    return jnp.where(inside, g, 0.0), jnp.sum(g * level, axis=1)


stepped_weights.defvjp(_stepped_fwd, _stepped_bwd)
