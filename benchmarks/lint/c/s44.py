import tensorflow as tf

DTYPE = tf.float16


def rms_norm(x, gain, eps=1e-5):
    x = tf.cast(x, DTYPE)
    h = tf.cast(x, tf.float32)
    ms = tf.reduce_mean(tf.math.square(h), axis=-1, keepdims=True)
    y = h * tf.math.rsqrt(ms + eps)
    return tf.cast(y, DTYPE) * tf.cast(gain, DTYPE)
