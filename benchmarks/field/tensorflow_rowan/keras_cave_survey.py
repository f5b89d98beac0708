"""Reduction of cave surveys: legs, loops and passage volumes (Keras 3).

Cavers measure a chain of legs with tape (or disto), compass and clinometer and
note the passage size at every station.  Old books mix instruments, so instrument
constants (tape stretch, clinometer zero, loop weights) are estimated jointly by
gradient descent on closure errors.  Everything is written with ``keras.ops`` and
runs on the TensorFlow and JAX backends.

Axes: ``B`` surveys, ``L`` legs, ``N`` stations, ``S`` passage segments.
Bearings are in degrees clockwise from grid north.
"""

import math

import keras
import numpy as np
from keras import ops

DEGREE = math.pi / 180.0
#: standard deviation of a tape reading in metres
TAPE_SD = 0.02
#: standard deviation of compass and clinometer, in degrees
ANGLE_SD = 0.75
#: elliptical sections: area = pi / 4 * width * height
ELLIPSE = math.pi / 4.0

CLINO_UNITS = ("degrees", "percent")
EAST, NORTH, RISE, PLAN = range(4)


def _upstream(args, upstream):
    return args[0] if upstream is None else upstream


# ---------------------------------------------------------------------------
# legs
# ---------------------------------------------------------------------------
def make_leg_vectors(clino_unit="degrees", backsights=False):
    """Polar readings to Cartesian legs.

    Args:
        clino_unit: `"degrees"` for inclination angles, `"percent"` for grades as
            read from forestry clinometers (100 is a slope of 45 degrees).
        backsights: whether bearings and inclinations were read looking back
            from the far station.

    Returns:
        Function of `tape`, `compass`, `clino` (each `(B, L)`) and `stretch`
        `(B, 1)`, the relative lengthening of each survey's tape. Gives
        `(B, L, 4)`: easting, northing, rise and plan length of every leg.
    """
    if clino_unit not in CLINO_UNITS:
        raise ValueError(f"clino_unit must be one of {CLINO_UNITS}")
    sense = -1.0 if backsights else 1.0

    @ops.custom_gradient
    def leg_vectors(tape, compass, clino, stretch):
        length = tape * (1.0 + stretch)
        bearing = compass * DEGREE
        if clino_unit == "percent":
            dip = ops.arctan(clino * 0.01)
            per_unit = 0.01
        else:
            dip = clino * DEGREE
            per_unit = DEGREE
        level, steep = ops.cos(dip), ops.sin(dip)
        sin_b, cos_b = ops.sin(bearing), ops.cos(bearing)
        plan = length * level
        out = ops.stack(
            [sense * plan * sin_b, sense * plan * cos_b, sense * length * steep, plan],
            axis=-1,
        )

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            along = sense * (g[..., EAST] * sin_b + g[..., NORTH] * cos_b) + g[..., PLAN]
            across = sense * (g[..., EAST] * cos_b - g[..., NORTH] * sin_b)
            rise = sense * g[..., RISE]
            length_bar = along * level + rise * steep
            dip_bar = length * (rise * level - along * steep)
            return (
                length_bar * (1.0 + stretch),
                across * plan * DEGREE,
                dip_bar * per_unit,
                ops.sum(length_bar * tape, axis=1, keepdims=True),
            )

        return out, grad

    return leg_vectors


def leg_variance(tape, clino_degrees):
    """Isotropic variance of a leg in m2 from reading errors."""
    level = ops.cos(clino_degrees * DEGREE)
    return TAPE_SD**2 + (tape * ANGLE_SD * DEGREE) ** 2 * (1.0 + level**2) / 2.0


# ---------------------------------------------------------------------------
# loops
# ---------------------------------------------------------------------------
@ops.custom_gradient
def close_loop(legs, variance, present):
    """Distribute the misclosure of every loop over its legs.

    legs      (B, L, 3)  measured legs
    variance  (B, L)     positive
    present   (B, L)     bool, padding is False

    Every leg takes a part of the misclosure in proportion to its variance, so
    the returned legs (B, L, 3) of a loop add to zero. Padded legs come back as
    zeros, as do loops without any leg.
    """
    flag = ops.cast(present, legs.dtype)
    active = variance * flag
    total = ops.sum(active, axis=1, keepdims=True)
    inverse = ops.where(total > 0, 1.0 / ops.where(total > 0, total, 1.0), 0.0)
    share = active * inverse
    misclosure = ops.sum(legs * flag[..., None], axis=1, keepdims=True)
    closed = legs * flag[..., None] - share[..., None] * misclosure

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        pooled = ops.sum(share[..., None] * g, axis=1, keepdims=True)
        legs_bar = flag[..., None] * (g - pooled)
        share_bar = -ops.sum(g * misclosure, axis=-1)
        mean_bar = ops.sum(share * share_bar, axis=1, keepdims=True)
        variance_bar = flag * inverse * (share_bar - mean_bar)
        return legs_bar, variance_bar, None

    return closed, grad


def station_positions(legs):
    """Cumulative positions (B, L, 3), the entrance being the origin."""
    return ops.cumsum(legs, axis=1)


# ---------------------------------------------------------------------------
# passages
# ---------------------------------------------------------------------------
class PassageNetwork:
    """Passage segments between stations of a branching survey.

    `segments` is an `(S, 2)` integer table of (from, to) stations. Stations at
    junctions occur in several segments.
    """

    def __init__(self, segments, num_stations):
        table = np.asarray(segments, "int32")
        if table.ndim != 2 or table.shape[1] != 2:
            raise ValueError("segments must be an (S, 2) table")
        self.tail, self.head = table[:, 0], table[:, 1]
        self.num_stations = int(num_stations)
        self.volume = self._volume_rule()

    def _volume_rule(self):
        tail, head = self.tail, self.head
        ends = np.concatenate([tail, head])
        num_stations = self.num_stations

        def collect(at_tail, at_head):
            both = ops.transpose(ops.concatenate([at_tail, at_head], axis=1))
            return ops.transpose(ops.segment_sum(both, ends, num_segments=num_stations))

        @ops.custom_gradient
        def segment_volume(width, height, run):
            """Volume of elliptical passage whose width and height vary linearly.

            width, height: (B, N). run: (B, S) segment lengths. -> (B, S)
            """
            w0, w1 = ops.take(width, tail, axis=1), ops.take(width, head, axis=1)
            h0, h1 = ops.take(height, tail, axis=1), ops.take(height, head, axis=1)
            mean_area = (2.0 * (w0 * h0 + w1 * h1) + w0 * h1 + w1 * h0) / 6.0

            def grad(*args, upstream=None):
                g = ELLIPSE * _upstream(args, upstream)
                per = g * run / 6.0
                width_bar = collect(per * (2.0 * h0 + h1), per * (2.0 * h1 + h0))
                height_bar = collect(per * (2.0 * w0 + w1), per * (2.0 * w1 + w0))
                return width_bar, height_bar, g * mean_area

            return ELLIPSE * run * mean_area, grad

        return segment_volume

    def total_volume(self, width, height, run):
        return ops.sum(self.volume(width, height, run), axis=1)


def lrud_to_size(left, right, up, down):
    """Station notes (left, right, up, down) to width and height."""
    return left + right, up + down


# ---------------------------------------------------------------------------
# calibration
# ---------------------------------------------------------------------------
class InstrumentCalibration(keras.layers.Layer):
    """Tape stretch and clinometer zero of every survey party.

    The layer returns the RMS misclosure per leg of each loop, to be minimised.
    """

    def __init__(self, surveys, clino_unit="degrees", **kwargs):
        super().__init__(**kwargs)
        self.surveys = surveys
        self.clino_unit = clino_unit
        self.legs_of = make_leg_vectors(clino_unit)

    def build(self, input_shape=None):
        self.stretch = self.add_weight(
            shape=(self.surveys, 1), initializer="zeros", name="stretch"
        )
        self.clino_zero = self.add_weight(
            shape=(self.surveys, 1), initializer="zeros", name="clino_zero"
        )
        self.built = True

    def call(self, readings):
        tape, compass, clino, present = readings
        stretch = ops.multiply(self.stretch, 1.0)
        corrected = clino - self.clino_zero
        legs = self.legs_of(tape, compass, corrected, stretch)[..., :3]
        if self.clino_unit == "percent":
            angles = ops.arctan(corrected * 0.01) / DEGREE
        else:
            angles = corrected
        closed = close_loop(legs, leg_variance(tape, angles), present)
        flag = ops.cast(present, closed.dtype)
        change = ops.sum((closed - legs) ** 2, axis=-1) * flag
        count = ops.maximum(ops.sum(flag, axis=1), 1.0)
        return ops.sqrt(ops.sum(change, axis=1) / count + 1e-12)


def _synthetic_loops(rng, surveys=3, legs=6, clino_unit="degrees"):
    """Horizontal polygons with a ramp up and a ramp down."""
    tape = 8.0 + 6.0 * rng.random((surveys, legs))
    compass = np.linspace(0.0, 360.0, legs, endpoint=False)[None] + rng.normal(
        0.0, 3.0, (surveys, legs)
    )
    dip = rng.normal(0.0, 12.0, (surveys, legs))
    clino = dip if clino_unit == "degrees" else 100.0 * np.tan(dip * DEGREE)
    present = np.ones((surveys, legs), bool)
    present[0, -1] = False
    return tape, compass, clino, present


def main():
    rng = np.random.default_rng(5)
    tape, compass, clino, present = _synthetic_loops(rng)
    layer = InstrumentCalibration(surveys=tape.shape[0])
    readings = [ops.convert_to_tensor(a.astype("float32")) for a in (tape, compass, clino)]
    print("rms per leg", layer(readings + [ops.convert_to_tensor(present)]))

    network = PassageNetwork([(0, 1), (1, 2), (1, 3), (3, 4)], num_stations=5)
    left, right, up, down = (
        ops.convert_to_tensor((0.4 + rng.random((1, 5))).astype("float32")) for _ in range(4)
    )
    run = ops.convert_to_tensor([[9.0, 7.5, 11.0, 4.0]])
    print("volume m3", network.total_volume(*lrud_to_size(left, right, up, down), run))


if __name__ == "__main__":
    main()
