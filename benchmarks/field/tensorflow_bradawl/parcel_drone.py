"""Planning sums for a parcel drone: how fast to fly, what a parcel costs, what a round of deliveries takes.

SI units throughout: metres, seconds, metres per second, watts, radians.
"""
from typing import NamedTuple, Sequence

import numpy as np
import tensorflow as tf


class Airframe(NamedTuple):
    """Power in level flight, drag * v**3 + lift / v + idle."""

    drag: float = 0.035
    lift: float = 3600.0
    idle: float = 45.0


BENCH_SPEEDS = (6.0, 9.0, 12.0, 16.0, 21.0, 27.0)
BENCH_POWER = (660.0, 468.0, 405.0, 415.0, 540.0, 870.0)


def _fold(g, like):
    """Sum `g` over the axes along which `like` was broadcast."""
    shape = like.shape
    lead = g.shape.rank - shape.rank
    if lead:
        g = tf.reduce_sum(g, axis=list(range(lead)))
    ones = [i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1]
    return tf.reduce_sum(g, axis=ones, keepdims=True) if ones else g


@tf.custom_gradient
def thrifty_airspeed(headwind, drag, lift, idle, limit):
    """Airspeed that takes the least energy per metre over ground.

    Parameters
    ----------
    headwind : tensor
        Negative when it comes from behind; well below the speed of the drone.
    drag, lift, idle : tensor
        Coefficients of the power (see `Airframe`), positive, broadcastable with `headwind`.
    limit : tensor
        The speed that the operator allows, broadcastable as well.

    Returns
    -------
    tensor
        The v for which power(v) / (v - headwind) is least, but at most `limit`.
    """
    v = 2.0 * (tf.pow(lift / drag, 0.25) + tf.pow(idle / drag, 1.0 / 3.0)) + 1.5 * tf.abs(headwind)
    for _ in range(14):
        miss = 2.0 * drag * v**3 - 3.0 * drag * headwind * v**2 - 2.0 * lift / v + lift * headwind / v**2 - idle
        rise = 6.0 * drag * v**2 - 6.0 * drag * headwind * v + 2.0 * lift / v**2 - 2.0 * lift * headwind / v**3
        v = v - miss / rise
    flown = tf.minimum(v, limit)

    def grad(g):
        free = tf.where(v < limit, g, tf.zeros_like(g))
        lam = free / ((6.0 * drag * v + 2.0 * lift / v**3) * (v - headwind))
        return (
            _fold(lam * (3.0 * drag * v**2 - lift / v**2), headwind),
            _fold(lam * v**2 * (3.0 * headwind - 2.0 * v), drag),
            _fold(lam * (2.0 * v - headwind) / v**2, lift),
            _fold(lam, idle),
            _fold(g - free, limit),
        )

    return flown, grad


def make_laden_power(knots: Sequence[float] = BENCH_SPEEDS):
    """Measured power through the given speeds, which must rise.

    The returned ``laden_power(speed, knot_power, loading)`` interpolates linearly between the powers measured without a parcel
    (and carries the outermost pieces on beyond the ends). ``loading`` is the weight in flight over that of the test:
    a heavier drone behaves the same at sqrt(loading) times the speed, and then draws loading**1.5 times the power.
    """
    table = np.asarray(knots, dtype=np.float64)
    if np.any(np.diff(table) <= 0):
        raise ValueError("knot speeds must rise")

    @tf.custom_gradient
    def laden_power(speed, knot_power, loading):
        # speed: any shape; knot_power: [len(knots)]; loading: scalar or the shape of speed
        grid = tf.constant(table, dtype=speed.dtype)
        root = tf.sqrt(loading)
        bare_speed = speed / root
        flat = tf.reshape(bare_speed, [-1])
        piece = tf.clip_by_value(tf.searchsorted(grid, flat, side="right") - 1, 0, len(table) - 2)
        piece = tf.reshape(piece, tf.shape(bare_speed))
        left, right = tf.gather(grid, piece), tf.gather(grid, piece + 1)
        low, high = tf.gather(knot_power, piece), tf.gather(knot_power, piece + 1)
        part = (bare_speed - left) / (right - left)
        slope = (high - low) / (right - left)
        bare_power = low + (high - low) * part

        def grad(g):
            d_speed = g * slope * loading
            d_root = g * loading * (3.0 * bare_power - slope * bare_speed)
            d_loading = _fold(d_root / (2.0 * root), loading)
            flat_g = tf.reshape(g, [-1])
            flat_part = tf.reshape(part, [-1])
            where = tf.reshape(piece, [-1])
            n = len(table)
            d_knots = tf.math.unsorted_segment_sum(flat_g * (1.0 - flat_part), where, n)
            d_knots += tf.math.unsorted_segment_sum(flat_g * flat_part, where + 1, n)
            return d_speed, d_knots, d_loading

        return root**3 * bare_power, grad

    return laden_power


@tf.custom_gradient
def round_trip(airspeed, power, wind_from, wind_speed, distances, tracks):
    """Energy and time of a round of legs, the drone crabbing into the wind.

    airspeed, power: [P], one per drone. wind_from, wind_speed: scalars, or [N] when each leg has a wind of its own.
    distances, tracks: [N]. The drone must be faster than the wind. Returns (joules [P], seconds [P]).
    """
    angle = tracks - wind_from
    cos, sin = tf.cos(angle), tf.sin(angle)
    cross = wind_speed * sin
    ahead = tf.sqrt(airspeed[:, None] ** 2 - cross**2)
    ground = ahead - wind_speed * cos
    each = distances / ground
    seconds = tf.reduce_sum(each, axis=-1)

    def grad(g_energy, g_seconds):
        g_time = (g_energy * power + g_seconds)[:, None]
        d_ground = -g_time * each / ground
        d_ahead = d_ground / ahead
        d_speed = tf.reduce_sum(d_ahead, axis=-1) * airspeed
        d_cross = -d_ahead * cross
        d_wind = d_cross * sin - d_ground * cos
        d_angle = wind_speed * (d_cross * cos + d_ground * sin)
        return (
            d_speed,
            g_energy * seconds,
            _fold(-d_angle, wind_from),
            _fold(d_wind, wind_speed),
            _fold(g_time / ground, distances),
            _fold(d_angle, tracks),
        )

    return (power * seconds, seconds), grad


def main():
    laden_power = make_laden_power()
    frame = [tf.constant(x) for x in Airframe()]
    headwind = tf.constant([-4.0, 0.0, 5.0])
    speed = thrifty_airspeed(headwind, *frame, tf.constant(19.0))
    power = laden_power(speed, tf.constant(BENCH_POWER), tf.constant(1.3))
    legs, tracks = tf.constant([900.0, 400.0, 1100.0]), tf.constant([0.4, 1.9, 4.0])
    energy, seconds = round_trip(speed, power, tf.constant(4.2), tf.constant(4.0), legs, tracks)
    for row in zip(headwind.numpy(), speed.numpy(), power.numpy(), energy.numpy() / 3600.0, seconds.numpy()):
        print("wind %+.0f  %.1f m/s  %.0f W  round %.1f Wh, %.0f s" % row)


if __name__ == "__main__":
    main()
