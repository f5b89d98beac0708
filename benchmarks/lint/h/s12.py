import tensorflow as tf


class CategoricalPd(object):
    def __init__(self, logits):
        self.logits = logits

    def mode(self):
        return tf.argmax(self.logits, axis=-1)

    def entropy(self):
        p0 = tf.nn.softmax(self.logits)
        return -tf.reduce_sum(p0 * tf.log(p0), axis=-1)


def policy_objective(pd, pg_loss, ent_coef=0.01):
    return pg_loss - ent_coef * tf.reduce_mean(pd.entropy())
