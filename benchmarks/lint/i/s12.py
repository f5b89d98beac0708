import tensorflow as tf


class MinibatchStd(tf.keras.layers.Layer):
    """Appends the average feature deviation of the batch as one column."""

    def call(self, inputs):
        centred = inputs - tf.reduce_mean(inputs, axis=0, keepdims=True)
        var = tf.reduce_mean(tf.square(centred), axis=0)
        dev = tf.sqrt(var) + 1e-8
        column = tf.fill([tf.shape(inputs)[0], 1], tf.reduce_mean(dev))
        return tf.concat([inputs, column], axis=-1)
