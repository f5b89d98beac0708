import math

import keras
from keras import ops


class LogCosh(keras.losses.Loss):
    def __init__(self, delta=1.0, name="log_cosh_loss"):
        super().__init__(name=name)
        self.delta = delta

    def call(self, y_true, y_pred):
        y_true = ops.cast(y_true, "float32")
        error = ops.abs(ops.cast(y_pred, "float32") - y_true) / self.delta
        half = ops.sinh(0.5 * ops.minimum(error, 1.0))
        near = ops.log1p(2.0 * half * half)
        far = error + ops.softplus(-2.0 * error) - math.log(2.0)
        per_item = ops.where(error < 1.0, near, far)
        return ops.mean(per_item, axis=-1)
