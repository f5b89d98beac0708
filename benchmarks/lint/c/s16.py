import tensorflow.keras.backend as K

LIMIT = 1e-6


def binary_focal_loss(gamma=2., alpha=.25):
    def loss(y_true, y_pred):
        y_pred = K.clip(y_pred, LIMIT, 1. - LIMIT)
        pos = -alpha * y_true * K.pow(1. - y_pred, gamma) * K.log(y_pred)
        neg = -(1. - alpha) * (1. - y_true) * K.pow(y_pred, gamma) * K.log(1. - y_pred)
        return K.mean(pos + neg, axis=-1)
    return loss
