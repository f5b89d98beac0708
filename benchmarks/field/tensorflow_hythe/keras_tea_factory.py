"""Black tea manufacture as differentiable Keras stages.

Leaf passes through the withering trough, the oxidation floor and the sorting
room. Plant engineers tune fan hours, floor temperature and roller pressure
against liquor assays, and the optimiser needs the sensitivity of every stage.
The stages below carry their own backward pass (``keras.ops.custom_gradient``)
and are meant to run on the TensorFlow backend.

Withering
    Page's thin-layer model. Moisture is on a dry basis.
Oxidation
    Polyphenols -> theaflavins -> thearubigins, explicit steps along the
    recorded floor temperatures.
Sorting
    Log-normal particle sizes split by a stack of sieves into trade grades.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import math

import keras
import numpy as np
from keras import ops

GAS_CONSTANT = 8.314
FLOOR_REFERENCE_K = 298.15
SQRT_2 = math.sqrt(2.0)
INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)

# Square apertures of the sorting stack, millimetres, finest first.
SIEVE_MM = (0.35, 0.5, 0.85, 1.4)
GRADES = ("dust", "fannings", "broken pekoe", "orange pekoe", "bulk leaf")


# --- withering ---------------------------------------------------------------


def make_wither_curve(hours):
    """Moisture readings of a withering trough at fixed clock times.

    Parameters
    ----------
    hours : sequence of float
        Times of the readings since the trough was loaded, zero included if the
        fresh leaf was weighed too.

    Returns
    -------
    callable
        ``wither_curve(fresh, settled, rate, exponent)``.
    """
    hours = np.asarray(hours, dtype="float64")
    if np.any(hours < 0):
        raise ValueError("readings cannot precede the loading of the trough")

    @ops.custom_gradient
    def wither_curve(fresh, settled, rate, exponent):
        """Page curve.

        fresh, settled and rate are vectors over troughs; exponent is one
        number for the cultivar. Returns (troughs, readings).
        """
        clock = ops.convert_to_tensor(hours, dtype=rate.dtype)[None, :]
        progress = rate[:, None] * clock
        started = progress > 0
        safe = ops.where(started, progress, ops.ones_like(progress))
        powered = ops.where(started, ops.power(safe, exponent), ops.zeros_like(safe))
        ratio = ops.exp(-powered)
        span = (fresh - settled)[:, None]
        moisture = settled[:, None] + span * ratio

        def grad(upstream):
            d_fresh = ops.sum(upstream * ratio, axis=1)
            d_settled = ops.sum(upstream * (1.0 - ratio), axis=1)
            d_powered = -upstream * span * ratio
            d_rate = ops.sum(d_powered * exponent * powered, axis=1) / rate
            d_exponent = ops.sum(d_powered * powered * ops.log(safe))
            return d_fresh, d_settled, d_rate, d_exponent

        return moisture, grad

    return wither_curve


# --- oxidation ---------------------------------------------------------------


def arrhenius(log_rate, activation_kj, kelvin):
    """Rate constant per minute at the recorded floor temperature."""
    gap = 1.0 / kelvin - 1.0 / FLOOR_REFERENCE_K
    return ops.exp(log_rate - 1e3 * activation_kj / GAS_CONSTANT * gap)


@ops.custom_gradient
def oxidise(leaf, forming, fading, minutes):
    """March the three pigment pools along the floor log.

    Args:
        leaf: dict with ``polyphenol``, ``theaflavin`` and ``thearubigin``, one
            concentration per batch of leaf.
        forming: rate constants of theaflavin formation, one row per batch and
            one column per log entry.
        fading: rate constants of the step to thearubigins, like ``forming``.
        minutes: length of each log entry, a vector over the columns.

    Returns:
        The pools at the end of the floor time, a dict like ``leaf``.
    """
    steps = forming.shape[1]
    phenol, flavin, rubigin = (
        leaf["polyphenol"], leaf["theaflavin"], leaf["thearubigin"])
    track = []
    for t in range(steps):
        track.append((phenol, flavin))
        made = minutes[t] * forming[:, t] * phenol
        lost = minutes[t] * fading[:, t] * flavin
        phenol, flavin, rubigin = phenol - made, flavin + made - lost, rubigin + lost
    pools = {"polyphenol": phenol, "theaflavin": flavin, "thearubigin": rubigin}

    def grad(*upstream):
        # flattened in key order: polyphenol, theaflavin, thearubigin
        if len(upstream) == 1 and isinstance(upstream[0], dict):
            a_p, a_f, a_r = (upstream[0][k] for k in sorted(pools))
        else:
            a_p, a_f, a_r = upstream
        d_forming, d_fading, d_minutes = [], [], []
        for t in reversed(range(steps)):
            phenol_t, flavin_t = track[t]
            gain = (a_f - a_p) * phenol_t
            loss = (a_r - a_f) * flavin_t
            d_forming.append(gain * minutes[t])
            d_fading.append(loss * minutes[t])
            d_minutes.append(ops.sum(gain * forming[:, t] + loss * fading[:, t]))
            a_p, a_f = (
                a_p + minutes[t] * forming[:, t] * (a_f - a_p),
                a_f + minutes[t] * fading[:, t] * (a_r - a_f),
            )
        d_leaf = {"polyphenol": a_p, "theaflavin": a_f, "thearubigin": a_r}
        return (
            d_leaf,
            ops.stack(d_forming[::-1], axis=1),
            ops.stack(d_fading[::-1], axis=1),
            ops.stack(d_minutes[::-1], axis=0),
        )

    return pools, grad


# --- sorting -----------------------------------------------------------------


def normal_cdf(z):
    return 0.5 * (1.0 + ops.erf(z / SQRT_2))


def normal_pdf(z):
    return INV_SQRT_2PI * ops.exp(-0.5 * ops.square(z))


class SieveStack:
    """Sorting room with a fixed stack of sieves.

    The mass below the finest sieve is the first grade; what stays on the
    coarsest sieve is the last one, so there is one grade more than sieves.
    """

    def __init__(self, apertures_mm=SIEVE_MM):
        apertures = np.asarray(apertures_mm, dtype="float64")
        if np.any(np.diff(apertures) <= 0):
            raise ValueError("apertures must increase")
        self.log_apertures = np.log(apertures)
        self.grade_shares = self._make()

    def _make(self):
        log_apertures = self.log_apertures

        @ops.custom_gradient
        def grade_shares(log_median, spread):
            # log_median, spread: (lots,) -> (lots, grades)
            knots = ops.convert_to_tensor(log_apertures, dtype=spread.dtype)
            z = (knots[None, :] - log_median[:, None]) / spread[:, None]
            passed = normal_cdf(z)
            first = passed[:, :1]
            middle = passed[:, 1:] - passed[:, :-1]
            retained = 1.0 - passed[:, -1:]
            shares = ops.concatenate([first, middle, retained], axis=1)

            def grad(upstream):
                lower = upstream[:, :-1]
                upper = ops.pad(upstream[:, 1:-1], [[0, 0], [0, 1]])
                d_z = (lower - upper) * normal_pdf(z)
                d_log_median = -ops.sum(d_z, axis=1) / spread
                d_spread = -ops.sum(d_z * z, axis=1) / spread
                return d_log_median, d_spread

            return shares, grad

        return grade_shares

    def __call__(self, log_median, spread):
        return self.grade_shares(log_median, spread)


# --- plant -------------------------------------------------------------------


class OxidationFloor(keras.layers.Layer):
    """Layer around :func:`oxidise` with trainable kinetics."""

    def __init__(self, minutes_per_entry=10.0, **kwargs):
        super().__init__(**kwargs)
        self.minutes_per_entry = float(minutes_per_entry)

    def build(self, input_shape=None):
        const = keras.initializers.Constant
        self.log_forming = self.add_weight(shape=(), initializer=const(-3.6), name="log_forming")
        self.log_fading = self.add_weight(shape=(), initializer=const(-4.8), name="log_fading")
        self.forming_kj = self.add_weight(shape=(), initializer=const(38.0), name="forming_kj")
        self.fading_kj = self.add_weight(shape=(), initializer=const(61.0), name="fading_kj")

    def call(self, phenol, kelvin):
        leaf = {
            "polyphenol": phenol,
            "theaflavin": ops.zeros_like(phenol),
            "thearubigin": ops.zeros_like(phenol),
        }
        forming = arrhenius(self.log_forming, self.forming_kj, kelvin)
        fading = arrhenius(self.log_fading, self.fading_kj, kelvin)
        minutes = ops.full((kelvin.shape[1],), self.minutes_per_entry, dtype=kelvin.dtype)
        return oxidise(leaf, forming, fading, minutes)


class RollerTable(keras.layers.Layer):
    """Roller pressure to particle sizes to trade grades.

    Withered leaf (low moisture) twists, wet leaf shatters, so both median and
    spread of the particle size depend on pressure and moisture.
    """

    def __init__(self, apertures_mm=SIEVE_MM, **kwargs):
        super().__init__(**kwargs)
        self.stack = SieveStack(apertures_mm)
        self.median = keras.layers.Dense(1, name="median")
        self.width = keras.layers.Dense(1, activation="softplus", name="width")

    def call(self, pressure, moisture):
        features = ops.stack([pressure, moisture], axis=-1)
        log_median = ops.squeeze(self.median(features), axis=-1)
        spread = 0.15 + ops.squeeze(self.width(features), axis=-1)
        return self.stack(log_median, spread)


def liquor_score(pools):
    """Brightness (theaflavins) against body (thearubigins), ratio near 1:10."""
    return ops.log(pools["theaflavin"] + 1e-3) - 0.3 * ops.square(
        ops.log(pools["thearubigin"] + 1e-3) - math.log(10.0))


def revenue(shares, prices):
    return ops.sum(shares * prices[None, :], axis=1)


def main():
    rng = np.random.default_rng(11)
    troughs = 4
    curve = make_wither_curve([0.0, 2.0, 4.0, 8.0, 12.0, 16.0])
    fresh = ops.convert_to_tensor(rng.uniform(3.2, 3.8, troughs).astype("float32"))
    settled = ops.full((troughs,), 1.1)
    rate = ops.convert_to_tensor(rng.uniform(0.06, 0.14, troughs).astype("float32"))
    moisture = curve(fresh, settled, rate, ops.convert_to_tensor(1.15))
    print("moisture at the end", ops.convert_to_numpy(moisture[:, -1]))

    floor = OxidationFloor()
    kelvin = ops.convert_to_tensor(rng.uniform(296.0, 303.0, (troughs, 9)).astype("float32"))
    pools = floor(ops.full((troughs,), 22.0), kelvin)
    print("liquor", ops.convert_to_numpy(liquor_score(pools)))

    table = RollerTable()
    shares = table(ops.full((troughs,), 0.6), moisture[:, -1])
    prices = ops.convert_to_tensor(np.array([1.4, 1.9, 2.6, 3.4, 2.2], "float32"))
    print(dict(zip(GRADES, ops.convert_to_numpy(shares[0]))))
    print("revenue", ops.convert_to_numpy(revenue(shares, prices)))


if __name__ == "__main__":
    main()
