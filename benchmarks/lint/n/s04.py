import tensorflow.compat.v1 as tf


def build_loss(n_classes):
    logits = tf.placeholder(tf.float32, [None, n_classes])
    labels = tf.placeholder(tf.int32, [None])
    log_probs = tf.nn.log_softmax(logits)
    onehot = tf.one_hot(labels, n_classes)
    picked = tf.reduce_sum(onehot * log_probs, axis=1)
    loss = -tf.reduce_mean(picked)
    return logits, labels, loss


def evaluate(x, y):
    with tf.Graph().as_default(), tf.Session() as sess:
        logits, labels, loss = build_loss(x.shape[1])
        return sess.run(loss, feed_dict={logits: x, labels: y})
