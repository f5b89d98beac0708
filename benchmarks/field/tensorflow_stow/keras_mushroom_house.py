"""Growing-house model for cultivated mushrooms, in Keras 3.

A growing house is a sealed room with shelves of colonised substrate.  Three
processes set the harvest and the running cost:

``room_co2``
    carbon dioxide in the room air, hour by hour, from the ventilation schedule
    and the respiration of the beds;
``cap_evaporation``
    water lost by the caps on each shelf, from air speed and vapour deficit;
``flush_curve``
    cumulative picked mass; a crop comes in waves ("flushes") a week or so
    apart, each a sigmoid in time.

The functions run on any Keras backend.  Their derivatives are given explicitly:
the hourly recursion would otherwise unroll into thousands of graph nodes on
tracing backends, and the sigmoids of late flushes overflow in half precision
when differentiated term by term.

Concentrations in ppm / 1000, time in hours for the room and days for the crop,
masses in kg per square metre of bed.
"""

import math

import keras
import numpy as np
from keras import ops

OUTDOOR_CO2 = 0.42
PINNING_CO2 = 0.9           # above this primordia do not form
FREE_CONVECTION = 0.31      # still-air part of the transfer coefficient
FORCED_CONVECTION = 0.74
AIR_SPEED_FLOOR = 0.05      # m/s, keeps the transfer law smooth in still air
AIR_SPEED_POWER = 0.6
FLUSH_INTERVAL = 7.5        # days
FIRST_FLUSH = 3.0


def _reduce_to(value, like):
    """Sum ``value`` over the axes along which ``like`` was broadcast."""
    extra = len(value.shape) - len(like.shape)
    if extra:
        value = ops.sum(value, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(like.shape) if n == 1 and value.shape[i] != 1)
    return ops.sum(value, axis=axes, keepdims=True) if axes else value


# ---------------------------------------------------------------- room air --


@ops.custom_gradient
def room_co2(exchange, release, start, outdoor):
    """Hourly carbon dioxide of the room.

    Each hour a part ``exchange`` of the room air is replaced by outdoor air, and
    the beds add ``release``:

        c[t] = c[t-1] + exchange[t] * (outdoor - c[t-1]) + release[t]

    Args:
        exchange: (houses, hours), each in [0, 1]. Fans are usually run on a
            day/night schedule.
        release: (houses, hours).
        start: (houses,), concentration before the first hour.
        outdoor: (houses,).

    Returns:
        (houses, hours)
    """
    hours = exchange.shape[1]
    level = start
    before, levels = [], []
    for t in range(hours):
        before.append(level)
        level = level + exchange[:, t] * (outdoor - level) + release[:, t]
        levels.append(level)
    before = ops.stack(before, axis=1)
    levels = ops.stack(levels, axis=1)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        kept = 1.0 - exchange
        carry = ops.zeros_like(upstream[:, 0])
        trail = []
        for t in reversed(range(hours)):
            carry = upstream[:, t] + kept[:, t] * carry
            trail.append(carry)
        adjoint = ops.stack(trail[::-1], axis=1)
        d_exchange = adjoint * (ops.expand_dims(outdoor, 1) - before)
        d_start = kept[:, 0] * adjoint[:, 0]
        d_outdoor = ops.sum(adjoint * exchange, axis=1)
        return d_exchange, adjoint, d_start, d_outdoor

    return levels, grad


def fan_schedule(day_rate, night_rate, hours, sunrise=6, sunset=20):
    """Day/night ventilation, (houses, hours), from two (houses,) rates."""
    clock = np.arange(hours) % 24
    is_day = ops.convert_to_tensor(((clock >= sunrise) & (clock < sunset)).astype("float32"))
    is_day = ops.cast(is_day, day_rate.dtype)
    return (ops.expand_dims(day_rate, 1) * is_day
            + ops.expand_dims(night_rate, 1) * (1.0 - is_day))


def pinning_penalty(levels, limit=PINNING_CO2, sharpness=20.0):
    return ops.mean(ops.softplus(sharpness * (levels - limit)), axis=1) / sharpness


# -------------------------------------------------------------- evaporation --


@ops.custom_gradient
def cap_evaporation(area, speed, deficit):
    """Water loss of the caps, by shelf.

    area : (houses, shelves) exposed cap area
    speed : (shelves,) air speed over each shelf; the ducts are alike in all
        houses of a farm
    deficit : (houses, 1) vapour pressure deficit of the room. Below zero the air
        is oversaturated and nothing evaporates.
    """
    smooth = ops.square(speed) + AIR_SPEED_FLOOR**2
    forced = FORCED_CONVECTION * ops.power(smooth, 0.5 * AIR_SPEED_POWER)
    transfer = FREE_CONVECTION + forced
    drive = ops.relu(deficit)
    loss = area * transfer * drive

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_area = upstream * transfer * drive
        d_transfer = ops.sum(upstream * area * drive, axis=0)
        d_speed = d_transfer * AIR_SPEED_POWER * forced * speed / smooth
        open_air = ops.cast(deficit > 0.0, upstream.dtype)
        d_deficit = _reduce_to(upstream * area * transfer, deficit) * open_air
        return d_area, d_speed, d_deficit

    return loss, grad


def saturation_pressure_kpa(celsius):
    return 0.6108 * ops.exp(17.27 * celsius / (celsius + 237.3))


def room_deficit(celsius, relative_humidity):
    """(houses, 1) deficit in kPa."""
    return ops.expand_dims(saturation_pressure_kpa(celsius) * (1.0 - relative_humidity), 1)


# -------------------------------------------------------------------- crop --


def make_flush_curve(days, asymmetry=1.0):
    """Cumulative harvest at the given days.

    Parameters
    ----------
    days : sequence of float
        Picking days at which the curve is read.
    asymmetry : float
        Exponent of the generalised logistic. 1 is the plain logistic; oyster
        strains are picked hard at first and fit best near 0.6, button strains
        drag on and fit near 1.8.

    Returns
    -------
    callable
        ``flush_curve(onset, width, mass)``, three (beds, flushes) tensors, giving
        (beds, days).
    """
    days = np.asarray(days, dtype="float64").reshape(1, -1, 1)
    nu = float(asymmetry)
    if nu <= 0:
        raise ValueError("asymmetry must be positive")

    @ops.custom_gradient
    def flush_curve(onset, width, mass):
        t = ops.cast(ops.convert_to_tensor(days), onset.dtype)
        w = ops.expand_dims(width, 1)
        m = ops.expand_dims(mass, 1)
        z = (t - ops.expand_dims(onset, 1)) / w
        rise = ops.sigmoid(z)
        picked = ops.exp(-nu * ops.softplus(-z))
        total = ops.sum(m * picked, axis=2)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = ops.expand_dims(upstream, 2)
            d_mass = ops.sum(g * picked, axis=1)
            d_z = g * m * nu * picked * (1.0 - picked)
            d_onset = -ops.sum(d_z / w, axis=1)
            d_width = -ops.sum(d_z * z / w, axis=1)
            return d_onset, d_width, d_mass

        return total, grad

    return flush_curve


def typical_onsets(beds, flushes, jitter=0.0, seed=0):
    rng = np.random.default_rng(seed)
    base = FIRST_FLUSH + FLUSH_INTERVAL * np.arange(flushes)
    return (base + jitter * rng.normal(size=(beds, flushes))).astype("float32")


# ------------------------------------------------------------------- layers --


class FlushHarvest(keras.layers.Layer):
    """Predicts the picked mass of each bed from bed descriptors.

    Input (beds, features), output (beds, days).
    """

    def __init__(self, days, flushes=3, asymmetry=1.0, **kwargs):
        super().__init__(**kwargs)
        self.days = list(map(float, days))
        self.flushes = flushes
        self.asymmetry = asymmetry
        self.head = keras.layers.Dense(3 * flushes, kernel_initializer="glorot_uniform")
        self._curve = make_flush_curve(self.days, asymmetry)

    def build(self, input_shape):
        self.head.build(input_shape)
        super().build(input_shape)

    def call(self, beds):
        raw = ops.reshape(self.head(beds), (-1, self.flushes, 3))
        base = ops.convert_to_tensor(typical_onsets(1, self.flushes), dtype=raw.dtype)
        onset = base + raw[..., 0]
        width = 0.3 + ops.softplus(raw[..., 1])
        mass = 4.0 * ops.softplus(raw[..., 2])
        return self._curve(onset, width, mass)

    def get_config(self):
        config = super().get_config()
        config.update(days=self.days, flushes=self.flushes, asymmetry=self.asymmetry)
        return config


class HouseClimate(keras.layers.Layer):
    """Ventilation settings of a farm, and what they cost.

    Args:
        houses: number of houses.
        shelves: shelves per house.
        hours: length of the schedule.
    """

    def __init__(self, houses, shelves, hours=72, **kwargs):
        super().__init__(**kwargs)
        self.houses, self.shelves, self.hours = houses, shelves, hours

    def build(self, input_shape=None):
        self.day = self.add_weight(shape=(self.houses,), initializer="zeros", name="day")
        self.night = self.add_weight(
            shape=(self.houses,), initializer=keras.initializers.Constant(-1.5), name="night")
        self.duct = self.add_weight(
            shape=(self.shelves,), initializer=keras.initializers.Constant(0.2), name="duct")
        self.built = True

    def call(self, release, cap_area, celsius, humidity):
        exchange = fan_schedule(ops.sigmoid(self.day), ops.sigmoid(self.night), self.hours)
        ambient = OUTDOOR_CO2 * ops.ones_like(exchange[:, 0])
        levels = room_co2(exchange, release, 2.0 * ambient, ambient)
        speed = 1.0 * self.duct
        water = cap_evaporation(cap_area, speed, room_deficit(celsius, humidity))
        cost = ops.mean(exchange, axis=1)
        return pinning_penalty(levels) + 0.1 * cost + 0.01 * ops.sum(water, axis=1)


def bed_descriptors(beds, rng):
    """Moisture, spawn rate, supplement and bed depth, standardised."""
    raw = np.stack([
        rng.normal(0.68, 0.03, beds),
        rng.normal(0.05, 0.01, beds),
        rng.normal(0.08, 0.02, beds),
        rng.normal(0.18, 0.02, beds),
    ], axis=1)
    return ((raw - raw.mean(0)) / raw.std(0)).astype("float32")


def main():
    rng = np.random.default_rng(4)
    beds = bed_descriptors(8, rng)
    harvest = FlushHarvest(days=range(0, 28, 2), flushes=3, asymmetry=0.6)
    print("harvest", ops.shape(harvest(beds)))

    climate = HouseClimate(houses=3, shelves=5, hours=48)
    climate.build()
    release = rng.uniform(0.02, 0.09, (3, 48)).astype("float32")
    area = rng.uniform(0.5, 3.0, (3, 5)).astype("float32")
    bill = climate(ops.convert_to_tensor(release), ops.convert_to_tensor(area),
                   ops.convert_to_tensor(np.array([17.0, 18.5, 16.0], "float32")),
                   ops.convert_to_tensor(np.array([0.88, 0.92, 0.9], "float32")))
    print("bill", [round(float(b), 4) for b in bill], "e-folds", math.log(48))


if __name__ == "__main__":
    main()
