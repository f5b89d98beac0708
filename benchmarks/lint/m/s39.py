import tensorflow as tf

GAMMA = 2.0



@tf.function
def focal_loss(labels, logits):
    signed = (2.0 * labels - 1.0) * logits
    log_pt = tf.math.log_sigmoid(signed)
    miss = tf.sigmoid(-signed)
    weight = tf.pow(miss, GAMMA)
    return -tf.reduce_mean(weight * log_pt)
