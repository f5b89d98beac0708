"""Statistics over axes and over segments, with fused backward passes."""

from __future__ import annotations

from typing import Optional, Sequence, Union

import tensorflow as tf

Axis = Union[int, Sequence[int]]


def _fold_to(grad, like):
    """Sum `grad` down to the shape of `like`."""
    target = tf.shape(like)
    _, axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(grad), s1=target)
    return tf.reshape(tf.reduce_sum(grad, axes), target)


def _per_row(counts, values):
    """Append singleton axes to `counts` until it has the rank of `values`."""
    extra = tf.ones([tf.rank(values) - 1], tf.int32)
    return tf.reshape(counts, tf.concat([tf.shape(counts), extra], 0))


def reliability_moments(x, weights=None, axis: Axis = -1, keepdims: bool = False):
    """Mean and (biased) variance of `x` under reliability weights.

    Args:
      x: Floating tensor.
      weights: Non-negative tensor that broadcasts to `x`; `None` counts each
        entry once.
      axis: Axis or axes to reduce.
      keepdims: Whether the reduced axes stay with size one.

    Returns:
      A pair `(mean, variance)`.
    """
    x = tf.convert_to_tensor(x)
    if weights is None:
        weights = tf.ones_like(x)
    weights = tf.convert_to_tensor(weights, dtype=x.dtype)
    if isinstance(axis, int):
        axis = (axis,)
    axis = [a % x.shape.rank for a in axis]

    @tf.custom_gradient
    def moments(x, weights):
        full = tf.broadcast_to(weights, tf.shape(x))
        total = tf.reduce_sum(full, axis, keepdims=True)
        mean = tf.reduce_sum(full * x, axis, keepdims=True) / total
        centred = x - mean
        var = tf.reduce_sum(full * tf.square(centred), axis, keepdims=True) / total

        def grad(d_mean, d_var):
            d_mean = tf.reshape(d_mean, tf.shape(mean)) / total
            d_var = tf.reshape(d_var, tf.shape(mean)) / total
            d_x = full * (d_mean + 2.0 * centred * d_var)
            d_w = centred * (d_mean + centred * d_var)
            return d_x, _fold_to(d_w, weights)

        if keepdims:
            return (mean, var), grad
        return (tf.squeeze(mean, axis), tf.squeeze(var, axis)), grad

    return moments(x, weights)


def segment_std(data, segment_ids, num_segments: int, *, ddof: int = 0, epsilon: float = 1e-6):
    """Standard deviation of the rows of `data` that share a segment id.

    Parameters
    ----------
    data : tf.Tensor
        Values, shape ``[rows, ...]``.
    segment_ids : tf.Tensor
        Integer ids, shape ``[rows]``, in any order.
    num_segments : int
        Number of rows of the result.
    ddof : int
        Delta degrees of freedom: the sum of squares is divided by
        ``max(count - ddof, 1)``.
    epsilon : float
        Added to the variance below the root.

    Returns
    -------
    tf.Tensor
        Shape ``[num_segments, ...]``.
    """
    data = tf.convert_to_tensor(data)
    segment_ids = tf.convert_to_tensor(segment_ids)

    @tf.custom_gradient
    def run(values):
        count = tf.math.unsorted_segment_sum(
            tf.ones_like(segment_ids, dtype=values.dtype), segment_ids, num_segments
        )
        count = _per_row(tf.maximum(count, 1.0), values)
        mean = tf.math.unsorted_segment_sum(values, segment_ids, num_segments) / count
        centred = values - tf.gather(mean, segment_ids)
        dof = tf.maximum(count - tf.cast(ddof, values.dtype), 1.0)
        var = tf.math.unsorted_segment_sum(tf.square(centred), segment_ids, num_segments) / dof
        std = tf.sqrt(var + tf.cast(epsilon, values.dtype))

        def grad(upstream):
            per_segment = upstream / (count * std)
            return tf.gather(per_segment, segment_ids) * centred

        return std, grad

    return run(data)


def segment_product(data, segment_ids, num_segments):
    """Product of the rows of `data` in each segment; an empty segment gives one.

    :param data: values of shape ``[rows, ...]``; zeros are allowed.
    :param segment_ids: integer ids of shape ``[rows]``, in any order.
    :param num_segments: number of rows of the result.
    :returns: tensor of shape ``[num_segments, ...]``.
    """
    data = tf.convert_to_tensor(data)
    segment_ids = tf.convert_to_tensor(segment_ids)

    @tf.custom_gradient
    def run(values):
        is_zero = tf.equal(values, 0.0)
        filled = tf.where(is_zero, tf.ones_like(values), values)
        rest = tf.math.unsorted_segment_prod(filled, segment_ids, num_segments)
        zeros = tf.math.unsorted_segment_sum(
            tf.cast(is_zero, values.dtype), segment_ids, num_segments
        )
        out = tf.where(zeros > 0.0, tf.zeros_like(rest), rest)

        def grad(upstream):
            others = tf.gather(zeros, segment_ids) - tf.cast(is_zero, values.dtype)
            leave_one_out = tf.gather(rest, segment_ids) / filled
            leave_one_out = tf.where(others > 0.0, tf.zeros_like(values), leave_one_out)
            return tf.gather(upstream, segment_ids) * leave_one_out

        return out, grad

    return run(data)


def ordered_weighted_average(x, weights, axis=-1):
    x = tf.convert_to_tensor(x)
    weights = tf.convert_to_tensor(weights, dtype=x.dtype)
    rank = x.shape.rank
    axis = axis % rank
    perm = [i for i in range(rank) if i != axis] + [axis]
    back = [perm.index(i) for i in range(rank)]

    @tf.custom_gradient
    def owa(x, weights):
        rows = tf.transpose(x, perm)
        order = tf.argsort(rows, axis=-1, direction="DESCENDING", stable=True)
        ordered = tf.gather(rows, order, axis=-1, batch_dims=rank - 1)
        value = tf.linalg.matvec(ordered, weights)

        def grad(upstream):
            spread = upstream[..., tf.newaxis]
            d_rows = spread * tf.gather(weights, order)
            d_weights = tf.reduce_sum(spread * ordered, axis=list(range(rank - 1)))
            return tf.transpose(d_rows, back), d_weights

        return value, grad

    return owa(x, weights)


class OrderedPooling(tf.Module):
    """Pools an axis by a learned ordered weighted average."""

    def __init__(self, size: int, axis: int = 1, name: Optional[str] = None):
        super().__init__(name=name)
        self.axis = axis
        self.scores = tf.Variable(tf.zeros([size]), name="scores")

    def __call__(self, x):
        return ordered_weighted_average(x, tf.nn.softmax(self.scores), axis=self.axis)
