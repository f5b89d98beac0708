import tensorflow as tf


def build_loss(logits, labels, num_classes):
    one_hot = tf.one_hot(labels, depth=num_classes)
    probs = tf.nn.softmax(logits)
    xent = -tf.reduce_sum(one_hot * tf.log(probs), reduction_indices=[1])
    correct = tf.equal(tf.argmax(logits, 1), tf.cast(labels, tf.int64))
    accuracy = tf.reduce_mean(tf.to_float(correct))
    return tf.reduce_mean(xent), accuracy
