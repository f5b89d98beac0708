"""Piano workshop models: string partials, hammer felt and interval beats.

A technician's tablet records single strings, hammer drops and test intervals.
This module holds the differentiable pieces the fitting code shares:

1. stiff-string partials with inharmonicity,
2. the force of a felt hammer with memory (hereditary felt after Stulov),
3. the beat rates of tuning intervals over a whole temperament octave.

Written against ``keras.ops`` so that it runs on whatever backend the
tablet build ships.
"""

import math

import numpy as np
import keras
from keras import ops

CENTS_PER_OCTAVE = 1200.0
LN2 = math.log(2.0)
A4 = 440.0
A4_KEY = 49

# lower key, upper key, partial of the lower string, partial of the upper
# string; relative to F3, as in the usual F-F temperament.
TEMPERAMENT_INTERVALS = (
    (0, 12, 2, 1),
    (0, 7, 3, 2),
    (0, 5, 4, 3),
    (0, 4, 5, 4),
    (4, 8, 5, 4),
    (8, 12, 5, 4),
    (2, 9, 3, 2),
    (5, 12, 3, 2),
)


def nominal_frequency(key):
    """Equal-tempered frequency of key number ``key`` (1..88)."""
    return A4 * 2.0 ** ((np.asarray(key, np.float64) - A4_KEY) / 12.0)


def typical_inharmonicity(key):
    """Rule-of-thumb B coefficient: log-linear over the treble bridge."""
    return 1e-4 * np.exp(0.092 * (np.asarray(key, np.float64) - 33.0))


def _cast(x, like):
    return ops.convert_to_tensor(np.asarray(x), dtype=like.dtype)


# --------------------------------------------------------------------------
# Partials
# --------------------------------------------------------------------------


def make_partial_series(count):
    """Frequencies of the first ``count`` partials of stiff strings."""
    numbers = np.arange(1, count + 1, dtype="float64")

    @ops.custom_gradient
    def partial_series(fundamental, inharmonicity):
        """f_n = n f sqrt(1 + B n^2).

        fundamental : (pianos, keys)
        inharmonicity : (keys,), the same scale design for all the pianos
        returns (pianos, keys, count)
        """
        n = _cast(numbers, fundamental)
        stiffness = ops.sqrt(1.0 + inharmonicity[:, None] * n * n)
        series = fundamental[..., None] * n * stiffness

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_fundamental = ops.sum(upstream * n * stiffness, axis=-1)
            slope = 0.5 * n * n * n / stiffness
            d_inharmonicity = ops.sum(
                upstream * fundamental[..., None] * slope, axis=(0, 2)
            )
            return d_fundamental, d_inharmonicity

        return series, grad

    return partial_series


class InharmonicityFit(keras.layers.Layer):
    """Learns B per key from measured partials."""

    def __init__(self, keys, partials=8, **kwargs):
        super().__init__(**kwargs)
        self.keys = list(keys)
        self.series = make_partial_series(partials)

    def build(self, input_shape):
        start = np.log(typical_inharmonicity(self.keys))
        self.log_b = self.add_weight(
            shape=(len(self.keys),),
            initializer=lambda shape, dtype: ops.convert_to_tensor(start, dtype=dtype),
            name="log_b",
        )

    def call(self, fundamental):
        return self.series(fundamental, ops.exp(ops.convert_to_tensor(self.log_b)))


# --------------------------------------------------------------------------
# Hammer felt
# --------------------------------------------------------------------------


def memory_matrix(steps, decay):
    """Lower-triangular weights of an exponential moving average from rest."""
    lag = np.arange(steps)[:, None] - np.arange(steps)[None, :]
    return np.where(lag >= 0, (1.0 - decay) * decay ** np.maximum(lag, 0), 0.0)


class HereditaryFelt:
    """Felt whose force depends on the compression's history.

    Parameters
    ----------
    frame : float
        Frame time of the high-speed camera in milliseconds.
    relaxation : float
        Relaxation time of the felt in milliseconds.
    hysteresis : float
        Strength of the memory, between 0 and 1.
    oversample : int, optional
        Samples per camera frame; tracks interpolated between frames come with
        a value above 1.
    """

    def __init__(self, frame=0.05, relaxation=0.4, hysteresis=0.6, oversample=1):
        self.frame = frame
        self.relaxation = relaxation
        self.hysteresis = hysteresis
        self.oversample = oversample

    @property
    def sample_time(self):
        return self.frame / self.oversample

    def decay(self, interval):
        return math.exp(-interval / self.relaxation)

    def force(self, compression, stiffness, exponent):
        """Force in newton over a stroke.

        compression is [hammers, samples] in millimetres, below zero while the
        hammer is off the string; stiffness and exponent hold one value for each
        hammer.
        """

        @ops.custom_gradient
        def felt_force(compression, stiffness, exponent):
            steps = compression.shape[1]
            touching = compression > 0
            depth = ops.where(touching, compression, ops.ones_like(compression))
            power = exponent[:, None]
            load = ops.where(touching, depth**power, ops.zeros_like(depth))
            memory = _cast(memory_matrix(steps, self.decay(self.sample_time)), compression)
            net = load - self.hysteresis * ops.matmul(load, ops.transpose(memory))
            force = stiffness[:, None] * net

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                back = _cast(memory_matrix(steps, self.decay(self.frame)), compression)
                scaled = upstream * stiffness[:, None]
                d_load = scaled - self.hysteresis * ops.matmul(scaled, back)
                slope = power * depth ** (power - 1.0)
                d_compression = ops.where(touching, d_load * slope, ops.zeros_like(depth))
                d_stiffness = ops.sum(upstream * net, axis=1)
                d_exponent = ops.sum(d_load * load * ops.log(depth), axis=1)
                return d_compression, d_stiffness, d_exponent

            return force, grad

        return felt_force(compression, stiffness, exponent)

    def impulse(self, compression, stiffness, exponent):
        """Newton-milliseconds given to the string."""
        return ops.sum(self.force(compression, stiffness, exponent), axis=1) * self.sample_time


def half_sine_stroke(samples, peak=0.8, lead=3):
    """Compression track of an idealised blow with ``lead`` frames of approach."""
    t = (np.arange(samples) - lead) / max(samples - 2 * lead, 1)
    return peak * np.sin(np.pi * t)


# --------------------------------------------------------------------------
# Beats
# --------------------------------------------------------------------------


def make_interval_beats(intervals, keys):
    """Signed beat rates for a table of tuning intervals.

    Args:
        intervals: rows of (lower key, upper key, lower partial, upper partial).
        keys: number of keys in the temperament.

    Returns:
        A function ``(cents, base, inharmonicity) -> beats`` with cents
        ``[pianos, keys]``, base and inharmonicity ``[keys]`` and beats
        ``[pianos, intervals]`` in hertz; positive means wide.
    """
    table = np.asarray(intervals, dtype="int64")
    lower, upper = table[:, 0], table[:, 1]
    lower_hot = np.eye(keys)[lower]
    upper_hot = np.eye(keys)[upper]

    def partial_ratio(numbers, b):
        return numbers * ops.sqrt(1.0 + b * numbers * numbers)

    def ratio_slope(numbers, b):
        return 0.5 * numbers**3 / ops.sqrt(1.0 + b * numbers * numbers)

    @ops.custom_gradient
    def interval_beats(cents, base, inharmonicity):
        m = _cast(table[:, 2], cents)
        n = _cast(table[:, 3], cents)
        low = _cast(lower_hot, cents)
        high = _cast(upper_hot, cents)
        stretch = ops.exp(cents * (LN2 / CENTS_PER_OCTAVE))
        pitch = base * stretch
        b_low = ops.matmul(low, inharmonicity[:, None])[:, 0]
        b_high = ops.matmul(high, inharmonicity[:, None])[:, 0]
        f_low = ops.matmul(pitch, ops.transpose(low))
        f_high = ops.matmul(pitch, ops.transpose(high))
        r_low, r_high = partial_ratio(m, b_low), partial_ratio(n, b_high)
        beats = f_high * r_high - f_low * r_low

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_pitch = ops.matmul(upstream * r_high, high) - ops.matmul(upstream * r_low, low)
            d_cents = d_pitch * pitch * (LN2 / CENTS_PER_OCTAVE)
            d_base = ops.sum(d_pitch * stretch, axis=0)
            at_high = ops.sum(upstream * f_high, axis=0) * ratio_slope(n, b_high)
            at_low = ops.sum(upstream * f_low, axis=0) * ratio_slope(m, b_low)
            d_inharmonicity = (
                ops.matmul(at_high[None], high) - ops.matmul(at_low[None], low)
            )[0]
            return d_cents, d_base, d_inharmonicity

        return beats, grad

    return interval_beats


class TemperamentModel(keras.layers.Layer):
    """Cents offsets of the temperament octave, scored by their beats."""

    def __init__(
        self,
        pianos,
        first_key=33,
        keys=13,
        reach=60.0,
        intervals=TEMPERAMENT_INTERVALS,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.pianos = pianos
        self.reach = reach
        numbers = first_key + np.arange(keys)
        self.base = nominal_frequency(numbers)
        self.b = typical_inharmonicity(numbers)
        self.beats = make_interval_beats(intervals, keys)
        self.keys = keys

    def build(self, input_shape):
        self.cents = self.add_weight(
            shape=(self.pianos, self.keys), initializer="zeros", name="cents"
        )

    def call(self, heard):
        cents = self.reach * ops.tanh(self.cents / self.reach)
        modelled = self.beats(cents, _cast(self.base, cents), _cast(self.b, cents))
        return ops.mean(ops.square(modelled - heard))


def main():
    rng = np.random.default_rng(1)
    keys = 33 + np.arange(13)
    layer = InharmonicityFit(keys, partials=6)
    f0 = ops.convert_to_tensor(nominal_frequency(keys)[None].astype("float32"))
    print("sixth partials:", ops.convert_to_numpy(layer(f0))[0, :3, -1])

    felt = HereditaryFelt(oversample=2)
    stroke = np.stack([half_sine_stroke(20), half_sine_stroke(20, peak=0.5)]).astype("float32")
    drive = felt.force(
        ops.convert_to_tensor(stroke),
        ops.convert_to_tensor(np.array([90.0, 120.0], "float32")),
        ops.convert_to_tensor(np.array([2.4, 2.9], "float32")),
    )
    print("peak force:", ops.convert_to_numpy(ops.max(drive, axis=1)))

    model = TemperamentModel(pianos=2)
    heard = rng.normal(size=(2, len(TEMPERAMENT_INTERVALS))).astype("float32")
    print("beat misfit:", float(model(ops.convert_to_tensor(heard))))


if __name__ == "__main__":
    main()
