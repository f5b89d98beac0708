import keras
from keras import ops


class BPRLoss(keras.losses.Loss):
    """y_pred[..., 0]: score of the item bought, y_pred[..., 1:]: sampled items."""

    def __init__(self, name="bpr", **kwargs):
        super().__init__(name=name, **kwargs)

    def call(self, y_true, y_pred):
        pos = y_pred[..., :1]
        neg = y_pred[..., 1:]
        rank = ops.sigmoid(pos - neg)
        return -ops.mean(ops.log(rank), axis=-1)
