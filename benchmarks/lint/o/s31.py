import tensorflow as tf

K = tf.keras.backend


def weighted_bce(pos_weight=3.0):
    """Class-weighted cross entropy on sigmoid outputs."""

    def loss(y_true, y_pred):
        y_true = tf.cast(y_true, tf.float32)
        p = tf.clip_by_value(tf.cast(y_pred, tf.float32), 1e-8, 1.0 - 1e-8)
        logits = tf.math.log(p / (1.0 - p))
        ce = tf.nn.weighted_cross_entropy_with_logits(
            labels=y_true, logits=logits, pos_weight=pos_weight)
        return K.mean(ce, axis=-1)

    return loss
