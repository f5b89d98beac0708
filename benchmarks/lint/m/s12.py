import tensorflow.compat.v1 as tf

tf.disable_eager_execution()



def batch_norm(x, gamma, beta, eps=1e-5):
    mean = tf.reduce_mean(x, axis=0)
    mean_sq = tf.reduce_mean(tf.square(x), axis=0)
    var = mean_sq - tf.square(mean)
    inv = gamma * tf.rsqrt(var + eps)
    return (x - mean) * inv + beta
