from tensorflow.keras import backend as K
from tensorflow.keras import layers


class GeneralizedMean(layers.Layer):
    """Generalised mean pooling over the spatial axes of relu feature maps."""

    def __init__(self, p=3.0, floor=1e-6, **kwargs):
        super().__init__(**kwargs)
        self.p = p
        self.floor = floor

    def call(self, x):
        x = K.maximum(x, self.floor)
        pooled = K.mean(K.pow(x, self.p), axis=[1, 2])
        return K.pow(pooled, 1.0 / self.p)
