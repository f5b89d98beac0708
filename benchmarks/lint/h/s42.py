from keras import layers, ops


class BatchStandardize(layers.Layer):
    def __init__(self, epsilon=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def call(self, x):
        """x: raw sensor columns (pressure in hPa, counts, timestamps of the day)."""
        x = ops.cast(x, "float32")
        mean = ops.mean(x, axis=0, keepdims=True)
        var = ops.mean(ops.square(x), axis=0, keepdims=True) - ops.square(mean)
        return (x - mean) * ops.rsqrt(var + self.epsilon)
