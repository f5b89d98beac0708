import tensorflow.compat.v1 as tf


def masked_attention(scores, mask):
    """Weights over tokens; every row of mask (0 or 1, float) keeps at least one."""
    e = tf.multiply(tf.exp(scores), mask)
    z = tf.reduce_sum(e, axis=1, keep_dims=True)
    return tf.div(e, z)
