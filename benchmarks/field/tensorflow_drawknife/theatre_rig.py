# Lighting desk to stage floor.
#
# The chain of a small theatre: the desk holds cues (rows) of channel levels; the soft patch says which channel drives
# which fixture; the lamp filament follows its dimmer with a lag; the light then falls on the boards.  All steps are
# differentiable so that a cue list can be fitted to measured lux readings.
from __future__ import annotations

import math
from typing import Callable, NamedTuple

import tensorflow as tf

CURVES = ("linear", "square", "s")


class Rig(NamedTuple):
    positions: tf.Tensor    # (lamp, 3), metres, z up
    aim: tf.Tensor          # (lamp, 3), any length
    peak: tf.Tensor         # (lamp,), candela at full
    narrowness: tf.Tensor   # (lamp,), exponent of the beam, > 1


def _curve(level, kind):
    """Dimmer curve and its slope for levels in 0..1."""
    if kind == "linear":
        return level, tf.ones_like(level)
    if kind == "square":
        return level * level, 2.0 * level
    if kind == "s":
        return level * level * (3.0 - 2.0 * level), 6.0 * level * (1.0 - level)
    raise ValueError(f"curve must be one of {CURVES}, not {kind!r}")


def patched_output(levels, trim, patch, curve="square"):
    """Fixture outputs for a cue list.

    Parameters
    ----------
    levels : tensor (cue, channel)
        Desk levels, 0 to 1.
    trim : tensor (fixture,)
        Trim of each fixture.
    patch : sequence of int, length fixture
        Channel of each fixture.  Ganged fixtures share a channel; a channel may be spare.
    curve : {"linear", "square", "s"}

    Returns
    -------
    tensor (cue, fixture)
    """
    table = tf.constant(patch, tf.int32)

    @tf.custom_gradient
    def fixture_output(levels, trim):
        driven, slope = _curve(tf.gather(levels, table, axis=1), curve)

        def grad(g):
            d_trim = tf.reduce_sum(g * driven, axis=0)
            d_driven = tf.transpose(g * trim * slope)
            by_channel = tf.zeros_like(tf.transpose(levels))
            by_channel = tf.tensor_scatter_nd_update(by_channel, table[:, None], d_driven)
            return tf.transpose(by_channel), d_trim

        return driven * trim, grad

    return fixture_output(levels, trim)


def make_filament(frame_s: float) -> Callable:
    """Thermal lag of tungsten at a given frame time.  Heating is fast, cooling slow."""

    @tf.custom_gradient
    def filament_trace(drive, start, tau_heat, tau_cool):
        # drive (frame, lamp); start, tau_heat, tau_cool (lamp,) -> glow (frame, lamp), frame 0 is one step after start
        k_heat = 1.0 - tf.exp(-frame_s / tau_heat)
        k_cool = 1.0 - tf.exp(-frame_s / tau_cool)
        glow = start
        before, heating, rate = [], [], []
        trace = []
        for wanted in tf.unstack(drive, axis=0):
            up = wanted > glow
            k = tf.where(up, k_heat, k_cool)
            before.append(glow)
            heating.append(up)
            rate.append(k)
            glow = glow + k * (wanted - glow)
            trace.append(glow)

        def grad(g):
            flow = tf.unstack(g, axis=0)
            n = len(flow)
            total = [None] * n
            total[n - 1] = flow[n - 1]
            for t in range(n - 2, -1, -1):
                total[t] = flow[t] + (1.0 - rate[t]) * total[t + 1]
            adjoint = tf.stack(total)
            d_rate = adjoint * (drive - tf.stack(before))
            up = tf.stack(heating)
            zero = tf.zeros_like(d_rate)
            d_heat = tf.reduce_sum(tf.where(up, d_rate, zero), axis=0)
            d_cool = tf.reduce_sum(tf.where(up, zero, d_rate), axis=0)
            return (adjoint * tf.stack(rate),
                    (1.0 - rate[0]) * total[0],
                    -d_heat * (1.0 - k_heat) * frame_s / tau_heat ** 2,
                    -d_cool * (1.0 - k_cool) * frame_s / tau_cool ** 2)

        return tf.stack(trace), grad

    return filament_trace


@tf.custom_gradient
def floor_illuminance(peak, aim, narrowness, positions, points):
    """Lux on the boards from every lamp of the rig, with the geometry held fixed.

    peak (lamp,), aim (lamp, 3), narrowness (lamp,), positions (lamp, 3), points (point, 3).

    A lamp shines  peak * max(cos, 0) ** narrowness  at the angle from its aim; the floor is horizontal and sees it with
    the inverse square and the cosine laws.  Lamps below a point do not reach it.  Returns the lux at each point and the
    mean lux that each lamp adds over the points.  `positions` and `points` are surveyed and get no gradient.
    """
    ray = points[None, :, :] - positions[:, None, :]
    distance = tf.norm(ray, axis=-1)
    fall = tf.maximum(-ray[..., 2], 0.0) / distance ** 3
    length = tf.norm(aim, axis=-1, keepdims=True)
    axis = aim / length
    toward = ray / distance[..., None]
    cosine = tf.einsum("lpk,lk->lp", toward, axis)
    lit = cosine > 0
    safe = tf.where(lit, cosine, tf.ones_like(cosine))
    zero = tf.zeros_like(cosine)
    beam = tf.where(lit, safe ** narrowness[:, None], zero)
    lux = peak[:, None] * beam * fall

    def grad(g_point, g_lamp):
        g = g_point[None, :] + g_lamp[:, None] / tf.cast(tf.shape(points)[0], g_lamp.dtype)
        d_peak = tf.reduce_sum(g * beam * fall, axis=1)
        d_narrow = tf.reduce_sum(g * lux * tf.math.log(safe), axis=1)
        d_cos = tf.where(lit, g * lux * narrowness[:, None] / safe, zero)
        d_axis = tf.einsum("lp,lpk->lk", d_cos, toward)
        d_aim = (d_axis - axis * tf.reduce_sum(d_axis * axis, axis=-1, keepdims=True)) / length
        return d_peak, d_aim, d_narrow, None, None

    return (tf.reduce_sum(lux, axis=0), tf.reduce_mean(lux, axis=1)), grad


def light_rig(rig: Rig, points, intensity):
    """Lux at `points` with the lamps at `intensity` (lamp,) of full."""
    lux, _ = floor_illuminance(rig.peak * intensity, rig.aim, rig.narrowness, rig.positions, points)
    return lux


def main():
    rig = Rig(tf.constant([[0.0, 0.0, 5.0], [3.0, 0.0, 5.5]]), tf.constant([[1.0, 1.0, -4.0], [-1.0, 1.0, -4.0]]),
              tf.constant([9000.0, 12000.0]), tf.constant([8.0, 20.0]))
    spots = tf.constant([[1.0, 1.0, 0.0], [2.0, 1.5, 0.0]])
    desk = tf.Variable([[0.8, 0.4]])
    with tf.GradientTape() as tape:
        out = patched_output(desk, tf.ones([2]), [0, 1])
        miss = tf.reduce_sum((light_rig(rig, spots, out[0]) - 300.0) ** 2)
    print("misfit", float(miss), "slope", tape.gradient(miss, desk).numpy(), "tau", math.log(2.0))


if __name__ == "__main__":
    main()
