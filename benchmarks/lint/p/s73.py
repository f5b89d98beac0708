import tensorflow as tf


def per_class_iou(mask_true, mask_pred, threshold=0.5):
    """Both masks: [B, H, W, C]; returns the IoU of every image and class."""
    hit_true = tf.cast(mask_true > threshold, tf.float32)
    hit_pred = tf.cast(mask_pred > threshold, tf.float32)
    inter = tf.reduce_sum(hit_true * hit_pred, axis=[1, 2])
    union = tf.reduce_sum(hit_true + hit_pred, axis=[1, 2]) - inter
    return tf.math.divide_no_nan(inter, union)


def mean_iou(mask_true, mask_pred):
    return tf.reduce_mean(per_class_iou(mask_true, mask_pred))
