"""Optically stimulated luminescence dating with single-aliquot regeneration.

An aliquot is measured several times: after each laboratory (regeneration) dose
its light sum Lx is divided by the light sum Tx of a fixed test dose.  The ratio
against dose is the growth curve, and the natural signal read off that curve is
the equivalent dose.  Doses are in Gy.
"""

import math

import keras
from keras import ops

NEWTON_STEPS = 60
WATER_FACTORS = {"alpha": 1.49, "beta": 1.25, "gamma": 1.14}


def _take_upstream(args, upstream):
    return args[0] if upstream is None else upstream


def _sum_like(value, shape):
    """Sums `value` down to `shape`, the reverse of broadcasting.

    Args:
        value: Tensor whose shape `shape` broadcasts to.
        shape: Tuple of ints.

    Returns:
        Tensor of shape `shape`.
    """
    extra = len(value.shape) - len(shape)
    if extra:
        value = ops.sum(value, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1)
    return ops.sum(value, axis=axes, keepdims=True) if axes else value


def make_lxtx(signal=(0, 5), background=(200, 250)):
    """Builds the sensitivity-corrected signal for a pair of integration windows.

    Args:
        signal: First channel and end channel (exclusive) of the initial light.
        background: The same for the late light; the windows do not overlap.

    Returns:
        Function of (lx, tx), each `(..., channels)` counts, returning the ratio of
        background-subtracted light sums with shape `(...)`.
    """
    n_signal = signal[1] - signal[0]
    n_background = background[1] - background[0]

    def net(counts):
        early = ops.sum(counts[..., signal[0] : signal[1]], axis=-1)
        late = ops.sum(counts[..., background[0] : background[1]], axis=-1)
        return early - late * (n_signal / n_background)

    def window(channels, dtype):
        index = ops.arange(channels)
        on = ops.logical_and(index >= signal[0], index < signal[1])
        off = ops.logical_and(index >= background[0], index < background[1])
        return ops.cast(on, dtype) - ops.cast(off, dtype) * (n_background / n_signal)

    @ops.custom_gradient
    def lxtx(lx, tx):
        net_l, net_t = net(lx), net(tx)
        ratio = net_l / net_t

        def grad(*args, upstream=None):
            g = ops.expand_dims(_take_upstream(args, upstream) / net_t, -1)
            w = window(lx.shape[-1], lx.dtype)
            return g * w, -g * ops.expand_dims(ratio, -1) * w

        return ratio, grad

    return lxtx


@ops.custom_gradient
def growth_curve(dose, imax, d0, slope):
    """Saturating exponential plus linear growth.

    Args:
        dose: `(aliquots, points)` regeneration doses, zero included.
        imax: Saturation level, any shape that broadcasts to `dose`.
        d0: Characteristic dose, positive, likewise.
        slope: Linear part per Gy, likewise.

    Returns:
        `imax * (1 - exp(-dose / d0)) + slope * dose`
    """
    rise = -ops.expm1(-dose / d0)

    def grad(*args, upstream=None):
        g = _take_upstream(args, upstream)
        steep = g * imax * (1.0 - rise) / d0
        return (
            _sum_like(steep + g * slope, dose.shape),
            _sum_like(g * rise, imax.shape),
            _sum_like(-steep * dose / d0, d0.shape),
            _sum_like(g * dose, slope.shape),
        )

    return imax * rise + slope * dose, grad


@ops.custom_gradient
def equivalent_dose(light, imax, d0, slope):
    """Reads the natural signal off the growth curve.

    Args:
        light: `(grains, aliquots)` or `(aliquots,)` natural Ln/Tn, below saturation.
            Weakly negative values are possible for modern samples.
        imax: `(aliquots,)` or scalar tensor.
        d0: `(aliquots,)` or scalar tensor, positive.
        slope: `(aliquots,)` or scalar tensor, not negative.

    Returns:
        Equivalent dose with the shape of `light`.
    """
    dose = ops.zeros_like(light)
    for _ in range(NEWTON_STEPS):
        decay = ops.exp(-dose / d0)
        miss = imax * (1.0 - decay) + slope * dose - light
        dose = dose - miss / (imax * decay / d0 + slope)
    decay = ops.exp(-dose / d0)
    tangent = imax * decay / d0 + slope

    def grad(*args, upstream=None):
        g = _take_upstream(args, upstream) / tangent
        return (
            g,
            _sum_like(g * ops.expm1(-dose / d0), imax.shape),
            _sum_like(g * imax * decay * dose / ops.square(d0), d0.shape),
            _sum_like(-g * dose, slope.shape),
        )

    return dose, grad


def wet_dose_rate(dry, water, cosmic=0.2):
    """Dose rate in Gy/ka of moist sediment from the dry rates of `WATER_FACTORS`."""
    return cosmic + sum(dry[k] / (1.0 + f * water) for k, f in WATER_FACTORS.items())


class GrowthFit(keras.layers.Layer):
    """Growth curve with one set of parameters per aliquot, held as logarithms.

    Args:
        aliquots: Number of aliquots.
        start: Initial (imax, d0, slope).
    """

    def __init__(self, aliquots, start=(5.0, 100.0, 0.01), **kwargs):
        super().__init__(**kwargs)
        self.aliquots = aliquots
        self.start = start

    def build(self, input_shape):
        names = ("imax", "d0", "slope")
        self.curve = [
            self.add_weight(
                shape=(self.aliquots, 1),
                name=n,
                initializer=keras.initializers.Constant(math.log(v)),
            )
            for n, v in zip(names, self.start)
        ]

    def call(self, dose):
        return growth_curve(dose, *[ops.exp(v) for v in self.curve])

    def age(self, natural, dry, water):
        imax, d0, slope = [ops.exp(v)[:, 0] for v in self.curve]
        return equivalent_dose(natural, imax, d0, slope) / wet_dose_rate(dry, water)
