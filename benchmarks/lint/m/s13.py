import keras
from keras import ops


class AttentionPool(keras.layers.Layer):
    def build(self, input_shape):
        self.w = self.add_weight(shape=(input_shape[-1], 1), initializer="ones", name="w")

    def call(self, inputs):
        scores = ops.squeeze(ops.matmul(inputs, self.w), -1)
        scores -= ops.max(scores, axis=1, keepdims=True)
        weights = ops.exp(scores)
        weights /= ops.sum(weights, axis=1, keepdims=True)
        return ops.sum(inputs * ops.expand_dims(weights, -1), axis=1)
