import keras
from keras import ops


class ScoreAttention(keras.layers.Layer):
    def __init__(self, cap=20.0, **kwargs):
        super().__init__(**kwargs)
        self.cap = cap

    def call(self, query, key, value):
        depth = query.shape[-1]
        scores = ops.matmul(query, ops.transpose(key, (0, 2, 1)))
        scores = scores / depth**0.5
        weights = ops.exp(scores)
        weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        return ops.matmul(weights, value)
