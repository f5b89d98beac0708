"""Herd-record models: lactation curves, bulk composition, rations and heat stress.

Everything here is fitted jointly by ``herdfit``; the hand-written gradients keep the graph small when a
season of test days (some 10^6 records) is on one tape.
"""
from typing import NamedTuple, Optional

import tensorflow as tf

DAYS_IN_MILK = 305


class WoodParameters(NamedTuple):
    """One row per parity class: log scale, rise and decline, each ``[P]``."""

    log_scale: tf.Tensor
    rise: tf.Tensor
    decline: tf.Tensor


def default_parameters(parities: int = 3, dtype=tf.float32) -> WoodParameters:
    step = tf.range(parities, dtype=dtype)
    return WoodParameters(2.6 + 0.1 * step, 0.2 + 0.01 * step, 0.003 + 0.0005 * step)


def temperature_humidity_index(celsius, humidity):
    """NRC (1971) index; humidity in [0, 1]."""
    return 1.8 * celsius + 32.0 - (0.55 - 0.55 * humidity) * (1.8 * celsius - 26.0)


@tf.custom_gradient
def wood_lactation(log_scale, rise, decline, parity, days, milking):
    """Wood (1967) curve, ``exp(log_scale) * t**rise * exp(-decline * t)``, by parity class.

    Args:
      log_scale, rise, decline: ``[P]`` parameters per parity class.
      parity: int ``[N]``, class of each cow; classes repeat, and some may have no cow.
      days: days in milk, > 0, either ``[N, D]`` or one calendar ``[D]`` that all the cows share.
      milking: bool ``[N, D]``; a dry cow gives nothing.

    Returns:
      ``[N, D]`` kg per day.
    """
    log_days = tf.math.log(days)
    b = tf.gather(rise, parity)[:, None]
    c = tf.gather(decline, parity)[:, None]
    exponent = tf.gather(log_scale, parity)[:, None] + b * log_days - c * days
    milk = tf.where(milking, tf.exp(exponent), tf.zeros_like(exponent))

    def grad(upstream):
        d_exponent = upstream * milk
        classes = tf.shape(log_scale)[0]

        def per_class(per_cow):
            return tf.math.unsorted_segment_sum(per_cow, parity, classes)

        d_scale = per_class(tf.reduce_sum(d_exponent, axis=1))
        d_rise = per_class(tf.reduce_sum(d_exponent * log_days, axis=1))
        d_decline = -per_class(tf.reduce_sum(d_exponent * days, axis=1))
        d_days = d_exponent * (b / days - c)
        if days.shape.rank == 1:
            d_days = tf.reduce_sum(d_days, axis=0)
        return d_scale, d_rise, d_decline, None, d_days, None

    return milk, grad


def predict_season(params: WoodParameters, parity, milking: Optional[tf.Tensor] = None):
    days = tf.range(1, DAYS_IN_MILK + 1, dtype=params.rise.dtype)
    if milking is None:
        milking = tf.ones([tf.shape(parity)[0], DAYS_IN_MILK], tf.bool)
    return wood_lactation(params.log_scale, params.rise, params.decline, parity, days, milking)


def bulk_tank_test(content, milk, herd, num_herds, accepted=None):
    """Composition of each herd's bulk tank.

    The tank's content is the yield-weighted mean of the cows' test-day contents; records that the
    laboratory has rejected (``accepted`` false) go to another tank.  Herds without accepted milk get zero.

    Args:
      content: ``[R, C]`` percentages (fat, protein, lactose...) of every record.
      milk: ``[R]`` kg.
      herd: int ``[R]`` in ``[0, num_herds)``, unsorted.
      num_herds: number of tanks.
      accepted: optional bool ``[R]``.

    Returns:
      ``[num_herds, C]``.
    """
    keep = tf.ones_like(milk) if accepted is None else tf.cast(accepted, milk.dtype)

    @tf.custom_gradient
    def tank(content, milk):
        weight = milk * keep
        volume = tf.math.unsorted_segment_sum(weight, herd, num_herds)
        solids = tf.math.unsorted_segment_sum(weight[:, None] * content, herd, num_herds)
        mean = tf.math.divide_no_nan(solids, volume[:, None])

        def grad(upstream):
            per_kg = tf.gather(tf.math.divide_no_nan(upstream, volume[:, None]), herd)
            d_content = per_kg * weight[:, None]
            d_milk = tf.reduce_sum(per_kg * (content - tf.gather(mean, herd)), axis=-1)
            return d_content, d_milk

        return mean, grad

    return tank(content, milk)


def ration_density(amounts, dry_matter, composition, per_kg_dm=True):
    """Nutrient density of mixed rations: ``[..., F]`` feeds, ``[F]`` dry matter, ``[F, N]`` composition of the DM."""

    @tf.custom_gradient
    def density(amounts, dry_matter, composition):
        dm = amounts * dry_matter
        total = tf.reduce_sum(dm if per_kg_dm else amounts, axis=-1, keepdims=True)
        out = tf.math.divide_no_nan(tf.linalg.matmul(dm[..., None, :], composition)[..., 0, :], total)

        def grad(g):
            g = tf.math.divide_no_nan(g, total)
            d_dm = tf.einsum("...n,fn->...f", g, composition)
            d_total = -tf.reduce_sum(g * out, axis=-1, keepdims=True)
            if per_kg_dm:
                d_dm += d_total
            d_amounts = d_dm * dry_matter
            if not per_kg_dm:
                d_amounts += d_total
            feeds, nutrients = composition.shape
            flat = lambda x, n: tf.reshape(x, [-1, n])
            d_dry = tf.reduce_sum(flat(d_dm * amounts, feeds), axis=0)
            d_comp = tf.linalg.matmul(flat(dm, feeds), flat(g, nutrients), transpose_a=True)
            return d_amounts, d_dry, d_comp

        return out, grad

    return density(amounts, dry_matter, composition)


@tf.custom_gradient
def heat_load_units(thi, threshold, retention, initial):
    # load[t] = max(0, retention * load[t-1] + thi[t] - threshold); thi [B, T], threshold and initial [B], retention scalar
    steps = thi.shape[1]
    load, track = initial, []
    for t in range(steps):
        load = tf.nn.relu(retention * load + thi[:, t] - threshold)
        track.append(load)
    loads = tf.stack(track, axis=1)

    def grad(upstream):
        before = tf.pad(loads[:, :-1], [[0, 0], [1, 0]])
        carry = tf.zeros_like(initial)
        d_drive = []
        for t in reversed(range(steps)):
            d_load = upstream[:, t] + carry
            d_pre = tf.where(loads[:, t] > 0, d_load, tf.zeros_like(d_load))
            d_drive.append(d_pre)
            carry = retention * d_pre
        d_thi = tf.stack(d_drive[::-1], axis=1)
        return d_thi, -tf.reduce_sum(d_thi, axis=1), tf.reduce_sum(d_thi * before), carry

    return loads, grad
