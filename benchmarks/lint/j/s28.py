import tensorflow as tf


class MinibatchStd(tf.Module):
    def __init__(self, epsilon=1e-8):
        super().__init__()
        self.epsilon = epsilon

    def __call__(self, features):
        mean = tf.reduce_mean(features, axis=0, keepdims=True)
        variance = tf.reduce_mean(tf.square(features - mean), axis=0)
        stddev = tf.sqrt(variance) + self.epsilon
        statistic = tf.reduce_mean(stddev)
        batch = tf.shape(features)[0]
        extra = tf.fill([batch, 1], statistic)
        return tf.concat([features, extra], axis=1)
