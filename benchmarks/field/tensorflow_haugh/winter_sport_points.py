"""Scoring formulas of the winter disciplines, differentiable for rating models."""

from dataclasses import dataclass

import tensorflow as tf

SECONDS_PER_POINT = {"individual_nh": 4.0, "individual_lh": 4.0, "team_sprint": 1.33}
TAIL_WIND_FACTOR = 1.21


def pursuit_finish(points, ski_time, heat_ids, num_heats, seconds_per_point=4.0):
    """Finish time of a pursuit race started by the gap to the heat's leader.

    Args:
      points: [n] jumping points.
      ski_time: [n] net skiing time in seconds.
      heat_ids: [n] int, the heat of each competitor.
      num_heats: number of heats, a Python int.
      seconds_per_point: scalar, the conversion of the jury.

    Returns:
      [n] seconds after the heat's first start. Leaders with equal points share
      the derivative of their heat's lead.
    """
    heat_ids = tf.convert_to_tensor(heat_ids, tf.int32)

    @tf.custom_gradient
    def finish(points, ski_time, rate):
        lead = tf.gather(tf.math.unsorted_segment_max(points, heat_ids, num_heats), heat_ids)
        gap = lead - points

        def grad(g):
            is_leader = tf.cast(tf.equal(gap, 0.0), points.dtype)
            leaders = tf.gather(
                tf.math.unsorted_segment_sum(is_leader, heat_ids, num_heats), heat_ids
            )
            chase = tf.reduce_sum(g)
            d_points = rate * (is_leader * chase / leaders - g)
            return d_points, g, tf.reduce_sum(g * gap)

        return gap * rate + ski_time, grad

    points = tf.convert_to_tensor(points)
    return finish(points, ski_time, tf.convert_to_tensor(seconds_per_point, points.dtype))


@dataclass(frozen=True)
class HillTable:
    k_point: tf.Tensor  # [hills] metres
    meter_value: tf.Tensor  # [hills] points per metre
    wind_factor: tf.Tensor  # [hills] points per m/s
    gate_factor: tf.Tensor  # [hills] points per gate

    def points(self, distance, wind, gates, hill_ids, started):
        return hill_points(
            distance,
            wind,
            gates,
            self.meter_value,
            self.wind_factor,
            self.gate_factor,
            tf.gather(self.k_point, hill_ids),
            hill_ids,
            started,
        )


@tf.custom_gradient
def hill_points(
    distance, wind, gates, meter_value, wind_factor, gate_factor, k_point, hill_ids, started
):
    """Compensated distance points; [rounds, jumpers] jumps, [rounds] hill ids and K points, [hills] tables."""
    n_hills = tf.shape(meter_value)[0]
    mv = tf.gather(meter_value, hill_ids)[:, None]
    wf = tf.gather(wind_factor, hill_ids)[:, None]
    gf = tf.gather(gate_factor, hill_ids)[:, None]
    metres = distance - k_point[:, None]
    slope = tf.where(wind < 0, tf.cast(TAIL_WIND_FACTOR, wind.dtype), tf.ones_like(wind))
    raw = 60.0 + mv * metres - wf * slope * wind + gf * gates
    counts = tf.logical_and(started, raw > 0)

    def grad(g):
        g = tf.where(counts, g, tf.zeros_like(g))

        def per_hill(values):
            return tf.math.unsorted_segment_sum(tf.reduce_sum(values, axis=1), hill_ids, n_hills)

        return (
            g * mv,
            -g * wf * slope,
            g * gf,
            per_hill(g * metres),
            -per_hill(g * slope * wind),
            per_hill(g * gates),
            -tf.reduce_sum(g * mv, axis=1),
            None,
            None,
        )

    return tf.where(counts, raw, tf.zeros_like(raw)), grad


DNF_POINTS = 999.0


@tf.custom_gradient
def race_points(times, f_factor, finished):
    inf = tf.constant(float("inf"), times.dtype)
    ranked = tf.where(finished, times, inf)
    best = tf.reduce_min(ranked, axis=-1, keepdims=True)
    behind = times / best - 1.0
    f = f_factor[..., None]
    points = tf.where(finished, f * behind, tf.cast(DNF_POINTS, times.dtype))

    def grad(g):
        gt = tf.where(finished, g * f / best, tf.zeros_like(g))
        winner = tf.one_hot(tf.argmin(ranked, axis=-1), tf.shape(times)[-1], dtype=times.dtype)
        g_best = -tf.reduce_sum(gt * times / best, axis=-1, keepdims=True)
        return gt + winner * g_best, tf.reduce_sum(g * behind, axis=-1), None

    return points, grad
