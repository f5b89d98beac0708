"""Differentiable pieces of a wafer-fab model: yield, overlay, defectivity and thermal budget.

Lengths are in millimetres unless a name says otherwise, temperatures in kelvin.
"""

import dataclasses

import numpy as np
import tensorflow as tf

BOLTZMANN_EV = 8.617333e-5


@dataclasses.dataclass(frozen=True)
class AnnealSettings:
    """Reference point of the Arrhenius law."""

    reference_kelvin: float = 1273.15
    boltzmann: float = BOLTZMANN_EV


def _fold(grad, like):
    """Sum ``grad`` down to the static shape of ``like`` after broadcasting."""
    extra = len(grad.shape) - len(like.shape)
    if extra:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    axes = [i for i, n in enumerate(like.shape) if n == 1 and grad.shape[i] != 1]
    return tf.reduce_sum(grad, axis=axes, keepdims=True) if axes else grad


def _alpha_slope(u):
    # u / (1 + u) - log(1 + u), with its series where the two nearly cancel
    small = tf.abs(u) < 0.05
    v = tf.where(small, u, tf.zeros_like(u))
    series = v * v * (-1 / 2 + v * (2 / 3 + v * (-3 / 4 + v * (4 / 5 - v * 5 / 6))))
    w = tf.where(small, tf.ones_like(u), u)
    return tf.where(small, series, w / (1 + w) - tf.math.log1p(w))


def make_cluster_yield(compound=True):
    """Negative binomial die yield.

    Args:
        compound: multiply the layer yields along the last axis and drop it;
            otherwise the yield of every layer is returned.

    Returns:
        A function of critical ``area``, defect ``density`` and clustering
        ``alpha`` (all positive, broadcast against each other; the last axis
        is the mask layer).
    """

    @tf.custom_gradient
    def cluster_yield(area, density, alpha):
        load = area * density
        log_layer = -alpha * tf.math.log1p(load / alpha)
        if compound:
            out = tf.exp(tf.reduce_sum(log_layer, axis=-1))
        else:
            out = tf.exp(log_layer)

        def grad(dy):
            d_log = dy * out
            if compound:
                d_log = d_log[..., None] * tf.ones_like(log_layer)
            u = load / alpha
            d_load = -d_log / (1 + u)
            d_alpha = d_log * _alpha_slope(u)
            return (
                _fold(d_load * density, area),
                _fold(d_load * area, density),
                _fold(d_alpha, alpha),
            )

        return out, grad

    return cluster_yield


@tf.custom_gradient
def overlay_residual(params, marks, weights, field):
    """Intrafield overlay displacement with each field's translation taken out.

    Args:
        params: [F, 4] per exposure field: magnification x, magnification y,
            rotation of the x axis and rotation of the y axis.
        marks: [M, 2] design positions within the field.
        weights: [M] positive confidence of each metrology mark.
        field: [M] int ids into the rows of ``params``.

    Returns:
        [M, 2] displacement less the field's weighted mean displacement.
    """
    num = params.shape[0]
    p = tf.gather(params, field)
    x, y = marks[:, 0], marks[:, 1]
    shift = tf.stack([p[:, 0] * x - p[:, 2] * y, p[:, 1] * y + p[:, 3] * x], axis=1)
    total = tf.math.unsorted_segment_sum(weights, field, num)
    share = weights / tf.gather(total, field)

    def centre(v):
        mean = tf.math.unsorted_segment_sum(share[:, None] * v, field, num)
        return v - tf.gather(mean, field)

    resid = centre(shift)

    def grad(dy):
        d_shift = centre(dy)
        dx, dyy = d_shift[:, 0], d_shift[:, 1]
        d_p = tf.stack([dx * x, dyy * y, -dx * y, dyy * x], axis=1)
        d_marks = tf.stack([dx * p[:, 0] + dyy * p[:, 3], dyy * p[:, 1] - dx * p[:, 2]], axis=1)
        pulled = tf.gather(tf.math.unsorted_segment_sum(dy, field, num), field)
        d_weights = -tf.reduce_sum(pulled * resid, axis=1) / tf.gather(total, field)
        return tf.math.unsorted_segment_sum(d_p, field, num), d_marks, d_weights, None

    return resid, grad


def make_zone_density(zone, num_zones, strength=0.0):
    """Defects per area of radial zones.

    zone      -- table of ints, the zone of each inspection tile
    strength  -- area of pseudo-observation at the wafer's overall density by
                 which thin zones are shrunk (every zone has at least one tile)

    The function returned takes the tiles' ``counts`` and inspected ``areas``.
    """
    zone = tf.constant(np.asarray(zone, np.int32))

    @tf.custom_gradient
    def zone_density(counts, areas):
        m = tf.cast(strength, counts.dtype)
        area_all = tf.reduce_sum(areas)
        overall = tf.reduce_sum(counts) / area_all
        count_z = tf.math.unsorted_segment_sum(counts, zone, num_zones)
        room = tf.math.unsorted_segment_sum(areas, zone, num_zones) + m
        density = (count_z + m * overall) / room

        def grad(dy):
            d_num = dy / room
            d_overall = m * tf.reduce_sum(d_num)
            d_counts = tf.gather(d_num, zone) + d_overall / area_all
            d_areas = -tf.gather(d_num * density, zone)
            return d_counts, d_areas

        return density, grad

    return zone_density


def make_diffusion_length(settings=AnnealSettings()):
    """Build the root of the summed D*t of a furnace recipe for several dopants."""
    inv_ref = 1.0 / settings.reference_kelvin

    @tf.custom_gradient
    def diffusion_length(kelvin, seconds, d_ref, activation, used):
        # kelvin, seconds: [lots, steps]    used: bool [lots, steps]
        # d_ref, activation: [dopants]; d_ref holds at the reference temperature
        safe = tf.where(used, kelvin, tf.ones_like(kelvin) * settings.reference_kelvin)
        span = tf.where(used, seconds, tf.zeros_like(seconds))
        lift = (1.0 / safe - inv_ref) / settings.boltzmann
        rate = tf.exp(-lift[..., None] * activation)
        dose = tf.reduce_sum(rate * span[..., None], axis=1)
        length = tf.sqrt(d_ref * dose)

        def grad(dy):
            d_square = tf.math.divide_no_nan(dy, 2 * length)
            d_dose = d_square * d_ref
            per_step = d_dose[:, None, :] * rate
            d_seconds = tf.reduce_sum(per_step, axis=-1)
            slope = span * tf.reduce_sum(per_step * activation, axis=-1)
            d_kelvin = slope / (settings.boltzmann * safe * safe)
            d_activation = -tf.reduce_sum(per_step * (lift * span)[..., None], axis=[0, 1])
            zero = tf.zeros_like(kelvin)
            return (
                tf.where(used, d_kelvin, zero),
                tf.where(used, d_seconds, zero),
                tf.reduce_sum(d_square * dose, axis=0),
                d_activation,
                None,
            )

        return length, grad

    return diffusion_length


class FabModel(tf.Module):
    """Predicts the yield of a product from zone defectivity."""

    def __init__(self, zone, num_zones, areas, alpha=2.0, strength=0.0):
        super().__init__()
        self.areas = tf.constant(areas)
        self.alpha = tf.Variable(alpha, dtype=self.areas.dtype)
        self.zone_density = make_zone_density(zone, num_zones, strength)
        self.die_yield = make_cluster_yield(compound=False)

    def __call__(self, counts, die_area):
        density = self.zone_density(counts, self.areas)
        return self.die_yield(die_area, density, tf.convert_to_tensor(self.alpha))
