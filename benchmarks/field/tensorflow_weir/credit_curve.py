"""Hazard curve calibration against par CDS quotes."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf


def _sum_to(g: tf.Tensor, ref: tf.Tensor) -> tf.Tensor:
    while g.shape.rank > ref.shape.rank:
        g = tf.reduce_sum(g, axis=0)
    for axis, (have, want) in enumerate(zip(g.shape, ref.shape)):
        if want == 1 and have != 1:
            g = tf.reduce_sum(g, axis=axis, keepdims=True)
    return g


def make_par_spread(payment_times: Sequence[float], accrual_on_default: bool = True):
    """Returns ``par_spread(hazard, discount, recovery)`` for a fixed schedule.

    The hazard rate is piecewise constant between payment dates, default is observed at the end
    of the period.

    Args:
        payment_times: increasing year fractions ``t_1 < ... < t_N``; the contract starts at 0.
        accrual_on_default: if True, half of the running coupon is paid for the period in which
            default happens; if False the coupon of that period is lost.

    The returned function takes

    * ``hazard``: ``(N,)`` or ``(B, N)``, hazard rate per period,
    * ``discount``: ``(N,)`` or ``(B, N)``, discount factors at the payment dates,
    * ``recovery``: scalar, or ``(B,)`` if ``hazard`` is batched,

    and returns the fair spread, ``()`` or ``(B,)``. It is differentiable in all three.
    """
    dt_np = np.diff(np.concatenate([[0.0], np.asarray(payment_times, np.float64)]))
    if np.any(dt_np <= 0):
        raise ValueError("payment_times must be increasing")

    @tf.custom_gradient
    def par_spread(hazard, discount, recovery):
        dt = tf.constant(dt_np, hazard.dtype)
        survival = tf.exp(-tf.cumsum(hazard * dt, axis=-1))
        before = tf.concat([tf.ones_like(survival[..., :1]), survival[..., :-1]], axis=-1)
        default = before - survival
        alive = survival + 0.5 * default if accrual_on_default else survival

        loss_leg = tf.reduce_sum(discount * default, axis=-1)
        annuity = tf.reduce_sum(discount * dt * alive, axis=-1)
        spread = (1.0 - recovery) * loss_leg / annuity

        def grad(g):
            g_loss = (g * (1.0 - recovery) / annuity)[..., None]
            g_annuity = (-g * spread / annuity)[..., None]

            # sensitivities of the two legs to S_1..S_N; S_k closes period k and opens k + 1
            coupon = discount * dt
            following = tf.concat([discount[..., 1:], tf.zeros_like(discount[..., :1])], axis=-1)
            coupon_following = tf.concat(
                [coupon[..., 1:], tf.zeros_like(coupon[..., :1])], axis=-1
            )
            g_survival = g_loss * (following - discount)
            g_survival += g_annuity * 0.5 * (coupon + coupon_following)

            g_cumulative = -survival * g_survival
            g_hazard = dt * tf.cumsum(g_cumulative, axis=-1, reverse=True)
            g_discount = g_loss * default + g_annuity * dt * alive
            g_recovery = -g * loss_leg / annuity
            return _sum_to(g_hazard, hazard), _sum_to(g_discount, discount), _sum_to(g_recovery, recovery)

        return spread, grad

    return par_spread


def calibrate(quotes, payment_times, discount, recovery=0.4, steps=200, lr=0.05, **kw):
    """Fit one hazard curve per issuer; ``quotes`` is ``(B, M)``: spreads at the first M maturities."""
    quotes = tf.convert_to_tensor(quotes)
    discount = tf.cast(discount, quotes.dtype)
    rules = [make_par_spread(payment_times[: m + 1], **kw) for m in range(quotes.shape[1])]
    log_h = tf.Variable(tf.math.log(quotes / (1.0 - recovery)))
    opt = tf.keras.optimizers.Adam(lr)
    rec = tf.constant(recovery, quotes.dtype)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            h = tf.exp(log_h)
            fit = [rule(h[:, : m + 1], discount[: m + 1], rec) for m, rule in enumerate(rules)]
            err = tf.reduce_mean(tf.square(tf.stack(fit, axis=-1) / quotes - 1.0))
        opt.apply_gradients([(tape.gradient(err, log_h), log_h)])
    return tf.exp(log_h)
