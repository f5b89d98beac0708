import tensorflow as tf


class Standardize(tf.Module):
    def __init__(self, units, eps=1e-5):
        super().__init__()
        self.gamma = tf.Variable(tf.ones([units]))
        self.beta = tf.Variable(tf.zeros([units]))
        self.eps = eps

    def __call__(self, x):
        mean = tf.reduce_mean(x, axis=0, keepdims=True)
        var = tf.reduce_mean(tf.square(x - mean), axis=0, keepdims=True)
        return (x - mean) * tf.math.rsqrt(var + self.eps) * self.gamma + self.beta
