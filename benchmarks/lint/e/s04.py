import tensorflow as tf


def standardize(x, scale, shift, epsilon=1e-5):
    """Per-channel standardisation of sensor readings, x is [batch, time, channel]."""
    mean = tf.reduce_mean(x, axis=1, keep_dims=True)
    second = tf.reduce_mean(tf.square(x), axis=1, keep_dims=True)
    var = second - tf.square(mean)
    return tf.div(x - mean, tf.sqrt(var + epsilon)) * scale + shift
