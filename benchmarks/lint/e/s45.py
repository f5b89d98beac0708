import tensorflow as tf


def categorical_loss(logits, onehot, weights=None):
    e = tf.exp(logits - tf.reduce_max(logits, axis=1, keep_dims=True))
    probs = tf.div(e, tf.reduce_sum(e, axis=1, keep_dims=True))
    xent = -tf.reduce_sum(onehot * tf.log(probs), axis=1)
    if weights is not None:
        xent = xent * weights
    return tf.reduce_mean(xent)
