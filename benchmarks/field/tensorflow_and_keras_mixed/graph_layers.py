"""Message passing primitives.

Edges are given as two int vectors `senders`, `receivers` of length E; the number
of nodes is static.
"""
from typing import NamedTuple

import tensorflow as tf


class Graph(NamedTuple):
    nodes: tf.Tensor       # [N, F]
    senders: tf.Tensor     # [E]
    receivers: tf.Tensor   # [E]
    weights: tf.Tensor     # [E]


def segment_softmax(logits, segment_ids, num_segments):
    """Softmax of edge logits [E, H] within the edges of each receiver.

    `segment_ids` need not be sorted; nodes without edges are fine.
    """

    @tf.custom_gradient
    def op(x, ids):
        top = tf.math.unsorted_segment_max(x, ids, num_segments)
        e = tf.exp(x - tf.gather(top, ids))
        z = tf.math.unsorted_segment_sum(e, ids, num_segments)
        a = e / tf.gather(z, ids)

        def vjp(da):
            inner = tf.math.unsorted_segment_sum(da * a, ids, num_segments)
            return a * (da - tf.gather(inner, ids)), None

        return a, vjp

    return op(logits, segment_ids)


@tf.custom_gradient
def _propagate(x, w, senders, receivers):
    n = tf.shape(x)[0]
    deg = 1.0 + tf.math.unsorted_segment_sum(w, receivers, n)
    inv = tf.math.rsqrt(deg)
    coef = w * tf.gather(inv, receivers) * tf.gather(inv, senders)
    msg = coef[:, None] * tf.gather(x, senders)
    out = tf.math.unsorted_segment_sum(msg, receivers, n) + x / deg[:, None]

    def vjp(g):
        g_e = tf.gather(g, receivers)
        d_x = tf.math.unsorted_segment_sum(coef[:, None] * g_e, senders, n)
        d_x += g / deg[:, None]
        d_coef = tf.reduce_sum(g_e * tf.gather(x, senders), axis=1)
        d_w = d_coef * tf.gather(inv, receivers) * tf.gather(inv, senders)
        # the degrees depend on the weights too
        half = -0.5 * d_coef * coef
        at_recv = tf.math.unsorted_segment_sum(half, receivers, n) / deg
        at_send = tf.math.unsorted_segment_sum(half, senders, n) / deg
        at_self = -tf.reduce_sum(g * x, axis=1) / (deg * deg)
        d_w += tf.gather(at_recv + at_self, receivers) + tf.gather(at_send, senders)
        return d_x, d_w, None, None

    return out, vjp


def gcn_propagate(graph: Graph) -> tf.Tensor:
    """D^-1/2 (A + I) D^-1/2 X with positive edge weights and D the in-degree incl. loop.

    The graph may be directed.
    """
    return _propagate(graph.nodes, graph.weights, graph.senders, graph.receivers)


def make_topk_pool(k):
    """Graph U-Net pooling: keep the k nodes with the highest projection score.

    Returns pool(x [N, F], p [F]) -> [k, F], rows ordered by decreasing score and
    gated with tanh(score), score = x p / |p|.
    """

    @tf.custom_gradient
    def pool(x, p):
        length = tf.norm(p)
        unit = p / length
        score = tf.linalg.matvec(x, unit)
        idx = tf.math.top_k(score, k=k).indices
        kept = tf.gather(x, idx)
        gate = tf.tanh(tf.gather(score, idx))

        def vjp(g):
            d_score = tf.reduce_sum(g * kept, axis=1) * (1.0 - gate * gate)
            d_kept = g * gate[:, None] + d_score[:, None] * unit[None, :]
            d_x = tf.scatter_nd(idx[:, None], d_kept, tf.shape(x))
            d_unit = tf.linalg.matvec(kept, d_score, transpose_a=True)
            d_p = (d_unit - unit * tf.reduce_sum(unit * d_unit)) / length
            return d_x, d_p

        return kept * gate[:, None], vjp

    return pool


class GraphAttention(tf.Module):
    def __init__(self, in_dim, heads, head_dim, name=None):
        super().__init__(name)
        self.heads, self.head_dim = heads, head_dim
        self.proj = tf.Variable(
            tf.random.stateless_normal([in_dim, heads * head_dim], seed=[1, 2]) * 0.2)
        self.att = tf.Variable(tf.random.stateless_normal([2, heads, head_dim], seed=[3, 4]) * 0.2)

    def __call__(self, graph: Graph):
        n = graph.nodes.shape[0]
        h = tf.reshape(graph.nodes @ self.proj, [-1, self.heads, self.head_dim])
        s = tf.reduce_sum(h * self.att[0], -1)
        r = tf.reduce_sum(h * self.att[1], -1)
        e = tf.nn.leaky_relu(tf.gather(s, graph.senders) + tf.gather(r, graph.receivers))
        a = segment_softmax(e, graph.receivers, n)
        m = tf.math.unsorted_segment_sum(a[..., None] * tf.gather(h, graph.senders),
                                         graph.receivers, n)
        return tf.reshape(m, [n, -1])
