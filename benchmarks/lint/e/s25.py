import tensorflow as tf


def embedding_loss(emb, same, margin=0.3):
    """Pull rows of one class together; same[i, j] is 1.0 where labels agree."""
    diff = tf.expand_dims(emb, 1) - tf.expand_dims(emb, 0)
    d2 = tf.reduce_sum(tf.square(diff), axis=2)
    mask = tf.to_float(tf.equal(d2, 0.0))
    dist = tf.sqrt(d2 + mask * 1e-16) * (1.0 - mask)
    pull = tf.div(tf.reduce_sum(dist * same), tf.reduce_sum(same))
    push = tf.reduce_mean(tf.nn.relu(margin - dist) * (1.0 - same))
    return pull + push
