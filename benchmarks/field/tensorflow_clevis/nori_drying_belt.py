"""A belt dryer for nori: moisture along the belt, sheets under the heaters, spread.

Laver pulp enters at cell 0 and is carried towards the end of the belt. Moisture also
diffuses between neighbouring cells of the pulp. Temperatures in kelvin,
moistures in kg water per kg dry laver.
"""
from __future__ import annotations

import dataclasses

import tensorflow as tf

STEFAN_BOLTZMANN = 5.670374e-8   # W/m2/K4
EMISSIVITY = 0.93


@dataclasses.dataclass(frozen=True)
class Belt:
    cell_length: float = 0.25   # m
    step: float = 20.0          # s
    newton_steps: int = 25


def _fold(grad, like):
    """Sum `grad` down to the shape of `like`, which was broadcast."""
    extra = len(grad.shape) - len(like.shape)
    grad = tf.reduce_sum(grad, axis=list(range(extra)))
    ones = [i for i, n in enumerate(like.shape) if n == 1]
    return tf.reduce_sum(grad, axis=ones, keepdims=True)


def make_belt_step(belt: Belt = Belt()):
    """One backward Euler step of the moisture along the belt.

    Returns ``belt_step(moisture, speed, diffusivity, feed)``

    moisture : (batch, cells)
    speed : (batch,), m/s, not negative (upwind differences)
    diffusivity : (cells - 1,), m2/s, at the faces between the cells
    feed : (batch,), the moisture of the pulp spread onto cell 0
    """
    courant = belt.step / belt.cell_length
    fourier = belt.step / belt.cell_length ** 2

    @tf.custom_gradient
    def belt_step(moisture, speed, diffusivity, feed):
        carry = courant * speed[:, None] * tf.ones_like(moisture)
        left = fourier * tf.pad(diffusivity, [[1, 0]])
        right = fourier * tf.pad(diffusivity, [[0, 1]])
        diagonal = 1.0 + carry + left + right
        below = -(carry + left)      # cell i from cell i - 1, unused at i = 0
        above = tf.zeros_like(moisture) - right
        inflow = (courant * speed * feed)[:, None]
        rhs = tf.concat([moisture[:, :1] + inflow, moisture[:, 1:]], axis=1)
        dried = tf.linalg.tridiagonal_solve(
            tf.stack([above, diagonal, below], axis=1), rhs)

        def grad(upstream):
            above_t = tf.concat([below[:, 1:], tf.zeros_like(below[:, :1])], axis=1)
            below_t = tf.concat([tf.zeros_like(above[:, :1]), above[:, :-1]], axis=1)
            price = tf.linalg.tridiagonal_solve(
                tf.stack([above_t, diagonal, below_t], axis=1), upstream)
            upwind = tf.concat([feed[:, None], dried[:, :-1]], axis=1)
            d_speed = courant * tf.reduce_sum(price * (upwind - dried), axis=1)
            price_jump = price[:, 1:] - price[:, :-1]
            dried_jump = dried[:, 1:] - dried[:, :-1]
            d_diffusivity = -fourier * tf.reduce_sum(price_jump * dried_jump, axis=0)
            d_feed = courant * speed * price[:, 0]
            return price, d_speed, d_diffusivity, d_feed

        return dried, grad

    return belt_step


@tf.custom_gradient
def heated_sheet_temperature(flux, air, transfer):
    """Temperature at which a sheet settles under the radiant heaters.

    Solves ``transfer * (t - air) + EMISSIVITY * SIGMA * (t**4 - air**4) = flux`` for t by
    Newton's method; differentiates the equation, not the iteration. The three
    arguments (W/m2, K, W/m2/K) broadcast against one another.
    """
    strength = EMISSIVITY * STEFAN_BOLTZMANN
    sheet = air + tf.zeros_like(flux + transfer)

    def stiffness(t):
        return transfer + 4.0 * strength * t ** 3

    for _ in range(Belt.newton_steps):
        residual = transfer * (sheet - air) + strength * (sheet ** 4 - air ** 4) - flux
        sheet = sheet - residual / stiffness(sheet)

    def grad(upstream):
        each = upstream / stiffness(sheet)
        d_air = each * stiffness(air)
        d_transfer = each * (air - sheet)
        return _fold(each, flux), _fold(d_air, air), _fold(d_transfer, transfer)

    return sheet, grad


def relative_spread(axis: int = -1):
    """Coefficient of variation of the moisture along `axis` (which goes away).

    With moistures (batch, cells): `axis=-1` is the spread along a belt and
    `axis=0` the spread of each cell over the batches of a day.
    """

    @tf.custom_gradient
    def variation(moisture):
        mean = tf.reduce_mean(moisture, axis=axis, keepdims=True)
        spread = tf.math.reduce_std(moisture, axis=axis, keepdims=True)
        ratio = spread / mean

        def grad(upstream):
            n = tf.cast(tf.shape(moisture)[-1], moisture.dtype)
            up = tf.expand_dims(upstream, axis)
            d_spread = tf.math.divide_no_nan(moisture - mean, n * spread)
            return up * (d_spread - ratio / n) / mean

        return tf.squeeze(ratio, axis=axis), grad

    return variation


def dry(moisture, speed, diffusivity, feed, steps=30, belt=Belt()):
    advance = make_belt_step(belt)
    for _ in range(steps):
        moisture = advance(moisture, speed, diffusivity, feed)
    return moisture


def main():
    moisture = tf.ones([2, 12]) * 0.6
    speed = tf.constant([0.004, 0.006])
    with tf.GradientTape() as tape:
        tape.watch(speed)
        end = dry(moisture, speed, 1e-5 * tf.ones([11]), tf.constant([0.7, 0.65]))
        loss = tf.reduce_sum(relative_spread()(end))
    print("spread", loss.numpy(), "slope in speed", tape.gradient(loss, speed).numpy())
    print("sheet", heated_sheet_temperature(
        tf.constant([800.0, 1500.0]), tf.constant(310.0), tf.constant(18.0)).numpy())


if __name__ == "__main__":
    main()
