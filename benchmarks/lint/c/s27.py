import tensorflow as tf
from tensorflow import nn


def distillation_kl(teacher_logits, student_logits, T=2.0):
    p = nn.log_softmax(teacher_logits / T, axis=-1)
    q = nn.log_softmax(student_logits / T, axis=-1)
    kl = tf.reduce_sum(tf.math.exp(p) * (p - q), axis=-1)
    return T * T * tf.reduce_mean(kl)
