import math

import tensorflow as tf


def mvn_log_prob(x, loc, cov):
    dim = x.shape[-1]
    diff = tf.expand_dims(x - loc, -1)
    maha = tf.squeeze(tf.matmul(diff, tf.linalg.solve(cov, diff), transpose_a=True), [-2, -1])
    volume = tf.linalg.det(cov)
    log_norm = dim * math.log(2.0 * math.pi) + tf.math.log(volume)
    return -0.5 * (maha + log_norm)
