"""Models of a sake brewery: polishing of the rice, the main mash, blending.

Everything is written with ``keras.ops`` and runs on any backend. The three
differentiable pieces are

* the mean composition (crude protein, fat, ash, ...) of rice polished down to a
  given ratio, from a profile over the grain's volume;
* the alcohol in the main mash (moromi), where koji enzymes turn starch into
  sugar while the yeast turns the sugar into alcohol (multiple parallel
  fermentation), for a schedule of daily temperatures;
* the dryness index (amakara-do) of a blend of tanks diluted with water
  (warimizu), from the sake meter value and the acidity.

Units are g/L for starch, sugar and alcohol, degrees Celsius, days, litres.
"""

import numpy as np
import keras
from keras import ops

# Inner volume fractions of the grain at which profiles are tabulated. The common
# polishing ratios (35, 40, 50, 60, 70 %) are among them.
PROFILE_KNOTS = (0.0, 0.2, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

REFERENCE_TEMPERATURE = 15.0
SACCHARIFICATION_SLOPE = 0.055  # per kelvin
FERMENTATION_SLOPE = 0.085
SUGAR_PER_STARCH = 1.11
ALCOHOL_PER_SUGAR = 0.49
HALF_SATURATION = 8.0  # g/L of sugar
ALCOHOL_LIMIT = 175.0  # g/L, growth and uptake stop

METER_SCALE = 1443.0
DRYNESS_SCALE = 193593.0
DRYNESS_ACID = 1.16
DRYNESS_OFFSET = 132.57


def knot_steps(knots=PROFILE_KNOTS):
    knots = np.asarray(knots, "float32")
    return knots[:-1], np.diff(knots)


@ops.custom_gradient
def polished_content(ratio, content):
    """Mean content of the part of the grain that polishing leaves.

    Parameters
    ----------
    ratio : (lots,)
        Polishing ratio (seimai-buai) as a fraction of the volume, above 0.
    content : (constituents, knots)
        Content at each of ``PROFILE_KNOTS``, linear in between.

    Returns
    -------
    (lots, constituents)
        Volume average from the centre of the grain out to ``ratio``.
    """
    begin, step = knot_steps()
    cells = len(step)
    begin = ops.cast(ops.convert_to_tensor(begin), ratio.dtype)
    step = ops.cast(ops.convert_to_tensor(step), ratio.dtype)
    position = (ratio[:, None] - begin) / step
    filled = ops.maximum(position, 0.0)
    filled = ops.concatenate(
        [ops.minimum(filled[:, :-1], 1.0), filled[:, -1:]], axis=-1
    )
    inner, outer = content[:, :-1], content[:, 1:]
    far = 0.5 * filled * filled
    integral = ops.matmul(step * (filled - far), ops.transpose(inner)) + ops.matmul(
        step * far, ops.transpose(outer)
    )
    mean = integral / ratio[:, None]

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        cell = ops.sum(ops.cast(ratio[:, None] > begin[1:], "int32"), axis=-1)
        here = ops.one_hot(cell, cells, dtype=ratio.dtype)
        edge = ops.matmul(here * (1.0 - filled), ops.transpose(inner)) + ops.matmul(
            here * filled, ops.transpose(outer)
        )
        d_ratio = ops.sum(upstream * (edge - mean), axis=-1) / ratio

        half = 0.5 * step * filled / ratio[:, None]
        d_cells = ops.matmul(ops.transpose(upstream), half)
        d_content = ops.pad(d_cells, [[0, 0], [0, 1]]) + ops.pad(
            d_cells, [[0, 0], [1, 0]]
        )
        return d_ratio, d_content

    return mean, grad


def _daily_rates(temperature, log_rates):
    shift = temperature - REFERENCE_TEMPERATURE
    hydrolysis = ops.exp(log_rates[0] + SACCHARIFICATION_SLOPE * shift)
    uptake = ops.exp(log_rates[1] + FERMENTATION_SLOPE * shift)
    return hydrolysis, uptake


@ops.custom_gradient
def moromi_alcohol(temperature, log_rates, start):
    """Alcohol after each day of the main mash.

    Args:
        temperature: mash temperature, shape ``(batch, days)``.
        log_rates: shape ``(2,)``, logs of the rate of saccharification (per day)
            and of the largest uptake of sugar (g/L per day) at 15 degrees.
        start: shape ``(batch, 3)``, starch, sugar and alcohol of the first day.

    Returns:
        Alcohol in g/L, shape ``(batch, days)``.
    """
    days = temperature.shape[1]
    starch, sugar, alcohol = start[:, 0], start[:, 1], start[:, 2]
    states, trace = [], []
    for day in range(days):
        states.append((starch, sugar, alcohol))
        hydrolysis, uptake = _daily_rates(temperature[:, day], log_rates)
        released = hydrolysis * starch
        freedom = ops.maximum(1.0 - alcohol / ALCOHOL_LIMIT, 0.0)
        consumed = uptake * sugar / (HALF_SATURATION + sugar) * freedom
        starch = starch - released
        sugar = sugar + SUGAR_PER_STARCH * released - consumed
        alcohol = alcohol + ALCOHOL_PER_SUGAR * consumed
        trace.append(alcohol)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_starch = ops.zeros_like(start[:, 0])
        d_sugar = ops.zeros_like(d_starch)
        d_alcohol = ops.zeros_like(d_starch)
        d_temperature = [None] * days
        d_released_rate = 0.0
        d_uptake_rate = 0.0
        for day in reversed(range(days)):
            s, g, a = states[day]
            hydrolysis, uptake = _daily_rates(temperature[:, day], log_rates)
            freedom = ops.maximum(1.0 - a / ALCOHOL_LIMIT, 0.0)
            saturation = g / (HALF_SATURATION + g)
            d_alcohol = d_alcohol + upstream[:, day]

            d_consumed = ALCOHOL_PER_SUGAR * d_alcohol - d_sugar
            d_released = SUGAR_PER_STARCH * d_sugar - d_starch
            by_hydrolysis = d_released * hydrolysis * s
            by_uptake = d_consumed * uptake * saturation * freedom
            d_temperature[day] = (
                SACCHARIFICATION_SLOPE * by_hydrolysis + FERMENTATION_SLOPE * by_uptake
            )
            d_released_rate = d_released_rate + ops.sum(by_hydrolysis)
            d_uptake_rate = d_uptake_rate + ops.sum(by_uptake)

            d_starch = d_starch + d_released * hydrolysis
            d_sugar = d_sugar + d_consumed * uptake * freedom * HALF_SATURATION / (
                ops.square(HALF_SATURATION + g)
            )
            active = ops.cast(a < ALCOHOL_LIMIT, a.dtype)
            d_alcohol = d_alcohol - d_consumed * uptake * saturation * active / (
                ALCOHOL_LIMIT
            )
        return (
            ops.stack(d_temperature, axis=1),
            ops.stack([d_released_rate, d_uptake_rate]),
            ops.stack([d_starch, d_sugar, d_alcohol], axis=-1),
        )

    return ops.stack(trace, axis=1), grad


class TankBlend:
    """Blends from the tanks of one store.

    in_service: sequence of bool, False for tanks that are sealed or empty; what
    is requested from these is left out of the blend.
    """

    def __init__(self, in_service):
        self.in_service = np.asarray(in_service, "float32")
        self.dryness = self._make()

    def _make(self):
        table = self.in_service

        @ops.custom_gradient
        def dryness(volume, water, gravity, acid):
            """Dryness index of each blend.

            volume (blends, tanks) and water (blends,) in litres, not negative,
            water above 0; gravity (tanks,) specific gravity; acid (tanks,)
            titrated acidity. Water has gravity 1 and no acid.
            """
            service = ops.cast(ops.convert_to_tensor(table), volume.dtype)
            used = volume * service
            total = ops.sum(used, axis=-1) + water
            mixed = (ops.matmul(used, gravity[:, None])[:, 0] + water) / total
            sour = ops.matmul(used, acid[:, None])[:, 0] / total
            meter = METER_SCALE / mixed - METER_SCALE
            index = (
                DRYNESS_SCALE / (METER_SCALE + meter)
                - DRYNESS_ACID * sour
                - DRYNESS_OFFSET
            )

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                per_litre = upstream / total
                d_mixed = per_litre * (DRYNESS_SCALE / METER_SCALE)
                d_sour = -per_litre * DRYNESS_ACID
                d_volume = service * (
                    d_mixed[:, None] * (gravity[None, :] - mixed[:, None])
                    + d_sour[:, None] * (acid[None, :] - sour[:, None])
                )
                d_water = d_mixed * (1.0 - mixed) - d_sour * sour
                d_gravity = ops.sum(d_mixed[:, None] * used, axis=0)
                d_acid = ops.sum(d_sour[:, None] * used, axis=0)
                return d_volume, d_water, d_gravity, d_acid

            return index, grad

        return dryness

    def __call__(self, volume, water, gravity, acid):
        return self.dryness(volume, water, gravity, acid)


class PolishingLayer(keras.layers.Layer):
    """Composition of polished rice with trainable profiles.

    Args:
        constituents: number of profiles.
    """

    def __init__(self, constituents=3, **kwargs):
        super().__init__(**kwargs)
        self.constituents = constituents

    def build(self, input_shape):
        rising = np.linspace(0.4, 1.6, len(PROFILE_KNOTS)) ** 2
        self.content = self.add_weight(
            name="content",
            shape=(self.constituents, len(PROFILE_KNOTS)),
            initializer="ones",
        )
        self.content.assign(np.tile(rising, (self.constituents, 1)))

    def call(self, ratio):
        return polished_content(ratio, 1.0 * self.content)


class MoromiLayer(keras.layers.Layer):
    """Main mash with trainable rates of the koji and of the yeast strain."""

    def build(self, temperature_shape, start_shape=None):
        self.log_rates = self.add_weight(
            name="log_rates", shape=(2,), initializer="zeros"
        )
        self.log_rates.assign([np.log(0.09), np.log(19.0)])

    def call(self, temperature, start):
        return moromi_alcohol(temperature, 1.0 * self.log_rates, start)


def ginjo_schedule(days=24, peak=10.5):
    """Rises by 0.6 degrees a day to the peak, then falls slowly."""
    rise = 6.0 + 0.6 * np.arange(days)
    fall = peak - 0.25 * np.maximum(np.arange(days) - 12, 0)
    return np.minimum(rise, fall).astype("float32")


def abv(alcohol):
    """Percent by volume from g/L."""
    return alcohol / 7.894


if __name__ == "__main__":
    ratios = ops.convert_to_tensor(np.array([0.35, 0.5, 0.7], "float32"))
    print(ops.convert_to_numpy(PolishingLayer()(ratios)))

    schedule = np.stack([ginjo_schedule(), ginjo_schedule(peak=14.0)])
    schedule = ops.convert_to_tensor(schedule)
    first = ops.convert_to_tensor(np.array([[290.0, 20.0, 5.0]] * 2, "float32"))
    print(ops.convert_to_numpy(abv(MoromiLayer()(schedule, first)))[:, -1])

    blend = TankBlend([True, True, False, True])
    print(
        ops.convert_to_numpy(
            blend(
                ops.convert_to_tensor(np.array([[300.0, 80.0, 40.0, 10.0]], "float32")),
                ops.convert_to_tensor(np.array([60.0], "float32")),
                ops.convert_to_tensor(np.array([0.996, 1.002, 0.999, 1.01], "float32")),
                ops.convert_to_tensor(np.array([1.3, 1.5, 1.2, 1.9], "float32")),
            )
        )
    )
