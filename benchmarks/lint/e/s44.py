import tensorflow as tf


def pairwise_ranking(user, pos_item, neg_item, reg=1e-4):
    """Ranking loss over a batch of triples (user, clicked, sampled)."""
    pos = tf.reduce_sum(tf.multiply(user, pos_item), axis=1)
    neg = tf.reduce_sum(tf.multiply(user, neg_item), axis=1)
    rank = -tf.reduce_mean(tf.log_sigmoid(pos - neg))
    l2 = tf.nn.l2_loss(user) + tf.nn.l2_loss(pos_item) + tf.nn.l2_loss(neg_item)
    return rank + reg * l2
