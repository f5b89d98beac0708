import numpy as np
import tensorflow as tf


def gaussian_likelihood(x, mu, log_std):
    pre_sum = -0.5 * (((x - mu) / tf.exp(log_std)) ** 2 + 2 * log_std + np.log(2 * np.pi))
    return tf.reduce_sum(pre_sum, axis=1)


def squashed_logp(u, mu, log_std):
    logp = gaussian_likelihood(u, mu, log_std)
    logp -= tf.reduce_sum(2 * (np.log(2.) - u - tf.nn.softplus(-2 * u)), axis=1)
    return tf.tanh(u), logp
