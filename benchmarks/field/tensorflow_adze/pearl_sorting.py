"""Culture, colour and grading of akoya pearls, as differentiable TensorFlow ops.

A farm sees its harvest only when the shells are opened; everything before that
is a forecast from sea temperature and feeding, everything after it is sorting.
This module keeps the four pieces that the harvest planner trains through:

* month-by-month growth of the nacre coat around the bead nucleus,
* the interference colour of the stacked aragonite platelets,
* the penalty for pits and rings found by the blemish camera,
* the layout of drilled pearls on a hand-knotted strand.

Lengths are millimetres unless the name says otherwise (platelet thicknesses and
wavelengths are nanometres).  Each op has its own backward pass: the unrolled
month loop and the blemish gather dominate the step time otherwise.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

import numpy as np
import tensorflow as tf

OPTIMUM_C = 23.5
COLD_WIDTH_C = 6.0
HOT_WIDTH_C = 2.8
COAT_SCALE_MM = 0.65
CONCHIOLIN_INDEX = 1.43
ARAGONITE_INDEX = 1.66
LOOP_ANGLE_DEG = 20.0

BLEMISH_CLASSES = ("pinprick", "pit", "ring", "chalk", "tail", "crack")
AREA_EXPONENT = 1.25

VISIBLE_NM = np.linspace(420.0, 680.0, 14).astype(np.float32)


class SeaRecord(NamedTuple):
    """Monthly means at the long lines; both arrays are (lines, months)."""

    temperature: tf.Tensor
    feed: tf.Tensor


class BlemishTable(NamedTuple):
    """Flat list of detections of one tray.

    area   : pixels converted to mm^2, one per detection
    kind   : index in BLEMISH_CLASSES
    pearl  : index of the pearl in the tray
    """

    area: tf.Tensor
    kind: tf.Tensor
    pearl: tf.Tensor


def _thermal_response(temperature):
    """Relative deposition and its slope: a bell, steeper on the hot side."""
    optimum = tf.cast(OPTIMUM_C, temperature.dtype)
    offset = temperature - optimum
    width = tf.where(
        offset > 0.0,
        tf.cast(HOT_WIDTH_C, temperature.dtype),
        tf.cast(COLD_WIDTH_C, temperature.dtype),
    )
    scaled = offset / width
    response = tf.exp(-tf.square(scaled))
    slope = -2.0 * scaled / width * response
    return response, slope


@tf.custom_gradient
def nacre_growth(coat, temperature, feed):
    """Grow the nacre coat through the months of a culture.

    Each month deposits ``feed * bell(temperature)``, damped by the coat that is
    already there because the pearl sac stretches:
    ``h <- h + feed * bell * exp(-h / COAT_SCALE_MM)``.

    Parameters
    ----------
    coat : (lines,)
        Thickness at the start of the record.
    temperature, feed : (lines, months)

    Returns
    -------
    harvest : (lines,)
        Thickness after the last month.
    log : (lines, months)
        Thickness after every month.
    """
    months = temperature.shape[1]
    scale = tf.cast(COAT_SCALE_MM, coat.dtype)
    response, slope = _thermal_response(temperature)

    thickness = coat
    damping, history = [], []
    for month in range(months):
        damp = tf.exp(-thickness / scale)
        thickness = thickness + feed[:, month] * response[:, month] * damp
        damping.append(damp)
        history.append(thickness)
    log = tf.stack(history, axis=1)

    def grad(d_harvest, d_log):
        carry = d_harvest
        d_temperature, d_feed = [], []
        for month in reversed(range(months)):
            carry = carry + d_log[:, month]
            damp = damping[month]
            d_feed.append(carry * response[:, month] * damp)
            d_temperature.append(carry * feed[:, month] * slope[:, month] * damp)
            deposit = feed[:, month] * response[:, month] * damp
            carry = carry * (1.0 - deposit / scale)
        d_temperature = tf.stack(d_temperature[::-1], axis=1)
        d_feed = tf.stack(d_feed[::-1], axis=1)
        return carry, d_temperature, d_feed

    return (thickness, log), grad


@tf.custom_gradient
def platelet_reflectance(thickness, index, wavelength):
    """Reflectance of one platelet between two protein sheets.

    thickness and index have one entry per pearl, wavelength one per band; the
    result is pearls x bands.  Airy sum at the loupe angle, with the Fresnel
    step between aragonite and conchiolin at normal incidence.
    """
    dtype = thickness.dtype
    sheet = tf.cast(CONCHIOLIN_INDEX, dtype)
    sine2 = tf.cast(math.sin(math.radians(LOOP_ANGLE_DEG)) ** 2, dtype)

    ray = tf.sqrt(tf.square(index) - sine2)
    half_phase = (
        2.0 * math.pi * (ray * thickness)[:, None] / wavelength[None, :]
    )
    step = (index - sheet) / (index + sheet)
    power = tf.square(step)
    finesse = 4.0 * power / tf.square(1.0 - power)

    sin_half = tf.sin(half_phase)
    wave = tf.square(sin_half)
    ratio = finesse[:, None] * wave
    reflectance = ratio / (1.0 + ratio)

    def grad(upstream):
        d_ratio = upstream / tf.square(1.0 + ratio)
        d_finesse = tf.reduce_sum(d_ratio * wave, axis=1)
        d_phase = d_ratio * finesse[:, None] * tf.sin(2.0 * half_phase)
        # sum_b d_phase * phase is the pull on the logarithm of the path
        pull = d_phase * half_phase
        d_log_path = tf.reduce_sum(pull, axis=1)
        d_thickness = tf.reduce_sum(
            d_phase * 2.0 * math.pi / wavelength[None, :], axis=1
        ) * ray
        finesse_slope = 4.0 * (1.0 + power) / tf.pow(1.0 - power, 3.0)
        step_slope = 2.0 * sheet / tf.square(index + sheet)
        d_index = (
            d_log_path * index / tf.square(ray)
            + d_finesse * finesse_slope * 2.0 * step * step_slope
        )
        d_wavelength = -tf.reduce_sum(pull, axis=0) / wavelength
        return d_thickness, d_index, d_wavelength

    return reflectance, grad


class BlemishGrader:
    """Turns a tray of detections into one penalty per pearl.

    The severities of the classes are trained against the graders' own sorting,
    so the penalty has to pass gradients to a small table.
    """

    def __init__(self, severities: Sequence[float] | None = None, dtype=tf.float32):
        if severities is None:
            severities = [0.4, 1.0, 0.8, 1.6, 2.0, 3.5]
        self.severity = tf.Variable(severities, dtype=dtype, name="severity")

    @staticmethod
    def _make_penalty(kind, pearl, pearls: int):
        """Bind the integer columns of a tray."""

        @tf.custom_gradient
        def blemish_penalty(severity, area, surface):
            gamma = tf.cast(AREA_EXPONENT, area.dtype)
            weight = tf.gather(severity, kind)
            spread = tf.pow(area, gamma)
            load = tf.math.unsorted_segment_sum(weight * spread, pearl, pearls)
            density = load / surface
            penalty = tf.math.log1p(density)

            def grad(upstream):
                d_density = upstream / (1.0 + density)
                d_load = d_density / surface
                d_surface = -d_load * density
                pulled = tf.gather(d_load, pearl)
                d_area = pulled * weight * gamma * tf.pow(area, gamma - 1.0)
                d_severity = tf.tensor_scatter_nd_update(
                    tf.zeros_like(severity), kind[:, None], pulled * spread
                )
                return d_severity, d_area, d_surface

            return penalty, grad

        return blemish_penalty

    def penalties(self, table: BlemishTable, diameter):
        """diameter: (pearls,) -> (pearls,)"""
        surface = math.pi * tf.square(diameter)
        rule = self._make_penalty(table.kind, table.pearl, diameter.shape[0])
        return rule(tf.convert_to_tensor(self.severity), table.area, surface)


class StrandLayout:
    """Places pearls on silk, with the clasp at both ends.

    Args:
      knots: how many overhand knots are tied between neighbours. One on
        princess strands; opera and rope lengths take two or three so that a
        break loses a single pearl.
    """

    def __init__(self, knots: int = 1):
        if knots < 0:
            raise ValueError("knots must not be negative")
        self.knots = knots

    def place(self, diameter, knot):
        """Centre of every pearl, measured from the middle of the strand.

        Args:
          diameter: [strands, pearls]
          knot: [strands], length of thread that one knot takes up.

        Returns:
          (centres [strands, pearls], length [strands])
        """
        knots = self.knots

        @tf.custom_gradient
        def lay(diameter, knot):
            count = diameter.shape[1]
            rank = tf.range(count, dtype=diameter.dtype)
            gap = knots * knot
            length = tf.reduce_sum(diameter, axis=1) + (count - 1) * gap
            before = tf.cumsum(diameter, axis=1, exclusive=True)
            centres = (
                before
                + rank[None, :] * gap[:, None]
                + 0.5 * diameter
                - 0.5 * length[:, None]
            )

            def grad(d_centres, d_length):
                d_total = d_length - 0.5 * tf.reduce_sum(d_centres, axis=1)
                after = tf.cumsum(d_centres, axis=1, exclusive=True, reverse=True)
                d_diameter = after + 0.5 * d_centres + d_total[:, None]
                d_knot = (
                    tf.reduce_sum(d_centres * rank[None, :], axis=1)
                    + (count - 1) * d_total
                )
                return d_diameter, d_knot

            return (centres, length), grad

        return lay(diameter, knot)


def body_colour(reflectance):
    """Crude three-band tint (long, middle, short) from the sampled bands."""
    bands = reflectance.shape[1]
    third = bands // 3
    short = tf.reduce_mean(reflectance[:, :third], axis=1)
    middle = tf.reduce_mean(reflectance[:, third : bands - third], axis=1)
    long = tf.reduce_mean(reflectance[:, bands - third :], axis=1)
    tint = tf.stack([long, middle, short], axis=1)
    return tint / (tf.reduce_sum(tint, axis=1, keepdims=True) + 1e-8)


class HarvestPlanner(tf.keras.layers.Layer):
    """Chooses the feeding of the lines so that the sorted harvest pays."""

    def __init__(self, lines: int, months: int, nucleus_mm: float = 6.2, **kwargs):
        super().__init__(**kwargs)
        self.lines = lines
        self.months = months
        self.nucleus_mm = nucleus_mm
        self.grader = BlemishGrader()
        self.feed_logit = self.add_weight(
            name="feed_logit", shape=(lines, months), initializer="zeros"
        )

    def call(self, temperature):
        feed = 0.08 * tf.sigmoid(tf.convert_to_tensor(self.feed_logit))
        start = tf.fill([self.lines], tf.cast(0.02, temperature.dtype))
        harvest, log = nacre_growth(start, temperature, feed)
        diameter = self.nucleus_mm + 2.0 * harvest
        # winter months set the thin top platelets that give lustre
        last = log[:, -1] - log[:, -3]
        platelet = 420.0 - 900.0 * last
        index = tf.fill([self.lines], tf.cast(ARAGONITE_INDEX, temperature.dtype))
        mirror = platelet_reflectance(platelet, index, tf.constant(VISIBLE_NM))
        return diameter, body_colour(mirror), feed


def strand_matching_loss(layout: StrandLayout, diameter, knot, target_length):
    """Squared miss of the ordered length, plus unevenness of the two halves."""
    centres, length = layout.place(diameter, knot)
    mirror = tf.reverse(centres, axis=[1])
    return tf.reduce_mean(
        tf.square(length - target_length)
    ) + 0.1 * tf.reduce_mean(tf.square(centres + mirror))


def demo(seed: int = 3) -> None:
    rng = np.random.default_rng(seed)
    lines, months = 5, 14
    season = 18.0 + 8.0 * np.sin(np.arange(months) / 12.0 * 2.0 * np.pi)
    temperature = tf.constant(
        season[None, :] + rng.normal(0.0, 0.8, (lines, months)), tf.float32
    )
    planner = HarvestPlanner(lines, months)
    detections = 23
    table = BlemishTable(
        area=tf.constant(rng.uniform(0.05, 1.2, detections), tf.float32),
        kind=tf.constant(rng.integers(0, len(BLEMISH_CLASSES), detections), tf.int32),
        pearl=tf.constant(rng.integers(0, lines, detections), tf.int32),
    )
    layout = StrandLayout(knots=2)
    with tf.GradientTape() as tape:
        diameter, tint, feed = planner(temperature)
        penalty = planner.grader.penalties(table, diameter)
        strand = tf.sort(tf.reshape(diameter, [1, lines]), axis=1)
        match = strand_matching_loss(layout, strand, tf.constant([0.5]), 41.0)
        loss = (
            tf.reduce_mean(penalty)
            + 0.01 * match
            + tf.reduce_mean(feed)
            - tf.reduce_mean(tint[:, 0])
        )
    sources = [planner.feed_logit.value, planner.grader.severity]
    grads = tape.gradient(loss, sources)
    print("diameters", diameter.numpy().round(2))
    print("loss", float(loss), [g.shape for g in grads])


if __name__ == "__main__":
    demo()
