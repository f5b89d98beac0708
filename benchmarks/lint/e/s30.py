import tensorflow as tf


class RowNorm16(tf.Module):
    def __init__(self, dim, eps=1e-8):
        super().__init__()
        self.gamma = tf.Variable(tf.ones([dim], tf.float16))
        self.beta = tf.Variable(tf.zeros([dim], tf.float16))
        self.eps = eps

    def __call__(self, x):
        x = tf.cast(x, tf.float32)
        mu = tf.reduce_mean(x, axis=-1, keepdims=True)
        var = tf.reduce_mean(tf.square(x - mu), axis=-1, keepdims=True)
        y = (x - mu) / tf.sqrt(var + tf.cast(self.eps, x.dtype))
        return self.gamma * tf.cast(y, tf.float16) + self.beta
