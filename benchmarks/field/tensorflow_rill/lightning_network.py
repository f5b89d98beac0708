"""Ground based lightning location: arrival times, error ellipses, peak current.

Distances are in km, times in microseconds, currents in kA.  A *stroke* is one
return stroke, a *flash* groups several strokes, a *sensor* is one antenna of
the network.
"""

from __future__ import annotations

import math
from typing import Callable, NamedTuple

import tensorflow as tf

LIGHT_KM_PER_US = 0.299792458
REFERENCE_KM = 100.0
FIELD_TO_CURRENT = 0.185


class Network(NamedTuple):
    """Fixed properties of the sensors."""

    position: tf.Tensor  # [S, 2] easting, northing
    sigma: tf.Tensor  # [S] timing uncertainty
    delay: tf.Tensor  # [S] ground-conductivity delay, us per km


def sum_to_shape(value: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Reduce `value` over the axes along which `like` had been broadcast."""
    full, small = tf.shape(value), tf.shape(like)
    pad = tf.ones([tf.rank(value) - tf.rank(like)], tf.int32)
    padded = tf.concat([pad, small], 0)
    axes = tf.reshape(tf.where((padded == 1) & (full != 1)), [-1])
    return tf.reshape(tf.reduce_sum(value, axis=axes), small)


@tf.custom_gradient
def toa_residual(source, onset, station, delay, sigma, times):
    """Normalised time-of-arrival residuals.

    Parameters
    ----------
    source : tf.Tensor, shape (E, 2)
        Trial stroke positions.
    onset : tf.Tensor, shape (E,)
        Trial stroke times.
    station : tf.Tensor, shape (S, 2)
        Sensor positions.
    delay : tf.Tensor, shape () or (S,)
        Extra propagation delay per km of path.
    sigma : tf.Tensor, shape (), (S,) or (E, S)
        Timing uncertainty.
    times : tf.Tensor, shape (E, S)
        Observed arrival times.

    Returns
    -------
    tf.Tensor, shape (E, S)
        ``(times - onset - distance * (1/c + delay)) / sigma``
    """
    offset = source[:, None, :] - station[None, :, :]
    distance = tf.norm(offset, axis=-1)
    slowness = 1.0 / LIGHT_KM_PER_US + delay
    residual = (times - onset[:, None] - distance * slowness) / sigma

    def grad(upstream):
        g = upstream / sigma
        radial = -g * slowness
        bearing = tf.math.divide_no_nan(offset, distance[..., None])
        pull = radial[..., None] * bearing
        return (
            tf.reduce_sum(pull, axis=1),
            -tf.reduce_sum(g, axis=1),
            -tf.reduce_sum(pull, axis=0),
            sum_to_shape(-g * distance, delay),
            sum_to_shape(-g * residual, sigma),
            g,
        )

    return residual, grad


def make_error_ellipse(confidence: float = 0.5) -> Callable:
    """Build the map from position covariance to confidence ellipse.

    Parameters
    ----------
    confidence : float
        Probability inside the ellipse; LLS networks usually quote the median.
    """
    k = math.sqrt(-2.0 * math.log1p(-confidence))

    @tf.custom_gradient
    def error_ellipse(cov):
        """Semi-major axis, semi-minor axis and azimuth of the major axis.

        `cov` is (..., 2, 2), positive definite with two distinct eigenvalues;
        the mean of the two off-diagonal entries is used.  The azimuth is in
        radians, clockwise from north.
        """
        xx, yy = cov[..., 0, 0], cov[..., 1, 1]
        xy = 0.5 * (cov[..., 0, 1] + cov[..., 1, 0])
        half = 0.5 * (xx - yy)
        radius = tf.sqrt(half * half + xy * xy)
        top = 0.5 * (xx + yy) + radius
        low = (xx * yy - xy * xy) / top
        major, minor = k * tf.sqrt(top), k * tf.sqrt(low)
        azimuth = 0.5 * tf.atan2(xy, -half)

        def grad(g_major, g_minor, g_azimuth):
            u = 0.5 * k * k * g_major / major
            v = 0.5 * k * k * g_minor / minor
            mean = 0.5 * (u + v)
            turn = 0.5 * g_azimuth / (radius * radius)
            g_half = (u - v) * half / radius + turn * xy
            g_xy = 0.5 * ((u - v) * xy / radius - turn * half)
            first = tf.stack([mean + 0.5 * g_half, g_xy], -1)
            second = tf.stack([g_xy, mean - 0.5 * g_half], -1)
            return tf.stack([first, second], -2)

        return (major, minor, azimuth), grad

    return error_ellipse


def masked_mean(value, mask):
    """Mean over the sensors that reported; zero for strokes without any."""
    return tf.reduce_sum(value * mask, -1) / tf.maximum(tf.reduce_sum(mask, -1), 1.0)


@tf.custom_gradient
def peak_current(signal, distance, reported, power, attenuation):
    """Peak current from range-normalised signal strength.

    Parameters
    ----------
    signal : tf.Tensor, shape (E, S)
        Peak field at each sensor.
    distance : tf.Tensor, shape (E, S)
        Stroke to sensor distance, positive.
    reported : tf.Tensor of bool, shape (E, S)
        True where the sensor contributed to the solution.
    power, attenuation : tf.Tensor, shape ()
        Range exponent and e-folding length of the propagation loss.

    Returns
    -------
    tf.Tensor, shape (E,)
    """
    mask = tf.cast(reported, signal.dtype)
    ratio = distance / REFERENCE_KM
    excess = distance - REFERENCE_KM
    gain = FIELD_TO_CURRENT * ratio**power * tf.exp(excess / attenuation)
    current = masked_mean(signal * gain, mask)

    def grad(upstream):
        n_sensors = tf.cast(tf.shape(signal)[-1], signal.dtype)
        g = upstream[:, None] * mask / n_sensors
        g_log = g * signal * gain
        return (
            g * gain,
            g_log * (power / distance + 1.0 / attenuation),
            None,
            tf.reduce_sum(g_log * tf.math.log(ratio)),
            -tf.reduce_sum(g_log * excess) / attenuation**2,
        )

    return current, grad


def make_flash_share(exponent: float = 2.0) -> Callable:
    """Share of each stroke in the action integral of its flash."""

    @tf.custom_gradient
    def flash_share(current, flash):
        """`current` (N,) is signed (negative for negative ground strokes) and
        never zero; `flash` (N,) holds the flash number of each stroke, in any
        order."""
        magnitude = tf.abs(current)
        action = magnitude**exponent
        n_flash = tf.reduce_max(flash) + 1
        total = tf.math.unsorted_segment_sum(action, flash, n_flash)
        share = action / tf.gather(total, flash)

        def grad(upstream):
            mean = tf.math.unsorted_segment_sum(upstream * share, flash, n_flash)
            centred = upstream - tf.gather(mean, flash)
            return exponent * share * centred / magnitude, None

        return share, grad

    return flash_share


def locate(
    network: Network, times: tf.Tensor, guess: tf.Tensor, steps: int = 200, rate: float = 0.5
):
    """Adam search for stroke positions, from a first guess (E, 3) of x, y, t."""
    state = tf.Variable(guess)
    optimiser = tf.keras.optimizers.Adam(rate)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            r = toa_residual(
                state[:, :2], state[:, 2], network.position, network.delay, network.sigma, times
            )
            loss = tf.reduce_mean(tf.reduce_sum(r * r, -1))
        optimiser.apply_gradients([(tape.gradient(loss, state), state)])
    return tf.convert_to_tensor(state)
