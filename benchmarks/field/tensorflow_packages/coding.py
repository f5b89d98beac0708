"""Building blocks for learned compression."""

import tensorflow as tf


@tf.custom_gradient
def _gdn(x, beta, gamma):
  """x: [..., C], beta: [C], gamma: [C, C] with gamma[j, i] the weight of j on i."""
  x2 = tf.square(x)
  pool = tf.tensordot(x2, gamma, axes=1) + beta
  inv = tf.math.rsqrt(pool)

  def grad(dy):
    dpool = -0.5 * dy * x * inv / pool
    dx = dy * inv + 2.0 * x * tf.tensordot(dpool, gamma, axes=1)
    channels = x.shape[-1]
    flat_dpool = tf.reshape(dpool, [-1, channels])
    dbeta = tf.reduce_sum(flat_dpool, axis=0)
    dgamma = tf.matmul(tf.reshape(x2, [-1, channels]), flat_dpool,
                       transpose_a=True)
    return dx, dbeta, dgamma

  return x * inv, grad


def generalized_divisive_norm(x, beta, gamma):
  """Generalized divisive normalization over the last axis.

  `y[i] = x[i] / sqrt(beta[i] + sum_j gamma[j, i] * x[j]**2)`

  Args:
    x: Features, `[..., C]`.
    beta: Positive offsets, `[C]`.
    gamma: Non-negative weights, `[C, C]`.

  Returns:
    Tensor shaped like `x`.
  """
  return _gdn(tf.convert_to_tensor(x), tf.convert_to_tensor(beta),
              tf.convert_to_tensor(gamma))


class GDN(tf.Module):
  """Module that owns the parameters of `generalized_divisive_norm`."""

  def __init__(self, channels, gamma_init=0.1, minimum=1e-6, name=None):
    super().__init__(name=name)
    self.minimum = minimum
    self.beta = tf.Variable(tf.ones([channels]), name="beta")
    self.gamma = tf.Variable(gamma_init * tf.eye(channels), name="gamma")

  def __call__(self, x):
    beta = lower_bound(self.beta, self.minimum)
    gamma = lower_bound(self.gamma, 0.0)
    return generalized_divisive_norm(x, beta, gamma)


def lower_bound(inputs, bound, gradient="identity_if_towards"):
  """Same as `tf.maximum(inputs, bound)`, but with a choice of gradient.

  The derivative deliberately differs from that of the maximum where the bound is
  active, so that parameters do not get stuck there:

  * `"disconnected"`: the ordinary derivative; nothing passes where
    `inputs < bound`.
  * `"identity"`: everything passes (straight through).
  * `"identity_if_towards"`: where `inputs < bound`, the gradient passes only if a
    descent step would move the input up, i.e. if it is negative.

  Args:
    inputs: Floating tensor.
    bound: Python number.
    gradient: One of the above.

  Returns:
    Tensor shaped like `inputs`.
  """
  if gradient not in ("disconnected", "identity", "identity_if_towards"):
    raise ValueError(f"invalid value for `gradient`: {gradient!r}")
  inputs = tf.convert_to_tensor(inputs)

  @tf.custom_gradient
  def _lower_bound(inputs):
    limit = tf.constant(bound, inputs.dtype)

    def grad(dy):
      if gradient == "identity":
        return dy
      passes = inputs >= limit
      if gradient == "identity_if_towards":
        passes = passes | (dy < 0.0)
      return tf.where(passes, dy, tf.zeros_like(dy))

    return tf.maximum(inputs, limit), grad

  return _lower_bound(inputs)


def soft_quantize(x, centers, temperature=1.0):
  @tf.custom_gradient
  def _quantize(x, centers):
    offset = x[..., tf.newaxis] - centers
    assign = tf.nn.softmax(-tf.square(offset) / temperature, axis=-1)
    q = tf.reduce_sum(assign * centers, axis=-1)

    def grad(dq):
      spread = assign * (centers - q[..., tf.newaxis])
      dx = dq * tf.reduce_sum(-2.0 * spread * offset, axis=-1) / temperature
      dc = dq[..., tf.newaxis] * (assign + 2.0 * spread * offset)
      return dx, tf.reduce_sum(tf.reshape(dc, [-1, centers.shape[0]]), axis=0)

    return q, grad

  x = tf.convert_to_tensor(x)
  return _quantize(x, tf.convert_to_tensor(centers, dtype=x.dtype))
