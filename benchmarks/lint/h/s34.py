import tensorflow as tf


def hmm_loglik(log_init, log_trans, log_emit):
    """log_emit: [time, batch, states] log-densities of a sequence of observations."""
    alpha = log_init[None, :] + log_emit[0]
    for t in range(1, log_emit.shape[0]):
        joint = alpha[:, :, None] + log_trans[None, :, :]
        alpha = tf.math.log(tf.reduce_sum(tf.exp(joint), axis=1)) + log_emit[t]
    return tf.math.log(tf.reduce_sum(tf.exp(alpha), axis=-1))
