"""Numerics of the forecasting models: scores, likelihoods, smoothers."""

from __future__ import annotations

import math

import tensorflow as tf

_SERIES_TERMS = 60


def _sum_to(value: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Sums `value` over the axes along which `like` was broadcast."""
    extra = value.shape.rank - like.shape.rank
    if extra:
        value = tf.reduce_sum(value, axis=list(range(extra)))
    ones = [i for i, (n, m) in enumerate(zip(like.shape, value.shape)) if n == 1 and m != 1]
    if ones:
        value = tf.reduce_sum(value, axis=ones, keepdims=True)
    return value


@tf.custom_gradient
def scaled_bessel_i1(x):
    """Exponentially scaled modified Bessel function, ``exp(-|x|) * I_1(x)``."""
    i1e = tf.math.bessel_i1e(x)

    def grad(dy):
        zero = tf.equal(x, 0.0)
        safe = tf.where(zero, tf.ones_like(x), x)
        slope = tf.math.bessel_i0e(x) - i1e / safe
        return dy * tf.where(zero, 0.5 * tf.ones_like(x), slope)

    return i1e, grad


def _lower_gamma_series(a, x):
    """Sum of ``x^k / ((a+1)...(a+k))`` and its derivative in ``a``."""
    term = tf.ones_like(a * x)
    dterm = tf.zeros_like(term)
    total, dtotal = term, dterm
    for k in range(1, _SERIES_TERMS):
        ratio = x / (a + k)
        dterm = dterm * ratio - term * ratio / (a + k)
        term = term * ratio
        total = total + term
        dtotal = dtotal + dterm
    return total, dtotal


@tf.custom_gradient
def log_lower_gamma(a: tf.Tensor, x: tf.Tensor):
    """Log of the regularised lower incomplete gamma function.

    Parameters
    ----------
    a : tf.Tensor
        Shape parameter, positive.
    x : tf.Tensor
        Argument, positive. Broadcasts against `a`.

    Returns
    -------
    tf.Tensor
        ``log P(a, x)``, accurate also where ``P`` underflows.
    """
    a = tf.convert_to_tensor(a)
    x = tf.convert_to_tensor(x)
    small = x <= 0.5 * (a + 1.0)
    x_small = tf.where(small, x + tf.zeros_like(a), 0.5 * (a + 1.0) + tf.zeros_like(x))
    x_large = tf.where(small, 0.5 * (a + 1.0) + tf.zeros_like(x), x + tf.zeros_like(a))
    series, dseries = _lower_gamma_series(a, x_small)
    log_series = (a * tf.math.log(x_small) - x_small - tf.math.lgamma(a + 1.0)
                  + tf.math.log(series))
    p_large = tf.math.igamma(a + tf.zeros_like(x), x_large)
    value = tf.where(small, log_series, tf.math.log(p_large))

    def grad(dy):
        dx = tf.exp((a - 1.0) * tf.math.log(x) - x - tf.math.lgamma(a) - value)
        da_small = (tf.math.log(x_small) - tf.math.digamma(a + 1.0) + dseries / series)
        da_large = tf.raw_ops.IgammaGradA(a=a + tf.zeros_like(x), x=x_large) / p_large
        da = tf.where(small, da_small, da_large)
        return _sum_to(dy * da, a), _sum_to(dy * dx, x)

    return value, grad


@tf.custom_gradient
def gp_log_marginal(kernel, noise, targets):
    """Log marginal likelihood of independent Gaussian processes.

    Args:
        kernel: Covariance of the latent function, ``[..., n, n]``. Only its
            symmetric part counts.
        noise: Scalar observation variance.
        targets: Observations ``[..., n, m]``, the ``m`` columns being
            independent outputs that share the kernel.

    Returns:
        Tensor ``[...]``, the log density of all outputs together.
    """
    n = targets.shape[-2]
    outputs = targets.shape[-1]
    eye = tf.eye(n, dtype=kernel.dtype)
    covariance = 0.5 * (kernel + tf.linalg.matrix_transpose(kernel)) + noise * eye
    chol = tf.linalg.cholesky(covariance)
    alpha = tf.linalg.cholesky_solve(chol, targets)
    fit = tf.reduce_sum(targets * alpha, axis=[-2, -1])
    half_logdet = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(chol)), axis=-1)
    value = -0.5 * fit - outputs * (half_logdet + 0.5 * n * math.log(2.0 * math.pi))

    def grad(upstream):
        upstream = upstream[..., None, None]
        inverse = tf.linalg.cholesky_solve(chol, tf.broadcast_to(eye, tf.shape(chol)))
        outer = tf.matmul(alpha, alpha, transpose_b=True)
        d_cov = 0.5 * upstream * (outer - inverse)
        d_noise = tf.reduce_sum(tf.linalg.trace(d_cov))
        return d_cov, d_noise, -upstream * alpha

    return value, grad


def _difference_penalty(n, order, dtype):
    diff = tf.eye(n, dtype=dtype)
    for _ in range(order):
        diff = diff[1:] - diff[:-1]
    return tf.matmul(diff, diff, transpose_a=True)


def whittaker_smooth(series, weights, strength, *, order: int = 2):
    """Whittaker-Henderson smoothing.

    Minimises ``sum(w * (y - z) ** 2) + strength * sum(diff(z, order) ** 2)``.

    :param series: observations ``y``, shape ``[..., n]``
    :param weights: positive weights ``w``, same shape
    :param strength: scalar, non-negative
    :param order: order of the differences
    :returns: the smooth ``z``, shape ``[..., n]``
    """

    @tf.custom_gradient
    def solve(y, w, lam):
        penalty = _difference_penalty(y.shape[-1], order, y.dtype)
        chol = tf.linalg.cholesky(tf.linalg.diag(w) + lam * penalty)
        z = tf.linalg.cholesky_solve(chol, (w * y)[..., None])[..., 0]

        def grad(dz):
            v = tf.linalg.cholesky_solve(chol, dz[..., None])[..., 0]
            rough = tf.linalg.matvec(penalty, z)
            return w * v, v * (y - z), -tf.reduce_sum(v * rough)

        return z, grad

    y = tf.convert_to_tensor(series)
    return solve(y, tf.convert_to_tensor(weights, y.dtype), tf.convert_to_tensor(strength, y.dtype))


def crps_ensemble(forecast, observed, fair=False):
    """Continuous ranked probability score of an ensemble.

    Args:
        forecast: ``[..., members]``.
        observed: ``[...]``.
        fair: Use the estimator that is unbiased in the number of members.
    """

    @tf.custom_gradient
    def score(forecast, observed):
        members = forecast.shape[-1]
        pairs = members * (members - 1) if fair else members * members
        error = forecast - observed[..., None]
        spread = tf.abs(forecast[..., :, None] - forecast[..., None, :])
        value = (tf.reduce_mean(tf.abs(error), axis=-1)
                 - tf.reduce_sum(spread, axis=[-2, -1]) / (2.0 * pairs))

        def grad(upstream):
            order = tf.argsort(forecast, axis=-1)
            rank = tf.cast(tf.argsort(order, axis=-1), forecast.dtype)
            sign = tf.sign(error)
            balance = (2.0 * rank + 1.0 - members) / members**2
            d_forecast = upstream[..., None] * (sign / members - balance)
            d_observed = -upstream * tf.reduce_mean(sign, axis=-1)
            return d_forecast, d_observed

        return value, grad

    return score(tf.convert_to_tensor(forecast), tf.convert_to_tensor(observed))
