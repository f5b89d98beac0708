from tensorflow.keras import backend as K
from tensorflow.keras import layers


class GeM(layers.Layer):
    """Generalised mean pooling over the spatial axes of relu feature maps."""

    def __init__(self, p=3.0, **kwargs):
        super().__init__(**kwargs)
        self.p = p

    def call(self, x):
        pooled = K.mean(K.pow(x, self.p), axis=[1, 2])
        return K.pow(pooled, 1.0 / self.p)
