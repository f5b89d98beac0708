from tensorflow.keras import backend as K


def focal_loss(gamma=2.0, alpha=0.25):
    lo = 1e-8

    def loss(y_true, y_pred):
        p = K.clip(y_pred, lo, 1.0 - lo)
        on = alpha * y_true * K.pow(1.0 - p, gamma) * K.log(p)
        off = (1.0 - alpha) * (1.0 - y_true) * K.pow(p, gamma) * K.log(1.0 - p)
        return -K.mean(on + off, axis=-1)

    return loss
