import numpy as np
import tensorflow.compat.v1 as tf

LOG_SQRT_2PI = np.log(np.sqrt(2 * np.pi))


def mdn_loss(y, logit_pi, mu, log_sigma):
    log_pi = tf.nn.log_softmax(logit_pi, axis=1)
    sigma = tf.exp(log_sigma)
    z = tf.div(y - mu, sigma)
    log_kernel = -0.5 * tf.square(z) - log_sigma - LOG_SQRT_2PI
    log_lik = tf.reduce_logsumexp(log_pi + log_kernel, 1, keep_dims=True)
    return tf.reduce_mean(-log_lik)
