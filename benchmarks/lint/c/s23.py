import keras
from keras import ops


class GeMPooling(keras.layers.Layer):
    """Generalized mean over the spatial axes of post-ReLU feature maps."""

    def __init__(self, p=3.0, **kwargs):
        super().__init__(**kwargs)
        self.p = p

    def call(self, x):
        pooled = ops.mean(ops.power(x, self.p), axis=(1, 2))
        return ops.power(pooled, 1.0 / self.p)
