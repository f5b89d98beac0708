"""Message passing and sparse-feature operations.

Graphs are given as COO edge lists: ``senders[e] -> receivers[e]``, both int32/int64
of shape [E]. Node features are [N, F]. Several graphs are batched by stacking their
nodes (and offsetting the indices), as everywhere.
"""
from typing import Optional

import tensorflow as tf


def _per_edge(values: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """[E] -> [E, 1, ..., 1] with the rank of `like`."""
    return tf.reshape(values, tf.concat(
        [tf.shape(values), tf.ones([tf.rank(like) - 1], tf.int32)], axis=0))


@tf.function
def segment_softmax(scores: tf.Tensor, segment_ids: tf.Tensor, num_segments: int) -> tf.Tensor:
    """Softmax of edge scores among the edges which point at the same node (GAT).

    Parameters
    ----------
    scores : tf.Tensor
        [E] or [E, heads].
    segment_ids : tf.Tensor
        [E], not necessarily sorted.
    num_segments : int
        Number of nodes; nodes without edges are fine.

    Returns
    -------
    tf.Tensor
        Same shape as `scores`.
    """

    @tf.custom_gradient
    def op(scores):
        top = tf.math.unsorted_segment_max(scores, segment_ids, num_segments)
        e = tf.exp(scores - tf.gather(top, segment_ids))
        total = tf.math.unsorted_segment_sum(e, segment_ids, num_segments)
        alpha = e / tf.gather(total, segment_ids)

        def backward(g):
            dot = tf.math.unsorted_segment_sum(g * alpha, segment_ids, num_segments)
            return alpha * (g - tf.gather(dot, segment_ids))

        return alpha, backward

    return op(scores)


@tf.custom_gradient
def embedding_bag(table, ids, weights):
    """Weighted sum of the embeddings of a bag of ids.

    table [V, D], ids [B, L] int, weights [B, L]  ->  [B, D]
    """
    rows = tf.gather(table, ids)                      # B, L, D
    out = tf.einsum("bl,bld->bd", weights, rows)

    def backward(g):
        d_rows = weights[..., tf.newaxis] * g[:, tf.newaxis, :]
        d_table = tf.tensor_scatter_nd_update(
            tf.zeros_like(table), ids[..., tf.newaxis], d_rows)
        d_weights = tf.einsum("bd,bld->bl", g, rows)
        return d_table, None, d_weights

    return out, backward


class GraphConv(tf.Module):
    """Kipf & Welling convolution  D^-1/2 A D^-1/2 X W.

    The product with W comes last, so that only the propagated features have to be kept.
    """

    def __init__(self, in_dim: int, out_dim: int, dtype=tf.float32, name: Optional[str] = None):
        super().__init__(name=name)
        limit = (6.0 / (in_dim + out_dim)) ** 0.5
        self.kernel = tf.Variable(
            tf.random.stateless_uniform([in_dim, out_dim], [in_dim, out_dim], -limit, limit, dtype),
            name="kernel")

    def __call__(self, x, senders, receivers):
        n = tf.shape(x)[0]
        ones = tf.ones_like(senders, dtype=x.dtype)
        out_deg = tf.maximum(tf.math.unsorted_segment_sum(ones, senders, n), 1)
        in_deg = tf.maximum(tf.math.unsorted_segment_sum(ones, receivers, n), 1)
        coef = _per_edge(tf.math.rsqrt(tf.gather(out_deg, senders) * tf.gather(in_deg, receivers)), x)

        @tf.custom_gradient
        def conv(x):
            agg = tf.math.unsorted_segment_sum(coef * tf.gather(x, senders), receivers, n)
            y = tf.matmul(agg, self.kernel)

            def backward(g, variables=None):
                d_agg = tf.matmul(g, self.kernel, transpose_b=True)
                dx = tf.math.unsorted_segment_sum(coef * tf.gather(d_agg, receivers), senders, n)
                d_kernel = tf.matmul(agg, g, transpose_a=True)
                return dx, [d_kernel for _ in variables]

            return y, backward

        return conv(x)


@tf.custom_gradient
def bi_interaction_pooling(embeddings, mask):
    """Bi-interaction pooling of neural factorization machines (He & Chua, 2017).

    Args:
        embeddings: field embeddings [B, fields, D].
        mask: [B, fields], 1 for present fields and 0 for missing ones (padding). Not trained.

    Returns:
        [B, D], the sum over all pairs of present fields of their elementwise products.
    """
    v = embeddings * mask[:, :, None]
    s = tf.reduce_sum(v, axis=1)
    pooled = 0.5 * (tf.square(s) - tf.reduce_sum(tf.square(v), axis=1))

    def backward(g):
        return g[:, None, :] * (s[:, None, :] - v), None

    return pooled, backward


def gat_layer(x, w, att, senders, receivers):
    """Single head graph attention out of the pieces above."""
    n = x.shape[0]
    h = tf.matmul(x, w)
    e = tf.concat([tf.gather(h, senders), tf.gather(h, receivers)], axis=-1)
    alpha = segment_softmax(tf.nn.leaky_relu(tf.linalg.matvec(e, att)), receivers, n)
    return tf.math.unsorted_segment_sum(alpha[:, None] * tf.gather(h, senders), receivers, n)


if __name__ == "__main__":
    src = tf.constant([0, 1, 2, 2, 3])
    dst = tf.constant([1, 2, 0, 3, 3])
    feats = tf.random.normal([4, 6])
    print(GraphConv(6, 3)(feats, src, dst).shape)
    print(gat_layer(feats, tf.random.normal([6, 3]), tf.random.normal([6]), src, dst).shape)
