"""Differentiable process model of a wire-rope works.

Rod arrives at the drawing machine, is pulled through a train of dies, gauged by
a laser micrometer behind the last capstan, and the finished wires are closed
into strands on a planetary machine.  The model is calibrated against mill
records (block weights, gauge traces, destructive break tests), which means that
every stage has to hand gradients back to the settings of the stage before it:
die reductions, elastic recovery of the section, lay lengths, wire strengths and
the friction coefficient between wires.

Units used throughout

    area         mm^2
    diameter     mm
    lay length   mm, positive for right-hand (Z) lay, negative for left-hand (S)
    strength     N / mm^2
    load         N
    torque       N mm

The four primitives carry derivatives written by hand, because the chain of
cumulative products, frames and masked ratios that TensorFlow would otherwise
record dominates the memory of the calibration job (a day's gauge trace has some
two million samples).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

STEEL_DENSITY = 7.85e-3          # g / mm^3
ZINC_DENSITY = 7.14e-3
ALUMINIUM_DENSITY = 2.70e-3

DEFAULT_FRICTION = 0.12
DEFAULT_GAUGE_WINDOW = 16        # samples, about 40 mm of wire at line speed
MAX_REDUCTION = 0.35             # a die beyond this tears the core


class DieTrain(NamedTuple):
    """Settings of one drawing machine."""

    reductions: tf.Tensor        # [machines, dies] relative loss of section
    recovery: tf.Tensor          # [dies] elastic growth behind each die


class StrandConstruction(NamedTuple):
    """Geometry that does not change during calibration."""

    counts: Tuple[int, ...]      # wires per layer, the king wire excluded
    wire_area: Tuple[float, ...]  # mm^2 per wire of the layer

    @property
    def layers(self) -> int:
        return len(self.counts)


def seale_19(outer_area: float = 1.2) -> StrandConstruction:
    """1+9+9 Seale: thin inner, thick outer layer."""
    return StrandConstruction(counts=(9, 9), wire_area=(0.42 * outer_area, outer_area))


def warrington_36() -> StrandConstruction:
    return StrandConstruction(counts=(7, 14, 14), wire_area=(0.81, 0.62, 1.05))


def area_from_diameter(diameter):
    return 0.25 * math.pi * tf.square(diameter)


def diameter_from_area(area):
    return tf.sqrt(4.0 * area / math.pi)


# --------------------------------------------------------------------------
# drawing
# --------------------------------------------------------------------------


@tf.custom_gradient
def pass_sections(area_in, reductions, recovery):
    """Section of the wire behind every die of the train.

    Parameters
    ----------
    area_in : tf.Tensor, shape (machines,)
        Section of the descaled rod.
    reductions : tf.Tensor, shape (machines, dies)
        Relative reduction taken at each die, in [0, MAX_REDUCTION].
    recovery : tf.Tensor, shape (dies,)
        Elastic recovery behind each die; shared by all machines since the die
        geometry is the same.

    Returns
    -------
    tf.Tensor, shape (machines, dies)
    """
    factor = (1.0 - reductions) * (1.0 + recovery)
    sections = area_in[:, tf.newaxis] * tf.math.cumprod(factor, axis=1)

    def grad(upstream):
        weighted = upstream * sections
        downstream = tf.cumsum(weighted, axis=1, reverse=True)
        d_area = tf.reduce_sum(weighted, axis=1) / area_in
        d_reductions = -downstream / (1.0 - reductions)
        d_recovery = tf.reduce_sum(downstream / (1.0 + recovery), axis=0)
        return d_area, d_reductions, d_recovery

    return sections, grad


def drawing_work(area_in, sections, flow_stress=900.0):
    """Ideal work of deformation per unit volume at each die (Siebel)."""
    before = tf.concat([area_in[:, tf.newaxis], sections[:, :-1]], axis=1)
    return flow_stress * tf.math.log(before / sections)


# --------------------------------------------------------------------------
# gauging
# --------------------------------------------------------------------------


def _lay_back(frames, hop: int, length: int):
    """Spread per-frame samples over the trace they were cut from."""
    batch = tf.shape(frames)[0]
    count = frames.shape[1]
    lead = tf.reshape(frames[:, :, :hop], [batch, -1])
    rest = frames[:, -1, hop:]
    trace = tf.concat([lead, rest], axis=1)
    missing = length - (count * frames[:, :, :hop].shape[2] + rest.shape[1])
    return tf.pad(trace, [[0, 0], [0, missing]])


class LaserGauge:
    """Micrometer behind the last capstan.

    Args:
        window: samples averaged into one reading.
        hop: samples between the starts of two readings, at most ``window``.
            ``None`` reads the trace in adjoining pieces. The inspection
            department's charts use ``hop = window // 2``.
    """

    def __init__(self, window: int = DEFAULT_GAUGE_WINDOW, hop: Optional[int] = None):
        if window < 2:
            raise ValueError("window must hold at least two samples")
        self.window = window
        self.hop = window if hop is None else hop
        if not 0 < self.hop <= window:
            raise ValueError("hop must lie in 1..window")
        self.readings = self._build()

    def _build(self):
        window, hop = self.window, self.hop

        @tf.custom_gradient
        def readings(trace):
            """Mean and variance of each reading of a [wires, samples] trace."""
            length = trace.shape[1]
            frames = tf.signal.frame(trace, window, hop, axis=1)
            mean = tf.reduce_mean(frames, axis=2)
            centred = frames - mean[:, :, tf.newaxis]
            variance = tf.reduce_mean(tf.square(centred), axis=2)

            def grad(g_mean, g_variance):
                per_sample = (g_mean[:, :, tf.newaxis]
                              + 2.0 * g_variance[:, :, tf.newaxis] * centred) / window
                return _lay_back(per_sample, hop, length)

            return (mean, variance), grad

        return readings

    def tolerance_excess(self, trace, nominal, tolerance):
        """Soft count of readings outside nominal +/- tolerance."""
        mean, variance = self.readings(trace)
        spread = tf.sqrt(variance + 1e-8)
        upper = tf.nn.softplus((mean - nominal - tolerance) / spread)
        lower = tf.nn.softplus((nominal - tolerance - mean) / spread)
        return tf.reduce_sum(upper + lower, axis=1)


# --------------------------------------------------------------------------
# stranding
# --------------------------------------------------------------------------


def make_lay_model(construction: StrandConstruction, dtype=tf.float32):
    """Returns ``lay_response(pitch, radius, tensile, friction)`` for a construction."""
    metal = tf.constant(
        np.asarray(construction.counts) * np.asarray(construction.wire_area), dtype)

    @tf.custom_gradient
    def lay_response(pitch, radius, tensile, friction):
        """Breaking load and unbalanced torque of a strand.

        A wire laid at angle beta carries cos^2(beta) of its own strength along
        the strand.  Its neighbours pinch it, which costs a further
        1 / (1 + friction * |sin(beta)|) whichever hand it is laid.

        pitch     lay length per layer, signed by the hand of lay  (strands, layers)
        radius    pitch-circle radius of each layer                (layers,)
        tensile   wire strength                                    (strands, layers)
        friction  scalar
        """
        tan = 2.0 * math.pi * radius / pitch
        cos2 = 1.0 / (1.0 + tf.square(tan))
        cos = tf.sqrt(cos2)
        sin = tan * cos
        pinch = 1.0 / (1.0 + friction * tf.abs(sin))
        solid = metal * tensile
        axial = solid * cos2 * pinch
        load = tf.reduce_sum(axial, axis=1)
        torque = tf.reduce_sum(axial * tan * radius, axis=1)

        def grad(g_load, g_torque):
            arm = g_torque[:, tf.newaxis] * tan * radius
            g_axial = g_load[:, tf.newaxis] + arm
            d_cos2 = -2.0 * tan * tf.square(cos2)
            d_pinch = -friction * tf.square(pinch) * cos * cos2
            d_tan = g_axial * solid * (d_cos2 * pinch + cos2 * d_pinch)
            d_tan += g_torque[:, tf.newaxis] * axial * radius

            d_pitch = -d_tan * tan / pitch
            d_radius = tf.reduce_sum(
                d_tan * 2.0 * math.pi / pitch
                + g_torque[:, tf.newaxis] * axial * tan, axis=0)
            d_tensile = g_axial * metal * cos2 * pinch
            d_friction = -tf.reduce_sum(
                g_axial * solid * cos2 * tf.square(pinch) * tf.abs(sin))
            return d_pitch, d_radius, d_tensile, d_friction

        return (load, torque), grad

    return lay_response


@tf.custom_gradient
def composite_moduli(share, modulus, density, present):
    """Upper and lower bound on the modulus of a strand of mixed metals.

    Args:
        share: mass of each metal in the strand, [strands, metals]; the rows need
            not add up to one.
        modulus: Young's modulus of each metal, [metals].
        density: [metals].
        present: bool [strands, metals]; metals that a recipe does not use. A
            strand without any metal (an empty bobbin) has modulus zero.

    Returns:
        (parallel, series), each [strands]: the volume-weighted arithmetic and
        harmonic mean.
    """
    mask = tf.cast(present, share.dtype)
    volume = mask * share / density
    total = tf.reduce_sum(volume, axis=1, keepdims=True)
    filled = total > 0.0
    safe_total = tf.where(filled, total, tf.ones_like(total))
    stiffness = tf.reduce_sum(volume * modulus, axis=1, keepdims=True)
    compliance = tf.reduce_sum(volume / modulus, axis=1, keepdims=True)
    safe_compliance = tf.where(filled, compliance, tf.ones_like(compliance))
    parallel = stiffness / safe_total
    series = total / safe_compliance

    def grad(g_parallel, g_series):
        g_par = tf.where(filled, g_parallel[:, tf.newaxis], tf.zeros_like(total))
        g_ser = tf.where(filled, g_series[:, tf.newaxis], tf.zeros_like(total))
        d_volume = (g_par * (modulus - parallel) / safe_total
                    + g_ser * (1.0 - series / modulus) / safe_compliance)
        d_share = d_volume * mask / density
        d_density = -tf.reduce_sum(d_volume * volume / density, axis=0)
        d_modulus = tf.reduce_sum(
            g_par * volume / safe_total
            + g_ser * series * volume / (tf.square(modulus) * safe_compliance), axis=0)
        return d_share, d_modulus, d_density, None

    return (parallel[:, 0], series[:, 0]), grad


# --------------------------------------------------------------------------
# calibration
# --------------------------------------------------------------------------


class StrandWorks(tf.Module):
    """All free settings of one line, with the losses they are fitted to."""

    def __init__(self, construction: StrandConstruction, dies: int, machines: int,
                 hands: Sequence[int] = (1, -1), name=None):
        super().__init__(name=name)
        if len(hands) != construction.layers:
            raise ValueError("one hand of lay per layer")
        self.construction = construction
        self.raw_reduction = tf.Variable(tf.zeros([machines, dies]), name="raw_reduction")
        self.recovery = tf.Variable(0.002 * tf.ones([dies]), name="recovery")
        lay = [h * 55.0 * (i + 1) for i, h in enumerate(hands)]
        self.pitch = tf.Variable(tf.constant(lay)[tf.newaxis] * tf.ones([machines, 1]))
        self.radius = tf.Variable([1.1 * (i + 1) for i in range(construction.layers)])
        self.friction = tf.Variable(DEFAULT_FRICTION)
        self._lay = make_lay_model(construction)
        self._gauge = LaserGauge()

    def dies(self) -> DieTrain:
        return DieTrain(MAX_REDUCTION * tf.sigmoid(self.raw_reduction), 1.0 * self.recovery)

    def finished_area(self, rod_area):
        train = self.dies()
        return pass_sections(rod_area, train.reductions, train.recovery)[:, -1]

    def break_loss(self, tensile, measured_load, measured_torque):
        load, torque = self._lay(1.0 * self.pitch, 1.0 * self.radius, tensile,
                                 1.0 * self.friction)
        return (tf.reduce_mean(tf.square(load / measured_load - 1.0))
                + 1e-2 * tf.reduce_mean(tf.square((torque - measured_torque) / 1e3)))

    def gauge_loss(self, trace, nominal):
        return tf.reduce_mean(self._gauge.tolerance_excess(trace, nominal, 0.01))


def main():
    rng = np.random.default_rng(11)
    works = StrandWorks(seale_19(), dies=6, machines=3)
    rod = tf.constant([23.8, 23.6, 24.1])
    tensile = tf.constant(rng.uniform(1650.0, 1900.0, (3, 2)), tf.float32)
    with tf.GradientTape() as tape:
        area = works.finished_area(rod)
        trace = diameter_from_area(area)[:, None] * (1.0 + 0.002 * rng.normal(size=(3, 96)))
        loss = works.break_loss(tensile, 2.3e4, 0.0) + works.gauge_loss(trace, 2.6)
    for var, g in zip(works.trainable_variables, tape.gradient(loss, works.trainable_variables)):
        print(var.name, None if g is None else float(tf.norm(g)))
    mixed = composite_moduli(
        tf.constant([[0.8, 0.05, 0.15], [1.0, 0.0, 0.0]]),
        tf.constant([200.0, 96.0, 69.0]),
        tf.constant([STEEL_DENSITY, ZINC_DENSITY, ALUMINIUM_DENSITY]),
        tf.constant([[True, True, True], [True, False, False]]))
    print("moduli", [m.numpy() for m in mixed])


if __name__ == "__main__":
    main()
