import tensorflow.compat.v1 as tf

tf.disable_eager_execution()



def pair_distance(left, right):
    d2 = tf.reduce_sum(tf.square(left - right), axis=1)
    return tf.sqrt(d2)


def contrastive_loss(left, right, same, margin=1.0):
    d = pair_distance(left, right)
    pos = same * tf.square(d)
    neg = (1.0 - same) * tf.square(tf.maximum(margin - d, 0.0))
    return 0.5 * tf.reduce_mean(pos + neg)
