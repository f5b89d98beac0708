import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()



def gaussian_logp(u, mu, log_std):
    log_std = tf.clip_by_value(log_std, -20.0, 2.0)
    z = (u - mu) * tf.exp(-log_std)
    return tf.reduce_sum(-0.5 * (tf.square(z) + np.log(2 * np.pi)) - log_std, axis=1)


def squashed_logp(u, mu, log_std):
    logp = gaussian_logp(u, mu, log_std)
    action = tf.tanh(u)
    correction = 2.0 * (np.log(2.0) - u - tf.nn.softplus(-2.0 * u))
    logp -= tf.reduce_sum(correction, axis=1)
    return action, logp
