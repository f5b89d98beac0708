import keras
from keras import ops

SCORE_CAP = 20.0


class ScoreAttention(keras.layers.Layer):
    def call(self, query, key, value):
        depth = query.shape[-1]
        scores = ops.matmul(query, ops.transpose(key, (0, 2, 1)))
        scores = scores / depth**0.5
        scores = SCORE_CAP * ops.tanh(scores / SCORE_CAP)
        weights = ops.exp(scores)
        weights = weights / ops.sum(weights, axis=-1, keepdims=True)
        return ops.matmul(weights, value)
