import keras
from keras import ops


@keras.saving.register_keras_serializable()
def balanced_bce(y_true, logits, pos_weight=3.0):
    y_true = ops.cast(y_true, "float32")
    pos = pos_weight * y_true * ops.log_sigmoid(logits)
    neg = (1.0 - y_true) * ops.log_sigmoid(-logits)
    return ops.mean(-(pos + neg), axis=-1)
