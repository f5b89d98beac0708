import tensorflow as tf


class CategoricalPd(object):
    def __init__(self, logits):
        self.logits = logits

    def mode(self):
        return tf.argmax(self.logits, axis=-1)

    def entropy(self):
        a0 = self.logits - tf.reduce_max(self.logits, axis=-1, keep_dims=True)
        ea0 = tf.exp(a0)
        z0 = tf.reduce_sum(ea0, axis=-1, keep_dims=True)
        p0 = tf.div(ea0, z0)
        return tf.reduce_sum(p0 * (tf.log(z0) - a0), axis=-1)


def policy_objective(pd, pg_loss, ent_coef=0.01):
    return pg_loss - ent_coef * tf.reduce_mean(pd.entropy())
