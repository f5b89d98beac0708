import tensorflow.compat.v1 as tf

tf.disable_eager_execution()



def batch_norm(x, gamma, beta, eps=1e-5):
    mean = tf.reduce_mean(x, axis=0)
    centred = x - mean
    var = tf.reduce_mean(tf.square(centred), axis=0)
    inv = gamma * tf.rsqrt(var + eps)
    return centred * inv + beta
