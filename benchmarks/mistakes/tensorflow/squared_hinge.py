"""Squared hinge loss per example."""
import tensorflow as tf


@tf.custom_gradient
def squared_hinge(score, label):
    """score: (n,), label: (n,) of +1 and -1. Returns (n,)."""
    margin = 1.0 - label * score
    loss = tf.square(tf.nn.relu(margin))

    def grad(upstream):
        active = tf.cast(margin < 0, margin.dtype)
        d = upstream * 2.0 * margin * active
        return -d * label, -d * score

    return loss, grad
