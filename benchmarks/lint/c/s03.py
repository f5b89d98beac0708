import tensorflow as tf
from tensorflow import nn


def distillation_kl(teacher_logits, student_logits, T=2.0):
    p = nn.softmax(teacher_logits / T, axis=-1)
    q = nn.softmax(student_logits / T, axis=-1)
    kl = tf.reduce_sum(p * tf.math.log(p / q), axis=-1)
    return T * T * tf.reduce_mean(kl)
