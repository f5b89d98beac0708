import tensorflow as tf


class SmoothedCrossEntropy(tf.keras.losses.Loss):
    def __init__(self, smoothing=0.1, **kwargs):
        super().__init__(**kwargs)
        self.smoothing = smoothing

    def call(self, y_true, y_pred):
        n = tf.cast(tf.shape(y_pred)[-1], y_pred.dtype)
        target = y_true * (1.0 - self.smoothing) + self.smoothing / n
        log_probs = tf.nn.log_softmax(y_pred, axis=-1)
        return -tf.reduce_sum(target * log_probs, axis=-1)
