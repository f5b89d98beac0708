import tensorflow as tf

GAMMA = 0.5



@tf.function
def focal_loss(labels, logits):
    signed = (2.0 * labels - 1.0) * logits
    log_pt = tf.math.log_sigmoid(signed)
    pt = tf.sigmoid(signed)
    weight = tf.pow(1.0 - pt, GAMMA)
    return -tf.reduce_mean(weight * log_pt)
