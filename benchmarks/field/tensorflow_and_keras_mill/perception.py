"""Blocks of the perception stack: saliency, point clouds, attention."""

from __future__ import annotations

import tensorflow as tf


@tf.RegisterGradient("PerceptionGuidedRelu")
def _guided_relu_grad(op, grad):
    zeros = tf.zeros_like(grad)
    return tf.where(op.outputs[0] > 0.0, tf.where(grad > 0.0, grad, zeros), zeros)


@tf.function
def guided_relu(x):
    """ReLU with the guided-backpropagation gradient of Springenberg et al.

    In the backward pass only the positive part of the incoming gradient goes through,
    and only where the unit was active. Meant for saliency maps, not for training.
    """
    graph = tf.compat.v1.get_default_graph()
    with graph.gradient_override_map({"Relu": "PerceptionGuidedRelu"}):
        return tf.nn.relu(x)


def _scatter_rows(rows, index, like):
    return tf.tensor_scatter_nd_update(tf.zeros_like(like), index[:, tf.newaxis], rows)


def chamfer_distance(first, second, *, backward_weight=1.0, reduction="mean"):
    """Squared Chamfer distance between two point sets.

    Parameters
    ----------
    first : tf.Tensor
        Points, ``[n, d]``.
    second : tf.Tensor
        Points, ``[m, d]``.
    backward_weight : float
        Weight of the distances from ``second`` to ``first``.
    reduction : {"mean", "sum"}
        How the distances of one direction are put together.

    Returns
    -------
    tf.Tensor
        A scalar.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f"unknown reduction {reduction!r}")

    @tf.custom_gradient
    def _chamfer(a, b):
        d2 = tf.reduce_sum(tf.square(a[:, tf.newaxis, :] - b[tf.newaxis, :, :]), axis=-1)
        to_b = tf.argmin(d2, axis=1)
        to_a = tf.argmin(d2, axis=0)
        fwd = tf.reduce_min(d2, axis=1)
        bwd = tf.reduce_min(d2, axis=0)
        if reduction == "mean":
            fwd_w = 1.0 / tf.cast(tf.shape(a)[0], a.dtype)
            bwd_w = backward_weight / tf.cast(tf.shape(b)[0], a.dtype)
        else:
            fwd_w = tf.ones([], a.dtype)
            bwd_w = tf.cast(backward_weight, a.dtype)
        value = fwd_w * tf.reduce_sum(fwd) + bwd_w * tf.reduce_sum(bwd)

        def grad(upstream):
            pull_a = 2.0 * upstream * fwd_w * (a - tf.gather(b, to_b))
            pull_b = 2.0 * upstream * bwd_w * (b - tf.gather(a, to_a))
            grad_a = pull_a - _scatter_rows(pull_b, to_a, a)
            grad_b = pull_b - _scatter_rows(pull_a, to_b, b)
            return grad_a, grad_b

        return value, grad

    return _chamfer(first, second)


class RelativeBiasAttention:
    """Attention with an additive position bias shared over the batch.

    Args:
      scale: Factor of the dot products; the inverse root of the head size if `None`.
      causal: Whether a query sees only the keys up to its own position. Queries are
        aligned with the last keys.
    """

    def __init__(self, scale: float | None = None, causal: bool = False):
        self.scale = scale
        self.causal = causal

    def _visible(self, queries, keys):
        rows = tf.range(queries)[:, tf.newaxis] + (keys - queries)
        return tf.range(keys)[tf.newaxis, :] <= rows

    def attend(self, query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        """`query`: [b, h, q, d]; `key`, `value`: [b, h, k, d]; `bias`: [h, q, k]."""
        scale = self.scale if self.scale is not None else float(query.shape[-1]) ** -0.5

        @tf.custom_gradient
        def _attend(q, k, v, bias):
            logits = scale * tf.matmul(q, k, transpose_b=True) + bias
            if self.causal:
                visible = self._visible(tf.shape(q)[-2], tf.shape(k)[-2])
                logits = tf.where(visible, logits, tf.constant(logits.dtype.min, logits.dtype))
            weights = tf.nn.softmax(logits, axis=-1)

            def grad(upstream):
                d_weights = tf.matmul(upstream, v, transpose_b=True)
                row = tf.reduce_sum(d_weights * weights, axis=-1, keepdims=True)
                d_logits = scale * weights * (d_weights - row)
                return (
                    tf.matmul(d_logits, k),
                    tf.matmul(d_logits, q, transpose_a=True),
                    tf.matmul(weights, upstream, transpose_a=True),
                    tf.reduce_sum(d_logits, axis=0),
                )

            return tf.matmul(weights, v), grad

        return _attend(query, key, value, bias)

    __call__ = attend
