import keras
from keras import ops


class RowScale(keras.layers.Layer):
    """Scales the rows of its input to length one."""

    def call(self, inputs):
        sq = ops.sum(ops.square(inputs), axis=-1, keepdims=True)
        return inputs / ops.sqrt(ops.maximum(sq, 1e-10))
