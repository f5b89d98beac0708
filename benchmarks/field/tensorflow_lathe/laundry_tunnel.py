"""Surrogate of a continuous batch washer (tunnel washer) for dosing studies.

Linen enters in bags, is washed in a few heated compartments, rinsed in
counterflow and pressed.  The model is small enough to be calibrated on a
plant's own titrations and moisture readings, and smooth enough that dosing and
water can be optimised by gradient steps.

Everything is written on ``keras.ops``; the backend is the TensorFlow one
unless the environment says otherwise.
"""

import math
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras  # noqa: E402
import numpy as np  # noqa: E402
from keras import ops  # noqa: E402

BATH_REF = 40.0            # deg C at which rates are quoted
DENATURE_ONSET = 55.0      # deg C, protease/amylase blends
DENATURE_WIDTH = 30.0      # deg C from onset to no activity at all
SOIL_CLASSES = ("hotel", "kitchen", "workwear", "hospital")

# typical litres per kg of dry linen
CARRY_OVER = 2.4
FRESH_WATER = 3.0


def bag_table(bag_sizes):
    """Bag index of each item for bags holding ``bag_sizes`` items."""
    return np.repeat(np.arange(len(bag_sizes)), bag_sizes).astype("int32")


def bath_activity(bath_temp, q10, onset=DENATURE_ONSET, width=DENATURE_WIDTH):
    """Relative activity of the wash chemistry and its heat-loss factor."""
    growth = ops.power(q10, (bath_temp - BATH_REF) / 10.0)
    fade = ops.clip(1.0 - (bath_temp - onset) / width, 0.0, 1.0)
    return growth * fade, fade


# -- washing -----------------------------------------------------------------


def make_soil_release(q10=2.0, dose_order=0.6):
    """Returns ``soil_release(minutes, bath_temp, dose, rate)``.

    The rule gives the fraction of soil released,
    ``1 - exp(-rate * dose**dose_order * activity(bath_temp) * minutes)``,
    all four arguments of one shape.  Baths run from about 30 degrees for
    coloured workwear to 75 and more for hospital linen; `dose` is relative to
    the supplier's sheet.
    """

    @ops.custom_gradient
    def soil_release(minutes, bath_temp, dose, rate):
        activity, _ = bath_activity(bath_temp, q10)
        strength = ops.power(dose, dose_order)
        exposure = rate * strength * activity * minutes
        remaining = ops.exp(-exposure)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = upstream * remaining
            d_minutes = g * rate * strength * activity
            d_temp = g * exposure * (math.log(q10) / 10.0)
            d_dose = g * dose_order * exposure / dose
            d_rate = g * strength * activity * minutes
            return d_minutes, d_temp, d_dose, d_rate

        return 1.0 - remaining, grad

    return soil_release


# -- rinsing -----------------------------------------------------------------


@ops.custom_gradient
def counterflow_rinse(inlet, carry, water, running):
    """Alkalinity after each rinse compartment.

    Parameters
    ----------
    inlet : (batch,)
        Alkalinity of the liquor the linen carries into the rinse zone.
    carry, water : (batch, compartments)
        Liquor carried over and fresh water fed, litres per kg; ``carry`` is
        strictly positive.
    running : (batch, compartments) bool
        Compartments taken out of service pass the linen on unchanged.
    """
    on = ops.cast(running, carry.dtype)
    total = carry + water
    ratio = on * carry / total + (1.0 - on)
    left = ops.cumprod(ratio, axis=1)
    profile = inlet[:, None] * left

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        weighted = upstream * profile
        # cotangent of log(ratio): every later compartment counts
        onward = ops.flip(ops.cumsum(ops.flip(weighted, axis=1), axis=1), axis=1)
        d_inlet = ops.sum(upstream * left, axis=1)
        d_carry = on * onward * water / (carry * total)
        d_water = -on * onward / total
        return d_inlet, d_carry, d_water, None

    return profile, grad


# -- pressing ----------------------------------------------------------------


def make_bag_moisture(n_bags):
    """Mass-weighted moisture of each bag leaving the press.

    n_bags is static: the press table of the day.  Bags may be empty (a missed
    drop); their moisture is reported as zero.
    """

    @ops.custom_gradient
    def bag_moisture(moisture, mass, bag_of):
        held = ops.segment_sum(mass, bag_of, num_segments=n_bags)
        wet = ops.segment_sum(mass * moisture, bag_of, num_segments=n_bags)
        filled = held > 0
        safe = ops.where(filled, held, ops.ones_like(held))
        mean = ops.where(filled, wet / safe, ops.zeros_like(wet))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            scaled = ops.where(filled, upstream / safe, ops.zeros_like(safe))
            per_item = ops.take(scaled, bag_of, axis=0)
            d_moisture = per_item * mass
            d_mass = per_item * (moisture - ops.take(mean, bag_of, axis=0))
            return d_moisture, d_mass, None

        return mean, grad

    return bag_moisture


# -- layers ------------------------------------------------------------------


class WashZone(keras.layers.Layer):
    """Wash compartments with one release rate per soil class."""

    def __init__(self, q10=2.0, dose_order=0.6, **kwargs):
        super().__init__(**kwargs)
        self.q10 = q10
        self.dose_order = dose_order
        self.release = make_soil_release(q10, dose_order)

    def build(self, input_shape=None):
        self.log_rate = self.add_weight(
            name="log_rate",
            shape=(len(SOIL_CLASSES),),
            initializer=keras.initializers.Constant(math.log(0.12)),
        )
        self.built = True

    def call(self, inputs):
        minutes, bath_temp, dose, soil_class = inputs
        rate = ops.take(ops.exp(self.log_rate), soil_class, axis=0)
        return self.release(minutes, bath_temp, dose, rate)

    def get_config(self):
        return {**super().get_config(), "q10": self.q10, "dose_order": self.dose_order}


class RinseZone(keras.layers.Layer):
    """Counterflow rinse; learns how much liquor each compartment hands on."""

    def __init__(self, compartments=4, **kwargs):
        super().__init__(**kwargs)
        self.compartments = compartments

    def build(self, input_shape=None):
        self.raw_carry = self.add_weight(
            name="raw_carry",
            shape=(self.compartments,),
            initializer=keras.initializers.Constant(math.log(math.expm1(CARRY_OVER))),
        )
        self.built = True

    def call(self, inlet, water, running=None):
        carry = ops.softplus(self.raw_carry) + ops.zeros_like(water)
        if running is None:
            running = ops.ones_like(water, dtype="bool")
        return counterflow_rinse(inlet, carry, water, running)


class PressStage(keras.layers.Layer):
    """Moisture per bag from item thickness through a learned drainage curve."""

    def __init__(self, n_bags, **kwargs):
        super().__init__(**kwargs)
        self.n_bags = n_bags
        self.pooled = make_bag_moisture(n_bags)

    def build(self, input_shape=None):
        self.slope = self.add_weight(name="slope", shape=(), initializer="ones")
        self.floor = self.add_weight(name="floor", shape=(), initializer="zeros")
        self.built = True

    def call(self, thickness, mass, bag_of):
        moisture = ops.sigmoid(self.slope * thickness + self.floor)
        return self.pooled(moisture, mass, bag_of)


class TunnelWasher(keras.Model):
    """Wash and rinse zones put together.

    call() takes a dict with ``minutes``, ``bath_temp``, ``dose``,
    ``soil_class``, ``inlet`` and ``water`` and gives the released fraction and
    the alkalinity at the end of the rinse.
    """

    def __init__(self, compartments=4, **kwargs):
        super().__init__(**kwargs)
        self.wash = WashZone()
        self.rinse = RinseZone(compartments)

    def call(self, batch):
        released = self.wash(
            (batch["minutes"], batch["bath_temp"], batch["dose"], batch["soil_class"])
        )
        profile = self.rinse(batch["inlet"], batch["water"])
        return {"released": released, "alkalinity": profile[:, -1]}


def demo_batch(n=4, compartments=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "minutes": rng.uniform(6.0, 14.0, n).astype("float32"),
        "bath_temp": rng.uniform(38.0, 52.0, n).astype("float32"),
        "dose": rng.uniform(0.6, 1.3, n).astype("float32"),
        "soil_class": rng.integers(0, len(SOIL_CLASSES), n).astype("int32"),
        "inlet": rng.uniform(4.0, 9.0, n).astype("float32"),
        "water": np.full((n, compartments), FRESH_WATER, "float32"),
    }


if __name__ == "__main__":
    washer = TunnelWasher()
    out = washer(demo_batch())
    print({key: np.round(ops.convert_to_numpy(value), 4) for key, value in out.items()})
    press = PressStage(n_bags=3)
    bags = bag_table([3, 2, 4])
    thickness_ = np.linspace(-0.5, 0.5, len(bags)).astype("float32")
    mass_ = np.linspace(0.3, 1.2, len(bags)).astype("float32")
    print(ops.convert_to_numpy(press(thickness_, mass_, bags)))
