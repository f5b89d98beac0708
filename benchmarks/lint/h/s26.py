from tensorflow.keras import backend as K


def binary_focal_loss(gamma=2.0, alpha=0.25):
    """y_pred: sigmoid outputs in [0, 1], float32."""
    eps = 1e-8

    def loss(y_true, y_pred):
        p = K.clip(y_pred, eps, 1.0 - eps)
        pos = -alpha * y_true * K.pow(1.0 - p, gamma) * K.log(p)
        neg = -(1.0 - alpha) * (1.0 - y_true) * K.pow(p, gamma) * K.log(1.0 - p)
        return K.mean(K.sum(pos + neg, axis=-1))

    return loss
