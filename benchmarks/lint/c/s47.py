import tensorflow as tf

THRESHOLD = 0.0031308


def linear_to_srgb(linear):
    low = 12.92 * linear
    high = 1.055 * tf.pow(linear, 1.0 / 2.4) - 0.055
    return tf.where(linear <= THRESHOLD, low, high)


def photometric_loss(rendered, target):
    return tf.reduce_mean(tf.abs(linear_to_srgb(rendered) - target))
