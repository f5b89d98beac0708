import keras
from keras import layers, ops


class CosineMatch(layers.Layer):
    """inputs: mean embeddings of query and document, zeros where the text is empty."""

    def __init__(self, scale=16.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def call(self, inputs):
        q, d = inputs
        dot = ops.sum(q * d, axis=-1)
        qq = ops.maximum(ops.sum(ops.square(q), axis=-1), 1e-6)
        dd = ops.maximum(ops.sum(ops.square(d), axis=-1), 1e-6)
        return self.scale * dot * ops.rsqrt(qq) * ops.rsqrt(dd)
