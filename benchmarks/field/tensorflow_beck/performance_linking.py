"""Concentration and multi-period attribution numbers for the reporting desk."""

import dataclasses

import tensorflow as tf

_TERMS = 14


@dataclasses.dataclass(frozen=True)
class Book:
    weights: tf.Tensor  # [accounts, names], negative for shorts
    sector: tf.Tensor  # [names]
    num_sectors: int

    def concentration(self):
        return effective_sectors(self.weights, self.sector, self.num_sectors)


def effective_sectors(weights, sector, num_sectors):
    @tf.custom_gradient
    def inverse_herfindahl(weights):
        gross = tf.abs(weights)
        exposure = tf.transpose(
            tf.math.unsorted_segment_sum(tf.transpose(gross), sector, num_sectors)
        )
        total = tf.reduce_sum(exposure, axis=-1, keepdims=True)
        squares = tf.reduce_sum(tf.square(exposure), axis=-1, keepdims=True)
        bets = tf.square(total) / squares

        def grad(upstream):
            d_exposure = 2.0 * bets * (1.0 / total - exposure / squares)
            return upstream[:, None] * tf.gather(d_exposure, sector, axis=-1)

        return tf.squeeze(bets, -1), grad

    return inverse_herfindahl(weights)


def _log_ratio(x):
    """log1p(x) / x and its derivative, also at and about x = 0."""
    small = tf.abs(x) < 0.05
    safe = tf.where(small, tf.ones_like(x), x)
    value = tf.math.log1p(safe) / safe
    slope = (1.0 / (1.0 + safe) - value) / safe
    near = tf.where(small, x, tf.zeros_like(x))
    series, dseries = tf.zeros_like(x), tf.zeros_like(x)
    for n in reversed(range(_TERMS)):
        dseries = dseries * near + series
        series = series * near + (-1.0) ** n / (n + 1.0)
    return tf.where(small, series, value), tf.where(small, dseries, slope)


def _link(portfolio, benchmark):
    """Carino factor of two simple returns, with its partials."""
    base, other = 1.0 + benchmark, 1.0 + portfolio
    value, slope = _log_ratio((portfolio - benchmark) / base)
    _, mirrored = _log_ratio((benchmark - portfolio) / other)
    return value / base, slope / tf.square(base), mirrored / tf.square(other)


@tf.custom_gradient
def carino_linked(effects, portfolio, benchmark):
    """Effects [..., T, K] linked over periods with returns [..., T] > -1; gives [..., K]."""
    growth_p = tf.reduce_prod(1.0 + portfolio, axis=-1, keepdims=True)
    growth_b = tf.reduce_prod(1.0 + benchmark, axis=-1, keepdims=True)
    period, period_dp, period_db = _link(portfolio, benchmark)
    whole, whole_dp, whole_db = _link(growth_p - 1.0, growth_b - 1.0)
    share = period / whole
    linked = tf.reduce_sum(effects * share[..., None], axis=-2)

    def grad(upstream):
        d_effects = share[..., None] * upstream[..., None, :]
        d_share = tf.reduce_sum(effects * upstream[..., None, :], axis=-1)
        d_period = d_share / whole
        d_whole = -tf.reduce_sum(d_share * share, axis=-1, keepdims=True) / whole
        d_portfolio = d_period * period_dp + d_whole * whole_dp * growth_p / (1.0 + portfolio)
        d_benchmark = d_period * period_db + d_whole * whole_db * growth_b / (1.0 + benchmark)
        return d_effects, d_portfolio, d_benchmark

    return linked, grad
