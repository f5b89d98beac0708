import tensorflow as tf


def classifier_loss(features, w, b, labels):
    """labels: one-hot, [batch, classes]."""
    logits = tf.matmul(features, w) + b
    logits -= tf.reduce_max(logits, axis=1, keep_dims=True)
    e = tf.exp(logits)
    total = tf.reduce_sum(e, axis=1, keep_dims=True)
    probs = tf.div(e, total)
    logp = logits - tf.log(total)
    loss = -tf.reduce_mean(tf.reduce_sum(labels * logp, axis=1))
    return loss, probs
