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
        qn = ops.sqrt(ops.sum(ops.square(q), axis=-1))
        dn = ops.sqrt(ops.sum(ops.square(d), axis=-1))
        return self.scale * dot / (qn * dn)
