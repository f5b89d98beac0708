import math

import tensorflow as tf
from tensorflow import keras


class MixtureHead(keras.layers.Layer):
    """Mixture density output for a scalar target."""

    def __init__(self, n_comp=5, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(3 * n_comp)

    def call(self, h):
        return self.dense(h)


def mdn_loss(y, out):
    logits, mu, raw = tf.split(out, 3, axis=-1)
    pi = tf.nn.softmax(logits, axis=-1)
    sigma = tf.nn.softplus(raw) + 1e-3
    z = (y - mu) / sigma
    dens = tf.exp(-0.5 * tf.square(z)) / (sigma * math.sqrt(2 * math.pi))
    lik = tf.reduce_sum(pi * dens, axis=-1)
    return -tf.reduce_mean(tf.math.log(lik))
