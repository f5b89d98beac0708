import tensorflow as tf


def masked_mae(y_true, y_pred, pad_value=-1.0):
    keep = tf.cast(tf.not_equal(y_true, pad_value), tf.float32)
    err = tf.abs(y_true - y_pred) * keep
    n_valid = tf.maximum(tf.reduce_sum(keep), 1.0)
    return tf.reduce_sum(err) / n_valid
