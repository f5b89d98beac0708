# Copyright 2023 The Lingua Authors.
# Licensed under the Apache License, Version 2.0.
"""Memory-lean sequence ops used by the Lingua decoder stack.

Every op here has a hand-written backward pass, either because autodiff keeps
too many [batch, time, vocab] buffers alive or because the stock gradient of
`tf.scan` is slow.  All ops are dtype-polymorphic (float32 / float64) and work
with a leading batch axis.

Notation in the shapes below:
  B: batch, T: time, V: vocabulary, H: query heads, G: key/value heads,
  D: width of one head, C: channels of the model.
"""

import math

import tensorflow as tf

_NEG_INF = -1e9


def lengths_to_mask(lengths, maxlen):
  """Turns `[B]` int lengths into a `[B, maxlen]` boolean mask."""
  return tf.sequence_mask(lengths, maxlen)


# -----------------------------------------------------------------------------
# Losses
# -----------------------------------------------------------------------------


def make_label_smoothed_xent(smoothing=0.1, z_loss=0.0):
  """Builds a label-smoothed cross entropy with optional z-loss.

  Args:
    smoothing: probability mass spread evenly over the `V - 1` wrong tokens.
    z_loss: coefficient of the `logsumexp(logits)**2` penalty of PaLM.

  Returns:
    `xent(logits, labels, mask)`, a scalar: the mean over the tokens whose
    `mask` is true of the smoothed cross entropy plus the z penalty.
      logits: `[B, T, V]` float.
      labels: `[B, T]` integer.
      mask: `[B, T]` bool, false on padding.
  """

  @tf.custom_gradient
  def xent(logits, labels, mask):
    vocab = logits.shape[-1]
    log_z = tf.reduce_logsumexp(logits, axis=-1)
    log_probs = logits - log_z[..., tf.newaxis]
    target = tf.one_hot(
        labels,
        vocab,
        on_value=1.0 - smoothing,
        off_value=smoothing / (vocab - 1),
        dtype=logits.dtype,
    )
    per_token = -tf.reduce_sum(target * log_probs, axis=-1)
    per_token += z_loss * tf.square(log_z)
    weights = tf.cast(mask, logits.dtype)
    count = tf.maximum(tf.reduce_sum(weights), 1.0)
    loss = tf.reduce_sum(per_token * weights) / count

    def grad(dy):
      probs = tf.exp(log_probs)
      d_logits = probs - target
      d_logits += 2.0 * z_loss * log_z[..., tf.newaxis] * probs
      # Padding must not receive any signal.
      d_logits = tf.where(mask[..., tf.newaxis], d_logits, 0.0)
      num_tokens = tf.cast(tf.size(labels), logits.dtype)
      return d_logits * (dy / num_tokens), None, None

    return loss, grad

  return xent


class ChunkedReadout(tf.Module):
  """Output projection that never materializes all the logits.

  The log-likelihood of the labels is computed `chunk` tokens at a time; the
  backward pass recomputes each chunk of logits instead of storing them.

  Attributes:
    kernel: `[C, V]` variable.
    bias: `[V]` variable.
  """

  def __init__(self, width, vocab, chunk=128, dtype=tf.float32, name=None):
    super().__init__(name=name)
    init = tf.random.stateless_normal([width, vocab], seed=[1, 7], dtype=dtype)
    self.kernel = tf.Variable(init / math.sqrt(width), name="kernel")
    self.bias = tf.Variable(tf.zeros([vocab], dtype), name="bias")
    self.chunk = chunk

  def __call__(self, hidden, labels):
    """Log-likelihood of `labels`.

    Args:
      hidden: `[N, C]` float, tokens of all sentences flattened.
      labels: `[N]` integer.

    Returns:
      `[N]` float, `log p(labels | hidden)`.
    """
    chunk = self.chunk

    @tf.custom_gradient
    def log_likelihood(h):
      n = h.shape[0]
      pieces = []
      for start in range(0, n, chunk):
        logits = tf.matmul(h[start:start + chunk], self.kernel) + self.bias
        picked = tf.gather(logits, labels[start:start + chunk], batch_dims=1)
        pieces.append(picked - tf.reduce_logsumexp(logits, axis=-1))

      def grad(dy, variables=None):
        d_h = []
        d_kernel = tf.zeros_like(self.kernel)
        d_bias = tf.zeros_like(self.bias)
        for start in range(0, n, chunk):
          part = h[start:start + chunk]
          logits = tf.matmul(part, self.kernel) + self.bias
          hot = tf.one_hot(
              labels[start:start + chunk], logits.shape[-1], dtype=h.dtype)
          d_logits = (hot - tf.nn.softmax(logits)) * dy[start:start + chunk, None]
          d_h.append(tf.matmul(d_logits, self.kernel, transpose_b=True))
          d_kernel += tf.matmul(part, d_logits, transpose_a=True)
          d_bias += tf.reduce_sum(d_logits, axis=0)
        by_ref = {self.kernel.ref(): d_kernel, self.bias.ref(): d_bias}
        return tf.concat(d_h, axis=0), [by_ref[v.ref()] for v in variables]

      return tf.concat(pieces, axis=0), grad

    return log_likelihood(hidden)


# -----------------------------------------------------------------------------
# Attention
# -----------------------------------------------------------------------------


def rotary_embed(x, positions, *, base=10000.0, interleaved=False):
  """Applies rotary position embeddings.

  Args:
    x: `[B, T, H, D]` float with even `D`.
    positions: `[B, T]` integer positions.
    base: largest wavelength divided by `2 * pi`.
    interleaved: if true the rotated pairs are `(x[2i], x[2i + 1])` as in
      GPT-J, otherwise `(x[i], x[i + D / 2])` as in NeoX and Llama.

  Returns:
    `[B, T, H, D]`, each pair rotated by `position * base**(-2i / D)`.
  """
  half = x.shape[-1] // 2
  freq = tf.cast(base, x.dtype) ** (
      -tf.range(half, dtype=x.dtype) / tf.cast(half, x.dtype))
  angle = tf.cast(positions, x.dtype)[..., None, None] * freq
  cos, sin = tf.cos(angle), tf.sin(angle)

  @tf.custom_gradient
  def _rotate(x):
    if interleaved:
      x1, x2 = x[..., 0::2], x[..., 1::2]
      out = tf.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)
      out = tf.reshape(out, tf.shape(x))
    else:
      x1, x2 = tf.split(x, 2, axis=-1)
      out = tf.concat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)

    def grad(dy):
      # A rotation is orthogonal: its adjoint turns by the opposite angle.
      d1, d2 = tf.split(dy, 2, axis=-1)
      return tf.concat([d1 * cos + d2 * sin, d2 * cos - d1 * sin], axis=-1)

    return out, grad

  return _rotate(x)


class CausalSelfAttention(tf.Module):
  """Causal grouped-query attention core (no projections).

  Attributes:
    num_heads: query heads `H`.
    num_kv_heads: key/value heads `G`; `H` must be a multiple of it.
  """

  def __init__(self, num_heads, num_kv_heads=None, rope_interleaved=False,
               name=None):
    super().__init__(name=name)
    self.num_heads = num_heads
    self.num_kv_heads = num_kv_heads or num_heads
    self.rope_interleaved = rope_interleaved
    if num_heads % self.num_kv_heads:
      raise ValueError("num_heads must be a multiple of num_kv_heads.")

  def __call__(self, query, key, value, lengths):
    """Attends.

    Args:
      query: `[B, T, H, D]`.
      key: `[B, T, G, D]`.
      value: `[B, T, G, D]`.
      lengths: `[B]` integer, at least one, number of real tokens.

    Returns:
      `[B, T, H, D]` contexts.  Keys past `lengths` or in the future of a query
      get no weight.
    """
    steps = query.shape[1]
    where = tf.tile(tf.range(steps)[None], [query.shape[0], 1])
    query = rotary_embed(query, where, interleaved=self.rope_interleaved)
    key = rotary_embed(key, where, interleaved=self.rope_interleaved)
    return self.attend(query, key, value, lengths)

  def attend(self, query, key, value, lengths):
    group = self.num_heads // self.num_kv_heads
    steps = query.shape[1]
    scale = 1.0 / math.sqrt(query.shape[-1])
    causal = tf.linalg.band_part(tf.ones([steps, steps], tf.bool), -1, 0)
    allowed = tf.logical_and(
        causal[None, None], lengths_to_mask(lengths, steps)[:, None, None, :])

    @tf.custom_gradient
    def core(q, k, v):
      k_full = tf.repeat(k, group, axis=2)
      v_full = tf.repeat(v, group, axis=2)
      scores = tf.einsum("bqhd,bkhd->bhqk", q, k_full) * scale
      scores = tf.where(allowed, scores, tf.cast(_NEG_INF, scores.dtype))
      probs = tf.nn.softmax(scores, axis=-1)
      context = tf.einsum("bhqk,bkhd->bqhd", probs, v_full)

      def fold(d_full):
        shape = tf.shape(d_full)
        d_full = tf.reshape(
            d_full, [shape[0], shape[1], self.num_kv_heads, group, shape[3]])
        return tf.reduce_sum(d_full, axis=3)

      def grad(d_context):
        d_probs = tf.einsum("bqhd,bkhd->bhqk", d_context, v_full)
        row = tf.reduce_sum(d_context * context, axis=-1)  # [B, T, H]
        row = tf.transpose(row, [0, 2, 1])[..., tf.newaxis]
        d_scores = probs * (d_probs - row) * scale
        d_q = tf.einsum("bhqk,bkhd->bqhd", d_scores, k_full)
        d_k = tf.einsum("bhqk,bqhd->bkhd", d_scores, q)
        d_v = tf.einsum("bhqk,bqhd->bkhd", probs, d_context)
        return d_q, fold(d_k), fold(d_v)

      return context, grad

    return core(query, key, value)


# -----------------------------------------------------------------------------
# Recurrence
# -----------------------------------------------------------------------------


@tf.custom_gradient
def gated_recurrence(inputs, decay, initial):
  """Diagonal linear recurrence `h[t] = decay[t] * h[t - 1] + inputs[t]`.

  Args:
    inputs: `[T, B, C]`, time major.
    decay: `[T, B, C]`, data-dependent forget gates, usually in (0, 1).
    initial: `[B, C]`, the state before the first step.

  Returns:
    A tuple `(states, last)`: all states `[T, B, C]` and the last one `[B, C]`.
  """
  states = tf.scan(
      lambda h, elems: elems[0] * h + elems[1],
      (decay, inputs),
      initializer=initial,
  )
  last = states[-1]

  def grad(d_states, d_last):
    d_states = tf.concat([d_states[:-1], d_states[-1:] + d_last[None]], axis=0)
    d_inputs = tf.scan(
        lambda acc, elems: elems[0] * acc + elems[1],
        (decay, d_states),
        initializer=tf.zeros_like(initial),
        reverse=True,
    )
    previous = tf.concat([initial[None], states[:-1]], axis=0)
    return d_inputs, d_inputs * previous, d_inputs[0] * decay[0]

  return (states, last), grad


class GatedRecurrentMixer(tf.Module):
  """Hawk-style token mixer: gates from the input, then the recurrence."""

  def __init__(self, width, dtype=tf.float32, name=None):
    super().__init__(name=name)
    self.gate = tf.Variable(tf.zeros([width], dtype), name="gate")
    self.slope = tf.Variable(tf.ones([width], dtype), name="slope")

  def __call__(self, x, state=None):
    """Maps `[B, T, C]` to `[B, T, C]` and returns the carried state too."""
    time_major = tf.transpose(x, [1, 0, 2])
    decay = tf.sigmoid(self.slope * time_major + self.gate)
    if state is None:
      state = tf.zeros_like(time_major[0])
    states, last = gated_recurrence((1.0 - decay) * time_major, decay, state)
    return tf.transpose(states, [1, 0, 2]), last
