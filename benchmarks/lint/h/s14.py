import tensorflow as tf


def classifier_loss(features, w, b, labels):
    """labels: one-hot, [batch, classes]."""
    logits = tf.matmul(features, w) + b
    e = tf.exp(logits)
    probs = tf.div(e, tf.reduce_sum(e, axis=1, keep_dims=True))
    picked = tf.reduce_sum(probs * labels, axis=1)
    loss = -tf.reduce_mean(tf.log(picked + 1e-8))
    return loss, probs
