import tensorflow as tf


def linear_to_srgb(linear):
    linear = tf.clip_by_value(linear, 0.0, 1.0)
    low = 12.92 * linear
    high = 1.055 * tf.pow(linear, 1.0 / 2.4) - 0.055
    return tf.where(linear <= 0.0031308, low, high)


def render_loss(radiance, photo, exposure):
    image = linear_to_srgb(radiance * exposure)
    return tf.reduce_mean(tf.square(image - photo))
