"""Reductions over rows, segments and edges."""
import tensorflow as tf


def ragged_standardize(values, row_splits, epsilon=1e-6):
    """Zero mean and unit variance within every row of a ragged batch.

    Args:
      values: `[total, ...]` flat values of the ragged batch.
      row_splits: `[rows + 1]` integer row splits.
      epsilon: added to the variance.

    Returns:
      Flat values of the standardised batch, shaped like `values`.
    """
    row_splits = tf.convert_to_tensor(row_splits)

    @tf.custom_gradient
    def _standardize(flat):
        ragged = tf.RaggedTensor.from_row_splits(flat, row_splits)
        rows = ragged.value_rowids()
        num_rows = ragged.nrows()

        def row_sum(t):
            return tf.math.unsorted_segment_sum(t, rows, num_rows)

        def spread(t):
            return tf.gather(t, rows)

        mean = spread(tf.math.unsorted_segment_mean(flat, rows, num_rows))
        centred = flat - mean
        variance = tf.math.unsorted_segment_mean(tf.square(centred), rows, num_rows)
        inv_std = spread(tf.math.rsqrt(variance + epsilon))
        normed = centred * inv_std

        def grad(dy):
            width = tf.cast(ragged.bounding_shape(axis=1), flat.dtype)
            along = spread(row_sum(dy))
            across = spread(row_sum(dy * normed))
            return inv_std / width * (width * dy - along - normed * across)

        return normed, grad

    return _standardize(tf.convert_to_tensor(values))


def segment_logsumexp(data, segment_ids, num_segments):
    """Log-sum-exp of the rows of `data` that share a segment id.

    Segments without rows give -inf; rows with a negative id are dropped.
    """

    @tf.custom_gradient
    def _segment_logsumexp(data):
        peak = tf.math.unsorted_segment_max(data, segment_ids, num_segments)
        usable = tf.math.is_finite(peak) & (peak > data.dtype.min)
        peak = tf.where(usable, peak, tf.zeros_like(peak))
        ids = tf.maximum(segment_ids, 0)
        total = tf.math.unsorted_segment_sum(
            tf.exp(data - tf.gather(peak, ids)), segment_ids, num_segments)
        out = tf.math.log(total) + peak

        def grad(dy):
            base = tf.where(tf.math.is_finite(out), out, tf.zeros_like(out))
            kept = tf.reshape(
                segment_ids >= 0,
                tf.concat([tf.shape(ids), tf.ones([tf.rank(data) - 1], tf.int32)], 0))
            share = tf.exp(tf.where(kept, data - tf.gather(base, ids), -float("inf")))
            return share * tf.gather(dy, ids)

        return out, grad

    segment_ids = tf.convert_to_tensor(segment_ids)
    return _segment_logsumexp(tf.convert_to_tensor(data))


@tf.custom_gradient
def edge_message_sum(node_features, edge_weights, senders, receivers):
    num_nodes = tf.shape(node_features)[0]
    sent = tf.gather(node_features, senders)
    received = tf.math.unsorted_segment_sum(sent * edge_weights[:, tf.newaxis], receivers, num_nodes)

    def grad(upstream):
        pulled = tf.gather(upstream, receivers)
        d_weights = tf.reduce_sum(pulled * sent, axis=-1)
        d_nodes = tf.tensor_scatter_nd_update(
            tf.zeros_like(node_features),
            senders[:, tf.newaxis],
            pulled * edge_weights[:, tf.newaxis],
        )
        return d_nodes, d_weights, None, None

    return received, grad


class EdgeAggregate(tf.Module):
    """Sums weighted neighbours and adds the node itself."""

    def __init__(self, self_weight=1.0, name=None):
        super().__init__(name=name)
        self.self_weight = self_weight

    def __call__(self, nodes, weights, senders, receivers):
        return self.self_weight * nodes + edge_message_sum(nodes, weights, senders, receivers)
