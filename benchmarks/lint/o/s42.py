import math

import tensorflow as tf
from tensorflow import keras


class DensityHead(keras.layers.Layer):
    """Mixture density output for a scalar target."""

    def __init__(self, n_comp=5, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3 * n_comp)

    def call(self, h):
        return self.dense(h)


def mixture_nll(y, out):
    logits, mu, raw = tf.split(out, 3, axis=-1)
    log_pi = tf.nn.log_softmax(logits, axis=-1)
    sigma = tf.nn.softplus(raw) + 1e-3
    z = (y - mu) / sigma
    log_dens = -0.5 * tf.square(z) - tf.math.log(sigma) - 0.5 * math.log(2 * math.pi)
    ll = tf.reduce_logsumexp(log_pi + log_dens, axis=-1)
    return -tf.reduce_mean(ll)
