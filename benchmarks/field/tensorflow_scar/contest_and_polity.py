"""Latent-trait models of legislatures, incomes and rackets."""
import math
from typing import NamedTuple

import tensorflow as tf

GLICKO_Q = math.log(10.0) / 400.0


class RollCalls(NamedTuple):
    """One entry per cast vote."""

    member: tf.Tensor  # int [v]
    bill: tf.Tensor  # int [v]
    yea: tf.Tensor  # [v], 1 for yea and 0 for nay
    present: tf.Tensor  # bool [v], False for abstentions and pairs


def roll_call_loglik(ideal, discrimination, difficulty, calls):
    """Log-likelihood of roll calls under a k-dimensional ideal-point model.

    The log odds of a yea by member i on bill j are
    `<ideal_i, discrimination_j> - difficulty_j`.

    Args:
      ideal: `[members, k]` positions.
      discrimination: `[bills, k]`.
      difficulty: `[bills]`.
      calls: a `RollCalls`, in any order; absent votes count nothing.

    Returns:
      scalar log-likelihood, summed over the present votes.
    """
    present = tf.cast(calls.present, ideal.dtype)
    yea = tf.cast(calls.yea, ideal.dtype)

    @tf.custom_gradient
    def loglik(ideal, discrimination, difficulty):
        pos = tf.gather(ideal, calls.member)
        disc = tf.gather(discrimination, calls.bill)
        logit = tf.reduce_sum(pos * disc, -1) - tf.gather(difficulty, calls.bill)
        value = tf.reduce_sum(present * (yea * logit - tf.nn.softplus(logit)))

        def grad(dy):
            resid = dy * present * (yea - tf.sigmoid(logit))
            d_ideal = tf.tensor_scatter_nd_update(
                tf.zeros_like(ideal), calls.member[:, None], resid[:, None] * disc
            )
            bills = tf.shape(difficulty)[0]
            d_disc = tf.math.unsorted_segment_sum(resid[:, None] * pos, calls.bill, bills)
            d_diff = -tf.math.unsorted_segment_sum(resid, calls.bill, bills)
            return d_ideal, d_disc, d_diff

        return value, grad

    return loglik(ideal, discrimination, difficulty)


def atkinson_index(income, weight, aversion=0.5, axis=-1):
    """Atkinson inequality index with survey weights.

    Args:
      income: strictly positive incomes, any shape.
      weight: non-negative survey weights that broadcast to `income`; at least
        one positive weight along `axis` in every group.
      aversion: inequality aversion, a Python float >= 0. At 1 the equally
        distributed equivalent is the weighted geometric mean; values near 1
        lose no precision.
      axis: the axis of the households.

    Returns:
      the index in [0, 1), `axis` removed.
    """
    a = float(aversion)
    b = 1.0 - a

    @tf.custom_gradient
    def index(income, weight):
        w = tf.broadcast_to(weight, tf.shape(income))
        total = tf.reduce_sum(w, axis, keepdims=True)
        share = w / total
        mean = tf.reduce_sum(share * income, axis, keepdims=True)
        rel = income / mean
        log_rel = tf.math.log(rel)
        # Box-Cox power of the relative income, (rel**b - 1) / b
        power = log_rel if b == 0.0 else tf.math.expm1(b * log_rel) / b
        m = tf.reduce_sum(share * power, axis, keepdims=True)
        log_ede = m if b == 0.0 else tf.math.log1p(b * m) / b
        ede = tf.exp(log_ede)

        def grad(dy):
            dy = tf.expand_dims(dy, axis)
            slope = tf.exp(a * (log_ede - log_rel))
            d_income = dy * share * (ede - slope) / mean
            d_weight = dy * (ede * (rel - 1.0) - tf.exp(a * log_ede) * (power - m)) / total
            lead = d_weight.shape.rank - weight.shape.rank
            if lead:
                d_weight = tf.reduce_sum(d_weight, list(range(lead)))
            flat = [i for i, n in enumerate(weight.shape) if n == 1 != d_weight.shape[i]]
            if flat:
                d_weight = tf.reduce_sum(d_weight, flat, keepdims=True)
            return d_income, d_weight

        return tf.squeeze(-tf.math.expm1(log_ede), axis), grad

    return index(income, weight)


@tf.custom_gradient
def glicko_expected(rating, opponent, deviation, opponent_deviation):
    """Expected score and attenuation factor g of Glicko games, all inputs [games]."""
    var = deviation**2 + opponent_deviation**2
    coef = 3.0 * (GLICKO_Q / math.pi) ** 2
    g = tf.math.rsqrt(1.0 + coef * var)
    gap = rating - opponent
    score = tf.sigmoid(GLICKO_Q * g * gap)

    def grad(d_score, d_g):
        slope = d_score * score * (1.0 - score) * GLICKO_Q
        d_gap = slope * g
        d_var = -0.5 * coef * g**3 * slope * gap
        return d_gap, -d_gap, 2.0 * deviation * d_var, 2.0 * opponent_deviation * d_var

    return (score, g), grad


def hold_matrix(serve, receive, surface, no_ad=False):
    @tf.custom_gradient
    def _hold(serve, receive, surface):
        p = tf.sigmoid(serve[:, None] - receive[None, :] + surface)
        q = 1.0 - p
        s = p * p + q * q
        deuce = p if no_ad else p * p / s
        early = 1.0 + 4.0 * q + 10.0 * q * q
        hold = p**4 * early + 20.0 * (p * q) ** 3 * deuce

        def grad(dy):
            d_deuce = tf.ones_like(p) if no_ad else 2.0 * p * q / s**2
            dp = 4.0 * p**3 * early - p**4 * (4.0 + 20.0 * q)
            dp += 60.0 * (p * q) ** 2 * (q - p) * deuce + 20.0 * (p * q) ** 3 * d_deuce
            dz = dy * dp * p * q
            return tf.reduce_sum(dz, 1), -tf.reduce_sum(dz, 0), tf.reduce_sum(dz)

        return hold, grad

    return _hold(serve, receive, surface)
