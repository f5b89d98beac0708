from keras import losses, ops

EPS = 1e-10



class WeightedBCE(losses.Loss):
    def __init__(self, pos_weight=1.0, **kwargs):
        super().__init__(**kwargs)
        self.pos_weight = pos_weight

    def call(self, y_true, y_pred):
        p = ops.clip(ops.cast(y_pred, "float32"), EPS, 1.0 - EPS)
        pos = self.pos_weight * y_true * ops.log(p)
        neg = (1.0 - y_true) * ops.log(1.0 - p)
        return -ops.mean(pos + neg, axis=-1)
