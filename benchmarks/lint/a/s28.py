import tensorflow as tf


def soft_target_loss(teacher_logits, student_logits, temperature=2.0):
    """Hinton et al. 2015, soft targets."""
    log_p = tf.nn.log_softmax(teacher_logits / temperature, axis=-1)
    log_q = tf.nn.log_softmax(student_logits / temperature, axis=-1)
    p = tf.math.exp(log_p)
    kl = tf.reduce_sum(p * (log_p - log_q), axis=-1)
    return temperature ** 2 * tf.reduce_mean(kl)
