"""Sheet properties for the stock-prep line: formation, tensile, fibre length."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

G_TENSILE = 9.81e-3


class Fibre(NamedTuple):
    """Wet-end fibre description (SI-ish mill units)."""

    area: jax.Array  # cross-section
    density: jax.Array
    length: jax.Array
    perimeter: jax.Array


def _positive_axes(axis, ndim):
    axis = (axis,) if isinstance(axis, int) else tuple(axis)
    return tuple(a % ndim for a in axis)


def _axis_size(shape, axes):
    n = 1
    for a in axes:
        n *= shape[a]
    return n


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def formation_index(grammage, axis=(-2, -1), ddof=0):
    """Specific formation of a beta-radiograph.

    Standard deviation of the local grammage over the square root of the mean
    grammage, per sheet.

    Args:
      grammage: local grammage map, positive, e.g. ``(sheets, rows, cols)``.
      axis: axis or axes that span a sheet.
      ddof: 0 for the population deviation, 1 for the sample deviation.

    Returns:
      Formation number with ``axis`` removed.
    """
    return _formation(grammage, axis, ddof)[0]


def _formation(grammage, axis, ddof):
    axes = _positive_axes(axis, grammage.ndim)
    n = _axis_size(grammage.shape, axes)
    mean = grammage.mean(axes, keepdims=True)
    dev = grammage - mean
    sd = jnp.sqrt((dev**2).sum(axes, keepdims=True) / (n - ddof))
    return jnp.squeeze(sd / jnp.sqrt(mean), axes), (dev, mean, sd)


def _formation_fwd(grammage, axis, ddof):
    return _formation(grammage, axis, ddof)


def _formation_bwd(axis, ddof, res, g):
    dev, mean, sd = res
    axes = _positive_axes(axis, dev.ndim)
    n = _axis_size(dev.shape, axes)
    g = jnp.expand_dims(g, axes)
    d_sd = dev / (n * sd)
    root = jnp.sqrt(mean)
    return (g * (d_sd / root - 0.5 * sd / (mean * root * n)),)


formation_index.defvjp(_formation_fwd, _formation_bwd)


@jax.custom_jvp
def page_tensile(zero_span, fibre, bond_strength, rba):
    """Page equation for the tensile index; all inputs positive and broadcastable."""
    weak = (
        12.0
        * G_TENSILE
        * fibre.area
        * fibre.density
        / (bond_strength * fibre.perimeter * fibre.length * rba)
    )
    return 1.0 / (9.0 / (8.0 * zero_span) + weak)


@page_tensile.defjvp
def _page_tensile_jvp(primals, tangents):
    zero_span, fibre, bond, rba = primals
    dz, df, db, dr = tangents
    t = page_tensile(zero_span, fibre, bond, rba)
    strong = 9.0 / (8.0 * zero_span)
    weak = (
        12.0
        * G_TENSILE
        * fibre.area
        * fibre.density
        / (bond * fibre.perimeter * fibre.length * rba)
    )
    rel = (
        df.area / fibre.area
        + df.density / fibre.density
        - df.length / fibre.length
        - df.perimeter / fibre.perimeter
        - db / bond
        - dr / rba
    )
    return t, t * t * (strong * dz / zero_span - weak * rel)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def furnish_length(length, count, pulp, num_pulps):
    num = jax.ops.segment_sum(count * length**2, pulp, num_pulps)
    den = jax.ops.segment_sum(count * length, pulp, num_pulps)
    return jnp.where(den > 0, num / jnp.where(den > 0, den, 1), 0)


def _furnish_fwd(length, count, pulp, num_pulps):
    den = jax.ops.segment_sum(count * length, pulp, num_pulps)
    out = furnish_length(length, count, pulp, num_pulps)
    return out, (length, count, pulp, den, out)


def _furnish_bwd(num_pulps, res, g):
    length, count, pulp, den, out = res
    scale = jnp.where(den > 0, g / jnp.where(den > 0, den, 1), 0)[pulp]
    lw = out[pulp]
    return scale * count * (2 * length - lw), scale * length * (length - lw), None


furnish_length.defvjp(_furnish_fwd, _furnish_bwd)


class Blend:
    """Tensile forecast of a furnish from fibre analyser counts."""

    def __init__(self, num_pulps, zero_span, bond_strength):
        self.num_pulps = num_pulps
        self.zero_span = zero_span
        self.bond_strength = bond_strength

    def tensile(self, length, count, pulp, fibre, rba):
        lw = furnish_length(length, count, pulp, self.num_pulps)
        fibre = fibre._replace(length=lw)
        return page_tensile(self.zero_span, fibre, self.bond_strength, rba)
