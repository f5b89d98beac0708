"""Differentiable pieces of a daily-to-hourly rainfall generator.

The generator is fitted end to end: daily totals are split by a random cascade, summarised per wet spell,
compared with intensity-duration curves of the gauges, and turned into an antecedent wetness index that
drives the loss model. Gradients are written out by hand because the records are long and the graphs are not
small otherwise.
"""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class CurveSettings:
    """Settings of the intensity-duration curve.

    min_duration: durations (hours) shorter than the tipping interval are read as the tipping interval.
    log_space: return log-intensity rather than intensity.
    """

    min_duration: float = 0.1
    log_space: bool = False


def _sum_to(x, shape):
    """Reduce ``x`` to the static ``shape`` it was broadcast from."""
    extra = x.shape.rank - shape.rank
    if extra:
        x = tf.reduce_sum(x, axis=list(range(extra)))
    kept = [i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1]
    if kept:
        x = tf.reduce_sum(x, axis=kept, keepdims=True)
    return x


@tf.custom_gradient
def cascade_split(parent, logits, tau, wet):
    """Split parent depths over the children of one cascade level.

    Args:
      parent: depths of the parent cells, ``[batch, cells]``.
      logits: preferences of the children, ``[batch, cells, branch]``.
      tau: temperature, any shape that broadcasts against ``logits``.
      wet: bool, which children may receive rain. A cell without any loses its water.

    Returns:
      Child depths, shaped like ``logits``.
    """
    scores = logits / tau
    floor = tf.fill(tf.shape(scores), scores.dtype.min)
    top = tf.reduce_max(tf.where(wet, scores, floor), axis=-1, keepdims=True)
    shifted = tf.where(wet, scores - top, tf.zeros_like(scores))
    weight = tf.where(wet, tf.exp(shifted), tf.zeros_like(scores))
    share = tf.math.divide_no_nan(weight, tf.reduce_sum(weight, axis=-1, keepdims=True))
    depth = parent[..., None]

    def grad(upstream):
        d_parent = tf.reduce_sum(upstream * share, axis=-1)
        centred = upstream - d_parent[..., None]
        d_scores = depth * share * centred
        d_tau = _sum_to(-d_scores * scores / tau, tau.shape)
        return d_parent, d_scores / tau, d_tau, None

    return depth * share, grad


def make_sherman_intensity(settings: CurveSettings = CurveSettings()):
    """Sherman's curve i = a / (d + b)^c with gauge-wise coefficients.

    Returns a function of ``(duration, a, b, c)``. ``duration`` is ``[durations]`` or ``[gauges, durations]``,
    the coefficients are ``[gauges, 1]``.
    """

    @tf.custom_gradient
    def intensity(duration, a, b, c):
        effective = tf.maximum(duration, settings.min_duration)
        log_i = tf.math.log(a) - c * tf.math.log(effective + b)
        out = log_i if settings.log_space else tf.exp(log_i)

        def grad(upstream):
            seed = upstream if settings.log_space else upstream * out
            reach = duration + b
            slope = -seed * c / reach
            moving = tf.cast(duration > settings.min_duration, seed.dtype)
            return (
                _sum_to(slope * moving, duration.shape),
                _sum_to(seed / a, a.shape),
                _sum_to(slope, b.shape),
                _sum_to(-seed * tf.math.log(reach), c.shape),
            )

        return out, grad

    return intensity


def make_spell_depth(num_spells, power=1.0):
    """Power-mean depth of every wet spell.

    Parameters
    ----------
    num_spells : int
        Number of spells; a spell without steps gets zero.
    power : float
        Exponent of the mean, at least one. One is the mean depth, large values approach the peak.

    Returns
    -------
    callable
        ``spell_depth(rain, spell)`` with positive ``rain`` of shape ``[steps, gauges]`` and ``spell`` an
        integer label per step; negative labels are dry steps and take no part.
    """

    @tf.custom_gradient
    def spell_depth(rain, spell):
        steps = tf.math.unsorted_segment_sum(tf.ones_like(rain[:, 0]), spell, num_spells)[:, None]
        peak = tf.maximum(tf.math.unsorted_segment_max(rain, spell, num_spells), 0.0)
        safe = tf.maximum(spell, 0)
        ratio = tf.math.divide_no_nan(rain, tf.gather(peak, safe))
        ratio = tf.where((spell >= 0)[:, None], ratio, tf.zeros_like(ratio))
        total = tf.math.unsorted_segment_sum(ratio**power, spell, num_spells)
        mean = peak * tf.math.divide_no_nan(total, steps) ** (1.0 / power)

        def grad(upstream):
            per_step = tf.gather(tf.math.divide_no_nan(upstream, steps), safe)
            if power != 1.0:
                per_step *= tf.math.divide_no_nan(rain, tf.gather(mean, safe)) ** (power - 1.0)
            inside = (spell >= 0)[:, None]
            return tf.where(inside, per_step, tf.zeros_like(per_step)), None

        return mean, grad

    return spell_depth


@tf.custom_gradient
def antecedent_index(rain, recession, start, observed):
    """Antecedent precipitation index; gauge outages hold the last value.

    :param rain: ``[days, gauges]`` depths
    :param recession: ``[gauges]`` daily recession factor
    :param start: ``[gauges]`` index before the first day
    :param observed: ``[days, gauges]`` bool, false where the gauge was out
    :returns: ``[days, gauges]`` index at the end of each day
    """

    def day(index, today):
        depth, seen = today
        return tf.where(seen, recession * index + depth, index)

    series = tf.scan(day, (rain, observed), initializer=start)

    def grad(upstream):
        carry = tf.where(observed, recession[None, :], tf.ones_like(rain))

        def back(adjoint, item):
            seed, keep = item
            return seed + keep * adjoint

        adjoint = tf.scan(back, (upstream, carry), initializer=tf.zeros_like(start), reverse=True)
        before = tf.concat([start[None, :], series[:-1]], axis=0)
        used = tf.where(observed, adjoint, tf.zeros_like(adjoint))
        d_recession = tf.reduce_sum(used * before, axis=0)
        return used, d_recession, carry[0] * adjoint[0], None

    return series, grad


class WetnessLayer(tf.keras.layers.Layer):
    """Antecedent index with a learned recession per gauge."""

    def __init__(self, gauges, **kwargs):
        super().__init__(**kwargs)
        self.logit = self.add_weight(name="logit", shape=(gauges,), initializer="ones")
        self.start = self.add_weight(name="start", shape=(gauges,), initializer="zeros")

    def call(self, rain, observed):
        recession = tf.sigmoid(tf.convert_to_tensor(self.logit))
        return antecedent_index(rain, recession, tf.convert_to_tensor(self.start), observed)
