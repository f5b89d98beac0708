"""Log densities with explicit parameter gradients.

Shape conventions follow `tfp.distributions`: all parameters broadcast against
each other and against the value, except in the multivariate case where the last
axis is the event axis.
"""

import numpy as np
import tensorflow as tf

__all__ = [
    'student_t_log_prob',
    'von_mises_log_prob',
    'mvn_tril_log_prob',
    'zero_inflated_poisson_log_prob',
]


def _common_dtype(*args):
  for a in args:
    if tf.is_tensor(a) or isinstance(a, tf.Variable):
      return a.dtype
  return tf.float32


def _fix_gradient(grad, primal):
  """Reverses the broadcasting that happened on the way from `primal`."""
  grad_shape, shape = tf.shape(grad), tf.shape(primal)
  _, axes = tf.raw_ops.BroadcastGradientArgs(s0=grad_shape, s1=shape)
  return tf.reshape(tf.reduce_sum(grad, axis=axes), shape)


@tf.custom_gradient
def _student_t_log_prob_impl(x, df, loc, scale):
  y = (x - loc) / scale
  half = tf.constant(0.5, x.dtype)
  lp = (tf.math.lgamma(half * (df + 1.)) - tf.math.lgamma(half * df)
        - half * tf.math.log(df * np.pi) - tf.math.log(scale)
        - half * (df + 1.) * tf.math.log1p(y * y / df))

  def grad(dlp):
    ratio = (df + 1.) * y / (df + y * y)
    d_x = -ratio / scale
    d_scale = (ratio * y - 1.) / scale
    d_df = half * (tf.math.digamma(half * (df + 1.)) - tf.math.digamma(half * df)
                   - 1. / df - tf.math.log1p(y * y / df)
                   + ratio * y / df)
    return (_fix_gradient(dlp * d_x, x),
            _fix_gradient(dlp * d_df, df),
            _fix_gradient(-dlp * d_x, loc),
            _fix_gradient(dlp * d_scale, scale))

  return lp, grad


@tf.function(autograph=False)
def student_t_log_prob(x, df, loc, scale):
  """Student's t log density, differentiable in all four arguments.

  Args:
    x: Floating-point `Tensor`.
    df: Degrees of freedom, positive.
    loc: Location.
    scale: Scale, positive.

  Returns:
    log_prob: `Tensor` with the broadcast shape of the arguments.
  """
  dtype = _common_dtype(x, df, loc, scale)
  x, df, loc, scale = [
      tf.convert_to_tensor(t, dtype=dtype) for t in (x, df, loc, scale)]
  return _student_t_log_prob_impl(x, df, loc, scale)


@tf.custom_gradient
def von_mises_log_prob(x, loc, concentration):
  """Von Mises log density on the circle.

  Uses the exponentially scaled Bessel functions so that large concentrations do
  not overflow.

  Args:
    x: angles in radians.
    loc: mean direction.
    concentration: non-negative.
  """
  i0e = tf.math.bessel_i0e(concentration)
  lp = (concentration * (tf.cos(x - loc) - 1.)
        - np.log(2. * np.pi) - tf.math.log(i0e))

  def grad(dlp):
    d_x = -dlp * concentration * tf.sin(x - loc)
    a = tf.math.bessel_i1e(concentration) / i0e  # mean resultant length
    return (_fix_gradient(d_x, x),
            _fix_gradient(-d_x, loc),
            _fix_gradient(dlp * (tf.cos(x - loc) - a), concentration))

  return lp, grad


@tf.custom_gradient
def mvn_tril_log_prob(x, loc, scale_tril):
  """Multivariate normal, parameterized by the Cholesky factor.

  Args:
    x: `[n, d]` batch of observations.
    loc: `[d]`.
    scale_tril: `[d, d]` lower triangular with positive diagonal. The strict upper
      triangle is not read.

  Returns:
    `[n]` log densities.
  """
  d = tf.cast(tf.shape(x)[-1], x.dtype)
  diff = tf.linalg.matrix_transpose(x - loc)                   # [d, n]
  z = tf.linalg.triangular_solve(scale_tril, diff, lower=True)  # [d, n]
  diag = tf.linalg.diag_part(scale_tril)
  lp = (-0.5 * tf.reduce_sum(z * z, axis=0)
        - tf.reduce_sum(tf.math.log(diag))
        - 0.5 * d * np.log(2. * np.pi))

  def grad(dlp):
    # L^-T z, i.e. the precision times the residual.
    alpha = tf.linalg.triangular_solve(scale_tril, z, lower=True, adjoint=True)
    d_x = -tf.linalg.matrix_transpose(alpha * dlp)
    d_loc = -tf.reduce_sum(d_x, axis=0)
    d_quad = tf.linalg.matmul(alpha * dlp, z, transpose_b=True)
    d_logdet = tf.reduce_mean(dlp) * tf.linalg.diag(1. / diag)
    d_tril = tf.linalg.band_part(d_quad - d_logdet, -1, 0)
    return d_x, d_loc, d_tril

  return lp, grad


@tf.custom_gradient
def _zip_impl(counts, log_rate, logits):
  rate = tf.exp(log_rate)
  log_pi = -tf.nn.softplus(-logits)
  log_1m_pi = -tf.nn.softplus(logits)
  zero = tf.equal(counts, 0)
  a = log_pi
  b = log_1m_pi - rate
  m = tf.maximum(a, b)
  lp_zero = m + tf.math.log(tf.exp(a - m) + tf.exp(b - m))
  lp_pos = (log_1m_pi + counts * log_rate - rate - tf.math.lgamma(counts + 1.))
  lp = tf.where(zero, lp_zero, lp_pos)

  def grad(dlp):
    # Posterior probability that an observed zero is a structural one.
    structural = tf.where(zero, tf.exp(log_pi - lp_zero), tf.zeros_like(lp))
    d_log_rate = dlp * (counts - rate)
    d_logits = dlp * (structural - tf.sigmoid(logits))
    return None, d_log_rate, d_logits

  return lp, grad


def zero_inflated_poisson_log_prob(counts, log_rate, logits):
  """Log pmf of a Poisson with extra zeros.

  Args:
    counts: non-negative integers (any numeric dtype); treated as data.
    log_rate: log of the Poisson rate, same shape as `counts`.
    logits: log odds of a structural zero, same shape as `counts`.
  """
  log_rate = tf.convert_to_tensor(log_rate)
  return _zip_impl(tf.cast(counts, log_rate.dtype), log_rate,
                   tf.convert_to_tensor(logits, dtype=log_rate.dtype))


class GaussianObservationModel(tf.Module):
  """Correlated Gaussian likelihood with a trainable location and scale."""

  def __init__(self, dim, name='gaussian_observation'):
    super().__init__(name=name)
    self.loc = tf.Variable(tf.zeros([dim]), name='loc')
    self.scale_tril = tf.Variable(tf.eye(dim), name='scale_tril')

  def negative_log_likelihood(self, x):
    return -tf.reduce_mean(
        mvn_tril_log_prob(x, self.loc.read_value(), self.scale_tril.read_value()))
