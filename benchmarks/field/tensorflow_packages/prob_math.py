"""Special functions and quantile transforms used by the distributions."""

import math

import numpy as np
import tensorflow as tf

__all__ = [
    "log_diff_ndtr",
    "owens_t",
    "mean_resultant_length",
    "log_multigamma",
    "gamma_icdf",
    "TruncatedNormal",
]

_SQRT2 = math.sqrt(2.0)
_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_GL_NODES, _GL_WEIGHTS = np.polynomial.legendre.leggauss(32)


def _reduce_to_shape(grad, like):
  """Sums `grad` over the axes along which `like` was broadcast."""
  lead = grad.shape.rank - like.shape.rank
  axes = list(range(lead))
  for i, size in enumerate(like.shape):
    if size == 1:
      axes.append(lead + i)
  if axes:
    grad = tf.reduce_sum(grad, axis=axes)
  return tf.reshape(grad, tf.shape(like))


def _log_pdf(z):
  return -0.5 * tf.square(z) - _LOG_SQRT_2PI


def _pdf(z):
  return tf.exp(_log_pdf(z))


def _ndtr(z):
  return 0.5 * tf.math.erfc(-z / _SQRT2)


def _log_ndtr(z):
  cutoff = tf.constant(-20.0 if z.dtype == tf.float64 else -10.0, z.dtype)
  is_tail = z < cutoff
  body = tf.math.log(_ndtr(tf.where(is_tail, cutoff, z)))
  t = tf.where(is_tail, z, cutoff)
  inv2 = 1.0 / tf.square(t)
  term = tf.ones_like(t)
  series = tf.ones_like(t)
  for k in range(1, 10):
    term = -term * (2 * k - 1) * inv2
    series += term
  tail = _log_pdf(t) - tf.math.log(-t) + tf.math.log(series)
  return tf.where(is_tail, tail, body)


@tf.custom_gradient
def _log_diff_ndtr(lower, upper):
  flip = lower > 0.0
  lo = tf.where(flip, -upper, lower)
  hi = tf.where(flip, -lower, upper)
  log_hi = _log_ndtr(hi)
  gap = log_hi - _log_ndtr(lo)
  log1mexp = tf.where(gap < math.log(2.0),
                      tf.math.log(-tf.math.expm1(-gap)),
                      tf.math.log1p(-tf.exp(-gap)))
  value = log_hi + log1mexp

  def grad(dy):
    d_lower = -dy * tf.exp(_log_pdf(lower) - value)
    d_upper = dy * tf.exp(_log_pdf(upper) - value)
    return _reduce_to_shape(d_lower, lower), _reduce_to_shape(d_upper, upper)

  return value, grad


def log_diff_ndtr(lower, upper, name=None):
  """Computes `log(Phi(upper) - Phi(lower))` without leaving log space.

  Args:
    lower: Floating `Tensor`; may be `-inf`.
    upper: Floating `Tensor` of the same dtype which broadcasts against `lower`;
      `upper > lower` elementwise. May be `inf`.
    name: Optional name scope.

  Returns:
    `Tensor` of the broadcast shape.
  """
  with tf.name_scope(name or "log_diff_ndtr"):
    lower = tf.convert_to_tensor(lower)
    upper = tf.convert_to_tensor(upper, dtype=lower.dtype)
    return _log_diff_ndtr(lower, upper)


def _owens_t_unit(h, a):
  """Quadrature of the defining integral for `0 <= a <= 1`."""
  nodes = tf.constant(0.5 * (_GL_NODES + 1.0), h.dtype)
  weights = tf.constant(0.5 * _GL_WEIGHTS, h.dtype)
  x2 = 1.0 + tf.square(a[..., tf.newaxis] * nodes)
  f = tf.exp(-0.5 * tf.square(h)[..., tf.newaxis] * x2) / x2
  return a * tf.reduce_sum(weights * f, axis=-1) / (2.0 * math.pi)


@tf.custom_gradient
def owens_t(h, a):
  """Owen's T function `T(h, a)` for real `h` and `a` of one shape.

  T(h, a) = 1 / (2 pi) * int_0^a exp(-h**2 (1 + x**2) / 2) / (1 + x**2) dx
  """
  h = tf.convert_to_tensor(h)
  a = tf.convert_to_tensor(a, dtype=h.dtype)
  abs_h, abs_a = tf.abs(h), tf.abs(a)
  big = abs_a > 1.0
  inv_a = 1.0 / tf.where(big, abs_a, tf.ones_like(a))
  direct = _owens_t_unit(abs_h, tf.where(big, inv_a, abs_a))
  ah = abs_a * abs_h
  phi_h, phi_ah = _ndtr(abs_h), _ndtr(ah)
  reflected = (0.5 * (phi_h + phi_ah) - phi_h * phi_ah
               - _owens_t_unit(tf.where(big, ah, abs_h), inv_a))
  value = tf.sign(a) * tf.where(big, reflected, direct)

  def grad(dy):
    dh = (-tf.exp(-0.5 * tf.square(abs_h)) * tf.math.erf(abs_a * abs_h / _SQRT2)
          / (2.0 * math.sqrt(2.0 * math.pi)))
    a2 = 1.0 + tf.square(a)
    da = tf.exp(-0.5 * tf.square(h) * a2) / (2.0 * math.pi * a2)
    return dy * tf.sign(a) * dh, dy * da

  return value, grad


@tf.custom_gradient
def mean_resultant_length(kappa):
  kappa = tf.convert_to_tensor(kappa)
  scaled = tf.math.bessel_i1e(kappa) / tf.math.bessel_i0e(kappa)

  def grad(dy):
    k = tf.abs(kappa)
    cutoff = 100.0 if kappa.dtype == tf.float64 else 12.0
    large = k > cutoff
    zero = tf.equal(k, 0.0)
    k_mid = tf.where(zero | large, tf.ones_like(k), k)
    r = tf.abs(scaled)
    mid = 1.0 - tf.where(zero, 0.5 * tf.ones_like(r), r / k_mid) - tf.square(r)
    v = 1.0 / tf.where(large, k, cutoff * tf.ones_like(k))
    coeffs = (3219.0 / 512, 65.0 / 32, 25.0 / 32, 3.0 / 8, 1.0 / 4, 1.0 / 2)
    tail = tf.zeros_like(v)
    for c in coeffs:
      tail = tail * v + c
    tail = tail * tf.square(v)
    return dy * tf.where(large, tail, mid)

  return scaled, grad


def log_multigamma(a, p: int = 1):
  """Logarithm of the multivariate gamma function.

  Args:
    a: Floating `Tensor`, larger than `(p - 1) / 2`.
    p: Python `int`, the dimension.

  Returns:
    `Tensor` shaped like `a`.
  """
  if p < 1:
    raise ValueError(f"`p` must be at least 1, got {p}.")

  @tf.custom_gradient
  def _log_multigamma(a):
    value = tf.fill(tf.shape(a), tf.constant(
        p * (p - 1) / 4.0 * math.log(math.pi), a.dtype))
    for j in range(1, p + 1):
      value += tf.math.lgamma(a + (1 - j) / 2)

    def grad(dy):
      total = tf.zeros_like(a)
      for j in range(1, p + 1):
        total += tf.math.digamma(a + (1 - j) // 2)
      return dy * total

    return value, grad

  return _log_multigamma(tf.convert_to_tensor(a))


def _solve_gamma_quantile(a, p, num_steps=70):
  """Safeguarded Newton iteration on `log x` for `P(a, x) = p`."""
  lgam = tf.math.lgamma(a)
  lo = (tf.math.log(p) + tf.math.lgamma(a + 1.0)) / a
  hi = tf.math.log(a + tf.sqrt(80.0 * a) + 45.0)
  lo = tf.minimum(lo, hi)
  t = lo
  for _ in range(num_steps):
    x = tf.exp(t)
    residual = tf.math.igamma(a, x) - p
    lo = tf.where(residual < 0.0, t, lo)
    hi = tf.where(residual > 0.0, t, hi)
    slope = tf.exp(a * t - x - lgam)
    step = t - residual / slope
    inside = (step >= lo) & (step <= hi)
    t = tf.where(inside, step, 0.5 * (lo + hi))
  return tf.exp(t)


def gamma_icdf(concentration, rate, p):
  """Quantile of the gamma distribution, differentiable in every argument.

  With `p` drawn once from a uniform this is a pathwise sampler.

  Args:
    concentration: Positive floating `Tensor`.
    rate: Positive floating `Tensor`.
    p: Probabilities strictly within `(0, 1)`. All three broadcast.

  Returns:
    `Tensor` of the broadcast shape.
  """
  concentration = tf.convert_to_tensor(concentration)
  rate = tf.convert_to_tensor(rate, dtype=concentration.dtype)
  p = tf.convert_to_tensor(p, dtype=concentration.dtype)

  @tf.custom_gradient
  def _gamma_icdf(concentration, rate, p):
    shape = tf.broadcast_dynamic_shape(tf.shape(concentration), tf.shape(p))
    a = tf.broadcast_to(concentration, shape)
    q = tf.broadcast_to(p, shape)
    x = _solve_gamma_quantile(a, q)
    value = x / rate

    def grad(dy):
      log_x = tf.math.log(x)
      inv_density = tf.exp(x - (a - 1.0) * log_x + tf.math.lgamma(a))
      d_cdf_da = tf.raw_ops.IgammaGradA(a=a, x=x)
      upstream = dy / rate
      d_a = -upstream * d_cdf_da * inv_density
      d_rate = -dy * value / rate
      d_p = upstream * inv_density
      return (_reduce_to_shape(d_a, concentration),
              _reduce_to_shape(d_rate, rate),
              _reduce_to_shape(d_p, p))

    return value, grad

  return _gamma_icdf(concentration, rate, p)


class TruncatedNormal:
  """Normal distribution restricted to `[low, high]`.

  Args:
    low: Python `float` or `None` for no lower end.
    high: Python `float` or `None` for no upper end.
  """

  def __init__(self, low=None, high=None):
    if low is not None and high is not None and low >= high:
      raise ValueError("`low` must be smaller than `high`.")
    self.low = -math.inf if low is None else float(low)
    self.high = math.inf if high is None else float(high)

  def sample_from_uniform(self, loc, scale, u):
    """Transforms uniform noise to samples.

    The gradients follow from the implicit function theorem applied to the
    distribution function, so they flow to `loc`, `scale` and `u`.

    Args:
      loc: Location, any shape.
      scale: Positive scale, same shape as `loc`.
      u: Noise within `(0, 1)`, same shape as `loc`.

    Returns:
      Samples shaped like `loc`.
    """
    low, high = self.low, self.high

    @tf.custom_gradient
    def _sample(loc, scale, u):
      alpha = (low - loc) / scale
      beta = (high - loc) / scale
      cdf_low = _ndtr(alpha)
      mass = _ndtr(beta) - cdf_low
      z = tf.math.ndtri(cdf_low + u * mass)
      x = loc + scale * z

      def grad(dy):
        inv_pdf = 1.0 / _pdf(z)
        at_low = (1.0 - u) * _pdf(alpha) * inv_pdf
        at_high = u * _pdf(beta) * inv_pdf
        d_loc = dy * (1.0 - at_low - at_high)
        d_scale = dy * z
        d_u = dy * scale * mass * inv_pdf
        return d_loc, d_scale, d_u

      return x, grad

    loc = tf.convert_to_tensor(loc)
    return _sample(loc, tf.convert_to_tensor(scale, dtype=loc.dtype),
                   tf.convert_to_tensor(u, dtype=loc.dtype))
