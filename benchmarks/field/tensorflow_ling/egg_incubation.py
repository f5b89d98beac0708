"""Incubation of hatching eggs: water loss, embryo age, hatch window.

Setter rooms log air temperature, shell temperature and humidity.  From these
logs we estimate three things that the hatchery acts upon:

1. how much mass the eggs have lost (target: 11-13 % at transfer),
2. how far the embryos have come, in units of "standard days",
3. which share of the chicks comes out between two inspection times.

Backend neutral (``keras.ops``); runs under TensorFlow and JAX.
"""

import math

import keras
import numpy as np
from keras import ops

# Cardinal temperatures of embryonic growth, degrees C of shell temperature.
PHYSIOLOGICAL_ZERO = 25.0
OPTIMUM = 38.0
LETHAL = 41.5

# Conductance is reported in mg / day / torr, masses in g, deficits in torr.
MG_PER_G = 1000.0

# Logs arrive as [egg tray, time] or [egg tray, time, probe].
TIME_AXIS = 1

INCUBATION_DAYS = 21.0
SQRT2 = math.sqrt(2.0)
INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)


def saturation_torr(temperature):
    """Vapour pressure over water, torr (Tetens)."""
    return 4.5825 * ops.exp(17.27 * temperature / (temperature + 237.3))


def deficit_torr(air_temperature, humidity):
    """Vapour pressure deficit between egg contents and room."""
    return saturation_torr(air_temperature) * (1.0 - humidity)


# ---------------------------------------------------------------------------
# Mass
# ---------------------------------------------------------------------------


@ops.custom_gradient
def egg_mass(conductance, fresh_mass, deficit):
    """Mass of each egg at the end of each day.

    Larger eggs lose more water for the same shell, and shells dry out as the
    air cell grows; both are absorbed in an exponential of the cumulative
    deficit over the fresh mass.

    Args:
        conductance: `(eggs,)` shell conductance, mg/day/torr.
        fresh_mass: `(eggs,)` mass at set, g.
        deficit: `(days,)` vapour pressure deficit of the room, torr.

    Returns:
        `(eggs, days)` masses in g.
    """
    dose = ops.cumsum(deficit) / MG_PER_G
    x = conductance[:, None] * dose[None, :] / fresh_mass[:, None]
    keep = ops.exp(-x)
    mass = fresh_mass[:, None] * keep

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        weighted = upstream * keep
        d_conductance = -ops.sum(weighted * dose[None, :], axis=1)
        d_fresh = ops.sum(weighted * (1.0 + x), axis=1)
        d_dose = -ops.sum(weighted * conductance[:, None], axis=0)
        d_deficit = ops.flip(ops.cumsum(ops.flip(d_dose))) / MG_PER_G
        return d_conductance, d_fresh, d_deficit

    return mass, grad


def loss_percent(mass, fresh_mass):
    return 100.0 * (1.0 - mass / fresh_mass[:, None])


# ---------------------------------------------------------------------------
# Age
# ---------------------------------------------------------------------------


def growth_shape(temperature, optimum=OPTIMUM, low=PHYSIOLOGICAL_ZERO, high=LETHAL):
    """Relative growth rate in [0, 1] and its temperature derivative.

    Beta-shaped response through the cardinal temperatures, zero outside of
    ``(low, high)``.
    """
    power = (optimum - low) / (high - optimum)
    u = ops.clip((temperature - low) / (optimum - low), 0.0, (high - low) / (optimum - low))
    v = ops.clip((high - temperature) / (high - optimum), 0.0, (high - low) / (high - optimum))
    shape = v * u**power
    slope = v * power * u ** (power - 1.0) / (optimum - low) - u**power / (high - optimum)
    alive = ops.cast(
        ops.logical_and(temperature > low, temperature < high), shape.dtype
    )
    return shape * alive, slope * alive


def make_embryo_age(step_days, axis=TIME_AXIS, optimum=OPTIMUM):
    """Age clock for logs taken every ``step_days``.

    Parameters
    ----------
    step_days : float
        Logging interval in days.
    axis : int
        Axis of the log that is time.  The gateway of the newer setters sends
        its logs time first (``axis=0``), the old one tray first.
    optimum : float
        Shell temperature of fastest growth for the breed.

    Returns
    -------
    callable
        ``embryo_age(shell_temperature, vigour)``: running age in standard
        days, of the shape of ``shell_temperature``.  ``vigour`` is a scalar
        multiplier of the growth rate.
    """

    @ops.custom_gradient
    def embryo_age(shell_temperature, vigour):
        shape, slope = growth_shape(shell_temperature, optimum)
        standard = ops.cumsum(shape, axis=axis) * step_days
        age = vigour * standard

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            later = ops.flip(
                ops.cumsum(ops.flip(upstream, axis=TIME_AXIS), axis=TIME_AXIS),
                axis=TIME_AXIS,
            )
            d_temperature = vigour * step_days * slope * later
            d_vigour = ops.sum(upstream * standard)
            return d_temperature, d_vigour

        return age, grad

    return embryo_age


# ---------------------------------------------------------------------------
# Hatch window
# ---------------------------------------------------------------------------


def normal_cdf(z):
    return 0.5 * (1.0 + ops.erf(z / SQRT2))


@ops.custom_gradient
def hatch_shares(centre, spread, edges):
    # centre, spread: (trays,) hours; edges: (n + 1,) inspection times, hours
    z = (edges[None, :] - centre[:, None]) / spread[:, None]
    cdf = normal_cdf(z)
    shares = cdf[:, 1:] - cdf[:, :-1]

    def grad(*args, upstream=None):
        g = args[0] if upstream is None else upstream
        # each inner edge closes one interval and opens the next
        side = ops.zeros_like(g[:, :1])
        g_cdf = ops.concatenate([side, g], axis=1) - ops.concatenate([g, side], axis=1)
        g_z = g_cdf * INV_SQRT_2PI * ops.exp(-0.5 * z * z)
        scaled = g_z / spread[:, None]
        return (
            -ops.sum(scaled, axis=1),
            -ops.sum(scaled * z, axis=1),
            ops.sum(scaled, axis=0),
        )

    return shares, grad


def multinomial_nll(shares, counts, eps=1e-7):
    """Chicks counted per inspection against the predicted shares."""
    return -ops.mean(ops.sum(counts * ops.log(shares + eps), axis=-1))


# ---------------------------------------------------------------------------
# Layers
# ---------------------------------------------------------------------------


class ShellLoss(keras.layers.Layer):
    """Egg masses with a learnt conductance per breed."""

    def __init__(self, breeds, **kwargs):
        super().__init__(**kwargs)
        self.breeds = breeds

    def build(self, input_shape=None):
        self.log_conductance = self.add_weight(
            shape=(self.breeds,),
            initializer=keras.initializers.Constant(math.log(14.0)),
            name="log_conductance",
        )
        self.built = True

    def call(self, fresh_mass, breed, deficit):
        g = ops.take(ops.exp(self.log_conductance), breed, axis=0)
        return egg_mass(g, fresh_mass, deficit)


class EmbryoClock(keras.layers.Layer):
    """Running embryo age; ``axis`` says where time is in the log."""

    def __init__(self, step_days=1.0 / 24.0, axis=TIME_AXIS, optimum=OPTIMUM, **kwargs):
        super().__init__(**kwargs)
        self.step_days = step_days
        self.axis = axis
        self.optimum = optimum
        self._age = make_embryo_age(step_days, axis, optimum)

    def build(self, input_shape=None):
        self.log_vigour = self.add_weight(shape=(), initializer="zeros", name="log_vigour")
        self.offset = self.add_weight(shape=(), initializer="zeros", name="offset")
        self.built = True

    def call(self, air_temperature):
        return self._age(air_temperature + self.offset, ops.exp(self.log_vigour))

    def get_config(self):
        config = super().get_config()
        config.update(step_days=self.step_days, axis=self.axis, optimum=self.optimum)
        return config


class HatchWindow(keras.layers.Layer):
    """Shares of the hatch between inspections from the age at transfer."""

    def __init__(self, inspections, **kwargs):
        super().__init__(**kwargs)
        self.inspections = tuple(float(h) for h in inspections)

    def build(self, input_shape=None):
        self.log_spread = self.add_weight(
            shape=(), initializer=keras.initializers.Constant(math.log(7.0)), name="log_spread"
        )
        self.built = True

    def call(self, age_at_transfer):
        remaining = 24.0 * (INCUBATION_DAYS - age_at_transfer)
        spread = ops.exp(self.log_spread) * ops.ones_like(remaining)
        edges = ops.convert_to_tensor(self.inspections, dtype=remaining.dtype)
        return hatch_shares(remaining, spread, edges)


def simulate_log(trays=4, hours=18 * 24, time_first=False, seed=0):
    """Shell temperatures of a setter with a slow drift and a door event."""
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    base = 37.7 + 0.3 * np.sin(2 * np.pi * t / 24)[None, :]
    log = base + 0.2 * rng.standard_normal((trays, 1)) + 0.1 * rng.standard_normal((trays, hours))
    log[:, hours // 2 : hours // 2 + 3] -= 6.0
    return log.T if time_first else log


def main():
    fresh = ops.convert_to_tensor(np.array([58.0, 61.0, 64.0]), dtype="float32")
    deficit = deficit_torr(ops.full((18,), 37.6), 0.55)
    mass = ShellLoss(breeds=2)(fresh, np.array([0, 1, 1]), deficit)
    print("loss at transfer %", ops.convert_to_numpy(loss_percent(mass, fresh))[:, -1])

    for time_first in (False, True):
        log = ops.convert_to_tensor(simulate_log(time_first=time_first), dtype="float32")
        clock = EmbryoClock(axis=0 if time_first else 1)
        age = ops.convert_to_numpy(clock(log))
        last = age[-1] if time_first else age[:, -1]
        print("age at transfer", last)

    window = HatchWindow(inspections=range(40, 130, 12))
    print(ops.convert_to_numpy(window(ops.convert_to_tensor(last, dtype="float32"))).round(3))


if __name__ == "__main__":
    main()
