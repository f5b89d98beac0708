import math

import keras
from keras import ops


def velocity_curve(velocity, log_gamma, program):
    """Per-program velocity response, (velocity / 127) ** exp(log_gamma[program]).

    velocity (batch, notes) in 1..127, log_gamma (programs,), program int (batch, notes).
    """

    @ops.custom_gradient
    def rule(velocity, log_gamma):
        gamma = ops.take(ops.exp(log_gamma), program, axis=0)
        logv = ops.log(velocity / 127.0)
        out = ops.exp(gamma * logv)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_vel = upstream * gamma * out / velocity
            d_note = upstream * out * logv * gamma
            ids = ops.reshape(program, (-1, 1))
            d_table = ops.scatter_update(ops.zeros_like(log_gamma), ids, ops.reshape(d_note, (-1,)))
            return d_vel, d_table

        return out, grad

    return rule(velocity, log_gamma)


@ops.custom_gradient
def lifting_53(x):
    # one level of the CDF 5/3 wavelet on the last axis (even length), -> [approx | detail]
    even, odd = x[..., 0::2], x[..., 1::2]
    nxt = ops.concatenate([even[..., 1:], even[..., -1:]], axis=-1)
    detail = odd - 0.5 * (even + nxt)
    prev = ops.concatenate([detail[..., :1], detail[..., :-1]], axis=-1)
    approx = even + 0.25 * (prev + detail)
    n = x.shape[-1] // 2

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        ga, gd = upstream[..., :n], upstream[..., n:]
        zero = ops.zeros_like(ga[..., :1])
        gd = gd + 0.25 * (ga + ops.concatenate([ga[..., 1:], zero], axis=-1))
        gd = gd + 0.25 * ops.concatenate([ga[..., :1], ops.zeros_like(ga[..., 1:])], axis=-1)
        ge = ga - 0.5 * (gd + ops.concatenate([zero, gd[..., :-1]], axis=-1))
        ge = ge - 0.5 * ops.concatenate([ops.zeros_like(gd[..., 1:]), gd[..., -1:]], axis=-1)
        return ops.reshape(ops.stack([ge, gd], axis=-1), ops.shape(x))

    return ops.concatenate([approx, detail], axis=-1), grad


def wavelet_bands(x, levels=3):
    bands = []
    for _ in range(levels):
        y = lifting_53(x)
        half = y.shape[-1] // 2
        x, d = y[..., :half], y[..., half:]
        bands.append(d)
    return [x] + bands[::-1]


class StereoPanner(keras.layers.Layer):
    """Mono to stereo. law: "linear", "constant_power" or "compromise" (-4.5 dB centre)."""

    def __init__(self, law="constant_power", **kwargs):
        super().__init__(**kwargs)
        if law not in ("linear", "constant_power", "compromise"):
            raise ValueError(law)
        self.law = law

    def _gains(self, a):
        c, s = ops.cos(a * math.pi / 2), ops.sin(a * math.pi / 2)
        if self.law == "linear":
            return 1.0 - a, a
        if self.law == "constant_power":
            return c, s
        return ops.sqrt((1.0 - a) * c), ops.sqrt(a * s)

    def _slopes(self, a, left, right):
        c, s = ops.cos(a * math.pi / 2), ops.sin(a * math.pi / 2)
        if self.law == "linear":
            return -ops.ones_like(a), ops.ones_like(a)
        if self.law == "constant_power":
            return -s * math.pi / 2, c * math.pi / 2
        return -(c + (1.0 - a) * s) / (2.0 * left), (s + a * c) / (2.0 * right)

    def pan(self, signal, position):
        # signal (batch, time), position (batch, 1) in (-1, 1) -> (batch, time, 2)
        @ops.custom_gradient
        def rule(signal, position):
            a = 0.5 * (position + 1.0)
            left, right = self._gains(a)
            out = ops.stack([signal * left, signal * right], axis=-1)

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                gl, gr = upstream[..., 0], upstream[..., 1]
                dl, dr = self._slopes(a, left, right)
                d_pos = ops.sum(signal * (gl * dl + gr * dr), axis=-1, keepdims=True)
                return gl * left + gr * right, 0.5 * d_pos

            return out, grad

        return rule(signal, position)

    def call(self, signal, position):
        return self.pan(signal, position)


class VelocityCurve(keras.layers.Layer):
    def __init__(self, programs=128, **kwargs):
        super().__init__(**kwargs)
        self.programs = programs

    def build(self, input_shape):
        self.log_gamma = self.add_weight(shape=(self.programs,), initializer="zeros")

    def call(self, velocity, program):
        return velocity_curve(velocity, ops.clip(self.log_gamma, -1.5, 1.5), program)
