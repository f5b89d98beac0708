"""Lap-time model of a racing stint.

The heat kept by a set of tyres is followed lap by lap, and the wear of a stint is summed up by the slope of
fuel-corrected lap times against tyre age. Runs on any Keras backend.
"""

from typing import NamedTuple

import keras
import numpy as np
from keras import ops


class Compound(NamedTuple):
    name: str
    keep: float       # part of the heat that is still there a lap later
    offset: float     # seconds against the reference compound


COMPOUNDS = {
    "soft": Compound("soft", 0.62, -0.55),
    "medium": Compound("medium", 0.71, 0.0),
    "hard": Compound("hard", 0.78, 0.48),
}
FUEL_EFFECT = 0.032  # s per kg


def keep_table(compounds, pit_laps, laps):
    """Heat retention lap by lap of one car.

    Args:
        compounds: Names of the compounds, one more than there are stops.
        pit_laps: Increasing list of laps that start on new tyres.
        laps: Number of laps.

    Returns:
        float64 array of shape (laps,): the compound's `keep`, and 0 on every lap that starts on a new set.
    """
    keep = np.empty(laps)
    for name, first, last in zip(compounds, [0, *pit_laps], [*pit_laps, laps]):
        keep[first:last] = COMPOUNDS[name].keep
        keep[first] = 0.0
    return keep


@ops.custom_gradient
def tyre_heat(load, keep):
    """Heat in the tyres at the end of each lap.

    Args:
        load: Heat put in per lap, shape (cars, laps).
        keep: Part kept from the lap before, shape (cars, laps); see `keep_table`.

    Returns:
        Heat, shape (cars, laps), with `heat[t] = keep[t] * heat[t - 1] + load[t]` from cold.
    """
    laps = load.shape[1]
    carry = ops.zeros_like(load[:, 0])
    before, heat = [], []
    for t in range(laps):
        before.append(carry)
        carry = keep[:, t] * carry + load[:, t]
        heat.append(carry)
    before = ops.stack(before, axis=1)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        adjoint = ops.zeros_like(upstream[:, 0])
        d_load = [None] * laps
        for t in reversed(range(laps)):
            adjoint = upstream[:, t] + keep[:, t] * adjoint
            d_load[t] = adjoint
        d_load = ops.stack(d_load, axis=1)
        return d_load, d_load * before

    return ops.stack(heat, axis=1), grad


@ops.custom_gradient
def wear_slope(age, pace, weight):
    """Weighted least-squares slope of pace against tyre age, in s per lap.

    Args:
        age: Age of the set in laps, shape (stints, laps).
        pace: Fuel-corrected lap time, shape (stints, laps).
        weight: Non-negative weight of each lap, shape (stints, laps); zero for in-laps, out-laps, laps behind
            the safety car and padding. Two laps of different age at least must count in each stint.

    Returns:
        Slopes, shape (stints,).
    """
    total = ops.sum(weight, axis=-1, keepdims=True)
    x = age - ops.sum(weight * age, axis=-1, keepdims=True) / total
    y = pace - ops.sum(weight * pace, axis=-1, keepdims=True) / total
    sxx = ops.sum(weight * x * x, axis=-1, keepdims=True)
    slope = ops.sum(weight * x * y, axis=-1, keepdims=True) / sxx
    misfit = y - slope * x

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g = ops.expand_dims(upstream, -1) / sxx
        return (
            g * weight * (misfit - slope * x),
            g * weight * x,
            g * x * misfit,
        )

    return ops.squeeze(slope, -1), grad


class StintPace(keras.layers.Layer):
    """Lap times from loads, with a quadratic penalty for leaving the working window of the tyre."""

    def __init__(self, window=(2.1, 3.4), **kwargs):
        super().__init__(**kwargs)
        self.window = window

    def build(self, input_shape):
        self.low = self.add_weight(shape=(), initializer=keras.initializers.Constant(self.window[0]), name="low")
        self.high = self.add_weight(shape=(), initializer=keras.initializers.Constant(self.window[1]), name="high")
        self.cost = self.add_weight(shape=(2,), initializer=keras.initializers.Constant(0.2), name="cost")

    def call(self, load, keep, fuel):
        heat = tyre_heat(load, keep)
        cold = ops.relu(self.low - heat)
        hot = ops.relu(heat - self.high)
        return self.cost[0] * cold**2 + self.cost[1] * hot**2 + FUEL_EFFECT * fuel


def stint_report(model, load, keep, fuel, age, green):
    """Wear of each stint with the fuel taken out.

    Args:
        model: A `StintPace`.
        load, keep, fuel, age: Arrays of shape (stints, laps).
        green: Boolean array of the same shape, False for laps that are not representative.

    Returns:
        A pair of the predicted lap times and the slopes.
    """
    pace = model(load, keep, fuel)
    corrected = pace - FUEL_EFFECT * fuel
    return pace, wear_slope(ops.cast(age, corrected.dtype), corrected, ops.cast(green, corrected.dtype))


def slope_loss(target, age, pace, green):
    return ops.mean(ops.square(wear_slope(age, pace, green) - target))
