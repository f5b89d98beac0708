import tensorflow as tf


def cross_dist(a, b):
    """Euclidean distances, [N, D] x [M, D] -> [N, M]."""
    diff = a[:, tf.newaxis, :] - b[tf.newaxis, :, :]
    sq = tf.reduce_sum(tf.square(diff), axis=-1)
    return tf.sqrt(sq + 1e-12)


def hardest_triplet(anchor, positive, negative, margin=0.2):
    d_pos = tf.linalg.diag_part(cross_dist(anchor, positive))
    d_neg = tf.reduce_min(cross_dist(anchor, negative), axis=1)
    return tf.reduce_mean(tf.nn.relu(d_pos - d_neg + margin))
