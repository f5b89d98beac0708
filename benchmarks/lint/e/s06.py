import keras
from keras import ops


class Similarity(keras.layers.Layer):
    """Cosine between query rows and (possibly all-zero padded) document rows."""

    def _unit(self, x):
        sq = ops.sum(ops.square(x), axis=-1, keepdims=True)
        return x * ops.rsqrt(ops.maximum(sq, 1e-12))

    def call(self, query, docs):
        return ops.matmul(self._unit(query), ops.transpose(self._unit(docs)))
