import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
EPSILON = 1e-6


def binary_loss(prob, target):
    prob = tf.clip_by_value(prob, EPSILON, 1.0 - EPSILON)
    positive = target * tf.log(prob)
    negative = (1.0 - target) * tf.log(1.0 - prob)
    return -tf.reduce_mean(positive + negative)


def evaluate(prob_values, target_values):
    graph = tf.Graph()
    with graph.as_default():
        prob = tf.placeholder(tf.float32, [None])
        target = tf.placeholder(tf.float32, [None])
        loss = binary_loss(prob, target)
    with tf.Session(graph=graph) as sess:
        return sess.run(loss, feed_dict={prob: prob_values, target: target_values})
