import tensorflow as tf


@tf.custom_gradient
def l2_normalize(x):
    """Scale each row to unit length. x: (n, d) -> (n, d)"""
    norm = tf.sqrt(tf.reduce_sum(x * x, axis=-1, keepdims=True))
    y = x / norm

    def backward(dy):
        radial = tf.reduce_sum(dy * y, axis=-1)
        return (dy - y * radial) / norm

    return y, backward
