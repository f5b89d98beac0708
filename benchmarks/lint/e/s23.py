import keras
from keras import ops


class CosineScore(keras.layers.Layer):
    """Cosine between query rows and (possibly all-zero padded) document rows."""

    def _unit(self, x):
        sq = ops.sum(ops.square(x), axis=-1, keepdims=True)
        return x * ops.rsqrt(sq)

    def call(self, query, docs):
        return ops.matmul(self._unit(query), ops.transpose(self._unit(docs)))
