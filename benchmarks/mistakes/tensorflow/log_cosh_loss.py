import tensorflow as tf


@tf.custom_gradient
def log_cosh_loss(pred, target):
    """Mean of log(cosh(pred - target)). pred, target: (n, d) -> scalar"""
    err = pred - target
    loss = tf.reduce_mean(err + tf.nn.softplus(-2.0 * err) - tf.math.log(tf.constant(2.0, err.dtype)))

    def grad(dloss):
        count = tf.cast(tf.size(err), err.dtype)
        g = tf.tanh(err) / count
        return g, -g

    return loss, grad
