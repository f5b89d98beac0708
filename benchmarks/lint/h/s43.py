import tensorflow as tf


def minibatch_stddev_layer(x, group_size=4):
    """x: [N, C, H, W], appends one map with the spread over the group."""
    s = x.shape
    y = tf.reshape(x, [group_size, -1, s[1], s[2], s[3]])
    y -= tf.reduce_mean(y, axis=0, keep_dims=True)
    y = tf.reduce_mean(tf.square(y), axis=0)
    y = tf.sqrt(y)
    y = tf.reduce_mean(y, axis=[1, 2, 3], keep_dims=True)
    y = tf.tile(y, [group_size, 1, s[2], s[3]])
    return tf.concat([x, y], axis=1)
