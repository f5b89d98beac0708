import tensorflow as tf


def sinc(x):
    small = tf.abs(x) < 0.1
    x2 = x * x
    series = 1.0 - x2 / 6.0 + x2 * x2 / 120.0
    arg = tf.where(small, tf.ones_like(x), x)
    return tf.where(small, series, tf.sin(arg) / arg)


def debye_loss(q, r, target):
    """Debye intensity over pair distances r, fitted to target."""
    model = tf.reduce_mean(sinc(q[:, None] * r[None, :]), axis=1)
    return tf.reduce_mean(tf.square(model - target))
