import tensorflow as tf


def bpr_loss(user, pos_item, neg_item, scale=10.0):
    user = tf.math.l2_normalize(user, axis=-1)
    pos_item = tf.math.l2_normalize(pos_item, axis=-1)
    neg_item = tf.math.l2_normalize(neg_item, axis=-1)
    pos = tf.reduce_sum(user * pos_item, axis=-1)
    neg = tf.reduce_sum(user * neg_item, axis=-1)
    return -tf.reduce_mean(tf.math.log(tf.sigmoid(scale * (pos - neg))))
