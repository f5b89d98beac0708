import keras
from keras import ops


class AttentionPooling(keras.layers.Layer):
    def build(self, input_shape):
        self.query = self.add_weight(
            name="query", shape=(input_shape[-1], 1), initializer="glorot_uniform"
        )

    def call(self, hidden):
        e = ops.squeeze(ops.matmul(hidden, self.query), axis=-1)
        a = ops.exp(e - ops.max(e, axis=1, keepdims=True))
        a = a / (ops.sum(a, axis=1, keepdims=True) + keras.config.epsilon())
        return ops.sum(hidden * ops.expand_dims(a, -1), axis=1)
