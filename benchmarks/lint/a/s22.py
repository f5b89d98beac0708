import tensorflow as tf


def distillation_loss(teacher_logits, student_logits, temperature=2.0):
    """Hinton et al. 2015, soft targets."""
    p = tf.nn.softmax(teacher_logits / temperature, axis=-1)
    q = tf.nn.softmax(student_logits / temperature, axis=-1)
    kl = tf.reduce_sum(p * (tf.math.log(p) - tf.math.log(q)), axis=-1)
    return temperature ** 2 * tf.reduce_mean(kl)
