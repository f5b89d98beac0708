"""Formulation and storage model of an artisan gelato line.

The plant balances recipes (solids, sweetness, freezing-point depression),
draws the mix from a batch freezer at a chosen temperature and keeps the tubs
in display and hardening cabinets whose temperature swings coarsen the ice.
The model is differentiated end to end to look for recipes that scoop well at
the cabinet temperature and still feel smooth after three weeks.

Temperatures are in degrees Celsius and negative below the freezing point of
water, masses in grams, crystal sizes in micrometres, times in hours.

Runs on any Keras 3 backend.
"""

import math

import numpy as np
import keras
from keras import ops

GAS_CONSTANT = 8.314
CRYOSCOPIC = 1.86             # K kg / mol
SUCROSE_MOLAR = 342.3
LSW_EXPONENT = 3.0            # Lifshitz-Slyozov-Wagner ripening
ACTIVATION = 9.6e4            # J/mol, for the coarsening rate
REFERENCE_KELVIN = 258.15
SMOOTH_LIMIT_UM = 50.0        # tasters notice crystals above this

# solids share, sweetness (sucrose = 1), depression (sucrose = 1)
INGREDIENTS = {
    "whole milk": (0.125, 0.008, 0.047),
    "cream 35": (0.405, 0.005, 0.030),
    "sucrose": (1.0, 1.0, 1.0),
    "dextrose": (0.92, 0.69, 1.75),
    "glucose 42 DE": (0.96, 0.48, 0.85),
    "skim powder": (0.97, 0.08, 0.50),
    "egg yolk": (0.50, 0.0, 0.02),
    "stabiliser": (0.95, 0.0, 0.0),
}

BASE_WHITE = {
    "whole milk": 610.0,
    "cream 35": 140.0,
    "sucrose": 130.0,
    "dextrose": 40.0,
    "glucose 42 DE": 30.0,
    "skim powder": 45.0,
    "stabiliser": 5.0,
}


def ingredient_table(names=None, dtype="float32"):
    """Three vectors, one per property, over the ingredients in ``names``."""
    names = list(INGREDIENTS) if names is None else list(names)
    table = np.array([INGREDIENTS[n] for n in names], dtype=dtype)
    return table[:, 0], table[:, 1], table[:, 2]


def recipe_vector(recipe, names=None, dtype="float32"):
    names = list(INGREDIENTS) if names is None else list(names)
    return np.array([recipe.get(n, 0.0) for n in names], dtype=dtype)


def _one(args, upstream):
    """The cotangents, whichever way the backend hands them over."""
    if upstream is None:
        return args if len(args) > 1 else args[0]
    return upstream


# ---------------------------------------------------------------------------
# recipe
# ---------------------------------------------------------------------------


@keras.ops.custom_gradient
def recipe_balance(grams, solids, sweetness, depression):
    """Solids, sweetness and freezing-point depression of a set of mixes.

    Each is the mass-weighted mean of the ingredient property.

    Args:
        grams: `(recipes, ingredients)`, non-negative, at least one positive
            entry per recipe.
        solids: `(ingredients,)`.
        sweetness: `(ingredients,)`.
        depression: `(ingredients,)`.

    Returns:
        Three tensors of shape `(recipes,)`.
    """
    total = ops.sum(grams, axis=1)
    share = grams / ops.expand_dims(total, 1)
    mix_solids = ops.matmul(share, solids)
    mix_sweet = ops.matmul(share, sweetness)
    mix_depress = ops.matmul(share, depression)

    def grad(*args, upstream=None):
        d_solids, d_sweet, d_depress = _one(args, upstream)

        def pull(d_mix, mix, prop):
            contrast = ops.expand_dims(prop, 0) - ops.expand_dims(mix, 1)
            return ops.expand_dims(d_mix / total, 1) * contrast

        d_grams = (
            pull(d_solids, mix_solids, solids)
            + pull(d_sweet, mix_sweet, sweetness)
            + pull(d_depress, mix_depress, depression)
        )
        turned = ops.transpose(share)
        return (
            d_grams,
            ops.matmul(turned, d_solids),
            ops.matmul(turned, d_sweet),
            ops.matmul(turned, d_depress),
        )

    return (mix_solids, mix_sweet, mix_depress), grad


def initial_freezing_point(mix_solids, mix_depress):
    """Freezing point from sucrose equivalents dissolved in the water."""
    water = 1.0 - mix_solids
    molality = 1000.0 * mix_depress / (SUCROSE_MOLAR * water)
    return -CRYOSCOPIC * molality


# ---------------------------------------------------------------------------
# freezing
# ---------------------------------------------------------------------------


@keras.ops.custom_gradient
def frozen_share(water, freezing_point, temperature):
    """Share of the mix that is ice along a cooling curve.

    Raoult's law with all solutes staying in the liquid: at a temperature T
    below the freezing point T_f the unfrozen water has shrunk by T_f / T.
    Warmer than T_f there is no ice.  ``water`` and ``freezing_point`` have one
    entry per mix, ``temperature`` one row per mix and one column per point of
    the curve, as has the result.
    """
    point = ops.expand_dims(freezing_point, 1)
    wet = ops.expand_dims(water, 1)
    frozen = ops.less(temperature, point)
    safe = ops.where(frozen, temperature, -ops.ones_like(temperature))
    fraction = ops.where(frozen, 1.0 - point / safe, ops.zeros_like(safe))

    def grad(*args, upstream=None):
        up = _one(args, upstream)
        gated = ops.where(frozen, up, ops.zeros_like(up))
        d_water = ops.sum(gated * fraction, axis=1)
        d_point = -water * ops.sum(gated / safe, axis=1)
        d_temperature = gated * wet * point / ops.square(safe)
        return d_water, d_point, d_temperature

    return wet * fraction, grad


def serving_hardness(ice, overrun=0.35):
    """Empirical penetrometer reading; air softens, ice stiffens."""
    return ops.exp(6.2 * ice) / (1.0 + 2.1 * overrun)


# ---------------------------------------------------------------------------
# storage
# ---------------------------------------------------------------------------


def coarsening_rate(temperature, prefactor=180.0):
    """Arrhenius rate in um^n per hour, ``prefactor`` at -15 C."""
    kelvin = temperature + 273.15
    exponent = -ACTIVATION / GAS_CONSTANT * (1.0 / kelvin - 1.0 / REFERENCE_KELVIN)
    return prefactor * ops.exp(exponent)


def make_coarsening(exponent=LSW_EXPONENT):
    """Crystal growth law with a given ripening exponent.

    Diffusion-limited ripening has exponent 3; accretion of touching crystals
    in fruit sorbets is nearer to 2 and 4 has been reported for mixes with
    locust bean gum.
    """

    @keras.ops.custom_gradient
    def coarsen(initial, rate, hours):
        """Mean crystal size after every storage interval.

        Parameters
        ----------
        initial : (tubs,) size out of the hardening tunnel
        rate : (tubs, intervals) coarsening rate
        hours : (intervals,) length of the intervals

        Returns
        -------
        (tubs, intervals)
        """
        added = ops.cumsum(rate * ops.expand_dims(hours, 0), axis=1)
        powered = ops.expand_dims(initial**exponent, 1) + added
        size = powered ** (1.0 / exponent)

        def grad(*args, upstream=None):
            up = _one(args, upstream)
            d_powered = up * size ** (1.0 - exponent) / LSW_EXPONENT
            later = ops.flip(ops.cumsum(ops.flip(d_powered, axis=1), axis=1), axis=1)
            d_initial = exponent * initial ** (exponent - 1.0) * later[:, 0]
            d_rate = later * ops.expand_dims(hours, 0)
            d_hours = ops.sum(later * rate, axis=0)
            return d_initial, d_rate, d_hours

        return size, grad

    return coarsen


class StorageCabinet(keras.layers.Layer):
    """Tub temperature history to crystal size, with a trained prefactor."""

    def __init__(self, exponent=LSW_EXPONENT, prefactor=180.0, **kwargs):
        super().__init__(**kwargs)
        self.exponent = exponent
        self.prefactor = prefactor
        self._coarsen = make_coarsening(exponent)

    def build(self, input_shape):
        self.log_prefactor = self.add_weight(
            name="log_prefactor",
            shape=(),
            initializer=keras.initializers.Constant(math.log(self.prefactor)),
        )

    def call(self, temperature, initial, hours):
        rate = coarsening_rate(temperature, ops.exp(self.log_prefactor))
        return self._coarsen(initial, rate, hours)

    def compute_output_shape(self, input_shape, *_):
        return input_shape


def smoothness_penalty(size):
    excess = ops.relu(size - SMOOTH_LIMIT_UM)
    return ops.mean(ops.square(excess / SMOOTH_LIMIT_UM))


# ---------------------------------------------------------------------------
# whole line
# ---------------------------------------------------------------------------


class GelatoLine(keras.layers.Layer):
    """Grams per ingredient to (sweetness, scoop hardness, crystal size)."""

    def __init__(self, cabinet_temperature=-13.0, names=None, **kwargs):
        super().__init__(**kwargs)
        self.cabinet_temperature = cabinet_temperature
        self.properties = ingredient_table(names)
        self.storage = StorageCabinet()

    def call(self, grams, history, initial, hours):
        solids, sweet, depress = recipe_balance(
            grams, *[ops.convert_to_tensor(p) for p in self.properties]
        )
        point = initial_freezing_point(solids, depress)
        serve = ops.full((grams.shape[0], 1), self.cabinet_temperature)
        ice = frozen_share(1.0 - solids, point, serve)
        size = self.storage(history, initial, hours)
        return {
            "sweetness": sweet,
            "freezing_point": point,
            "hardness": serving_hardness(ice)[:, 0],
            "crystal": size,
        }


def cabinet_history(days, swing=2.5, mean=-16.0, seed=0):
    """Daily defrost swings of a display cabinet, one value per 6 hours."""
    rng = np.random.default_rng(seed)
    steps = 4 * days
    phase = np.arange(steps) % 4
    wave = swing * (phase == 2) + rng.normal(0.0, 0.3, steps)
    return (mean + wave).astype("float32")


if __name__ == "__main__":
    line = GelatoLine()
    base = recipe_vector(BASE_WHITE)
    sweeter = base + recipe_vector({"dextrose": 40.0})
    grams = ops.convert_to_tensor(np.stack([base, sweeter]))
    history = ops.convert_to_tensor(
        np.stack([cabinet_history(21, seed=1), cabinet_history(21, swing=4.0, seed=2)])
    )
    hours = ops.full((history.shape[1],), 6.0)
    initial = ops.convert_to_tensor(np.array([32.0, 30.0], "float32"))
    report = line(grams, history, initial, hours)
    for key, value in report.items():
        print(key, ops.convert_to_numpy(value)[..., -1:])
    print("penalty", float(smoothness_penalty(report["crystal"])))
