import keras
from keras import ops


@keras.saving.register_keras_serializable()
def weighted_bce(y_true, logits, pos_weight=3.0):
    y_true = ops.cast(y_true, "float32")
    p = ops.sigmoid(logits)
    pos = pos_weight * y_true * ops.log(p)
    neg = (1.0 - y_true) * ops.log(1.0 - p)
    return ops.mean(-(pos + neg), axis=-1)
