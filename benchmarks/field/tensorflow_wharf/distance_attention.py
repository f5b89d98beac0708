"""Attention by scaled distance in a learned metric, Keras 3, any backend."""

import keras
from keras import ops


def _upstream(args, upstream):
    # JAX and TensorFlow pass the cotangent alone, torch passes it by keyword.
    return args[0] if upstream is None else upstream


@ops.custom_gradient
def metric_scores(query, keys, widths):
    """Scores ``-0.5 * |(query - key) / widths|**2`` of every query-key pair.

    Args:
        query: Projected queries, shape (batch, queries, units).
        keys: Projected keys, shape (batch, keys, units).
        widths: Positive width of every unit, shape (units,).

    Returns:
        Scores of shape (batch, queries, keys).
    """
    apart = (ops.expand_dims(query, 2) - ops.expand_dims(keys, 1)) / widths

    def grad(*args, upstream=None):
        g = ops.expand_dims(_upstream(args, upstream), -1)
        pull = g * apart / widths
        d_widths = ops.sum(pull * apart, axis=(0, 1, 2))
        return -ops.sum(pull, axis=2), ops.sum(pull, axis=1), d_widths

    return -0.5 * ops.sum(apart * apart, axis=-1), grad


@ops.custom_gradient
def length_context(scores, values, lengths):
    """Softmax over the first ``lengths[b]`` keys, then the weighted values.

    Args:
        scores: Shape (batch, queries, keys).
        values: Shape (batch, keys, dim).
        lengths: Integer tensor (batch,), 0 <= length <= keys. An empty
            sequence yields a zero context.

    Returns:
        Context vectors of shape (batch, queries, dim).
    """
    slot = ops.arange(scores.shape[-1], dtype="int32")
    valid = ops.reshape(slot, (1, 1, -1)) < ops.reshape(ops.cast(lengths, "int32"), (-1, 1, 1))
    low = ops.where(valid, scores, -1e30)
    e = ops.exp(low - ops.max(low, axis=-1, keepdims=True))
    e = ops.where(valid, e, ops.zeros_like(e))
    total = ops.sum(e, axis=-1, keepdims=True)
    p = e / ops.where(total > 0, total, ops.ones_like(total))
    context = p @ values

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        inner = g @ ops.transpose(values, (0, 2, 1))
        d_scores = p * (inner - ops.sum(g * context, axis=-1, keepdims=True))
        d_values = ops.transpose(p, (0, 2, 1)) @ g
        return d_scores, d_values, None

    return context, grad


def make_step_penalty(kind="jump"):
    """Returns a regulariser of decoder attention.

    Args:
        kind: "diffuse" for the entropy summed over steps, or "jump" for the
            divergence sum_k a_t log(a_t / a_{t-1}) summed over the steps after
            the first.

    Returns:
        Function of the attention (batch, steps, keys), entries > 0, giving
        one penalty per sequence (batch,). Both kinds are plain functions of
        the whole attention array.
    """
    if kind not in ("diffuse", "jump"):
        raise ValueError(f"Unknown step penalty: {kind}")

    @ops.custom_gradient
    def penalty(attention):
        logs = ops.log(attention)
        if kind == "diffuse":
            out = -ops.sum(attention * logs, axis=(1, 2))
        else:
            # the first step is compared with itself
            before = ops.concatenate([logs[:, :1], logs[:, :-1]], axis=1)
            moved = logs - before
            out = ops.sum(attention * moved, axis=(1, 2))

        def grad(*args, upstream=None):
            g = ops.reshape(_upstream(args, upstream), (-1, 1, 1))
            if kind == "diffuse":
                return -g * (logs + 1.0)
            later = ops.concatenate(
                [ops.zeros_like(logs[:, :1]), ops.ones_like(logs[:, 1:])], axis=1
            )
            return g * later * (moved + 1.0)

        return out, grad

    return penalty


class MetricAttention(keras.layers.Layer):
    """Distance attention over padded encoder states."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.query_proj = keras.layers.Dense(units, use_bias=False)
        self.key_proj = keras.layers.Dense(units)

    def build(self, query_shape, memory_shape, lengths_shape=None):
        self.query_proj.build(query_shape)
        self.key_proj.build(memory_shape)
        self.log_widths = self.add_weight(
            shape=(self.units,), initializer="zeros", name="log_widths"
        )

    def call(self, query, memory, lengths):
        widths = ops.exp(self.log_widths)
        scores = metric_scores(self.query_proj(query), self.key_proj(memory), widths)
        return length_context(scores, memory, lengths)
