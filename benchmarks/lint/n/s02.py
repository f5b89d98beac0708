import keras
import tensorflow as tf


class VarianceFloor(keras.losses.Loss):
    def __init__(self, target=1.0, eps=1e-4, **kwargs):
        super().__init__(**kwargs)
        self.target = target
        self.eps = 1e-4 if eps <= 0 else eps

    def call(self, y_true, y_pred):
        centred = y_pred - tf.reduce_mean(y_pred, axis=0, keepdims=True)
        power = tf.reduce_mean(tf.square(centred), axis=0)
        spread = tf.sqrt(power + self.eps)
        hinge = tf.nn.relu(self.target - spread)
        return tf.reduce_mean(hinge)
