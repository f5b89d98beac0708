"""Spectacle lens prescriptions and the merit of a freeform design."""

import math

import keras
from keras import ops

# order of the mean, power of the merit in front of its gradient
MERIT_ORDERS = {
    "mean": (1, 0),
    "rms": (2, -1),
    "quartic": (4, -2),
}
MILLI = 1e-3


@ops.custom_gradient
def corneal_power(
    front,  # front surface, dioptres, (wearers, meridians)
    back,  # back surface, dioptres, (wearers, meridians)
    thickness,  # centre thickness over index, mm, (wearers, 1)
    vertex,  # back vertex to cornea, mm, (wearers, 1)
):
    """Power at the corneal plane of a thick lens, along each meridian."""
    t, d = MILLI * thickness, MILLI * vertex
    bend = 1.0 / (1.0 - t * front)
    at_lens = front * bend + back
    carry = 1.0 / (1.0 - d * at_lens)
    at_eye = at_lens * carry

    def grad(*args, upstream=None):
        g = args[-1] if upstream is None else upstream
        g_lens = g * carry * carry
        d_front = g_lens * bend * bend
        d_thickness = MILLI * ops.sum(d_front * front * front, axis=-1, keepdims=True)
        d_vertex = MILLI * ops.sum(g * at_eye * at_eye, axis=-1, keepdims=True)
        return d_front, g_lens, d_thickness, d_vertex

    return at_eye, grad


def make_blur_merit(kind="rms"):
    """Merit of a lens: weighted power mean of the blur over the gaze points.

    The mean is the plain one ("mean"), the root mean square ("rms") or the
    fourth-order mean ("quartic") that punishes single bad zones.
    """
    order, lead = MERIT_ORDERS[kind]

    @ops.custom_gradient
    def blur_merit(
        error,  # residual power vectors, (wearers, gazes, 3), dioptres, no zero rows
        weight,  # importance of the gaze points, (gazes,), positive, any scale
    ):
        total = ops.sum(weight)
        share = weight / total
        blur = ops.sqrt(ops.sum(error * error, axis=-1))
        powered = blur**order
        mean = ops.sum(share * powered, axis=-1)
        merit = mean ** (1.0 / order)

        def grad(*args, upstream=None):
            g = args[-1] if upstream is None else upstream
            front = (g * merit**lead)[:, None]
            d_error = (front * share * blur ** (order - 2))[..., None] * error
            d_weight = ops.sum(front * (powered - mean[:, None]), axis=0) / (order * total)
            return d_error, d_weight

        return merit, grad

    return blur_merit


def power_vector(sphere, cylinder, axis):
    """(M, J0, J45) of a prescription; axis in degrees."""
    double = axis * (math.pi / 90.0)
    half = -0.5 * cylinder
    return ops.stack([sphere - half, half * ops.cos(double), half * ops.sin(double)], axis=-1)


def from_meridians(power):
    """(M, J0, J45) from the powers along 0, 45 and 90 degrees, last axis."""
    p0, p45, p90 = power[..., 0], power[..., 1], power[..., 2]
    m = 0.5 * (p0 + p90)
    return ops.stack([m, 0.5 * (p0 - p90), p45 - m], axis=-1)


class LensSurrogate(keras.layers.Layer):
    """Predicts the power delivered at every gaze point from the frame fit."""

    def __init__(self, gazes, merit="rms", base_curve=6.0, **kwargs):
        super().__init__(**kwargs)
        self.gazes = gazes
        self.base_curve = base_curve
        self.merit = make_blur_merit(merit)

    def build(self, input_shape):
        self.front = keras.layers.Dense(3 * self.gazes)
        self.back = keras.layers.Dense(3 * self.gazes)
        self.log_weight = self.add_weight(
            shape=(self.gazes,), initializer="zeros", name="log_weight"
        )

    def call(self, fit, ordered):
        # fit: (wearers, features), thickness and vertex distance come first;
        # ordered: (wearers, 3) sphere, cylinder, axis
        power = corneal_power(
            self.front(fit) + self.base_curve,
            self.back(fit) - self.base_curve,
            ops.abs(fit[:, 0:1]),
            12.0 + fit[:, 1:2],
        )
        delivered = from_meridians(ops.reshape(power, (-1, self.gazes, 3)))
        wish = power_vector(ordered[:, 0], ordered[:, 1], ordered[:, 2])
        return self.merit(delivered - wish[:, None, :], ops.exp(self.log_weight))
