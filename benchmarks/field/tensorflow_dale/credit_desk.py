"""Structural credit model and return statistics used by the risk notebooks."""
import math

import tensorflow as tf


def _cdf(x):
    return 0.5 * tf.math.erfc(-x / math.sqrt(2.0))


def _pdf(x):
    return tf.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def _fold(g, ref):
    lead = g.shape.rank - ref.shape.rank
    g = tf.reduce_sum(g, axis=list(range(lead))) if lead else g
    ones = [k for k, n in enumerate(ref.shape) if n == 1]
    return tf.reduce_sum(g, axis=ones, keepdims=True) if ones else g


@tf.custom_gradient
def barrier_survival(distance, drift, vol, horizon):
    """Probability that a drifted Brownian motion stays above the default barrier.

    The log asset value starts ``distance`` above the barrier and follows
    ``distance + drift * t + vol * W_t``. The probability of no hit before ``horizon`` is

        N(d1) - exp(-2 * drift * distance / vol**2) * N(d2),
        d1, d2 = (+-distance + drift * horizon) / (vol * sqrt(horizon)).

    The two density terms are equal up to the exponential, so that they merge in the backward
    pass; this avoids the cancellation that autodiff shows far from the barrier.

    Args:
        distance: log distance to the barrier, positive.
        drift: drift of the log asset value, any sign.
        vol: volatility, positive.
        horizon: time to maturity in years, positive.

    All four broadcast against each other (for example ``(firms, 1)`` and ``(tenors,)``).

    Returns:
        Survival probabilities of the broadcast shape.
    """
    distance, drift, vol, horizon = (tf.convert_to_tensor(a) for a in (distance, drift, vol, horizon))
    root = vol * tf.sqrt(horizon)
    d1 = (distance + drift * horizon) / root
    d2 = (drift * horizon - distance) / root
    image = tf.exp(-2.0 * drift * distance / vol**2) * _cdf(d2)
    prob = _cdf(d1) - image

    def grad(dy):
        dens = _pdf(d1)
        by_distance = 2.0 * dens / root + 2.0 * drift / vol**2 * image
        by_drift = 2.0 * distance / vol**2 * image
        by_vol = -2.0 * distance * dens / (vol * root) - 4.0 * drift * distance / vol**3 * image
        by_horizon = -distance * dens / (root * horizon)
        return (
            _fold(dy * by_distance, distance),
            _fold(dy * by_drift, drift),
            _fold(dy * by_vol, vol),
            _fold(dy * by_horizon, horizon),
        )

    return prob, grad


@tf.custom_gradient
def shape_moments(x, *, axis=-1):
    """Population skewness and excess kurtosis along `axis`."""
    n = tf.cast(tf.shape(x)[axis], x.dtype)
    mean = tf.reduce_mean(x, axis=axis, keepdims=True)
    std = tf.math.reduce_std(x, axis=axis, keepdims=True)
    z = (x - mean) / std
    skew = tf.reduce_mean(z**3, axis=axis)
    kurt = tf.reduce_mean(z**4, axis=axis) - 3.0

    def grad(d_skew, d_kurt):
        s, k = tf.expand_dims(skew, axis), tf.expand_dims(kurt, axis)
        gs, gk = tf.expand_dims(d_skew, axis), tf.expand_dims(d_kurt, axis)
        return (3.0 * gs * (z**2 - 1.0 - s * z) + 4.0 * gk * (z**3 - s - k * z)) / (n * std)

    return (skew, kurt), grad


def fit_structural(distance, spreads_prob, tenors, steps=200, lr=0.05):
    """Fit (drift, vol) per firm to observed survival probabilities (firms, tenors)."""
    drift = tf.Variable(tf.zeros_like(distance))
    log_vol = tf.Variable(tf.fill(tf.shape(distance), tf.cast(-1.5, distance.dtype)))
    for _ in range(steps):
        with tf.GradientTape() as tape:
            p = barrier_survival(
                distance[:, None], drift[:, None], tf.exp(log_vol)[:, None], tenors
            )
            loss = tf.reduce_mean(tf.square(p - spreads_prob))
        for v, g in zip((drift, log_vol), tape.gradient(loss, (drift, log_vol))):
            v.assign_sub(lr * g)
    return drift, tf.exp(log_vol), loss
