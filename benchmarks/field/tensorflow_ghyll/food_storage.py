"""Moisture and spoilage of stored foods (Keras, any backend).

A storage trial is a table of samples. Each sample belongs to a product, has been kept at a series of
temperatures and humidities, and was plated at the end of every interval.
"""

import math

import keras
from keras import ops

LN10 = math.log(10.0)


def ratkowsky_rate(temperature, slope, t_min):
    """Square-root model of the growth rate (natural log units per hour), zero below ``t_min``."""
    return ops.square(slope * ops.relu(temperature - t_min))


def make_gab_moisture(product, num_products):
    """Equilibrium moisture by the GAB isotherm.

    Parameters
    ----------
    product : integer array, ``[samples]``
        Which product each sample is; products repeat, and some may have no sample.
    num_products : int
        Rows of the table.

    Returns
    -------
    callable
        ``gab_moisture(activity, table)``. ``activity`` is the water activity ``[samples, readings]``, and
        ``table`` is ``[num_products, 3]`` with the columns monolayer moisture, C and K (K * activity < 1).
        Gives moisture in the unit of the monolayer, shaped like ``activity``.
    """
    product = ops.convert_to_tensor(product, dtype="int32")

    @keras.ops.custom_gradient
    def gab_moisture(activity, table):
        rows = ops.take(table, product, axis=0)
        mono, c, k = rows[:, 0:1], rows[:, 1:2], rows[:, 2:3]
        u = k * activity
        dry = 1.0 - u
        bound = dry + c * u
        unit = c * u / (dry * bound)
        moisture = mono * unit

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_u = upstream * mono * c * (1.0 + (c - 1.0) * u * u) / ops.square(dry * bound)
            d_rows = ops.stack(
                [
                    ops.sum(upstream * unit, axis=-1),
                    ops.sum(upstream * mono * u / ops.square(bound), axis=-1),
                    ops.sum(d_u * activity, axis=-1),
                ],
                axis=-1,
            )
            d_table = ops.segment_sum(d_rows, product, num_segments=num_products)
            return d_u * k, d_table

        return moisture, grad

    return gab_moisture


def make_log_count_path(interval_hours=1.0):
    """Log10 counts of a spoilage flora over the intervals of a storage trial.

    Growth slows as the flora nears its ceiling,

        n[t+1] = n[t] + rate[t] * interval / ln(10) * (1 - 10 ** (n[t] - ceiling)).

    The rule takes ``rate`` [samples, intervals] (per hour), ``initial`` [samples] and ``ceiling`` [samples],
    and gives the counts at the end of each interval, [samples, intervals].
    """
    step = interval_hours / LN10

    @keras.ops.custom_gradient
    def log_count_path(rate, initial, ceiling):
        counts, n = [], initial
        for t in range(rate.shape[1]):
            n = n + step * rate[:, t] * (1.0 - ops.exp(LN10 * (n - ceiling)))
            counts.append(n)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            adjoint = ops.zeros_like(initial)
            d_ceiling = ops.zeros_like(ceiling)
            d_rate = []
            for t in reversed(range(rate.shape[1])):
                adjoint = adjoint + upstream[:, t]
                crowding = ops.exp(LN10 * (counts[t] - ceiling))
                d_rate.append(adjoint * step * (1.0 - crowding))
                pull = adjoint * step * rate[:, t] * LN10 * crowding
                d_ceiling = d_ceiling + pull
                adjoint = adjoint - pull
            return ops.stack(d_rate[::-1], axis=1), adjoint, d_ceiling

        return ops.stack(counts, axis=1), grad

    return log_count_path


class SpoilageModel(keras.layers.Layer):
    """Counts along a temperature history, with learned growth parameters of one flora.

    Args:
        interval_hours: length of the intervals between the temperatures.
        ceiling: log10 count at which growth stops.
    """

    def __init__(self, interval_hours=6.0, ceiling=9.0, **kwargs):
        super().__init__(**kwargs)
        self._counts = make_log_count_path(interval_hours)
        self._ceiling = ceiling

    def build(self, shape):
        self.slope = self.add_weight(name="slope", shape=(), initializer=keras.initializers.Constant(0.03))
        self.t_min = self.add_weight(name="t_min", shape=(), initializer=keras.initializers.Constant(-3.0))
        self.initial = self.add_weight(name="initial", shape=(), initializer=keras.initializers.Constant(3.0))

    def call(self, temperature):
        rate = ratkowsky_rate(temperature, self.slope, self.t_min)
        ones = ops.ones_like(rate[:, 0])
        return self._counts(rate, ones * self.initial, ones * self._ceiling)
