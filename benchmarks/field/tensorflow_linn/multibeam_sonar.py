import math
from typing import NamedTuple

import tensorflow as tf

# Mackenzie (1981), J. Acoust. Soc. Am. 70, 807
_T1, _T2, _T3 = 4.591, -5.304e-2, 2.374e-4
_S1 = 1.340
_D1, _D2 = 1.630e-2, 1.675e-7
_TS, _TD3 = -1.025e-2, -7.139e-13


class Sounding(NamedTuple):
    across: tf.Tensor
    one_way: tf.Tensor


def _unbroadcast(g, like):
    lead = len(g.shape) - len(like.shape)
    g = tf.reduce_sum(g, axis=list(range(lead))) if lead else g
    ones = [i for i, n in enumerate(like.shape) if n == 1 and g.shape[i] != 1]
    return tf.reduce_sum(g, axis=ones, keepdims=True) if ones else g


@tf.custom_gradient
def mackenzie_speed(temperature, salinity, depth):
    """Speed of sound in sea water by Mackenzie's nine-term equation.

    The three arguments broadcast against each other: casts `[B, L]` with one
    salinity per cast `[B, 1]` and a common depth axis `[L]` is the usual call.

    Args:
      temperature: degrees Celsius, 2 to 30.
      salinity: practical salinity, 25 to 40.
      depth: metres, 0 to 8000.

    Returns:
      Speed in m/s, in the broadcast shape.
    """
    t, s, d = temperature, salinity - 35.0, depth
    speed = (
        1448.96
        + t * (_T1 + t * (_T2 + t * _T3))
        + _S1 * s
        + d * (_D1 + d * _D2)
        + _TS * t * s
        + _TD3 * t * d**3
    )

    def grad(upstream):
        by_t = _T1 + 2.0 * _T2 * t + 3.0 * _T3 * t**2 + _TS * s
        by_s = _S1 + _TS * t
        by_d = _D1 + 2.0 * _D2 * d + 3.0 * _TD3 * t * d**2
        return (
            _unbroadcast(upstream * by_t, temperature),
            _unbroadcast(upstream * by_s, salinity),
            _unbroadcast(upstream * by_d, depth),
        )

    return speed, grad


def trace_beams(launch, speeds, thickness, valid=None):
    """Straight rays through layers of constant speed (Snell's law, no turning ray).

    Args:
      launch: `[B, N]` beam angles from the vertical at the transducer, radians.
      speeds: `[B, L]` layer speeds; layer 0 holds the transducer and sets the
        ray parameter `sin(launch) / speeds[:, 0]`. Padding may hold zeros.
      thickness: `[B, L]` layer thicknesses, m.
      valid: optional `[B, L]` bool, False for padding. Layer 0 is always valid.

    Returns:
      `Sounding(across, one_way)`, each `[B, N]`: the across-track distance and
      the one-way travel time at the bottom of the last valid layer.
    """
    if valid is None:
        valid = tf.ones_like(speeds, dtype=tf.bool)
    on = tf.cast(valid, speeds.dtype)[:, tf.newaxis, :]

    @tf.custom_gradient
    def snell_trace(launch, speeds, thickness):
        c = tf.where(valid, speeds, tf.ones_like(speeds))[:, tf.newaxis, :]
        h = on * thickness[:, tf.newaxis, :]
        c0 = c[:, :, 0]
        p = tf.sin(launch) / c0
        u = on * p[:, :, tf.newaxis] * c
        q = tf.sqrt(1.0 - u * u)
        across = tf.reduce_sum(h * u / q, axis=-1)
        one_way = tf.reduce_sum(h / (c * q), axis=-1)

        def grad(g_across, g_time):
            gx, gt = g_across[..., tf.newaxis], g_time[..., tf.newaxis]
            q3 = q**3
            d_p = tf.reduce_sum(h * (gx * c + gt * u) / q3, axis=-1)
            d_launch = d_p * tf.cos(launch) / c0
            d_c = h * (gx * p[..., tf.newaxis] + gt * (2.0 * u * u - 1.0) / c**2) / q3
            d_c = tf.reduce_sum(d_c, axis=1)
            d_c0 = tf.reduce_sum(-d_p * p / c0, axis=1)
            d_speeds = tf.concat([d_c[:, :1] + d_c0[:, tf.newaxis], d_c[:, 1:]], axis=1)
            d_h = tf.reduce_sum(on * (gx * u / q + gt / (c * q)), axis=1)
            return d_launch, d_speeds, d_h

        return (across, one_way), grad

    return Sounding(*snell_trace(launch, speeds, thickness))


def transmission_loss(slant, absorption_db_km):
    return 20.0 * tf.math.log(slant) / math.log(10.0) + absorption_db_km * slant / 1000.0
