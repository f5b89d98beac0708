import keras
from keras import ops


class UnitNorm(keras.layers.Layer):
    """Scales the rows of its input to length one."""

    def call(self, inputs):
        sq = ops.sum(ops.square(inputs), axis=-1, keepdims=True)
        return inputs / ops.sqrt(sq)
