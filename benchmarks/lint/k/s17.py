import keras
from keras import ops


class LogCosh(keras.losses.Loss):
    def __init__(self, delta=1.0, name="log_cosh_loss"):
        super().__init__(name=name)
        self.delta = delta

    def call(self, y_true, y_pred):
        y_true = ops.cast(y_true, "float32")
        error = (ops.cast(y_pred, "float32") - y_true) / self.delta
        per_item = ops.log(ops.cosh(error))
        return ops.mean(per_item, axis=-1)
