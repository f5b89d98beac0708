import tensorflow as tf


def clip_each(grads_and_vars, max_norm=5.0):
    clipped = []
    for g, v in grads_and_vars:
        norm = tf.sqrt(tf.reduce_sum(tf.square(g)))
        g = g * tf.minimum(1.0, tf.div(max_norm, norm))
        clipped.append((g, v))
    return clipped


def train_op(optimizer, loss, max_norm):
    gvs = optimizer.compute_gradients(loss)
    return optimizer.apply_gradients(clip_each(gvs, max_norm))
