"""Layers for metal-oxide gas sensor arrays (electronic nose), any Keras backend.

Arrays are (batch, time, sensors) unless a function says otherwise.
"""

import keras
import numpy as np
from keras import ops

MODES = ("difference", "relative", "log")


def _upstream(args, upstream):
    return args[0] if upstream is None else upstream


def baseline_correction(start=0, stop=10, mode="relative"):
    """Factory: refer each trace to its clean-air baseline.

    Args:
        start: First baseline frame (skip the valve transient).
        stop: One past the last baseline frame.
        mode: "difference" gives r - r0, "relative" gives (r - r0) / r0 and
            "log" gives log(r / r0); r0 is the mean of the baseline frames.

    Returns:
        A function of positive resistances (batch, time, sensors).
    """
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}")

    @ops.custom_gradient
    def correct(r):
        air = r[:, start:stop]
        r0 = ops.sum(air, axis=1, keepdims=True) / air.shape[1]
        if mode == "difference":
            out = r - r0
        elif mode == "relative":
            out = r / r0 - 1.0
        else:
            out = ops.log(r) - ops.log(r0)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            if mode == "difference":
                direct, base = g, -g
            elif mode == "relative":
                direct, base = g / r0, -g * r / r0**2
            else:
                direct, base = g / r, -g / r0
            base = ops.sum(base, axis=1, keepdims=True) / stop
            frames = np.zeros((1, r.shape[1], 1), bool)
            frames[:, start:stop] = True
            frames = ops.convert_to_tensor(frames)
            return direct + ops.where(frames, base, ops.zeros_like(base))

        return out, grad

    return correct


@ops.custom_gradient
def array_resistance(conc, sens, expo):
    """Relative resistance of each sensor in a gas mixture.

    y_s = (1 + sum_g sens_sg * max(conc_g, 0)) ** -expo_s

    Args:
        conc: Concentrations in ppm, (..., gases). Zero-corrected readings may
            be negative and then count as absent.
        sens: Sensitivities, (sensors, gases), non-negative.
        expo: Exponents, (sensors,).

    Returns:
        (..., sensors).
    """
    present = ops.relu(conc)
    load = 1.0 + ops.einsum("...g,sg->...s", present, sens)
    y = load ** (-expo)

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        gy = g * y
        d_load = -expo * gy / load
        d_conc = ops.where(conc > 0, ops.einsum("...s,sg->...g", d_load, sens), ops.zeros_like(conc))
        rows = ops.reshape(d_load, (-1, sens.shape[0]))
        d_sens = ops.einsum("ns,ng->sg", rows, ops.reshape(present, (-1, sens.shape[1])))
        d_expo = -ops.sum(ops.reshape(gy * ops.log(load), (-1, sens.shape[0])), axis=0)
        return d_conc, d_sens, d_expo

    return y, grad


@ops.custom_gradient
def remove_drift(x, w):
    """Take the component along a drift direction out of every sample.

    Args:
        x: Features, (batch, sensors).
        w: Drift direction, (sensors,), non-zero, of any length.
    """
    n = ops.sum(w * w)
    s = ops.sum(x * w, axis=-1) / n
    out = x - s[:, None] * w

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        gw = ops.sum(g * w, axis=-1)
        dx = g - (gw / n)[:, None] * w
        dw = -ops.sum(s[:, None] * g, axis=0)
        dw = dw - ops.sum(gw[:, None] * x, axis=0) / n + 2.0 * ops.sum(gw * s) * w
        return dx, dw

    return out, grad


def exposure_area(mask):
    """Factory: area under each trace by trapezoids on uneven time stamps.

    A trapezoid counts when both of its frames are valid; lost frames are
    not bridged.

    Args:
        mask: Boolean (batch, time).

    Returns:
        A function of x (batch, time, sensors) and stamps t (batch, time) or
        (1, time), giving (batch, sensors).
    """
    mask = np.asarray(mask, bool)
    seg = (mask[:, 1:] & mask[:, :-1]).astype("float32")

    @ops.custom_gradient
    def area(x, t):
        live = ops.cast(ops.convert_to_tensor(seg), x.dtype)
        dt = (t[:, 1:] - t[:, :-1]) * live
        mid = 0.5 * (x[:, 1:] + x[:, :-1])
        out = ops.sum(dt[:, :, None] * mid, axis=1)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            half = 0.5 * (ops.pad(dt, [[0, 0], [1, 0]]) + ops.pad(dt, [[0, 0], [0, 1]]))
            d_x = half[:, :, None] * g[:, None, :]
            slab = ops.sum(mid * g[:, None, :], axis=-1) * live
            d_t = ops.pad(slab, [[0, 0], [1, 0]]) - ops.pad(slab, [[0, 0], [0, 1]])
            if t.shape[0] != d_t.shape[0]:
                d_t = ops.sum(d_t, axis=0, keepdims=True)
            return d_x, d_t

        return out, grad

    return area


class DriftFree(keras.layers.Layer):
    """Learned drift direction, removed from (batch, sensors) features."""

    def build(self, input_shape):
        self.direction = self.add_weight(
            shape=(input_shape[-1],), initializer="random_normal", name="direction"
        )

    def call(self, x):
        return remove_drift(x, 1.0 * self.direction)


class MixtureHead(keras.layers.Layer):
    """Forward model: predicted ppm to expected sensor pattern."""

    def __init__(self, sensors, **kwargs):
        super().__init__(**kwargs)
        self.sensors = sensors

    def build(self, input_shape):
        self.sens = self.add_weight(
            shape=(self.sensors, input_shape[-1]), initializer=keras.initializers.Constant(0.1), name="sens"
        )
        self.expo = self.add_weight(shape=(self.sensors,), initializer="ones", name="expo")

    def call(self, conc):
        sens = ops.relu(ops.convert_to_tensor(self.sens))
        return array_resistance(conc, sens, ops.relu(self.expo))


def trace_features(r, t, mask, start=5, stop=25):
    """(batch, time, sensors) resistances to (batch, sensors) exposure areas."""
    return exposure_area(mask)(baseline_correction(start, stop, "log")(r), t)
