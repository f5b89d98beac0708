"""Image retrieval heads for visual place recognition."""
import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class GhostConfig:
    clusters: int
    ghosts: int = 0

    @property
    def logits(self):
        return self.clusters + self.ghosts


def ghost_vlad(features, logits, centers, mask):
    """Soft-assigned residuals ``[B, K, D]``; logits ``[B, N, K + G]``, the last G columns being ghost clusters."""

    @tf.custom_gradient
    def aggregate(features, logits, centers):
        clusters = centers.shape[0]
        ghosts = logits.shape[-1] - clusters
        soft = tf.nn.softmax(logits, axis=-1)[..., :clusters]
        keep = tf.cast(mask, features.dtype)[..., None]
        assign = soft * keep
        mass = tf.reduce_sum(assign, axis=1)
        vlad = tf.einsum("bnk,bnd->bkd", assign, features) - mass[..., None] * centers

        def grad(dv):
            d_features = tf.einsum("bnk,bkd->bnd", assign, dv)
            d_centers = -tf.einsum("bk,bkd->kd", mass, dv)
            d_assign = tf.einsum("bkd,bnd->bnk", dv, features) - tf.einsum("bkd,kd->bk", dv, centers)[:, None]
            d_soft = d_assign * keep
            inner = tf.reduce_sum(d_soft * soft, axis=-1, keepdims=True)
            d_logits = soft * (d_soft - inner)
            d_logits = tf.pad(d_logits, [[0, 0], [0, 0], [0, ghosts]])
            return d_features, d_logits, d_centers

        return vlad, grad

    return aggregate(features, logits, centers)


class VLADHead(tf.Module):
    def __init__(self, config: GhostConfig, dim: int, name=None):
        super().__init__(name=name)
        init = tf.random.Generator.from_seed(7)
        self.config = config
        self.projection = tf.Variable(init.normal([dim, config.logits]) * dim**-0.5)
        self.centers = tf.Variable(init.normal([config.clusters, dim]))

    def __call__(self, features, mask):
        logits = tf.linalg.matmul(features, self.projection)
        vlad = ghost_vlad(features, logits, tf.convert_to_tensor(self.centers), mask)
        vlad = tf.math.l2_normalize(vlad, axis=-1)
        return tf.math.l2_normalize(tf.reshape(vlad, [tf.shape(vlad)[0], -1]), axis=-1)


def alpha_query_expansion(alpha=3.0):
    """Alpha-weighted query expansion (Radenovic et al.), for training through the expansion.

    Returns ``expand(queries [Q, D], database [M, D], neighbours [Q, k]) -> [Q, D]``: every query plus its
    neighbours, weighted by ``max(similarity, 0) ** alpha``.  ``alpha >= 1``.  A neighbour may serve many
    queries (or one twice); ids below zero are padding.
    """
    if alpha < 1:
        raise ValueError("alpha must be at least one")

    @tf.custom_gradient
    def expand(queries, database, neighbours):
        present = tf.cast(neighbours >= 0, queries.dtype)
        index = tf.maximum(neighbours, 0)
        near = tf.gather(database, index)
        similarity = tf.einsum("qd,qkd->qk", queries, near)
        positive = tf.cast(similarity > 0, queries.dtype) * present
        clipped = tf.nn.relu(similarity)
        weight = positive * clipped**alpha

        def grad(dy):
            d_weight = tf.einsum("qd,qkd->qk", dy, near)
            d_similarity = d_weight * positive * alpha * clipped ** (alpha - 1.0)
            d_queries = dy + tf.einsum("qk,qkd->qd", d_similarity, near)
            d_near = weight[..., None] * dy[:, None] + d_similarity[..., None] * queries[:, None]
            dim = database.shape[-1]
            d_database = tf.tensor_scatter_nd_add(
                tf.zeros_like(database), tf.reshape(index, [-1, 1]), tf.reshape(d_near, [-1, dim]))
            return d_queries, d_database, None

        return queries + tf.einsum("qk,qkd->qd", weight, near), grad

    return expand


def make_fast_ap(num_bins=10):
    """FastAP loss over unit embeddings ``[B, D]`` and int labels ``[B]``.

    One minus the average precision, read off soft histograms of squared distances in [0, 4]; averaged over
    those queries that have at least one other item of their class in the batch.
    """
    width = 4.0 / num_bins

    @tf.custom_gradient
    def fast_ap(embeddings, labels):
        dtype = embeddings.dtype
        batch = tf.shape(embeddings)[0]
        other = 1.0 - tf.eye(batch, dtype=dtype)
        same = tf.cast(labels[:, None] == labels[None, :], dtype) * other
        distance = 2.0 - 2.0 * tf.linalg.matmul(embeddings, embeddings, transpose_b=True)
        offset = distance[..., None] - width * tf.range(num_bins + 1, dtype=dtype)
        pulse = tf.nn.relu(1.0 - tf.abs(offset) / width)

        hits = tf.einsum("ijl,ij->il", pulse, same)
        everything = tf.einsum("ijl,ij->il", pulse, other)
        cum_hits = tf.cumsum(hits, axis=1)
        cum_all = tf.cumsum(everything, axis=1)
        positives = tf.reduce_sum(same, axis=1)
        precision = tf.math.divide_no_nan(cum_hits, cum_all)
        ap = tf.math.divide_no_nan(tf.reduce_sum(hits * precision, axis=1), positives)
        valid = tf.cast(positives > 0, dtype)
        loss = 1.0 - tf.math.divide_no_nan(tf.reduce_sum(ap), tf.reduce_sum(valid))

        def grad(upstream):
            d_ap = -upstream * valid / tf.cast(batch, dtype)
            scale = tf.math.divide_no_nan(d_ap, positives)[:, None]
            ratio = tf.math.divide_no_nan(hits, cum_all)
            d_hits = scale * (precision + tf.cumsum(ratio, axis=1, reverse=True))
            d_all = -scale * tf.cumsum(ratio * precision, axis=1, reverse=True)
            d_pulse = same[..., None] * d_hits[:, None] + other[..., None] * d_all[:, None]
            slope = -tf.sign(offset) * tf.cast(pulse > 0, dtype) / width
            d_distance = tf.reduce_sum(d_pulse * slope, axis=-1)
            d_gram = -2.0 * (d_distance + tf.transpose(d_distance))
            return tf.linalg.matmul(d_gram, embeddings), None

        return loss, grad

    return fast_ap
