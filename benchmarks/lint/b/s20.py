import tensorflow as tf


def policy_objective(logits, actions, advantages, beta=0.01):
    nll = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)
    log_probs = tf.nn.log_softmax(logits, axis=-1)
    entropy = -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=-1)
    return tf.reduce_mean(nll * tf.stop_gradient(advantages) - beta * entropy)
