"""Classification heads for herbarium sheets: taxonomy roll-up, taxonomic cost and locality prior.

Everything is written with ``keras.ops``.  Integer tables and labels stay outside of the differentiated
arguments, hence the factories.
"""

import keras
import numpy as np
from keras import ops

_NEGATIVE = -1e9


def children_table(groups):
    """Pad a list of species lists to a rectangular (groups, longest) table, -1 where there is no child."""
    longest = max([1] + [len(g) for g in groups])
    table = np.full((len(groups), longest), -1, dtype="int32")
    for i, g in enumerate(groups):
        table[i, : len(g)] = g
    return table


def make_rank_rollup(table, n_species, average=False, empty=-50.0):
    """Log-probabilities of species to those of genera.

    Parameters
    ----------
    table : int array, (genera, longest)
        From :func:`children_table`.  A hybrid species may sit under several genera.
    n_species : int
    average : bool
        Log of the mean of the children in place of the log of their sum.
    empty : float
        What a genus without species gets.

    Returns
    -------
    callable, (batch, species) -> (batch, genera)
    """
    table = np.asarray(table)
    present = table >= 0
    index = np.where(present, table, 0)
    has_child = present.any(axis=1)
    log_count = np.log(np.maximum(present.sum(axis=1), 1)).astype("float32") if average else 0.0
    flat = index.reshape(-1)

    @ops.custom_gradient
    def rank_rollup(log_p):
        child = ops.where(present, ops.take(log_p, index, axis=1), _NEGATIVE)
        peak = ops.max(child, axis=-1, keepdims=True)
        e = ops.where(present, ops.exp(child - peak), 0.0)
        total = ops.sum(e, axis=-1, keepdims=True)
        total = ops.where(has_child[:, None], total, 1.0)
        out = ops.where(has_child, peak[..., 0] + ops.log(total[..., 0]) - log_count, empty)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            part = upstream[..., None] * e / total
            part = ops.reshape(part, (-1, len(flat)))
            place = ops.one_hot(flat, n_species, dtype=part.dtype)
            return ops.matmul(part, place)

        return out, grad

    return rank_rollup


def make_taxonomic_loss(labels, distance, reduction="mean"):
    """Softmax loss with a margin that grows with taxonomic distance.

    With ``y`` the label of a sheet, its loss is ``logsumexp(z + alpha * distance[y]) - z[y]``.

    Args:
        labels: (batch,) int.
        distance: (classes, classes), row: true class. Zero diagonal; need not be symmetric.
        reduction: "mean" for the weighted mean ``sum(w l) / sum(w)``, "sum" for ``sum(w l)``,
            "none" for ``w l``.

    Returns:
        ``loss(logits, alpha, weights)`` with logits (batch, classes), scalar alpha and weights (batch,).
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"unknown reduction {reduction!r}")

    @ops.custom_gradient
    def taxonomic_loss(logits, alpha, weights):
        margin = ops.cast(ops.take(distance, labels, axis=0), logits.dtype)
        truth = ops.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
        z = logits + alpha * margin
        each = ops.logsumexp(z, axis=-1) - ops.sum(truth * logits, axis=-1)
        weighted = weights * each
        if reduction == "none":
            out = weighted
        elif reduction == "sum":
            out = ops.sum(weighted)
        else:
            out = ops.sum(weighted) / ops.sum(weights)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            if reduction == "mean":
                scale = upstream / ops.sum(weights)
                d_weights = scale * (each - ops.sum(each) / each.shape[0])
            else:
                scale = upstream
                d_weights = scale * each
            p = ops.softmax(z, axis=-1)
            row = (scale * weights)[:, None]
            return row * (p - truth), ops.sum(row * p * margin), d_weights

        return out, grad

    return taxonomic_loss


def make_locality_prior(cells):
    """Adds the log of a geographic prior to the logits; ``cells`` (batch,) are the sheets' grid cells.

    The returned function takes logits (batch, classes), table (cells, classes) of positive relative frequencies
    and mix, a scalar or (batch, 1) in (0, 1): the trust in the recorded locality.
    """

    @ops.custom_gradient
    def locality_prior(logits, table, mix):
        n_classes = logits.shape[-1]
        prior = ops.take(table, cells, axis=0)
        blended = mix * prior + (1.0 - mix) / n_classes

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            ratio = upstream / blended
            d_mix = ratio * (prior - 1.0 / n_classes)
            d_mix = (
                ops.sum(d_mix) if len(mix.shape) == 0 else ops.sum(d_mix, axis=-1, keepdims=True)
            )
            d_table = ops.scatter_update(
                ops.zeros_like(table), ops.expand_dims(cells, -1), mix * ratio
            )
            return upstream, d_table, d_mix

        return logits + ops.log(blended), grad

    return locality_prior


class HerbariumHead(keras.layers.Layer):
    """Dense species head with the locality prior and the genus roll-up behind it."""

    def __init__(self, groups, n_species, n_cells, average=False, **kwargs):
        super().__init__(**kwargs)
        self.rollup = make_rank_rollup(children_table(groups), n_species, average)
        self.dense = keras.layers.Dense(n_species)
        self.n_species = n_species
        self.n_cells = n_cells

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.occurrence = self.add_weight(
            name="occurrence", shape=(self.n_cells, self.n_species), initializer="zeros"
        )
        self.trust = self.add_weight(name="trust", shape=(), initializer="zeros")

    def call(self, features, cells):
        place = make_locality_prior(cells)
        logits = place(self.dense(features), ops.softmax(self.occurrence), ops.sigmoid(self.trust))
        return logits, self.rollup(ops.log_softmax(logits, axis=-1))
