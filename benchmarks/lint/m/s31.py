import tensorflow as tf



def masked_mean(hidden, lengths):
    steps = tf.shape(hidden)[1]
    mask = tf.sequence_mask(lengths, steps, dtype=hidden.dtype)
    mask = mask[:, :, tf.newaxis]
    total = tf.reduce_sum(hidden * mask, axis=1)
    count = tf.reduce_sum(mask, axis=1)
    return total / count
