import numpy as np
import tensorflow as tf


@tf.custom_gradient
def mention_span_average(tokens, starts, ends):
    """Mean of tokens[start:end] per mention, (T, D) -> (M, D); spans may overlap or repeat, empty ones give zeros."""
    zero = tf.zeros_like(tokens[:1])
    prefix = tf.concat([zero, tf.cumsum(tokens, axis=0)], axis=0)
    scale = 1.0 / tf.cast(tf.maximum(ends - starts, 1), tokens.dtype)[:, None]
    out = (tf.gather(prefix, ends) - tf.gather(prefix, starts)) * scale

    def grad(g):
        share = g * scale
        edges = tf.zeros_like(prefix)
        edges = tf.tensor_scatter_nd_add(edges, starts[:, None], share)
        edges = tf.tensor_scatter_nd_sub(edges, ends[:, None], share)
        return tf.cumsum(edges, axis=0)[:-1], None, None

    return out, grad


class QuotientRemainderEmbedding(tf.Module):

    def __init__(self, vocab, buckets, dim, combine="mul", seed=0, name=None):
        super().__init__(name=name)
        rng = np.random.default_rng(seed)
        rows = -(-vocab // buckets)
        self.buckets = buckets
        self.combine = combine
        self.q_table = tf.Variable(rng.normal(1.0, 0.1, (rows, dim)).astype("float32"))
        self.r_table = tf.Variable(rng.normal(0.0, 0.1, (buckets, dim)).astype("float32"))

    @tf.custom_gradient
    def compose(self, q_table, r_table, ids):
        # id 0 = pad
        keep = tf.cast(tf.not_equal(ids, 0), q_table.dtype)[..., None]
        qi, ri = ids // self.buckets, ids % self.buckets
        q, r = tf.gather(q_table, qi), tf.gather(r_table, ri)
        out = (q * r if self.combine == "mul" else q + r) * keep

        def grad(g):
            dim = tf.shape(g)[-1]
            gq, gr = (g * r, g * q) if self.combine == "mul" else (g, g)
            dq = tf.math.unsorted_segment_sum(
                tf.reshape(gq, [-1, dim]), tf.reshape(qi, [-1]), tf.shape(q_table)[0])
            dr = tf.math.unsorted_segment_sum(
                tf.reshape(gr, [-1, dim]), tf.reshape(ri, [-1]), tf.shape(r_table)[0])
            return dq, dr, None

        return out, grad

    def __call__(self, ids):
        return self.compose(self.q_table.read_value(), self.r_table.read_value(), ids)


def mention_scores(embedding, ids, starts, ends, weight):
    tokens = embedding(ids)
    return tf.linalg.matvec(mention_span_average(tokens, starts, ends), weight)
