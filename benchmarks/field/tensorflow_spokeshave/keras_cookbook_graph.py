"""Recommending recipes from a graph of ingredients that go together.

Backend-neutral (`keras.ops` only).  Index tables and adjacency matrices are plain arrays and take no gradient.
"""
import keras
import numpy as np
from keras import ops

PAD = 0
STARS = 5
FAR = 1e4  # stands for an infinite cut point


def pantry_bag(table, ids):
    """Mean embedding of a recipe's ingredient lines.

    Parameters
    ----------
    table : tensor, shape (ingredients, dim)
        Row 0 belongs to the padding id.
    ids : int array, shape (recipes, lines)
        Ingredient of each line, in the order of the recipe (butter for the tin and butter for the crumble are two lines), filled
        up with ``PAD``.

    Returns
    -------
    tensor, shape (recipes, dim)
        Mean over the lines; zeros for a recipe without any.
    """
    ids = ops.convert_to_tensor(ids, dtype="int32")

    @ops.custom_gradient
    def bag(table):
        used = ops.cast(ops.not_equal(ids, PAD), table.dtype)
        lines = ops.maximum(ops.sum(used, axis=1, keepdims=True), 1.0)
        rows = ops.take(table, ids, axis=0)
        mean = ops.sum(rows * ops.expand_dims(used, -1), axis=1) / lines

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            size = table.shape[0]
            member = ops.cast(ops.multi_hot(ids, num_classes=size), table.dtype)
            real = ops.cast(ops.arange(size) != PAD, table.dtype)
            return ops.einsum("rn,rd->nd", member * real, upstream / lines)

        return mean, grad

    return bag(table)


def _operator(adjacency, norm):
    a = np.asarray(adjacency, dtype="float64")
    if norm == "sym":
        out_deg, in_deg = a.sum(1), a.sum(0)
        inv = lambda d: np.where(d > 0, 1.0 / np.sqrt(np.where(d > 0, d, 1.0)), 0.0)
        return inv(out_deg)[:, None] * a * inv(in_deg)[None, :]
    if norm == "row":
        deg = a.sum(1, keepdims=True)
        return np.where(deg > 0, a / np.where(deg > 0, deg, 1.0), 0.0)
    raise ValueError(norm)


def neighbour_blend(adjacency, norm="sym"):
    """Blends each ingredient with its neighbours in the (undirected) pairing graph.

    ``adjacency`` is the symmetric (n, n) matrix of pairing counts; ``norm`` divides either by the roots of both degrees
    ("sym") or by the degree of the receiving ingredient ("row", a plain average).  The returned ``blend(features, share)`` maps
    (n, dim) to (n, dim); ``share`` is the scalar weight of the neighbours.
    """
    matrix = _operator(adjacency, norm)

    @ops.custom_gradient
    def blend(features, share):
        op = ops.convert_to_tensor(matrix, dtype=features.dtype)
        around = ops.einsum("ij,jd->id", op, features)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_features = (1.0 - share) * upstream + share * ops.einsum("ij,jd->id", op, upstream)
            d_share = ops.sum(upstream * (around - features))
            return d_features, d_share

        return (1.0 - share) * features + share * around, grad

    return blend


def star_link_nll(score, cuts, stars):
    """Mean negative log-likelihood of star ratings under a cumulative logistic link.

    score (n,), cuts (STARS - 1,) ascending, stars int (n,) in 1..STARS; 0 marks a recipe that nobody has rated, which is
    left out of the mean.
    """
    stars = ops.convert_to_tensor(stars, dtype="int32")

    @ops.custom_gradient
    def rule(score, cuts):
        rated = ops.cast(stars > 0, score.dtype)
        count = ops.maximum(ops.sum(rated), 1.0)
        which = ops.maximum(stars - 1, 0)
        end = ops.ones_like(cuts[:1]) * FAR
        upper = ops.take(ops.concatenate([cuts, end]), which) - score
        lower = ops.take(ops.concatenate([-end, cuts]), which) - score
        width = -ops.expm1(lower - upper)
        logp = ops.log_sigmoid(upper) + ops.log_sigmoid(-lower) + ops.log(width)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            each = -upstream * rated / count
            # logistic density over probability of the band, at either edge
            at_upper = ops.exp(ops.log_sigmoid(-upper) - ops.log_sigmoid(-lower)) / width
            at_lower = ops.exp(ops.log_sigmoid(lower) - ops.log_sigmoid(upper)) / width
            band = ops.one_hot(which, STARS, dtype=score.dtype)
            d_cuts = ops.einsum("n,nk->k", each * at_upper, band[:, :-1])
            d_cuts = d_cuts - ops.einsum("n,nk->k", each * at_lower, band[:, 1:])
            d_score = each * (ops.sigmoid(upper) + ops.sigmoid(lower) - 1.0)
            return d_score, d_cuts

        return -ops.sum(rated * logp) / count, grad

    return rule(score, cuts)


@keras.saving.register_keras_serializable("cookbook")
class PairingEncoder(keras.layers.Layer):
    """Ingredient table, one blend over the pairing graph, and a bag a recipe."""

    def __init__(self, adjacency, dim=16, norm="sym", **kwargs):
        super().__init__(**kwargs)
        self.adjacency = np.asarray(adjacency)
        self.dim, self.norm = dim, norm
        self._blend = neighbour_blend(self.adjacency, norm)

    def build(self, input_shape=None):
        n = self.adjacency.shape[0]
        self.table = self.add_weight(shape=(n, self.dim), name="table")
        self.share = self.add_weight(shape=(), initializer="zeros", name="share")
        self.built = True

    def call(self, ids):
        rows = self._blend(1.0 * self.table, ops.sigmoid(self.share))
        return pantry_bag(rows, ids)

    def get_config(self):
        return {**super().get_config(), "adjacency": self.adjacency.tolist(), "dim": self.dim, "norm": self.norm}
