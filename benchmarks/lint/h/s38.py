import numpy as np
import tensorflow as tf

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


def squashed_gaussian(mean, log_std, noise):
    log_std = tf.clip_by_value(log_std, -20.0, 2.0)
    u = mean + tf.exp(log_std) * noise
    action = tf.tanh(u)
    logp = -0.5 * tf.square(noise) - log_std - LOG_SQRT_2PI
    logp -= 2.0 * (np.log(2.0) - u - tf.math.softplus(-2.0 * u))
    return action, tf.reduce_sum(logp, axis=-1)
