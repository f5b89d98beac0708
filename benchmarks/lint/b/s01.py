import tensorflow.compat.v1 as tf


def attention_pool(hidden, w, axis=1):
    """hidden: (batch, time, units), w: (units,)."""
    scores = tf.reduce_sum(hidden * w, axis=-1)
    alpha = tf.div(tf.exp(scores), tf.reduce_sum(tf.exp(scores), axis=axis, keep_dims=True))
    return tf.reduce_sum(hidden * tf.expand_dims(alpha, -1), axis=axis)
