import tensorflow as tf


def global_norm(grads):
    squares = []
    for g in grads:
        g = tf.cast(g, tf.float64)
        squares.append(tf.reduce_sum(tf.square(g)))
    return tf.sqrt(tf.add_n(squares))


def clip_gradients(grads, max_norm=1.0):
    norm = tf.cast(tf.stop_gradient(global_norm(grads)), tf.float32)
    scale = max_norm / tf.maximum(norm, max_norm)
    return [g * scale for g in grads], norm
