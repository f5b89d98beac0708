"""Gather, scatter and segment ops for the graph and text models."""
import tensorflow as tf


@tf.custom_gradient
def embed_tokens(table, ids):
    """Rows of `table` for integer `ids` of any shape."""
    dim = table.shape[-1]

    def grad(dout):
        rows = tf.reshape(ids, [-1, 1])
        values = tf.reshape(dout, [-1, dim])
        dtable = tf.tensor_scatter_nd_update(tf.zeros_like(table), rows, values)
        return dtable, None

    return tf.gather(table, ids), grad


def segment_softmax(scores, segment_ids, num_segments):
    """Softmax over the edges that share a destination node.

    Args:
        scores: Tensor of shape `(edges, heads)`.
        segment_ids: int Tensor of shape `(edges,)`, need not be sorted.
        num_segments: number of nodes.

    Returns:
        Attention coefficients of shape `(edges, heads)`.
    """

    def per_edge(values):
        total = tf.math.unsorted_segment_sum(values, segment_ids, num_segments)
        return tf.gather(total, segment_ids)

    @tf.custom_gradient
    def _softmax(scores):
        top = tf.math.unsorted_segment_max(scores, segment_ids, num_segments)
        e = tf.exp(scores - tf.gather(top, segment_ids))
        alpha = e / per_edge(e)

        def grad(d_alpha):
            return alpha * (d_alpha - per_edge(alpha * d_alpha))

        return alpha, grad

    return _softmax(tf.convert_to_tensor(scores))


@tf.custom_gradient
def embedding_bag(table, ids, weights):
    """Weighted sum of embeddings per bag.

    table: "vocab dim", ids: "batch slots" (int), weights: "batch slots" -> "batch dim".
    The gradient of the table is sparse.
    """
    rows = tf.gather(table, ids)
    out = tf.einsum("bs,bsd->bd", weights, rows)

    def grad(dout):
        values = weights[..., None] * dout[:, None, :]
        dtable = tf.IndexedSlices(
            values=tf.reshape(values, [-1, table.shape[1]]),
            indices=tf.reshape(ids, [-1]),
            dense_shape=tf.shape(table),
        )
        dweights = tf.einsum("bd,bsd->bs", dout, rows)
        return dtable, None, dweights

    return out, grad


def gat_aggregate(features, scores, src, dst, num_nodes):
    """One head of graph attention, as used in train.py."""
    alpha = segment_softmax(scores[:, None], dst, num_nodes)
    messages = alpha * tf.gather(features, src)
    return tf.math.unsorted_segment_sum(messages, dst, num_nodes)


if __name__ == "__main__":
    tbl = tf.random.normal([11, 4])
    ids = tf.constant([[1, 4, 4], [0, 2, 10]])
    with tf.GradientTape() as tape:
        tape.watch(tbl)
        out = tf.reduce_sum(embedding_bag(tbl, ids, tf.ones([2, 3])))
    print(tape.gradient(out, tbl))
    print(embed_tokens(tbl, ids).shape)
