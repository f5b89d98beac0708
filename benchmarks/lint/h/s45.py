import keras
from keras import layers, ops


class AttentionPool(layers.Layer):
    """x: [batch, steps, dim], mask: [batch, steps], False on padding; rows may be empty."""

    def build(self, input_shape):
        dim = input_shape[-1]
        self.w = self.add_weight(shape=(dim, dim), initializer="glorot_uniform", name="w")
        self.u = self.add_weight(shape=(dim, 1), initializer="glorot_uniform", name="u")

    def call(self, x, mask=None):
        score = ops.tanh(ops.matmul(ops.tanh(ops.matmul(x, self.w)), self.u))
        a = ops.exp(ops.squeeze(score, axis=-1))
        if mask is not None:
            a = a * ops.cast(mask, a.dtype)
        a = a / (ops.sum(a, axis=1, keepdims=True) + keras.config.epsilon())
        return ops.sum(x * ops.expand_dims(a, axis=-1), axis=1)
