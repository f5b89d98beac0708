import tensorflow as tf


def pairwise_dist(a, b):
    """Euclidean distances, [N, D] x [M, D] -> [N, M]."""
    aa = tf.reduce_sum(tf.square(a), axis=1, keepdims=True)
    bb = tf.reduce_sum(tf.square(b), axis=1)
    sq = aa - 2.0 * tf.matmul(a, b, transpose_b=True) + bb
    return tf.sqrt(sq)


def triplet_margin(anchor, positive, negative, margin=0.2):
    d_pos = tf.linalg.diag_part(pairwise_dist(anchor, positive))
    d_neg = tf.reduce_min(pairwise_dist(anchor, negative), axis=1)
    return tf.reduce_mean(tf.nn.relu(d_pos - d_neg + margin))
