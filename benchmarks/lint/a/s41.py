import tensorflow.compat.v1 as tf


def token_weights(scores, mask):
    """Weights over tokens; every row of mask (0 or 1, float) keeps at least one."""
    kept = tf.where(mask > 0, scores, -1e9 * tf.ones_like(scores))
    top = tf.reduce_max(kept, axis=1, keep_dims=True)
    e = tf.multiply(tf.exp(kept - top), mask)
    z = tf.reduce_sum(e, axis=1, keep_dims=True)
    return tf.div(e, z)
