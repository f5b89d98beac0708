"""Production model of a sourdough bakery (Keras 3, backend-agnostic).

Three steps of the day are fitted to the bakery's own sheets: the final proof,
the bake, and the formulae on the blackboard.  Each is a differentiable op with
a closed-form gradient, so that the scheduler can push on proofer set points,
oven curves and ingredient weights together.

Conventions
-----------
* temperatures in degrees Celsius, times in minutes, weights in kilograms;
* ``temps`` and ``moisture`` traces are (batch, samples), sampled every ``dt``;
* formulae are baker's percentages: every weight relative to the *flour*.
"""

import math

import keras
import numpy as np
from keras import ops

GAS_CONSTANT = 8.314462e-3  # kJ / (mol K)
KELVIN = 273.15

# square-root model of the leaven's activity
LEAVEN_T_MIN = 4.0
LEAVEN_T_MAX = 41.0
LEAVEN_B = 0.011
LEAVEN_C = 0.22

# crust
BROWNING_REF_C = 165.0
BROWNING_RATE = 0.09  # per minute at the reference
CRUST_MOISTURE_SCALE = 0.12
STEAM_MOISTURE = 0.10

INGREDIENTS = ("strong white", "wholemeal", "rye", "water", "leaven", "salt", "seeds")
IS_FLOUR = (True, True, True, False, False, False, False)


def trapezoid_weights(samples, dt):
    """Weights of the trapezoid rule; a single sample stands for one step."""
    weights = np.full((samples,), dt, dtype="float64")
    if samples > 1:
        weights[0] *= 0.5
        weights[-1] *= 0.5
    return weights


def _activity(temps):
    """Activity of the leaven and its temperature derivative."""
    alive = ops.cast(
        ops.logical_and(temps > LEAVEN_T_MIN, temps < LEAVEN_T_MAX), temps.dtype
    )
    rise = LEAVEN_B * (temps - LEAVEN_T_MIN)
    brake = ops.exp(LEAVEN_C * (temps - LEAVEN_T_MAX))
    root = alive * rise * (1.0 - brake)
    root_slope = alive * (LEAVEN_B * (1.0 - brake) - rise * LEAVEN_C * brake)
    return ops.square(root), 2.0 * root * root_slope


def make_proof(dt=5.0, shaped_height=6.0):
    """Return the op that predicts the height of the loaf after the proof.

    Args:
        dt: minutes between samples of the proofer's log.
        shaped_height: height in centimetres of the shaped piece.

    Returns:
        ``loaf_height(temps, vigor, strength)`` with ``temps`` (batch, samples),
        ``vigor`` and ``strength`` (batch,), giving (batch,).
    """

    @ops.custom_gradient
    def loaf_height(temps, vigor, strength):
        weights = ops.cast(trapezoid_weights(temps.shape[1], dt), temps.dtype)
        activity, slope = _activity(temps)
        dose = ops.sum(activity * weights, axis=1)
        gas = vigor * dose
        fill = gas / strength
        kept = ops.exp(-fill)
        # gluten holds back the gas until it is full, then lets go
        height = shaped_height * (1.0 + strength * (1.0 - kept))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            pull = shaped_height * upstream
            d_gas = pull * kept
            d_strength = pull * (1.0 - kept - fill * kept)
            d_vigor = d_gas * dose
            d_temps = ops.expand_dims(d_gas * vigor, 1) * slope * weights
            return d_temps, d_vigor, d_strength

        return height, grad

    return loaf_height


def make_crust(dt=1.0, lid_samples=0, steam=STEAM_MOISTURE):
    """Browning of the crust over a bake.

    The browning rate is an Arrhenius rate at the surface temperature, slowed by
    the water in the crust.  Loaves baked in a closed pot sit in their own steam
    for the first ``lid_samples`` samples: there the crust is wetter than the
    probe says by ``steam``.  Deck ovens have no lid.

    The op takes temps (batch, samples), moisture (batch, samples) and
    activation (batch,) in kJ/mol; its result, (batch,), lies between 0 (pale)
    and 1 (black).
    """

    @ops.custom_gradient
    def crust_browning(temps, moisture, activation):
        dtype = temps.dtype
        samples = temps.shape[1]
        weights = ops.cast(trapezoid_weights(samples, dt), dtype)
        lid = ops.cast(np.arange(samples) < lid_samples, dtype)

        kelvin = temps + KELVIN
        lag = (1.0 / kelvin - 1.0 / (BROWNING_REF_C + KELVIN)) / GAS_CONSTANT
        rate = BROWNING_RATE * ops.exp(-ops.expand_dims(activation, 1) * lag)
        wet = (moisture + steam * lid) / CRUST_MOISTURE_SCALE
        dryness = 1.0 / (1.0 + ops.square(wet))
        speed = rate * dryness * weights
        colour = 1.0 - ops.exp(-ops.sum(speed, axis=1))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_dose = ops.expand_dims(upstream * (1.0 - colour), 1)
            flow = d_dose * speed
            d_temps = (
                flow
                * ops.expand_dims(activation, 1)
                / (GAS_CONSTANT * ops.square(kelvin))
            )
            d_moisture = (
                -2.0 * flow * dryness * moisture / CRUST_MOISTURE_SCALE**2
            )
            d_activation = -ops.sum(flow * lag, axis=1)
            return d_temps, d_moisture, d_activation

        return colour, grad

    return crust_browning


class BakersPercent(keras.layers.Layer):
    """Weights of a formula to baker's percentages, as fractions of the flour.

    Parameters
    ----------
    is_flour : sequence of bool
        Which ingredients count as flour.
    axis : int
        Position of the ingredients. The blackboard holds formulae as rows
        (the default); the weekly plan is (bakery, ingredient, day), axis 1.
    """

    def __init__(self, is_flour=IS_FLOUR, axis=-1, **kwargs):
        super().__init__(**kwargs)
        if not any(is_flour):
            raise ValueError("a formula needs some flour")
        self.is_flour = tuple(bool(f) for f in is_flour)
        self.axis = axis

    def _flour_like(self, weights):
        shape = [1] * len(weights.shape)
        shape[self.axis] = len(self.is_flour)
        flour = np.asarray(self.is_flour, dtype="float32").reshape(shape)
        return ops.cast(flour, weights.dtype)

    def _make_rule(self):
        axis = self.axis

        @ops.custom_gradient
        def flour_percent(weights):
            flour = self._flour_like(weights)
            total = ops.sum(weights * flour, axis=axis, keepdims=True)
            percent = weights / total

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                drain = ops.sum(upstream * percent, axis=-1, keepdims=True)
                return (upstream - flour * drain) / total

            return percent, grad

        return flour_percent

    def call(self, weights):
        return self._make_rule()(weights)

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "is_flour": list(self.is_flour),
            "axis": self.axis,
        }


def hydration(percent, axis=-1, leaven_water=0.5):
    """Water over flour, counting the water and the flour inside the leaven."""
    water = ops.take(percent, INGREDIENTS.index("water"), axis=axis)
    leaven = ops.take(percent, INGREDIENTS.index("leaven"), axis=axis)
    return (water + leaven_water * leaven) / (1.0 + (1.0 - leaven_water) * leaven)


def salt_penalty(percent, axis=-1, low=0.018, high=0.021):
    salt = ops.take(percent, INGREDIENTS.index("salt"), axis=axis)
    return ops.square(ops.relu(low - salt)) + ops.square(ops.relu(salt - high))


class BakeDay(keras.layers.Layer):
    """Proof and bake of the day's batches; predicts height and colour.

    Starter vigour, gluten strength and the activation energy of browning are
    shared between batches and trained on the measured loaves.
    """

    def __init__(self, potted=True, proof_dt=5.0, bake_dt=1.0, **kwargs):
        super().__init__(**kwargs)
        self.potted = potted
        self.proof = make_proof(proof_dt)
        self.crust = make_crust(bake_dt, lid_samples=20 if potted else 0)

    def build(self, _):
        self.vigor = self.add_weight(
            name="vigor", shape=(), initializer=keras.initializers.Constant(0.2)
        )
        self.strength = self.add_weight(
            name="strength", shape=(), initializer=keras.initializers.Constant(1.4)
        )
        self.activation = self.add_weight(
            name="activation", shape=(), initializer=keras.initializers.Constant(62.0)
        )

    def call(self, inputs):
        proof_log, oven_log, moisture = inputs
        batch = proof_log.shape[0]
        ones = ops.ones((batch,), dtype=proof_log.dtype)
        height = self.proof(proof_log, ones * self.vigor, ones * self.strength)
        colour = self.crust(oven_log, moisture, ones * self.activation)
        return height, colour


def oven_curve(samples, start=40.0, end=205.0, rise=18.0):
    """Surface temperature of a loaf from loading to unloading."""
    minutes = np.arange(samples)
    return end - (end - start) * np.exp(-minutes / rise)


def drying_curve(samples, start=0.42, pace=14.0):
    return start * np.exp(-np.arange(samples) / pace)


def demo():
    rng = np.random.default_rng(5)
    batch, bake = 4, 45
    proof_log = rng.normal(26.0, 1.5, (batch, 36)).astype("float32")
    oven_log = (oven_curve(bake)[None] + rng.normal(0, 2, (batch, bake))).astype("float32")
    moisture = np.tile(drying_curve(bake), (batch, 1)).astype("float32")
    day = BakeDay(potted=True)
    height, colour = day([ops.convert_to_tensor(a) for a in (proof_log, oven_log, moisture)])
    print("height (cm)", ops.convert_to_numpy(height).round(2))
    print("colour", ops.convert_to_numpy(colour).round(3))

    plan = rng.uniform(0.5, 30.0, (2, len(INGREDIENTS), 6)).astype("float32")
    percent = BakersPercent(axis=1)(plan)
    print("hydration", ops.convert_to_numpy(hydration(percent, axis=1)).round(2).tolist())
    print("salt", float(ops.sum(salt_penalty(percent, axis=1))))
    assert math.isfinite(float(ops.sum(percent)))


if __name__ == "__main__":
    demo()
