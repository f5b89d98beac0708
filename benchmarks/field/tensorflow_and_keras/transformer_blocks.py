# Copyright 2023 The textmesh authors.
#
# Licensed under the Apache License, Version 2.0 (the "License").
"""Building blocks of the encoder-decoder stack.

The backward passes are written out because the automatically generated ones
keep several float32 copies of the `[batch, heads, query, key]` tensors alive.
"""
import math

import tensorflow as tf

_NEG = -1e9


def _sum_to(grad, shape):
  """Sums `grad` down to the (broadcastable) static/dynamic `shape`."""
  _, axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(grad), s1=shape)
  return tf.reshape(tf.reduce_sum(grad, axis=axes), shape)


def rms_layer_norm(x, scale, epsilon=1e-6):
  """T5 style layer norm: no mean subtraction, no bias.

  Args:
    x: a float Tensor of shape [..., d_model].
    scale: a float Tensor of shape [d_model].
    epsilon: a small float added to the mean square.

  Returns:
    a Tensor with the shape of `x`.
  """

  @tf.custom_gradient
  def _norm(x, scale):
    inv = tf.math.rsqrt(
        tf.reduce_mean(tf.square(x), axis=-1, keepdims=True) + epsilon)
    x_hat = x * inv

    def grad(dy):
      d_hat = dy * scale
      dx = inv * (d_hat - x_hat * tf.reduce_mean(
          d_hat * x_hat, axis=-1, keepdims=True))
      lead = tf.range(tf.rank(x) - 1)
      return dx, tf.reduce_sum(dy * x_hat, axis=lead)

    return x_hat * scale, grad

  return _norm(x, scale)


def masked_softmax(logits, mask, axis=-1):
  """Softmax over `axis` restricted to the positions where `mask` is True.

  Args:
    logits: a float Tensor.
    mask: a bool Tensor of the same shape; every slice along `axis` has to have
      at least one True.
    axis: an integer, the axis that is normalized.

  Returns:
    a Tensor of probabilities, zero where `mask` is False.
  """

  @tf.custom_gradient
  def _softmax(logits):
    z = tf.where(mask, logits, tf.cast(_NEG, logits.dtype))
    z -= tf.reduce_max(z, axis=axis, keepdims=True)
    e = tf.where(mask, tf.exp(z), tf.zeros_like(z))
    p = e / tf.reduce_sum(e, axis=axis, keepdims=True)

    def grad(dp):
      inner = tf.reduce_sum(dp * p, axis=-1, keepdims=True)
      return p * (dp - inner)

    return p, grad

  return _softmax(logits)


@tf.custom_gradient
def biased_attention_scores(query, key, bias):
  """Scaled dot-product scores plus an additive (relative position) bias.

  Args:
    query: [batch, q_len, heads, d_head]
    key: [batch, k_len, heads, d_head]
    bias: broadcastable to [batch, heads, q_len, k_len], rank 4. T5 shares it
      over the batch, i.e. [1, heads, q_len, k_len].

  Returns:
    [batch, heads, q_len, k_len]
  """
  scale = 1.0 / math.sqrt(query.shape[-1])
  scores = tf.einsum("bqhd,bkhd->bhqk", query, key) * scale + bias

  def grad(ds):
    dq = tf.einsum("bhqk,bkhd->bqhd", ds, key) * scale
    dk = tf.einsum("bhqk,bqhd->bkhd", ds, query) * scale
    return dq, dk, _sum_to(ds, tf.shape(bias))

  return scores, grad


class GatedFeedForward(tf.Module):
  """Gated-SiLU feed forward layer of T5 v1.1, without biases.

  y = (silu(x wi_0) * (x wi_1)) wo, with only `x` kept for the backward pass.
  """

  def __init__(self, d_model, d_ff, seed=0, dtype=tf.float32, name=None):
    super().__init__(name=name)
    init = lambda shape, k: tf.random.stateless_normal(
        shape, seed=[seed, k], dtype=dtype) / math.sqrt(shape[0])
    self.wi_0 = tf.Variable(init([d_model, d_ff], 0), name="wi_0")
    self.wi_1 = tf.Variable(init([d_model, d_ff], 1), name="wi_1")
    self.wo = tf.Variable(init([d_ff, d_model], 2), name="wo")

  def __call__(self, x):

    @tf.custom_gradient
    def _ffn(x):
      y = tf.matmul(tf.nn.silu(tf.matmul(x, self.wi_0))
                    * tf.matmul(x, self.wi_1), self.wo)

      def grad(dy, variables=None):
        flat = lambda t: tf.reshape(t, [-1, t.shape[-1]])
        a = tf.matmul(x, self.wi_0)
        b = tf.matmul(x, self.wi_1)
        s = tf.sigmoid(a)
        act = a * s
        dh = tf.matmul(dy, self.wo, transpose_b=True)
        da = dh * b * (s + act * (1.0 - s))
        db = dh * act
        dx = (tf.matmul(da, self.wi_0, transpose_b=True)
              + tf.matmul(db, self.wi_1, transpose_b=True))
        by_ref = {
            self.wi_0.ref(): tf.matmul(flat(x), flat(da), transpose_a=True),
            self.wi_1.ref(): tf.matmul(flat(x), flat(db), transpose_a=True),
            self.wo.ref(): tf.matmul(flat(b * s), flat(dy), transpose_a=True),
        }
        return dx, [by_ref[v.ref()] for v in variables]

      return y, grad

    return _ffn(x)


class EncoderBlock(tf.Module):

  def __init__(self, d_model, heads, d_ff, name=None):
    super().__init__(name=name)
    self.heads = heads
    self.ln = tf.Variable(tf.ones([d_model]), name="ln")
    self.qkv = tf.Variable(
        tf.random.stateless_normal([d_model, 3 * d_model], [7, 7]) * 0.05)
    self.ffn = GatedFeedForward(d_model, d_ff)

  def __call__(self, x, bias, mask):
    n = rms_layer_norm(x, self.ln.read_value())
    shape = tf.concat([tf.shape(x)[:2], [self.heads, -1]], 0)
    q, k, v = [tf.ensure_shape(tf.reshape(t, shape), [
        None, None, self.heads, x.shape[-1] // self.heads])
               for t in tf.split(tf.matmul(n, self.qkv), 3, axis=-1)]
    p = masked_softmax(biased_attention_scores(q, k, bias), mask)
    x += tf.reshape(tf.einsum("bhqk,bkhd->bqhd", p, v), tf.shape(x))
    return x + self.ffn(rms_layer_norm(x, self.ln.read_value()))


if __name__ == "__main__":
  block = EncoderBlock(16, 4, 32)
  out = block(tf.random.normal([2, 5, 16]), tf.zeros([1, 4, 5, 5]),
              tf.ones([2, 4, 5, 5], tf.bool))
  print(out.shape)
