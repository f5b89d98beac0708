"""Models of refrigerated transport: thermal properties of a load, exchange of
air through the doors, and the quality that is left on arrival.

Tables of products and doors are one-dimensional tensors; shipments refer to them
by integer ids, which repeat freely.
"""
from typing import NamedTuple

import tensorflow as tf

GRAVITY = 9.81
GAS = 8.314e-3  # kJ / (mol K)
KELVIN = 273.15


class Conductivities(NamedTuple):
    water: float = 0.57
    solid: float = 0.21
    ice0: float = 2.22
    ice_slope: float = -0.011


LAMBDA = Conductivities()


@tf.custom_gradient
def load_conductivity(temp, onset, moisture, product):
    """Thermal conductivity of a stacked load, W/(m K).

    Args:
        temp: Celsius, shape [B, L] (shipment, layer).
        onset: temperature at which the product begins to freeze, below zero, [P].
        moisture: mass fraction of water, [P].
        product: int ids of the products, [B].

    Returns:
        Conductivity, shape [B, L].
    """
    tf_ = tf.gather(onset, product)[:, None]
    m = tf.gather(moisture, product)[:, None]
    below = temp < tf_
    t = tf.where(below, temp, -tf.ones_like(temp))
    ice = tf.where(below, m * (1.0 - tf_ / t), tf.zeros_like(temp))
    excess = LAMBDA.ice0 + LAMBDA.ice_slope * temp - LAMBDA.water
    out = LAMBDA.water * m + LAMBDA.solid * (1.0 - m) + excess * ice

    def grad(upstream):
        frozen = tf.where(below, upstream, tf.zeros_like(upstream))
        g_temp = frozen * excess * m * tf_ / tf.square(t) + upstream * LAMBDA.ice_slope * ice
        g_onset = tf.reduce_sum(-frozen * excess * m / t, axis=1)
        g_moist = tf.reduce_sum(
            upstream * (LAMBDA.water - LAMBDA.solid) + frozen * excess * (1.0 - tf_ / t), axis=1)
        kinds = onset.shape[0]
        return (
            g_temp,
            tf.math.unsorted_segment_sum(g_onset, product, kinds),
            tf.math.unsorted_segment_sum(g_moist, product, kinds),
            None,
        )

    return out, grad


def make_doorway_flow(door, coefficient=0.68, softening=1e-4):
    """Exchange of air through open doors.

    ``door`` [B] holds the id of the door at each opening. The returned function
    takes the inside and outside temperatures in Celsius [B], the fraction of the
    doorway that is open [B], and the tables of heights and widths in metres [D].
    The flow [B], m3/s, is positive where outside air is the warmer one.
    """
    door = tf.convert_to_tensor(door, tf.int32)

    @tf.custom_gradient
    def flow(t_in, t_out, opening, height, width):
        h = tf.gather(height, door)
        w = tf.gather(width, door)
        mean = 0.5 * (t_in + t_out) + KELVIN
        x = (t_out - t_in) / mean
        root = tf.sqrt(tf.square(x) + softening ** 2)
        speed = tf.sqrt(GRAVITY * h * root)
        direction = x / root
        volume = coefficient / 3.0 * w * h * opening * speed
        out = volume * direction

        def grad(upstream):
            doors = height.shape[0]
            base = coefficient / 3.0 * w * h * opening * tf.sqrt(GRAVITY * h)
            # x * root**-1/2
            g_x = upstream * base * (tf.pow(root, -0.5) - 0.5 * tf.square(x) * tf.pow(root, -2.5))
            g_in = g_x * (-1.0 / mean - 0.5 * x / mean)
            g_out = g_x * (1.0 / mean - 0.5 * x / mean)
            g_open = upstream * coefficient / 3.0 * w * h * speed * direction
            g_height = tf.math.unsorted_segment_sum(1.5 * upstream * volume / h, door, doors)
            g_width = tf.math.unsorted_segment_sum(upstream * out / w, door, doors)
            return g_in, g_out, g_open, g_height, g_width

        return out, grad

    return flow


def make_quality(hours, shipment, product, shipments, order=1, t_ref=4.0):
    """Quality left after a logged journey.

    Parameters
    ----------
    hours : [N] duration of each logger reading
    shipment : [N] int, shipment of each reading, in any order; shipments without
        readings keep full quality
    product : [shipments] int
    shipments : int
    order : 0 for linear decay (never below zero), 1 for exponential decay
    t_ref : Celsius at which the rates are given
    """
    shipment = tf.convert_to_tensor(shipment, tf.int32)
    product = tf.convert_to_tensor(product, tf.int32)
    of_reading = tf.gather(product, shipment)

    @tf.custom_gradient
    def quality(temp, log_rate, energy):
        dt = tf.cast(hours, temp.dtype)
        kelvin = temp + KELVIN
        arg = (t_ref - temp) / (kelvin * (t_ref + KELVIN) * GAS)
        rate = tf.exp(tf.gather(log_rate, of_reading) - tf.gather(energy, of_reading) * arg)
        spent = rate * dt
        loss = tf.math.unsorted_segment_sum(spent, shipment, shipments)
        if order == 1:
            left = tf.exp(-loss)
            slope = -left
        else:
            left = tf.nn.relu(1.0 - loss)
            slope = -tf.cast(loss < 1.0, loss.dtype)

        def grad(upstream):
            per_reading = tf.gather(upstream * slope, shipment) * spent
            kinds = log_rate.shape[0]
            g_temp = per_reading * tf.gather(energy, of_reading) / (GAS * tf.square(kelvin))
            g_rate = tf.math.unsorted_segment_sum(per_reading, of_reading, kinds)
            g_energy = tf.math.unsorted_segment_sum(-per_reading * arg, of_reading, kinds)
            return g_temp, g_rate, g_energy

        return left, grad

    return quality


class JourneyModel(tf.Module):
    """Trained decay parameters of a set of products."""

    def __init__(self, products, name=None):
        super().__init__(name=name)
        self.log_rate = tf.Variable(tf.fill([products], -5.0))
        self.energy = tf.Variable(tf.fill([products], 70.0))

    def __call__(self, temp, hours, shipment, product, order=1):
        rule = make_quality(hours, shipment, product, len(product), order)
        return rule(temp, tf.convert_to_tensor(self.log_rate), tf.convert_to_tensor(self.energy))
