import tensorflow as tf

KNEE = 0.0031308


def linear_to_srgb(x):
    """x: linear radiance in [0, 1], zero on the background."""
    low = 12.92 * x
    high = 1.055 * tf.pow(tf.maximum(x, KNEE), 1.0 / 2.4) - 0.055
    return tf.where(x <= KNEE, low, high)


def photometric_loss(render, target):
    return tf.reduce_mean(tf.square(linear_to_srgb(render) - target))
