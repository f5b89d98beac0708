"""ELU with a trainable alpha."""
import tensorflow as tf


@tf.custom_gradient
def elu_alpha(x, alpha):
    """x: (n,), alpha: scalar. alpha * (exp(x) - 1) for negative x."""
    neg = tf.math.expm1(tf.minimum(x, 0.0))
    y = tf.where(x > 0, x, alpha * neg)

    def grad(dy):
        slope = tf.where(x > 0, tf.ones_like(x), y + 1.0)
        return dy * slope, tf.reduce_sum(dy * neg)

    return y, grad
