"""Building blocks of the patch forecaster (load and traffic series)."""
from __future__ import annotations

from functools import partial
from typing import Dict, NamedTuple, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array


class PatchParams(NamedTuple):
    kernel: Array  # (window, width)
    bias: Array  # (width,)


class Config(NamedTuple):
    window: int = 16
    stride: int = 8
    width: int = 32
    lags: Tuple[int, ...] = (1, 24, 168)
    pad: str = "zero"
    eps: float = 1e-3


def patch_table(length: int, window: int, stride: int) -> np.ndarray:
    """Positions of each patch, shape (patches, window)."""
    starts = np.arange(0, length - window + 1, stride)
    return starts[:, None] + np.arange(window)[None, :]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def patch_embed(params: PatchParams, series: Array, stride: int) -> Array:
    """Cuts the series into patches and projects them.

    Args:
        params: Projection of one patch.
        series: Values, shape (batch, length). A tail that does not fill a
            patch is left out.
        stride: Step between patches; may be smaller than the window.

    Returns:
        Tokens, shape (batch, patches, width).
    """
    table = patch_table(series.shape[1], params.kernel.shape[0], stride)
    return series[:, table] @ params.kernel + params.bias


def _patch_embed_fwd(params, series, stride):
    return patch_embed(params, series, stride), (params, series)


def _patch_embed_bwd(stride, res, g):
    params, series = res
    table = patch_table(series.shape[1], params.kernel.shape[0], stride)
    d_kernel = jnp.einsum("bpw,bpd->wd", series[:, table], g)
    back = jnp.einsum("bpd,wd->bpw", g, params.kernel)
    d_series = jnp.zeros_like(series).at[:, table].add(back)
    return PatchParams(d_kernel, g.sum((0, 1))), d_series


patch_embed.defvjp(_patch_embed_fwd, _patch_embed_bwd)


@jax.custom_vjp
def calendar_embed(tables: Dict[str, Array], codes: Dict[str, Array]) -> Array:
    """Averages the calendar vectors of each time step.

    Args:
        tables: One table per calendar field ("hour", "weekday", ...), each of
            shape (entries, width). Entry 0 stands for "unknown" and is
            skipped in the average.
        codes: Entry of each field, integers of shape (batch, length).

    Returns:
        Vectors, shape (batch, length, width); zero where nothing is known.
    """
    total, known = 0.0, 0.0
    for name, table in tables.items():
        seen = (codes[name] > 0)[..., None].astype(table.dtype)
        total = total + table[codes[name]] * seen
        known = known + seen
    return total / jnp.maximum(known, 1.0)


def _calendar_fwd(tables, codes):
    known = sum((c > 0).astype(jnp.int32) for c in codes.values())
    return calendar_embed(tables, codes), (tables, codes, known)


def _calendar_bwd(res, g):
    tables, codes, known = res
    share = g / jnp.maximum(known, 1)[..., None].astype(g.dtype)
    grads = {
        name: jnp.zeros_like(table).at[codes[name]].add(share)
        for name, table in tables.items()
    }
    return grads, None


calendar_embed.defvjp(_calendar_fwd, _calendar_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def mean_abs_scale(x: Array, mask: Array, eps: float) -> Tuple[Array, Array]:
    """Divides each channel by the mean absolute value of its observed steps.

    Args:
        x: Series, shape (batch, length, channels).
        mask: True where observed, shape (batch, length).
        eps: Smallest scale.

    Returns:
        The scaled series (zero where not observed) and the scale, shape
        (batch, 1, channels).
    """
    return _scale_fwd(x, mask, eps)[0]


def _scale_fwd(x, mask, eps):
    m = mask[..., None].astype(x.dtype)
    n = jnp.maximum(m.sum(1, keepdims=True), 1.0)
    raw = jnp.sum(m * jnp.abs(x), axis=1, keepdims=True) / n
    scale = jnp.maximum(raw, eps)
    y = m * x / scale
    return (y, scale), (y, jnp.sign(x) * m / n, m, scale, raw > eps)


def _scale_bwd(eps, res, cts):
    y, slope, m, scale, live = res
    gy, gs = cts
    gs = gs - jnp.sum(gy * y, axis=1, keepdims=True) / scale
    return m * gy / scale + slope * jnp.where(live, gs, 0.0), None


mean_abs_scale.defvjp(_scale_fwd, _scale_bwd)


def _delay(x: Array, lag: int, pad: str) -> Array:
    if lag == 0:
        return x
    head = jnp.repeat(x[:, :1], lag, axis=1)
    if pad == "zero":
        head = jnp.zeros_like(head)
    elif pad != "edge":
        raise ValueError(pad)
    return jnp.concatenate([head, x], axis=1)[:, : x.shape[1]]


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def lagged_sum(x: Array, weights: Array, lags: Sequence[int], pad: str = "zero") -> Array:
    """Weighted sum of delayed copies of the series.

    Args:
        x: Series, shape (batch, length, channels).
        weights: Shape (len(lags), channels).
        lags: Delays in steps, from 0 to length - 1.
        pad: What stands before the first step, "zero" or "edge" (the first
            value is held).
    """
    return sum(_delay(x, lag, pad) * w for lag, w in zip(lags, weights))


def _lagged_fwd(x, weights, lags, pad):
    return lagged_sum(x, weights, lags, pad), (x, weights)


def _lagged_bwd(lags, pad, res, g):
    x, weights = res
    dx = jnp.zeros_like(x)
    dw = []
    for lag, w in zip(lags, weights):
        ahead = jnp.pad(g, ((0, 0), (0, lag), (0, 0)))[:, lag:]
        dx = dx + ahead * w
        dw.append(jnp.sum(g * _delay(x, lag, pad), axis=(0, 1)))
    return dx, jnp.stack(dw)


lagged_sum.defvjp(_lagged_fwd, _lagged_bwd)


def encode(params: dict, batch: dict, cfg: Config) -> Array:
    """Tokens of a batch, before the mixer stack."""
    x, scale = mean_abs_scale(batch["values"], batch["observed"], cfg.eps)
    x = x + lagged_sum(x, params["lag"], cfg.lags, cfg.pad)
    days = calendar_embed(params["calendar"], batch["codes"])
    tokens = patch_embed(params["patch"], x.mean(-1), cfg.stride)
    return tokens + days[:, : tokens.shape[1]] + jnp.log(scale).mean((1, 2))[:, None, None]
