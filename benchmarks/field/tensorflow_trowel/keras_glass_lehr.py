"""Container glass: batch house and annealing lehr.

The batch house weighs raw materials into a charge; the melt's oxide
composition follows from the assays and from what is lost on ignition.  The
lehr takes stressed ware through a temperature programme; stress relaxes by
Adams and Williamson's second-order law, so that the reciprocal of the stress
grows with the integral of an exponential in temperature.

Both are differentiated to tune set points (burner temperatures, weighings)
against the lab's measurements with ordinary Keras optimizers.
"""

import math

import keras
import numpy as np
from keras import ops

OXIDES = ("SiO2", "Na2O", "CaO", "MgO", "Al2O3")
MATERIALS = ("sand", "soda_ash", "limestone", "dolomite", "feldspar", "cullet")

# Oxide share of each material, dry and after ignition.
ASSAY = np.array(
    [
        [0.993, 0.000, 0.001, 0.000, 0.006],
        [0.000, 1.000, 0.000, 0.000, 0.000],
        [0.012, 0.000, 0.978, 0.008, 0.002],
        [0.010, 0.000, 0.582, 0.405, 0.003],
        [0.680, 0.110, 0.010, 0.000, 0.200],
        [0.724, 0.135, 0.102, 0.022, 0.017],
    ],
    dtype="float32",
)

IGNITION_LOSS = np.array([0.002, 0.415, 0.435, 0.470, 0.004, 0.001], dtype="float32")

# Stress in MPa, time in minutes, temperature in degrees Celsius.
ANNEAL_POINT = 548.0
LOG_RELIEF_AT_ANNEAL = math.log(0.11)
RELIEF_SLOPE = 0.033
BELT_STEP_MIN = 1.5


def check_programme(temps):
    """Warn-free sanity check on a programme; returns it as float32."""
    temps = np.asarray(temps, dtype="float32")
    if temps.ndim != 2:
        raise ValueError("one row per lane, one column per belt step")
    if temps.max() > 760.0:
        raise ValueError("ware would slump")
    return temps


def straight_programme(lanes, steps, top=555.0, exit_temp=90.0, soak=0.3):
    """Soak at ``top`` for a share of the belt, then cool in a straight line."""
    held = int(round(soak * steps))
    cooling = np.linspace(top, exit_temp, steps - held)
    row = np.concatenate([np.full(held, top), cooling])
    return np.tile(row.astype("float32"), (lanes, 1))


# -------------------------------------------------------------- batch house


@ops.custom_gradient
def batch_oxides(charge, assay, loss):
    """Oxide fractions of the melt.

    charge: (batches, materials) weighed masses
    assay:  (materials, oxides)
    loss:   (materials,) share lost on ignition

    Gives (batches, oxides), rows summing to one.
    """
    remaining = charge * (1.0 - loss)
    mass = ops.matmul(remaining, assay)
    melt = ops.sum(mass, axis=-1, keepdims=True)
    fraction = mass / melt

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        level = ops.sum(upstream * fraction, axis=-1, keepdims=True)
        d_mass = (upstream - level) / melt
        d_remaining = ops.matmul(d_mass, ops.transpose(assay))
        d_assay = ops.matmul(ops.transpose(remaining), d_mass)
        d_loss = -ops.sum(d_remaining * charge, axis=0)
        return d_remaining * (1.0 - loss), d_assay, d_loss

    return fraction, grad


class BatchHouse(keras.layers.Layer):
    """Weighings as a learned recipe.

    The recipe is stored as logits over the materials; cullet share is fixed
    by what comes back from the bottle banks.
    """

    def __init__(self, cullet_share=0.4, furnace_pull=250.0, **kwargs):
        super().__init__(**kwargs)
        self.cullet_share = cullet_share
        self.furnace_pull = furnace_pull

    def build(self, input_shape=None):
        self.recipe = self.add_weight(
            shape=(len(MATERIALS) - 1,), initializer="zeros", name="recipe"
        )
        self.moisture = self.add_weight(
            shape=(len(MATERIALS),), initializer="zeros", name="moisture"
        )
        self.built = True

    def charge(self):
        virgin = ops.softmax(ops.convert_to_tensor(self.recipe)) * (1.0 - self.cullet_share)
        cullet = ops.full((1,), self.cullet_share, dtype=virgin.dtype)
        return self.furnace_pull * ops.concatenate([virgin, cullet])

    def call(self, corrections):
        """corrections: (batches, materials) multiplicative scale errors."""
        charge = self.charge() * corrections
        losses = ops.convert_to_tensor(IGNITION_LOSS) + ops.convert_to_tensor(self.moisture)
        return batch_oxides(charge, ops.convert_to_tensor(ASSAY), losses)

    def get_config(self):
        config = super().get_config()
        config["cullet_share"] = self.cullet_share
        config["furnace_pull"] = self.furnace_pull
        return config


def oxide_misfit(fractions, target, tolerance=0.004):
    """Sum of squared departures from the target glass in tolerances."""
    return ops.mean(ops.sum(ops.square((fractions - target) / tolerance), axis=-1))


# --------------------------------------------------------------------- lehr


class RelaxationModel:
    """Second-order stress relief on a moving belt.

    Attributes:
        anneal_point: reference temperature of the relief rate.
        slope: decades (natural) of rate per degree.
        step: minutes a piece of ware spends in one belt step.
    """

    def __init__(self, anneal_point=ANNEAL_POINT, slope=RELIEF_SLOPE, step=BELT_STEP_MIN):
        self.anneal_point = anneal_point
        self.slope = slope
        self.step = step
        self.relieve = self._build_relief()

    def _build_relief(self):
        anneal_point, slope, step = self.anneal_point, self.slope, self.step

        @ops.custom_gradient
        def stress_relief(entry, temps, log_rate):
            """Stress after every belt step.

            Args:
                entry: Stress of the ware at the lehr's mouth, one per lane.
                    Tension is positive, compression negative.
                temps: Temperatures, (lanes, steps).
                log_rate: Log relief rate at the annealing point, one per lane.

            Returns:
                Stress, (lanes, steps), of the sign of ``entry``.
            """
            rate = step * ops.exp(
                ops.expand_dims(log_rate, 1) + slope * (temps - anneal_point)
            )
            relieved = ops.cumsum(rate, axis=1)
            start = ops.expand_dims(entry, 1)
            shrink = 1.0 / (1.0 + ops.abs(start) * relieved)
            stress = start * shrink

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                d_entry = ops.sum(upstream * ops.square(shrink), axis=1)
                d_relieved = -upstream * ops.square(stress)
                d_rate = ops.flip(ops.cumsum(ops.flip(d_relieved, axis=1), axis=1), axis=1)
                d_exponent = d_rate * rate
                return d_entry, slope * d_exponent, ops.sum(d_exponent, axis=1)

            return stress, grad

        return stress_relief

    def __call__(self, entry, temps, log_rate):
        return self.relieve(entry, temps, log_rate)

    def final(self, entry, temps, log_rate):
        return self.relieve(entry, temps, log_rate)[:, -1]


class LehrTuner(keras.layers.Layer):
    """Moves the zone set points so that the ware leaves within grade.

    Parameters
    ----------
    programme : ndarray, shape (lanes, steps)
        Where to start from.
    limit : float
        Permitted residual stress, MPa, either sign.
    fuel : float
        Price of a degree above the starting programme.
    """

    def __init__(self, programme, limit=1.2, fuel=1e-3, model=None, **kwargs):
        super().__init__(**kwargs)
        self.programme = check_programme(programme)
        self.limit = limit
        self.fuel = fuel
        self.model = RelaxationModel() if model is None else model

    def build(self, input_shape=None):
        lanes, steps = self.programme.shape
        self.offset = self.add_weight(shape=(steps,), initializer="zeros", name="offset")
        self.lane_trim = self.add_weight(shape=(lanes, 1), initializer="zeros", name="lane_trim")
        self.log_rate_trim = self.add_weight(
            shape=(lanes,), initializer="zeros", name="log_rate_trim"
        )
        self.built = True

    def temperatures(self):
        trims = ops.convert_to_tensor(self.offset) + ops.convert_to_tensor(self.lane_trim)
        return ops.convert_to_tensor(self.programme) + trims

    def relief_rate(self):
        """Log relief rate of each lane, kept within a factor of e of the book value."""
        return LOG_RELIEF_AT_ANNEAL + ops.tanh(self.log_rate_trim)

    def call(self, entry):
        return self.model(entry, self.temperatures(), self.relief_rate())

    def cost(self, entry):
        """Residual stress over the limit, plus the fuel burnt for it."""
        residual = self(entry)[:, -1]
        excess = ops.maximum(ops.abs(residual) - self.limit, 0.0)
        extra = ops.maximum(self.temperatures() - ops.convert_to_tensor(self.programme), 0.0)
        return ops.mean(ops.square(excess)) + self.fuel * ops.mean(extra)


def polariscope_misfit(model, entry, temps, log_rate, measured, measured_steps):
    """Misfit with retardation readings taken at some belt steps.

    ``measured_steps`` is a plain list of column numbers.
    """
    path = model(entry, temps, log_rate)
    picked = ops.take(path, np.asarray(measured_steps), axis=1)
    return ops.mean(ops.square(picked - measured))


def grade(residual, limit=1.2):
    """Lab grades 1 to 5 from the residual stress of each lane."""
    ratio = np.abs(np.asarray(residual)) / limit
    return np.clip(np.ceil(4.0 * ratio).astype(int), 1, 5)


if __name__ == "__main__":
    tuner = LehrTuner(straight_programme(3, 40))
    tuner.build()
    mouth = ops.convert_to_tensor(np.array([8.0, 11.5, 6.2], dtype="float32"))
    leaving = ops.convert_to_numpy(tuner(mouth))[:, -1]
    print("residual", np.round(leaving, 3), "grades", grade(leaving))

    house = BatchHouse()
    house.build()
    scale = ops.ones((2, len(MATERIALS)))
    for name, share in zip(OXIDES, ops.convert_to_numpy(house(scale))[0]):
        print(f"{name:6s} {100.0 * share:6.2f} %")
