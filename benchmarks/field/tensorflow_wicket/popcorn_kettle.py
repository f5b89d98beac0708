"""Popcorn kettle model: how much of a charge pops, and how far it expands.

Used by the recipe optimiser of a kettle line.  A kettle is loaded with a mix
of cultivars (butterfly and mushroom types, several harvests), heated along a
temperature programme, and dumped.  Two parts:

* popping as a first-order process whose hazard opens above the onset
  temperature of the hull;
* bulk volume of the dumped batch, from each cultivar's expansion curve against
  moisture, lessened by crowding in the kettle.

Moisture is in percent wet basis, temperature in deg C, time in seconds, charge
in kilograms, volume in litres.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from keras import ops

ONSET_WIDTH = 6.0
PEAK_EXPANSION = 42.0      # L/kg, butterfly type
BEST_MOISTURE = 13.8
DRY_WIDTH = 2.4
WET_WIDTH = 3.1
KETTLE_CAPACITY = 1.6
CROWD_POWER = 3.0

DEFAULT_PROGRAMME = {
    "start": 25.0,
    "ramp": 2.1,
    "hold": 215.0,
}


def temperature_programme(times, start=25.0, ramp=2.1, hold=215.0):
    """Kettle temperature on ``times``: linear ramp up to a hold."""
    return np.minimum(start + ramp * np.asarray(times, "float64"), hold)


def cumulative_trapezoid(values, steps):
    """Running integral along the last axis, zero at the first instant."""
    area = 0.5 * steps * (values[:, 1:] + values[:, :-1])
    area = ops.cumsum(area, axis=1)
    return ops.concatenate([ops.zeros_like(values[:, :1]), area], axis=1)


def _reverse_cumsum(x):
    return ops.flip(ops.cumsum(ops.flip(x, axis=1), axis=1), axis=1)


def make_popped_fraction(times, width=ONSET_WIDTH):
    """Factory for the popping kinetics on a sampling grid.

    Args:
        times: Increasing sampling instants of the logger in seconds, shape
            `(T,)`.  The logger samples faster near the onset.
        width: Smoothing of the onset in deg C.

    Returns:
        A function of `(temperature, onset, log_rate)` returning the fraction
        popped by each instant.
    """
    times = np.asarray(times, "float64")
    if times.ndim != 1 or times.size < 2 or np.any(np.diff(times) <= 0):
        raise ValueError("times must be an increasing vector of two or more")
    steps = np.diff(times)
    spacing = np.gradient(times)

    @ops.custom_gradient
    def popped_fraction(temperature, onset, log_rate):
        """Fraction of kernels popped, (kettles, T).

        temperature: (kettles, T); onset: (kettles,); log_rate: scalar, log of
        the popping rate per second per smoothed unit above the onset.
        """
        dtype = temperature.dtype
        over = (temperature - onset[:, None]) / width
        rate = ops.exp(log_rate)
        hazard = rate * ops.softplus(over)
        exposure = cumulative_trapezoid(hazard, ops.cast(steps, dtype))
        unpopped = ops.exp(-exposure)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            tail = _reverse_cumsum(upstream * unpopped)[:, 1:]
            edge = ops.zeros_like(tail[:, :1])
            left = ops.concatenate([edge, tail], axis=1)
            right = ops.concatenate([tail, edge], axis=1)
            d_hazard = 0.5 * ops.cast(spacing, dtype) * (left + right)
            d_over = d_hazard * rate * ops.sigmoid(over)
            d_temperature = d_over / width
            return (
                d_temperature,
                -ops.sum(d_temperature, axis=1),
                ops.sum(d_hazard * hazard),
            )

        return 1.0 - unpopped, grad

    return popped_fraction


def expansion_curve(moisture, best, dry, wet):
    """Two-sided bell around the best moisture, one at the top."""
    offset = moisture - best
    width = ops.where(offset < 0.0, dry, wet)
    return ops.exp(-ops.square(offset / width)), offset, width


@ops.custom_gradient
def bulk_volume(charge, popped, moisture, peak, best, cultivar):
    """Volume of the dumped popcorn of every kettle.

    A kettle holds several lots.  Lot ``n`` of kettle ``k`` has ``charge[k, n]``
    kilograms of cultivar ``cultivar[k, n]`` (an integer row of the tables; -1
    for an unused place) at moisture ``moisture[k, n]``; the kettle as a whole
    has reached the popped fraction ``popped[k]``.  ``peak`` and ``best`` are
    the cultivar tables of peak expansion and best moisture.  A full kettle
    expands less, by ``1 / (1 + (total charge / capacity) ** 3)``.
    """
    used = ops.cast(cultivar >= 0, charge.dtype)
    row = ops.maximum(cultivar, 0)
    bell, offset, width = expansion_curve(
        moisture,
        ops.take(best, row, axis=0),
        ops.cast(DRY_WIDTH, charge.dtype),
        ops.cast(WET_WIDTH, charge.dtype),
    )
    top = ops.take(peak, row, axis=0)
    load = used * charge
    lots = load * top * bell
    fill = ops.sum(load, axis=1, keepdims=True) / KETTLE_CAPACITY
    crowd = 1.0 / (1.0 + fill**CROWD_POWER)
    volume = popped * ops.sum(lots * crowd, axis=1)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g = (upstream * popped)[:, None]
        crowd_slope = (
            -ops.square(crowd) * CROWD_POWER * fill ** (CROWD_POWER - 1.0)
        ) / KETTLE_CAPACITY
        d_charge = g * used * (top * bell * crowd + lots * crowd_slope)
        d_popped = upstream * ops.sum(lots * crowd, axis=1)
        d_lots = g * crowd
        d_moisture = -2.0 * d_lots * lots * offset / ops.square(width)
        flat = ops.reshape(row, (-1,))
        tables = peak.shape[0]
        d_peak = ops.segment_sum(
            ops.reshape(d_lots * load * bell, (-1,)), flat, num_segments=tables
        )
        d_best = ops.segment_sum(
            ops.reshape(-d_moisture, (-1,)), flat, num_segments=tables
        )
        return d_charge, d_popped, d_moisture, d_peak, d_best, None

    return volume, grad


class KettleModel(keras.layers.Layer):
    """Popping and expansion with fitted tables.

    ``call`` takes a dict with the entries

    - ``temperature``: `(kettles, T)`
    - ``charge``, ``moisture``: `(kettles, lots)`
    - ``cultivar``: `(kettles, lots)` int32, -1 for unused places

    and returns the bulk volume `(kettles,)` together with the popped fraction
    at the dump.
    """

    def __init__(self, times, num_cultivars, **kwargs):
        super().__init__(**kwargs)
        self.times = np.asarray(times, "float64")
        self.num_cultivars = num_cultivars
        self._popped = make_popped_fraction(self.times)

    def build(self, input_shape):
        constant = keras.initializers.Constant
        self.onset = self.add_weight(
            shape=(), initializer=constant(178.0), name="onset"
        )
        self.log_rate = self.add_weight(
            shape=(), initializer=constant(-3.5), name="log_rate"
        )
        self.peak = self.add_weight(
            shape=(self.num_cultivars,),
            initializer=constant(PEAK_EXPANSION),
            name="peak",
        )
        self.best = self.add_weight(
            shape=(self.num_cultivars,),
            initializer=constant(BEST_MOISTURE),
            name="best",
        )

    def call(self, batch):
        temperature = batch["temperature"]
        onset = self.onset + ops.zeros_like(temperature[:, 0])
        popped = self._popped(
            temperature, onset, ops.multiply(self.log_rate, 1.0)
        )
        at_dump = popped[:, -1]
        volume = bulk_volume(
            batch["charge"],
            at_dump,
            batch["moisture"],
            ops.multiply(self.peak, 1.0),
            ops.multiply(self.best, 1.0),
            batch["cultivar"],
        )
        return volume, at_dump


def recipe_cost(volume, popped, charge, litre_price=0.9, kilo_price=6.5):
    """Negative margin of the batches."""
    revenue = litre_price * volume
    corn = kilo_price * ops.sum(charge, axis=1)
    waste = 2.0 * (1.0 - popped) * ops.sum(charge, axis=1)
    return ops.mean(corn + waste - revenue)


def logger_grid(onset_s=70.0, end_s=150.0, coarse=10.0, fine=2.0):
    """Sampling instants: coarse before the onset, fine after it."""
    early = np.arange(0.0, onset_s, coarse)
    late = np.arange(onset_s, end_s + fine / 2, fine)
    return np.concatenate([early, late])


def demo_batch(rng, times, kettles=4, lots=3, cultivars=5):
    programme = temperature_programme(times, **DEFAULT_PROGRAMME)
    temperature = programme[None, :] + rng.normal(scale=1.5, size=(kettles, len(times)))
    cultivar = rng.integers(0, cultivars, size=(kettles, lots))
    cultivar[0, -1] = -1
    batch = {
        "temperature": temperature.astype("float32"),
        "charge": rng.uniform(0.2, 0.7, (kettles, lots)).astype("float32"),
        "moisture": rng.uniform(11.0, 16.0, (kettles, lots)).astype("float32"),
        "cultivar": cultivar.astype("int32"),
    }
    return {k: ops.convert_to_tensor(v) for k, v in batch.items()}


if __name__ == "__main__":
    import tensorflow as tf

    rng = np.random.default_rng(2)
    grid = logger_grid()
    model = KettleModel(grid, num_cultivars=5)
    batch = demo_batch(rng, grid)
    with tf.GradientTape() as tape:
        tape.watch(batch["charge"])
        volume, popped = model(batch)
        cost = recipe_cost(volume, popped, batch["charge"])
    sources = [w.value for w in model.trainable_weights] + [batch["charge"]]
    for g in tape.gradient(cost, sources):
        print(tuple(g.shape), float(ops.mean(g)))
