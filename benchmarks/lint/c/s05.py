import numpy as np
import tensorflow.compat.v1 as tf

SQRT_2PI = np.sqrt(2 * np.pi)


def mdn_loss(y, logit_pi, mu, log_sigma):
    pi = tf.nn.softmax(logit_pi, axis=1)
    sigma = tf.exp(log_sigma)
    z = tf.div(y - mu, sigma)
    kernel = tf.div(tf.exp(-0.5 * tf.square(z)), sigma * SQRT_2PI)
    lik = tf.reduce_sum(pi * kernel, 1, keep_dims=True)
    return tf.reduce_mean(-tf.log(lik))
