"""Genetic linkage: map functions, lod scores and disequilibrium."""
import math

import keras
from keras import ops

UNITS = {"morgan": 1.0, "centimorgan": 0.01}


def make_map_function(kind="kosambi", units="centimorgan", order=4):
    """Map function from a signed map distance to a recombination fraction in [0, 0.5].

    Args:
      kind: ``"haldane"`` (no interference), ``"kosambi"`` or ``"karlin"`` (binomial, of the given ``order``).
      units: units of the distance, ``"morgan"`` or ``"centimorgan"``.
      order: the largest number of crossovers in Karlin's map; distances from ``order / 2`` Morgan on give 0.5.

    The fraction is even in the distance (markers may stand in either order); at exactly zero, a kink, the
    slope is reported as zero.
    """
    per_unit = UNITS[units]
    if kind not in ("haldane", "kosambi", "karlin"):
        raise ValueError(f"unknown map function {kind!r}")

    @ops.custom_gradient
    def recombination(distance):
        morgan = ops.abs(distance) * per_unit
        if kind == "haldane":
            theta = -0.5 * ops.expm1(-2.0 * morgan)
            slope = ops.exp(-2.0 * morgan)
        elif kind == "kosambi":
            # tanh(2 m) by way of exp, which keeps float64 on every backend
            decay = ops.exp(-4.0 * morgan)
            theta = -0.5 * ops.expm1(-4.0 * morgan) / (1.0 + decay)
            slope = 4.0 * decay / ops.square(1.0 + decay)
        else:
            base = ops.relu(1.0 - 2.0 * morgan / order)
            theta = 0.5 * (1.0 - base**order)
            slope = base ** (order - 1)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return upstream * slope * ops.sign(distance) * per_unit

        return theta, grad

    return recombination


def _log_add(a, b):
    high = ops.where(a > b, a, b)
    return high + ops.log1p(ops.exp(-ops.abs(a - b)))


@ops.custom_gradient
def heterogeneity_lod(theta, alpha, recombinants, meioses):
    """HLOD on a grid: theta [T] in (0, 0.5], linked share alpha [T] or scalar, counts [F]; returns [T]."""
    scalar_alpha = len(alpha.shape) == 0
    theta_ = theta[:, None]
    alpha_ = alpha if scalar_alpha else alpha[:, None]
    log_rec = ops.log(2.0 * theta_)
    log_non = ops.log(2.0 * (1.0 - theta_))
    lod = recombinants * log_rec + (meioses - recombinants) * log_non
    mixed = _log_add(ops.log(alpha_) + lod, ops.log1p(-alpha_) + ops.zeros_like(lod))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        up = upstream[:, None] / math.log(10.0)
        d_lod = up * alpha_ * ops.exp(lod - mixed)
        d_theta = d_lod * (recombinants / theta_ - (meioses - recombinants) / (1.0 - theta_))
        d_alpha = up * (ops.exp(lod - mixed) - ops.exp(-mixed))
        return (
            ops.sum(d_theta, axis=1),
            ops.sum(d_alpha) if scalar_alpha else ops.sum(d_alpha, axis=1),
            ops.sum(d_lod * (log_rec - log_non), axis=0),
            ops.sum(d_lod * log_non, axis=0),
        )

    return ops.sum(mixed, axis=1) / math.log(10.0), grad


def haplotype_r2(table, pseudocount=0.0):
    """Squared correlation of two biallelic loci, from haplotype tables ``[..., 2, 2]`` (counts or frequencies)."""

    @ops.custom_gradient
    def r2(table):
        cells = table + pseudocount
        total = ops.sum(cells, axis=(-2, -1), keepdims=True)
        p = cells / total
        first = ops.sum(p, axis=-1, keepdims=True)
        second = ops.sum(p, axis=-2, keepdims=True)
        d = p[..., 0, 0] * p[..., 1, 1] - p[..., 0, 1] * p[..., 1, 0]
        spread = first[..., 0, 0] * first[..., 1, 0] * second[..., 0, 0] * second[..., 0, 1]
        value = d * d / spread

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            flipped = ops.flip(ops.flip(p, axis=-1), axis=-2)
            sign = ops.convert_to_tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=p.dtype)
            d_p = (2.0 * d / spread)[..., None, None] * flipped * sign
            d_p = d_p - value[..., None, None] * (1.0 / first + 1.0 / second)
            d_p = d_p * upstream[..., None, None]
            # the frequencies sum to one
            return d_p - ops.sum(d_p * p, axis=(-2, -1), keepdims=True)

        return value, grad

    return r2(table)


class MarkerMap(keras.layers.Layer):
    """Learned marker positions; returns the matrix of recombination fractions."""

    def __init__(self, markers, **kwargs):
        super().__init__(**kwargs)
        self.markers = markers
        self.fraction = make_map_function("kosambi", "morgan")

    def build(self, input_shape):
        self.position = self.add_weight(shape=(self.markers,), initializer="random_uniform", name="position")

    def call(self, _):
        at = ops.convert_to_tensor(self.position)
        return self.fraction(at[:, None] - at[None, :])
