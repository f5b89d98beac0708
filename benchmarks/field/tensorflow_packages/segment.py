"""Reductions over segments and ragged rows."""

import functools

import tensorflow as tf


def _column(vector, like):
    """Appends unit axes to `vector` until it has the rank of `like`."""
    extra = like.shape.rank - vector.shape.rank
    return tf.reshape(vector, tf.concat(
        [tf.shape(vector), tf.ones([extra], tf.int32)], axis=0))


def segment_softmax(values, segment_ids, num_segments):
    total = functools.partial(
        tf.math.unsorted_segment_sum, segment_ids=segment_ids,
        num_segments=num_segments)

    @tf.custom_gradient
    def _softmax(values):
        peak = tf.math.unsorted_segment_max(values, segment_ids, num_segments)
        e = tf.exp(values - tf.gather(peak, segment_ids))
        p = e / tf.gather(total(e), segment_ids)

        def grad(g):
            inner = tf.gather(total(g * p), segment_ids)
            return p * (g - inner)

        return p, grad

    return _softmax(tf.convert_to_tensor(values))


def segment_weighted_mean(values, weights, segment_ids, num_segments):
    @tf.custom_gradient
    def _mean(values, weights):
        w = _column(weights, values)
        mass = tf.math.unsorted_segment_sum(weights, segment_ids, num_segments)
        sums = tf.math.unsorted_segment_sum(w * values, segment_ids, num_segments)
        mass = _column(mass, sums)
        mean = tf.math.divide_no_nan(sums, mass)

        def grad(g):
            g_rows = tf.gather(tf.math.divide_no_nan(g, mass), segment_ids)
            d_values = w * g_rows
            d_weights = g_rows * values
            d_weights = tf.reduce_sum(
                d_weights, axis=list(range(1, values.shape.rank)))
            return d_values, d_weights

        return mean, grad

    return _mean(tf.convert_to_tensor(values), tf.convert_to_tensor(weights))


def embedding_bag(params, indices, row_splits, combiner="mean"):
    """Looks up embeddings and combines those of each ragged row.

    Parameters
    ----------
    params : tf.Tensor
        Table, ``[vocabulary, dim]``.
    indices : tf.Tensor
        Flat ids of all rows; ids may repeat.
    row_splits : tf.Tensor
        ``[rows + 1]`` offsets into ``indices``.
    combiner : {"sum", "mean", "sqrtn"}
        ``"mean"`` divides the sum by the length of the row and ``"sqrtn"`` by the
        square root of the length. Empty rows give zeros.

    Returns
    -------
    tf.Tensor
        ``[rows, dim]``.
    """
    if combiner not in ("sum", "mean", "sqrtn"):
        raise ValueError(f"unknown combiner {combiner!r}")
    indices = tf.convert_to_tensor(indices)
    row_splits = tf.convert_to_tensor(row_splits)
    lengths = row_splits[1:] - row_splits[:-1]
    num_rows = tf.shape(lengths)[0]
    row_ids = tf.repeat(tf.range(num_rows), lengths)

    @tf.custom_gradient
    def _bag(params):
        count = tf.cast(tf.maximum(lengths, 1), params.dtype)[:, tf.newaxis]
        out = tf.math.unsorted_segment_sum(
            tf.gather(params, indices), row_ids, num_rows)
        if combiner == "mean":
            out = out / count
        elif combiner == "sqrtn":
            out = out / tf.sqrt(count)

        def grad(g):
            if combiner != "sum":
                g = g / count
            per_item = tf.gather(g, row_ids)
            return tf.math.unsorted_segment_sum(
                per_item, indices, tf.shape(params)[0])

        return out, grad

    return _bag(tf.convert_to_tensor(params))
