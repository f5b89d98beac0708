"""Signals and blood gases at the bedside (any keras backend)."""
import math

import keras
from keras import ops

HUFNER = 1.34  # ml O2 per g haemoglobin
SOLUBILITY = 0.0031  # ml O2 per dl and mmHg
BOHR = 0.48


def _reduce_like(value, like):
    extra = len(value.shape) - len(like.shape)
    if extra > 0:
        value = ops.sum(value, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(like.shape) if n == 1 and value.shape[i] != 1)
    return ops.sum(value, axis=axes, keepdims=True) if axes else value


@keras.ops.custom_gradient
def oxygen_content(po2, ph, haemoglobin, p50, hill):
    """Arterial oxygen content in ml/dl from Hill's curve with a Bohr shift.

    Args:
        po2: oxygen tension in mmHg, positive.
        ph: blood pH.
        haemoglobin: g/dl.
        p50: half-saturation tension at pH 7.4, positive.
        hill: Hill coefficient, positive.

    All arguments are tensors and broadcast against each other, e.g. (patients, samples) tensions
    with (patients, 1) haemoglobin and scalar p50.
    """
    log_ratio = ops.log(po2) - ops.log(p50) + BOHR * math.log(10.0) * (ph - 7.4)
    saturation = ops.sigmoid(hill * log_ratio)
    content = HUFNER * haemoglobin * saturation + SOLUBILITY * po2

    def grad(*args, upstream=None):
        g = upstream if upstream is not None else args[0]
        d_z = g * HUFNER * haemoglobin * saturation * (1.0 - saturation)
        d_log = d_z * hill
        return (
            _reduce_like(d_log / po2 + g * SOLUBILITY, po2),
            _reduce_like(d_log * BOHR * math.log(10.0), ph),
            _reduce_like(g * HUFNER * saturation, haemoglobin),
            _reduce_like(-d_log / p50, p50),
            _reduce_like(d_z * log_ratio, hill),
        )

    return content, grad


class Windkessel(keras.layers.Layer):
    """Two-element windkessel: pressure (B, T) of an inflow (B, T); lost samples hold the last pressure."""

    def __init__(self, dt=0.01, **kwargs):
        super().__init__(**kwargs)
        self.dt = dt

    def call(self, flow, resistance, compliance, start, valid):
        dt, steps = self.dt, flow.shape[1]

        @keras.ops.custom_gradient
        def windkessel_pressure(flow, resistance, compliance, start):
            decay = ops.exp(-dt / (resistance * compliance))
            pressure, previous = start, []
            for t in range(steps):
                previous.append(pressure)
                moved = decay * pressure + (1.0 - decay) * resistance * flow[:, t]
                pressure = ops.where(valid[:, t], moved, pressure)
            held = ops.stack(previous[1:] + [pressure], axis=1)

            def grad(*args, upstream=None):
                g = upstream if upstream is not None else args[0]
                carry = ops.zeros_like(start)
                d_decay, d_gain = ops.zeros_like(start), ops.zeros_like(start)
                d_flow = []
                for t in reversed(range(steps)):
                    carry = carry + g[:, t]
                    live = ops.where(valid[:, t], carry, ops.zeros_like(carry))
                    d_decay = d_decay + live * (previous[t] - resistance * flow[:, t])
                    d_gain = d_gain + live * (1.0 - decay) * flow[:, t]
                    d_flow.append(live * (1.0 - decay) * resistance)
                    carry = carry * decay
                rate = d_decay * decay * dt / (resistance * compliance)
                return (
                    ops.stack(d_flow[::-1], axis=1),
                    d_gain + rate / resistance,
                    rate / compliance,
                    carry,
                )

            return held, grad

        return windkessel_pressure(flow, resistance, compliance, start)


def make_rereference(good, axis=-1):
    """Common average reference over the good electrodes; `good` is 0/1, one per electrode."""

    @keras.ops.custom_gradient
    def rereference(signal):
        shape = [1] * len(signal.shape)
        shape[axis] = signal.shape[axis]
        weight = ops.reshape(ops.cast(good, signal.dtype), shape)
        total = ops.maximum(ops.sum(weight), 1.0)
        common = ops.sum(signal * weight, axis=axis, keepdims=True) / total

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            return g - ops.sum(g * weight, axis=axis, keepdims=True) / total

        return signal - common, grad

    return rereference
