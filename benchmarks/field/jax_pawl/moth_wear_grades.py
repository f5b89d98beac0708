"""Layers for grading the wing wear of trapped moths (A fresh to H worn out) on scans.

Images are batch x height x width x channels throughout.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

GRADES = "ABCDEFGH"
BINOMIAL = (0.25, 0.5, 0.25)


@dataclass(frozen=True)
class NetOptions:
    groups: int = 2
    ddof: int = 0
    border: str = "reflect"


# ---- normalisation ---------------------------------------------------------

@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def exposure_norm(x: Array, scale: Array, offset: Array, groups: int = 1,
                  ddof: int = 0, eps: float = 1e-5) -> Array:
    """Take the exposure of the scanner out of the features.

    Parameters
    ----------
    x : (batch, height, width, channels)
    scale, offset : (channels,)
    groups : channels are split in this many equal groups, each with a mean and
        a variance of its own in each image.
    ddof : 0 for the plain variance, 1 for the sample variance (small crops).
    """
    return _exposure_fwd(x, scale, offset, groups, ddof, eps)[0]


def _exposure_fwd(x, scale, offset, groups, ddof, eps):
    b, h, w, c = x.shape
    xg = x.reshape(b, h, w, groups, c // groups)
    n = h * w * (c // groups)
    mean = xg.mean(axis=(1, 2, 4), keepdims=True)
    var = ((xg - mean) ** 2).sum(axis=(1, 2, 4), keepdims=True) / (n - ddof)
    inv = jax.lax.rsqrt(var + eps)
    xhat = (xg - mean) * inv
    y = xhat.reshape(x.shape) * scale + offset
    return y, (xhat, inv, scale)


def _exposure_bwd(groups, ddof, eps, res, g):
    xhat, inv, scale = res
    d_scale = (g * xhat.reshape(g.shape)).sum(axis=(0, 1, 2))
    d_offset = g.sum(axis=(0, 1, 2))
    gx = (g * scale).reshape(xhat.shape)
    ax = (1, 2, 4)
    dx = inv * (gx - gx.mean(ax, keepdims=True)
                - xhat * (gx * xhat).mean(ax, keepdims=True))
    return dx.reshape(g.shape), d_scale, d_offset


exposure_norm.defvjp(_exposure_fwd, _exposure_bwd)


# ---- halving the resolution ------------------------------------------------

_PAD = {"reflect": "reflect", "edge": "edge", "zero": "constant"}


def _halve_axis(x, axis, border):
    x = jnp.moveaxis(x, axis, 0)
    n = x.shape[0]
    out = (n + 1) // 2
    padded = jnp.pad(x, [(1, 1)] + [(0, 0)] * (x.ndim - 1), mode=_PAD[border])
    y = sum(t * padded[k:k + 2 * out - 1:2] for k, t in enumerate(BINOMIAL))
    return jnp.moveaxis(y, 0, axis)


def _spread_axis(g, axis, n, border):
    g = jnp.moveaxis(g, axis, 0)
    out = g.shape[0]
    padded = jnp.zeros((n + 2,) + g.shape[1:], g.dtype)
    for k, t in enumerate(BINOMIAL):
        padded = padded.at[k:k + 2 * out - 1:2].add(t * g)
    x = padded[1:-1]
    if border == "edge":
        x = x.at[0].add(padded[0]).at[-1].add(padded[-1])
    elif border == "reflect":
        x = x.at[1].add(padded[0]).at[-2].add(padded[-1])
    return jnp.moveaxis(x, 0, axis)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def halve_image(x: Array, border: str = "reflect") -> Array:
    """Smooth with (1, 2, 1)/4 along both sides and keep every second pixel.

    Sides of at least two pixels, even or odd. ``border``: "reflect", "edge" or
    "zero".
    """
    return _halve_axis(_halve_axis(x, 1, border), 2, border)


def _halve_fwd(x, border):
    # only the sides are needed; an empty slice carries them
    return halve_image(x, border), x[..., :0]


def _halve_bwd(border, like, g):
    _, h, w, _ = like.shape
    return (_spread_axis(_spread_axis(g, 2, w, border), 1, h, border),)


halve_image.defvjp(_halve_fwd, _halve_bwd)


# ---- ordered grades --------------------------------------------------------

def _edges(score, cuts, grade):
    inf = jnp.full((1,), jnp.inf, cuts.dtype)
    full = jnp.concatenate([-inf, cuts, inf])
    return full[grade] - score, full[grade + 1] - score


@jax.custom_jvp
def wear_loglik(score: Array, cuts: Array, grade: Array) -> Array:
    """Log probability of the grade under a proportional odds model.

    ``score`` holds one wear per moth, ``cuts`` the rising borders between
    the grades (one fewer than the grades), ``grade`` the index of the observed
    grade of each moth.
    """
    lo, hi = _edges(score, cuts, grade)
    return (jax.nn.log_sigmoid(hi) + jax.nn.log_sigmoid(-lo)
            + jnp.log1p(-jnp.exp(lo - hi)))


@wear_loglik.defjvp
def _wear_jvp(primals, tangents):
    score, cuts, grade = primals
    d_score, d_cuts, _ = tangents
    lo, hi = _edges(score, cuts, grade)
    gap = jnp.exp(lo - hi) / -jnp.expm1(lo - hi)
    by_hi = jax.nn.sigmoid(-hi) + gap
    by_lo = -jax.nn.sigmoid(lo) - gap
    still = jnp.zeros((1,), cuts.dtype)
    moved = jnp.concatenate([still, d_cuts, still])
    tangent = by_hi * (moved[grade + 1] - d_score) + by_lo * (moved[grade] - d_score)
    return wear_loglik(score, cuts, grade), tangent


class WearHead:
    """Pools the features of a crop and compares the score with the cuts."""

    def __init__(self, options: NetOptions = NetOptions()):
        self.options = options

    def init(self, key, channels):
        return {"scale": jnp.ones(channels), "offset": jnp.zeros(channels),
                "read": jax.random.normal(key, (channels,)) / channels ** 0.5,
                "cuts": jnp.linspace(-3.0, 3.0, len(GRADES) - 1)}

    def loss(self, params, crops, grade):
        o = self.options
        x = exposure_norm(crops, params["scale"], params["offset"], o.groups, o.ddof)
        x = halve_image(jax.nn.gelu(x), o.border).mean(axis=(1, 2))
        return -wear_loglik(x @ params["read"], params["cuts"], grade).mean()


def main():
    key = jax.random.PRNGKey(0)
    head = WearHead()
    params = head.init(key, 4)
    crops = jax.random.normal(key, (3, 7, 6, 4))
    print(jax.value_and_grad(head.loss)(params, crops, jnp.array([0, 4, 7])))


if __name__ == "__main__":
    main()
