import tensorflow as tf


def bpr_loss(user, pos_item, neg_item, reg=1e-4):
    """Bayesian personalised ranking over a batch of triples."""
    pos = tf.reduce_sum(user * pos_item, axis=1)
    neg = tf.reduce_sum(user * neg_item, axis=1)
    rank = -tf.reduce_mean(tf.log(tf.nn.sigmoid(pos - neg)))
    l2 = tf.nn.l2_loss(user) + tf.nn.l2_loss(pos_item) + tf.nn.l2_loss(neg_item)
    return rank + reg * l2
