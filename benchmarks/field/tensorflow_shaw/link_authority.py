# Centralities and communities of link graphs, differentiable in the link weights.
import numpy as np
import tensorflow as tf

HOST_LINKS = np.array(  # (source, target); a page may link twice to the same target
    [[0, 1], [0, 2], [1, 2], [2, 0], [2, 3], [3, 1], [3, 1], [4, 0], [4, 3]], np.int32
)
HOST_TOPIC = np.array([0, -1, 1, -1, -1, 2], np.int32)  # -1: nobody looked


def _mT(a):
    return tf.linalg.matrix_transpose(a)


def _outer(a, b):
    return a[..., :, None] * b[..., None, :]


def _fold(value, like):
    # back to the shape of an operand that was broadcast
    while value.shape.rank > like.shape.rank:
        value = tf.reduce_sum(value, 0)
    for ax, n in enumerate(like.shape):
        if n == 1 and value.shape[ax] != 1:
            value = tf.reduce_sum(value, ax, keepdims=True)
    return value


def make_pagerank(edges, n_nodes):
    src = tf.constant(edges[:, 0], tf.int32)
    idx = tf.constant(edges, tf.int32)
    sink = np.bincount(edges[:, 0], minlength=n_nodes) == 0

    @tf.custom_gradient
    def pagerank(
        weight,     # (E,) > 0, one per row of edges
        teleport,   # (Q, N) one distribution per query
        damping,    # () in (0, 1)
    ):
        out = tf.math.unsorted_segment_sum(weight, src, n_nodes)
        frac = weight / tf.gather(out, src)
        walk = tf.scatter_nd(idx, frac, (n_nodes, n_nodes))
        walk += tf.linalg.diag(tf.constant(sink, weight.dtype))  # sinks keep their mass
        system = tf.eye(n_nodes, dtype=weight.dtype) - damping * walk
        rank = _mT(tf.linalg.solve(system, _mT(teleport), adjoint=True)) * (1.0 - damping)

        def grad(up):
            lam = _mT(tf.linalg.solve(system, _mT(up)))
            g_walk = damping * tf.matmul(rank, lam, transpose_a=True)
            g_frac = tf.gather_nd(g_walk, idx)
            mean = tf.math.unsorted_segment_sum(g_frac * frac, src, n_nodes)
            g_weight = (g_frac - tf.gather(mean, src)) / tf.gather(out, src)
            g_damp = tf.reduce_sum(lam * (rank @ walk - teleport))
            return g_weight, (1.0 - damping) * lam, g_damp

        return rank, grad

    return pagerank


def make_katz(normalise="none"):
    # normalise: "none", "sum" (scores add up to one) or "l2" (unit length)
    assert normalise in ("none", "sum", "l2"), normalise

    @tf.custom_gradient
    def katz(
        adjacency,  # (..., N, N), row links to column, alpha * spectral radius < 1
        alpha,      # ()
        base,       # (N,) or (..., N)
    ):
        n = adjacency.shape[-1]
        system = tf.eye(n, dtype=adjacency.dtype) - alpha * _mT(adjacency)
        full = tf.broadcast_to(base, adjacency.shape[:-1])
        x = tf.linalg.solve(system, full[..., None])[..., 0]
        size = tf.ones_like(x[..., :1])
        if normalise == "sum":
            size = tf.reduce_sum(x, -1, keepdims=True)
        elif normalise == "l2":
            size = tf.norm(x, axis=-1, keepdims=True)
        x = x / size

        def grad(up):
            if normalise == "sum":
                up = (up - tf.reduce_sum(up * x, -1, keepdims=True)) / size
            elif normalise == "l2":
                up = (up - x * tf.reduce_sum(up * x, -1, keepdims=True)) / size
            lam = tf.linalg.solve(system, up[..., None], adjoint=True)[..., 0]
            g_adj = alpha * _outer(x, lam)
            g_alpha = tf.reduce_sum(lam * tf.linalg.matvec(adjacency, x, transpose_a=True))
            return g_adj, g_alpha, _fold(lam, base)

        return x, grad

    return katz


@tf.custom_gradient
def soft_modularity(
    links,       # (..., N, N) nonnegative, row links to column
    member,      # (..., N, K) soft memberships
    resolution,  # ()
):
    m = tf.reduce_sum(links, (-2, -1), keepdims=True)
    k_out = tf.reduce_sum(links, -1, keepdims=True)
    k_in = tf.reduce_sum(links, -2, keepdims=True)
    null = k_out * k_in / m
    together = tf.matmul(member, member, transpose_b=True)
    excess = (links - resolution * null) / m
    quality = tf.reduce_sum(excess * together, (-2, -1))

    def grad(up):
        g = up[..., None, None]
        chance = tf.reduce_sum(null * together, (-2, -1), keepdims=True)
        g_member = 2.0 * g * (excess @ member)
        seen = tf.reduce_sum(links * together, (-2, -1), keepdims=True)
        by_row = tf.reduce_sum(k_in * together, -1, keepdims=True)
        by_col = tf.reduce_sum(k_out * together, -2, keepdims=True)
        g_links = together - seen / m - resolution * ((by_row + by_col) - 2.0 * chance) / m
        g_res = -tf.reduce_sum(g * chance / m)
        return g * g_links / m, g_member, g_res

    return quality, grad


def make_label_spread(labels, n_classes, rows=True):
    seed = tf.constant(labels, tf.int32)  # -1 has no class

    @tf.custom_gradient
    def spread(
        affinity,  # (N, N) nonnegative
        trust,     # (N,) how much we believe each label
        alpha,     # () in (0, 1)
    ):
        hot = tf.one_hot(seed, n_classes, dtype=affinity.dtype)
        n = affinity.shape[0]
        deg = tf.reduce_sum(affinity, 1)
        root = tf.math.rsqrt(deg)
        smooth = _outer(root, root) * affinity
        system = tf.eye(n, dtype=affinity.dtype) - alpha * smooth
        start = hot * trust[:, None]
        f = (1.0 - alpha) * tf.linalg.solve(system, start)
        mass = tf.reduce_sum(f, 1, keepdims=True)
        out = f / mass if rows else f

        def grad(up):
            if rows:
                up = (up - tf.reduce_sum(up * out, 1, keepdims=True)) / mass
            lam = tf.linalg.solve(system, up, adjoint=True)
            g_smooth = alpha * tf.matmul(lam, f, transpose_b=True)
            both = g_smooth * smooth
            g_deg = -0.5 * (tf.reduce_sum(both, 0) + tf.reduce_sum(both, 1)) / deg
            g_aff = g_smooth * _outer(root, root) + g_deg[:, None]
            g_trust = (1.0 - alpha) * tf.reduce_sum(lam * hot, 1)
            g_alpha = tf.reduce_sum(lam * (smooth @ f - start))
            return g_aff, g_trust, g_alpha

        return out, grad

    return spread


class HostAuthority(tf.keras.layers.Layer):
    # learns the weight of each link from its features, (E, F) -> (Q, N)
    def __init__(self, edges, n_nodes, damping=0.85, **kw):
        super().__init__(**kw)
        self.dense = tf.keras.layers.Dense(1, activation="softplus")
        self.rank = make_pagerank(np.asarray(edges), n_nodes)
        self.damping = damping

    def call(self, link_features, teleport):
        weight = self.dense(link_features)[:, 0] + 1e-6
        return tf.math.log(self.rank(weight, teleport, tf.constant(self.damping, weight.dtype)))


def community_loss(links, logits, resolution=1.0):
    q = soft_modularity(links, tf.nn.softmax(logits, -1), tf.constant(resolution, links.dtype))
    return -tf.reduce_mean(q)


def influence(adjacency, alpha=0.05, normalise="l2"):
    n = adjacency.shape[-1]
    score = make_katz(normalise)
    return score(adjacency, tf.constant(alpha, adjacency.dtype), tf.ones([n], adjacency.dtype))


def topic_of_hosts(affinity, trust, alpha=0.9):
    spread = make_label_spread(HOST_TOPIC, 3)
    return tf.argmax(spread(affinity, trust, tf.constant(alpha, affinity.dtype)), 1)
