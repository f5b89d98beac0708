import tensorflow as tf


def channel_norm(x, scale, shift, epsilon=1e-5):
    """Per-channel standardisation of sensor readings, x is [batch, time, channel]."""
    mean = tf.reduce_mean(x, axis=1, keep_dims=True)
    centred = x - mean
    var = tf.reduce_mean(tf.square(centred), axis=1, keep_dims=True)
    return tf.div(centred, tf.sqrt(var + epsilon)) * scale + shift
