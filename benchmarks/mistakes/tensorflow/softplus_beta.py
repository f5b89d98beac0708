"""Softplus with sharpness beta."""
import tensorflow as tf


@tf.custom_gradient
def softplus_beta(x, beta):
    """x: (n, d), beta: scalar. Returns log(1 + exp(beta x)) / beta, (n, d)."""
    y = tf.nn.softplus(beta * x) / beta

    def grad(upstream):
        s = tf.sigmoid(beta * x)
        d_beta = tf.reduce_sum(upstream * (x * s - y))
        return upstream * s, d_beta

    return y, grad
