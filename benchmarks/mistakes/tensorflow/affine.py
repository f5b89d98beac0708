"""Affine map with a bias."""
import tensorflow as tf


@tf.custom_gradient
def affine(x, w, b):
    """x: (batch, d_in), w: (d_in, d_out), b: (d_out,) -> (batch, d_out)"""

    def grad(dy):
        dx = tf.matmul(dy, w, transpose_b=True)
        dw = tf.matmul(x, dy, transpose_a=True)
        db = tf.reduce_sum(dy, axis=1)
        return dx, dw, db

    return tf.matmul(x, w) + b, grad
