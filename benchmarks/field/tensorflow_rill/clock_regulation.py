import math
from dataclasses import dataclass

import keras
from keras import ops

# Pendulum clocks: circular error, expansion of the rod, stability of the rate.

GRAVITY = 9.80665
DAY = 86400.0
AGM_STEPS = 7

# linear expansion, 1/K
ROD = {"invar": 1.2e-6, "steel": 1.15e-5, "brass": 1.9e-5, "deal": 4.0e-6}


@dataclass
class Movement:
    beat: float = 1.0  # nominal seconds per beat; a period is two beats
    rod: str = "invar"
    wheel_teeth: tuple = (30, 60, 64)
    pinion_leaves: tuple = (8, 8)

    def train_ratio(self):
        return math.prod(self.wheel_teeth[1:]) / math.prod(self.pinion_leaves)


def _reduce(value, shape):
    while len(value.shape) > len(shape):
        value = ops.sum(value, axis=0)
    for i, n in enumerate(shape):
        if n == 1:
            value = ops.sum(value, axis=i, keepdims=True)
    return value


@ops.custom_gradient
def swing_period(
    length,  # metres, () or (clocks,) or (times, clocks)
    k,  # sine of half the amplitude, -1 < k < 1, zero for a clock at rest, (times, clocks)
):
    a, b = ops.ones_like(k), ops.sqrt((1.0 - k) * (1.0 + k))
    c = 0.5 * ops.square(k) / (1.0 + b)
    tail = ops.zeros_like(k)
    for n in range(AGM_STEPS):
        tail = tail + 2.0**n * ops.square(c)
        a, b = 0.5 * (a + b), ops.sqrt(a * b)
        c = 0.5 * (a - b)
    period = 2.0 * math.pi * ops.sqrt(length / GRAVITY) / a

    def grad(*args, upstream=None):
        g = args[0] if upstream is None else upstream
        still = ops.equal(k, 0.0)
        lean = 0.5 * k - tail / ops.where(still, ops.ones_like(k), k)
        g_k = g * period * lean / ((1.0 - k) * (1.0 + k))
        return _reduce(0.5 * g * period / length, length.shape), _reduce(g_k, k.shape)

    return period, grad


def make_allan_deviation(tau0=1.0, m=1):
    # tau0: seconds between two readings of the clock error
    # m: readings per averaging interval
    def second_difference(x):
        return x[..., 2 * m :] - 2.0 * x[..., m:-m] + x[..., : -2 * m]

    def adjoint(d):
        lead = [(0, 0)] * (len(d.shape) - 1)
        return (
            ops.pad(d, lead + [(2 * m, 0)])
            - 2.0 * ops.pad(d, lead + [(m, m)])
            + ops.pad(d, lead + [(0, 2 * m)])
        )

    @ops.custom_gradient
    def allan_deviation(x):  # (..., n) clock error in seconds, n > 2 m
        tau = m * tau0
        d = second_difference(x)
        dev = ops.sqrt(ops.sum(d * d, axis=-1) / (2.0 * d.shape[-1])) / tau

        def grad(*args, upstream=None):
            g = args[0] if upstream is None else upstream
            count = x.shape[-1] - 2
            scale = g / (2.0 * count * tau**2 * dev)
            return adjoint(ops.expand_dims(scale, -1) * d)

        return dev, grad

    return allan_deviation


def rod_length(length, temperature, rod="invar", reference=20.0):
    return length * (1.0 + ROD[rod] * (temperature - reference))


class Regulator(keras.layers.Layer):
    # calls: amplitude (times, clocks), temperature (times, 1) -> daily rate in seconds

    def __init__(self, clocks, movement=None, **kwargs):
        super().__init__(**kwargs)
        self.clocks = clocks
        self.movement = movement or Movement()

    def build(self, *shapes):
        seconds = GRAVITY * (self.movement.beat / math.pi) ** 2
        self.length = self.add_weight(
            shape=(self.clocks,), initializer=keras.initializers.Constant(seconds), name="length"
        )

    def call(self, amplitude, temperature):
        length = rod_length(ops.convert_to_tensor(self.length), temperature, self.movement.rod)
        period = swing_period(length, ops.sin(0.5 * ops.convert_to_tensor(amplitude)))
        return DAY * (2.0 * self.movement.beat / period - 1.0)


def stability_table(error, tau0, octaves):
    # error (clocks, n) -> list of (tau, deviation per clock)
    rows = []
    for j in range(octaves):
        m = 2**j
        if 2 * m >= error.shape[-1]:
            break
        rows.append((m * tau0, make_allan_deviation(tau0, m)(error)))
    return rows


def regulate(amplitude, temperature, measured, epochs=300):
    layer = Regulator(measured.shape[-1])
    one = keras.Input(amplitude.shape[1:])
    two = keras.Input(temperature.shape[1:])
    model = keras.Model([one, two], layer(one, two))
    model.compile(keras.optimizers.Adam(1e-5), loss="mse")
    model.fit(
        [amplitude, temperature], measured, epochs=epochs, batch_size=len(measured), verbose=0
    )
    return layer.length
