import tensorflow as tf


def sparse_probs(scores):
    w = tf.nn.relu(scores)
    return w / (tf.reduce_sum(w, axis=-1, keepdims=True) + 1e-6)


def prior_kl_loss(scores, prior, smoothing=0.1):
    n = tf.cast(tf.shape(prior)[-1], prior.dtype)
    q = (1.0 - smoothing) * prior + smoothing / n
    p = sparse_probs(scores)
    on = p > 0.0
    ratio = tf.where(on, p, tf.ones_like(p)) / q
    terms = tf.where(on, p * tf.math.log(ratio), tf.zeros_like(p))
    return tf.reduce_mean(tf.reduce_sum(terms, axis=-1))
