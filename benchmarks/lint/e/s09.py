import tensorflow as tf


def spherical_j0(x):
    small = tf.abs(x) < 0.1
    x2 = x * x
    series = 1.0 - x2 / 6.0 + x2 * x2 / 120.0
    return tf.where(small, series, tf.sin(x) / x)


def scattering_loss(q, r, target):
    """Debye intensity over pair distances r, fitted to target."""
    model = tf.reduce_mean(spherical_j0(q[:, None] * r[None, :]), axis=1)
    return tf.reduce_mean(tf.square(model - target))
