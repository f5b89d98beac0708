import math

import tensorflow as tf


def mvn_log_prob(x, loc, cov):
    dim = x.shape[-1]
    diff = tf.expand_dims(x - loc, -1)
    chol = tf.linalg.cholesky(cov)
    white = tf.linalg.triangular_solve(chol, diff, lower=True)
    maha = tf.reduce_sum(tf.square(white), axis=[-2, -1])
    volume = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(chol)), axis=-1)
    log_norm = dim * math.log(2.0 * math.pi) + volume
    return -0.5 * (maha + log_norm)
