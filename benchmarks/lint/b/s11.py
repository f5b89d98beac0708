import tensorflow as tf


def actor_loss(logits, actions, advantages, beta=0.01):
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)
    probs = tf.nn.softmax(logits, axis=-1)
    entropy = -tf.reduce_sum(probs * tf.math.log(probs), axis=-1)
    return tf.reduce_mean(nll * tf.stop_gradient(advantages) - beta * entropy)
