import tensorflow.compat.v1 as tf

EPS = 1e-10


def reconstruction_loss(x, x_hat):
    """Bernoulli likelihood of the pixels; x and x_hat lie in [0, 1], float32."""
    on = x * tf.log(EPS + x_hat)
    off = (1.0 - x) * tf.log(EPS + 1.0 - x_hat)
    return -tf.reduce_sum(on + off, axis=1)


def kl_term(mu, log_var):
    return -0.5 * tf.reduce_sum(1.0 + log_var - tf.square(mu) - tf.exp(log_var), axis=1)
