import tensorflow as tf


def _log10(x):
    return tf.math.log(tf.maximum(x, 1e-8)) / tf.math.log(10.0)


class NegativeSNR(tf.keras.losses.Loss):
    """Signal-to-noise ratio in dB for speech enhancement."""

    def call(self, y_true, y_pred):
        y_true = y_true - tf.reduce_mean(y_true, axis=-1, keepdims=True)
        signal = tf.reduce_sum(tf.square(y_true), axis=-1)
        noise = tf.reduce_sum(tf.square(y_true - y_pred), axis=-1)
        return -10.0 * (_log10(signal) - _log10(noise))
