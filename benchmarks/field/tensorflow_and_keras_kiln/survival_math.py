"""Special functions and inverse-CDF samplers used by the survival models."""

import tensorflow as tf

__all__ = [
    "fresnel_integrals",
    "binomial_survival",
    "gompertz_from_uniform",
    "frechet_from_uniform",
]


def _reduce_like(grad, reference):
  """Sums `grad` over the axes along which `reference` was broadcast."""
  reference_shape = tf.shape(reference)
  axes, _ = tf.raw_ops.BroadcastGradientArgs(
      s0=reference_shape, s1=tf.shape(grad))
  return tf.reshape(tf.reduce_sum(grad, axis=axes), reference_shape)


@tf.custom_gradient
def fresnel_integrals(x):
  """Both Fresnel integrals of a real argument.

  Args:
    x: A floating-point `Tensor` of any shape.

  Returns:
    sine: `int_0^x sin(pi t**2 / 2) dt`, same shape as `x`.
    cosine: `int_0^x cos(pi t**2 / 2) dt`, same shape as `x`.
  """
  sine = tf.math.special.fresnel_sin(x)
  cosine = tf.math.special.fresnel_cos(x)

  def grad(d_sine, d_cosine):
    phase = 0.5 * 3.141592653589793 * tf.square(x)
    return d_sine * tf.sin(phase) + d_cosine * tf.cos(phase)

  return (sine, cosine), grad


def _log_beta(a, b):
  return tf.math.lgamma(a) + tf.math.lgamma(b) - tf.math.lgamma(a + b)


@tf.custom_gradient
def binomial_survival(probs, threshold, total_count):
  """`P(X >= threshold)` for `X ~ Binomial(total_count, probs)`.

  Args:
    probs: Floating-point `Tensor` with values in `(0, 1)`.
    threshold: Integer `Tensor`, broadcastable with the other arguments. Values
      at or below zero give 1 and values above `total_count` give 0.
    total_count: Integer `Tensor`, at least 1.

  Returns:
    A `Tensor` of the broadcast shape. It is differentiable in `probs` only.
  """
  k = tf.cast(threshold, probs.dtype)
  n = tf.cast(total_count, probs.dtype)
  interior = (k >= 1.) & (k <= n)
  k_safe = tf.where(interior, k, tf.ones_like(k))
  n_safe = tf.where(interior, n, tf.ones_like(n))
  shape = tf.broadcast_dynamic_shape(tf.shape(interior), tf.shape(probs))
  a = tf.broadcast_to(k_safe, shape)
  b = tf.broadcast_to(n_safe - k_safe + 1., shape)
  p = tf.broadcast_to(probs, shape)
  edge = tf.cast(k < 1., probs.dtype)
  value = tf.where(interior, tf.math.betainc(a, b, p), edge)

  def grad(dy):
    log_density = (
        tf.math.xlogy(a - 1., p) + tf.math.xlog1py(b - 1., -p)
        - _log_beta(a, b))
    density = tf.where(interior, tf.exp(log_density), tf.zeros_like(p))
    return _reduce_like(dy * density, probs), None, None

  return value, grad


@tf.custom_gradient
def gompertz_from_uniform(u, concentration, rate):
  """Maps uniform noise to Gompertz samples by inverting the CDF.

  The CDF is `1 - exp(-concentration * (exp(rate * x) - 1))`. All arguments
  broadcast against each other; `u` lies in `[0, 1)`, the others are positive.
  """
  exponential = -tf.math.log1p(-u)
  sample = tf.math.log1p(exponential / concentration) / rate

  def grad(dy):
    denominator = concentration + exponential
    d_u = dy / ((1. - u) * denominator * rate)
    d_concentration = -dy * exponential / (concentration * denominator * rate)
    d_rate = -dy * sample / rate
    return (
        _reduce_like(d_u, u),
        _reduce_like(d_concentration, concentration),
        _reduce_like(d_rate, rate),
    )

  return sample, grad


def frechet_from_uniform(u, concentration, scale=1.0, loc=0.0):
  """Maps uniform noise to Frechet samples.

  Args:
    u: `Tensor` of values in `(0, 1)`.
    concentration: Positive tail index, broadcastable with `u`.
    scale: Positive scale, broadcastable with `u`.
    loc: Location of the lower end point, broadcastable with `u`.

  Returns:
    `loc + scale * (-log u) ** (-1 / concentration)`, differentiable in every
    argument.
  """
  u = tf.convert_to_tensor(u)
  concentration = tf.convert_to_tensor(concentration, dtype=u.dtype)
  scale = tf.convert_to_tensor(scale, dtype=u.dtype)
  loc = tf.convert_to_tensor(loc, dtype=u.dtype)
  return _frechet(u, concentration, scale, loc)


@tf.custom_gradient
def _frechet(u, concentration, scale, loc):
  log_e = tf.math.log(-tf.math.log(u))
  standard = tf.exp(-log_e / concentration)
  sample = loc + scale * standard

  def grad(dy):
    scaled = dy * scale * standard
    d_u = -scaled / (concentration * u * tf.math.log(u))
    d_concentration = scaled * log_e / tf.square(concentration)
    d_scale = dy * sample / scale
    return (
        _reduce_like(d_u, u),
        _reduce_like(d_concentration, concentration),
        _reduce_like(d_scale, scale),
        _reduce_like(dy, loc),
    )

  return sample, grad
