"""Differentiable indices for catchment and microbiome models (any Keras backend)."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from keras import ops

if TYPE_CHECKING:
    from jaxtyping import Float
    from keras import KerasTensor as Array

DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype="float64")
HOT = 26.5


def _exponent(heat):
    return 6.75e-7 * heat**3 - 7.71e-5 * heat**2 + 1.792e-2 * heat + 0.49239


def _exponent_slope(heat):
    return 3 * 6.75e-7 * heat**2 - 2 * 7.71e-5 * heat + 1.792e-2


@ops.custom_gradient
def thornthwaite_pet(temp: Float[Array, "*site 12"], daylight: Float[Array, "*site 12"]):
    """Monthly potential evapotranspiration after Thornthwaite (1948), in mm.

    The annual heat index ``I`` is the sum of ``(T / 5) ** 1.514`` over the
    months above freezing. Then, month by month,

    * ``T <= 0``: no evapotranspiration,
    * ``0 < T < 26.5``: ``16 * (10 * T / I) ** a(I)`` with the cubic ``a(I)``,
    * ``T >= 26.5``: ``-415.85 + 32.24 * T - 0.43 * T ** 2``, which does not
      depend on ``I``,

    each times ``daylight / 12 * days / 30``.

    Args:
        temp: Monthly mean air temperature in degrees Celsius, January first;
            shape ``(..., 12)``, any value between -60 and 45.
        daylight: Mean day length in hours, same shape as ``temp``.

    Returns:
        Tensor of shape ``(..., 12)``. A year without a month above freezing
        is all zero. The formula jumps at 26.5 and is not smooth at 0; there
        the gradient is that of the branch which gives the value.
    """
    scale = ops.cast(DAYS / 360.0, temp.dtype)
    warm = temp > 0
    hot = temp >= HOT
    mild = ops.logical_and(warm, ops.logical_not(hot))

    t_warm = ops.where(warm, temp, ops.ones_like(temp))
    index = ops.where(warm, (t_warm / 5.0) ** 1.514, ops.zeros_like(temp))
    heat = ops.sum(index, axis=-1, keepdims=True)
    heat = ops.where(heat > 0, heat, ops.ones_like(heat))
    power = _exponent(heat)
    log_ratio = ops.log(10.0 * t_warm / heat)
    mild_pet = 16.0 * ops.exp(power * log_ratio)
    hot_pet = -415.85 + 32.24 * temp - 0.43 * temp**2
    zero = ops.zeros_like(temp)
    base = ops.where(hot, hot_pet, ops.where(mild, mild_pet, zero))
    pet = base * daylight * scale

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_base = upstream * daylight * scale
        d_mild = ops.where(mild, d_base * mild_pet, zero)
        direct = d_mild * power / t_warm
        d_heat = ops.sum(
            d_mild * (_exponent_slope(heat) * log_ratio - power / heat),
            axis=-1,
            keepdims=True,
        )
        through_heat = ops.where(warm, d_heat * 1.514 / 5.0 * (t_warm / 5.0) ** 0.514, zero)
        through_hot = ops.where(hot, d_base * (32.24 - 0.86 * temp), zero)
        return direct + through_heat + through_hot, upstream * base * scale

    return pet, grad


def _fit(x, shape):
    lead = len(x.shape) - len(shape)
    if lead:
        x = ops.sum(x, axis=tuple(range(lead)))
    kept = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return ops.sum(x, axis=kept, keepdims=True) if kept else x


def weighted_unifrac(counts_a, counts_b, lengths, incidence, normalized=True):
    tree = ops.cast(np.asarray(incidence), counts_a.dtype)

    @ops.custom_gradient
    def distance(counts_a, counts_b, lengths):
        total_a = ops.sum(counts_a, axis=-1, keepdims=True)
        total_b = ops.sum(counts_b, axis=-1, keepdims=True)
        share_a, share_b = counts_a / total_a, counts_b / total_b
        below_a = ops.einsum("...s,ns->...n", share_a, tree)
        below_b = ops.einsum("...s,ns->...n", share_b, tree)
        gap = below_a - below_b
        unshared = ops.sum(lengths * ops.abs(gap), axis=-1)
        possible = ops.sum(lengths * (below_a + below_b), axis=-1)
        value = unshared / possible if normalized else unshared

        def to_counts(d_below, share, total):
            d_share = ops.einsum(
                "...n,ns->...s", _fit(d_below, total.shape[:-1] + lengths.shape), tree)
            return (d_share - ops.sum(d_share * share, axis=-1, keepdims=True)) / total

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            up = ops.expand_dims(upstream, -1)
            sign = ops.sign(gap)
            if normalized:
                up = up / ops.expand_dims(possible, -1)
                pull = ops.expand_dims(value, -1)
                d_len = up * (ops.abs(gap) - pull * (below_a + below_b))
                d_below_a = up * lengths * (sign - pull)
                d_below_b = up * lengths * (-sign - pull)
            else:
                d_len = up * ops.abs(gap)
                d_below_a = up * lengths * sign
                d_below_b = -d_below_a
            return (
                to_counts(d_below_a, share_a, total_a),
                to_counts(d_below_b, share_b, total_b),
                _fit(d_len, lengths.shape),
            )

        return value, grad

    return distance(counts_a, counts_b, lengths)
