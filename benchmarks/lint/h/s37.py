import tensorflow as tf


def reconstruction_loss(x, x_hat, eps=1e-10):
    """x, x_hat: [batch, pixels] in [0, 1], float32; x_hat from the decoder."""
    on = x * tf.log(eps + x_hat)
    off = (1. - x) * tf.log(eps + (1. - x_hat))
    return -tf.reduce_mean(tf.reduce_sum(on + off, axis=1))


def vae_loss(x, x_hat, mu, sigma):
    kl = 0.5 * tf.reduce_sum(tf.square(mu) + tf.square(sigma) - tf.log(1e-8 + tf.square(sigma)) - 1., axis=1)
    return reconstruction_loss(x, x_hat) + tf.reduce_mean(kl)
