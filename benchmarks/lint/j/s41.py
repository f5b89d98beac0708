import keras
from keras import ops


class RobustFlowLoss(keras.losses.Loss):
    def __init__(self, alpha=0.45, name="robust_flow"):
        super().__init__(name=name)
        self.alpha = alpha

    def call(self, y_true, y_pred):
        error = ops.square(y_pred - y_true)
        penalty = ops.power(error, self.alpha)
        return ops.mean(penalty, axis=-1)
