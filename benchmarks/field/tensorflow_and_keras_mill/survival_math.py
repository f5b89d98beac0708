"""Special functions and likelihoods used by the directional and survival models."""

import math

import tensorflow as tf

__all__ = ["erfcx", "von_mises_cdf", "cox_negative_log_likelihood"]

_SQRT_PI = math.sqrt(math.pi)
_ERFCX_SPLIT = 2.0


def _reduce_like(grad, target, other):
    """Sums `grad` (of the broadcast shape) back to the shape of `target`."""
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(target), s1=tf.shape(other))
    return tf.reshape(tf.reduce_sum(grad, axis=axes), tf.shape(target))


def _erfcx_tail(x, num_terms=120):
    # t in erfcx(x) = 1 / (sqrt(pi) * (x + t)), from the bottom up.
    t = tf.zeros_like(x)
    for j in range(num_terms, 0, -1):
        t = (0.5 * j) / (x + t)
    return t


@tf.custom_gradient
def _erfcx(x):
    near = tf.minimum(x, tf.cast(_ERFCX_SPLIT, x.dtype))
    far = tf.maximum(x, tf.cast(_ERFCX_SPLIT, x.dtype))
    is_near = x < _ERFCX_SPLIT

    near_value = tf.exp(tf.square(near)) * tf.math.erfc(near)
    tail = _erfcx_tail(far)
    far_value = 1.0 / (_SQRT_PI * (far + tail))

    def grad(upstream):
        near_slope = 2.0 * near * near_value - 2.0 / _SQRT_PI
        far_slope = -(2.0 / _SQRT_PI) * tail / (far + tail)
        return upstream * tf.where(is_near, near_slope, far_slope)

    return tf.where(is_near, near_value, far_value), grad


def erfcx(x, name=None):
    """Scaled complementary error function, `exp(x**2) * erfc(x)`.

    Args:
      x: Floating point `Tensor` of any shape.
      name: Optional name of the operation.

    Returns:
      A `Tensor` like `x`.
    """
    with tf.name_scope(name or "erfcx"):
        return _erfcx(tf.convert_to_tensor(x))


def _bessel_series(x, concentration, num_terms):
    """Backward recurrence for the Fourier part of the CDF.

    Returns the sum of `I_j(k) / I_0(k) * sin(j x) / j` and its derivative with
    respect to the concentration.
    """
    ratio = tf.zeros_like(concentration)
    dratio = tf.zeros_like(concentration)
    total = tf.zeros_like(x + concentration)
    dtotal = tf.zeros_like(total)
    for j in range(num_terms, 0, -1):
        denom = 2.0 * j + concentration * ratio
        dratio = (2.0 * j - tf.square(concentration) * dratio) / tf.square(denom)
        ratio = concentration / denom
        inner = tf.sin(j * x) / j + total
        dtotal = dratio * inner + ratio * dtotal
        total = ratio * inner
    return total, dtotal


def von_mises_cdf(x, concentration, *, num_terms=128):
    """Cumulative distribution function of the von Mises distribution at mean zero.

    The function continues past `[-pi, pi]`, rising by one with every turn, and is
    accurate for concentrations up to about 200 with the default number of terms.

    Args:
      x: `Tensor` of angles.
      concentration: Non-negative `Tensor`, broadcastable with `x`.
      num_terms: Length of the series.

    Returns:
      `Tensor` of the broadcast shape.
    """

    @tf.custom_gradient
    def _cdf(x, concentration):
        series, dseries = _bessel_series(x, concentration, num_terms)
        value = 0.5 + x / (2.0 * math.pi) + series / math.pi

        def grad(upstream):
            pdf = tf.exp(concentration * (tf.cos(x) - 1.0)) / (
                2.0 * math.pi * tf.math.bessel_i0e(concentration)
            )
            return (
                _reduce_like(upstream * pdf, x, concentration),
                _reduce_like(upstream * dseries / math.pi, concentration, x),
            )

        return value, grad

    x = tf.convert_to_tensor(x)
    return _cdf(x, tf.convert_to_tensor(concentration, dtype=x.dtype))


def cox_negative_log_likelihood(log_hazard, times, events, normalize=True):
    """Negative Cox partial log-likelihood with Breslow's treatment of ties.

    Args:
      log_hazard: `[..., n]` predicted log hazards.
      times: `[..., n]` times of the event or of censoring.
      events: `[..., n]` booleans, true where the event was observed.
      normalize: Whether to divide by the number of observed events of the row.

    Returns:
      `[...]` tensor of losses.
    """
    log_hazard = tf.convert_to_tensor(log_hazard)
    times = tf.convert_to_tensor(times)
    observed = tf.cast(events, log_hazard.dtype)
    at_risk = times[..., tf.newaxis, :] >= times[..., :, tf.newaxis]
    if normalize:
        count = tf.maximum(tf.reduce_sum(observed, axis=-1), 1.0)
    else:
        count = tf.ones_like(observed[..., 0])

    @tf.custom_gradient
    def _loss(eta):
        floor = tf.constant(eta.dtype.min, eta.dtype)
        scores = tf.where(at_risk, eta[..., tf.newaxis, :], floor)
        log_risk = tf.reduce_logsumexp(scores, axis=-1)
        value = tf.reduce_sum(observed * (log_risk - eta), axis=-1) / count

        def grad(upstream):
            share = tf.exp(scores - log_risk[..., tf.newaxis])
            expected = tf.einsum("...i,...ij->...j", observed, share)
            return (upstream / count)[..., tf.newaxis] * (expected - observed)

        return value, grad

    return _loss(log_hazard)
