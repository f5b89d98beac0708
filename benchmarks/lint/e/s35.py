import tensorflow as tf


def classification_loss(logits, onehot, weights=None):
    z = logits - tf.reduce_max(logits, axis=1, keep_dims=True)
    norm = tf.log(tf.reduce_sum(tf.exp(z), axis=1, keep_dims=True))
    xent = -tf.reduce_sum(onehot * (z - norm), axis=1)
    if weights is not None:
        xent = xent * weights
    return tf.reduce_mean(xent)
