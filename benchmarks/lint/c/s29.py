from tensorflow.keras import backend as K
from tensorflow.keras.layers import Layer


class AttentionPool(Layer):
    def build(self, input_shape):
        self.w = self.add_weight(name="w", shape=(input_shape[-1], 1), initializer="glorot_uniform")
        super().build(input_shape)

    def call(self, x):
        e = K.squeeze(K.dot(x, self.w), axis=-1)
        e = K.tanh(e)
        a = K.exp(e) / K.sum(K.exp(e), axis=1, keepdims=True)
        return K.sum(x * K.expand_dims(a, axis=-1), axis=1)
