import numpy as np
import tensorflow as tf


def policy_log_prob(u, mu, log_std):
    """Log density of tanh(u) for a diagonal Gaussian policy (soft actor-critic)."""
    log_std = tf.clip_by_value(log_std, -5.0, 2.0)
    noise = (u - mu) / tf.exp(log_std)
    gauss = -0.5 * tf.square(noise) - log_std - 0.5 * np.log(2.0 * np.pi)
    jac = 2.0 * (np.log(2.0) - u - tf.nn.softplus(-2.0 * u))
    return tf.reduce_sum(gauss - jac, axis=-1)
