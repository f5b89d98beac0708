"""Prototype classifiers of the LVQ family on any Keras backend.

Three training criteria share one set of prototypes: the margin cost of
generalised relevance LVQ, the likelihood ratio of robust soft LVQ and the
neural-gas cost that is used for initialising the prototypes.
"""

import numpy as np
import keras
from keras import ops


def _upstream(args, upstream):
    """Returns the cotangent, which torch hands over by keyword."""
    return args[0] if upstream is None else upstream


def label_table(prototype_labels, num_classes: int, dtype="float32") -> np.ndarray:
    """One-hot table of the prototypes' classes.

    Args:
        prototype_labels: Integer sequence of length P.
        num_classes: Number of classes C; each needs one prototype at least.
        dtype: Floating dtype of the result.

    Returns:
        Array (C, P).
    """
    labels = np.asarray(prototype_labels)
    table = np.zeros((num_classes, labels.size), dtype)
    table[labels, np.arange(labels.size)] = 1
    if not table.any(axis=1).all():
        raise ValueError("a class without prototypes")
    return table


def make_glvq_cost(table, squash="sigmoid", steepness=4.0):
    """Builds the GRLVQ cost for prototypes with the classes of `table`.

    Args:
        table: (C, P) array from `label_table`.
        squash: "sigmoid" or "identity", applied to the relative distance.
        steepness: Slope of the sigmoid.
    """
    if squash not in ("sigmoid", "identity"):
        raise ValueError(squash)

    @ops.custom_gradient
    def glvq_cost(x, prototypes, relevance, targets):
        """Cost per sample.

        Args:
            x: (B, D) samples.
            prototypes: (P, D).
            relevance: (D,) nonnegative weights of the features.
            targets: (B, C) one-hot classes.

        Returns:
            (B,) costs.
        """
        diff = x[:, None, :] - prototypes[None, :, :]
        dist = ops.sum(relevance * ops.square(diff), axis=-1)
        same = ops.matmul(targets, ops.cast(table, x.dtype)) > 0.5
        far = ops.full_like(dist, np.inf)
        own = ops.argmin(ops.where(same, dist, far), axis=1)
        rival = ops.argmin(ops.where(same, far, dist), axis=1)
        d_own = ops.take_along_axis(dist, own[:, None], axis=1)
        d_rival = ops.take_along_axis(dist, rival[:, None], axis=1)
        total = d_own + d_rival
        mu = (d_own - d_rival) / total
        cost = ops.sigmoid(steepness * mu) if squash == "sigmoid" else mu

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)[:, None]
            if squash == "sigmoid":
                g = g * steepness * cost * (1.0 - cost)
            g_own = g * 2.0 * d_rival / ops.square(total)
            g_rival = -g * 2.0 * d_own / ops.square(total)
            to_own = x - ops.take(prototypes, own, axis=0)
            to_rival = x - ops.take(prototypes, rival, axis=0)
            pull = 2.0 * relevance * g_own * to_own
            push = 2.0 * relevance * g_rival * to_rival
            g_relevance = ops.sum(
                g_own * ops.square(to_own) + g_rival * ops.square(to_rival), axis=0
            )
            winners = ops.concatenate([own, rival], axis=0)[:, None]
            g_prototypes = ops.scatter_update(
                ops.zeros_like(prototypes), winners, -ops.concatenate([pull, push], axis=0)
            )
            return pull + push, g_prototypes, g_relevance, ops.zeros_like(targets)

        return cost[:, 0], grad

    return glvq_cost


def make_rslvq_loss(table):
    """Builds the robust soft LVQ loss for prototypes with the classes of `table`."""

    @ops.custom_gradient
    def rslvq_loss(x, prototypes, log_width, prior, targets):
        """Minus the log posterior of the class under a Gaussian mixture.

        Args:
            x: (B, D) samples.
            prototypes: (P, D) means of the components.
            log_width: Log of the standard deviations, scalar or (P,).
            prior: (P,) logits of the mixture weights.
            targets: (B, C) one-hot classes.

        Returns:
            (B,) losses.
        """
        features = x.shape[-1]
        inv_var = ops.exp(-2.0 * log_width)
        diff = x[:, None, :] - prototypes[None, :, :]
        dist = ops.sum(ops.square(diff), axis=-1)
        logit = prior - features * log_width - 0.5 * dist * inv_var
        same = ops.matmul(targets, ops.cast(table, x.dtype)) > 0.5
        masked = ops.where(same, logit, ops.full_like(logit, -np.inf))
        loss = ops.logsumexp(logit, axis=1) - ops.logsumexp(masked, axis=1)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)[:, None]
            gap = g * (ops.softmax(logit, axis=1) - ops.softmax(masked, axis=1))
            force = gap * inv_var
            flow = force[:, :, None] * diff
            g_width = gap * (dist * inv_var - features)
            g_width = ops.sum(g_width, axis=0) if len(log_width.shape) else ops.sum(g_width)
            return (
                -ops.sum(flow, axis=1),
                ops.sum(flow, axis=0),
                g_width,
                ops.sum(gap, axis=0),
                ops.zeros_like(targets),
            )

        return loss, grad

    return rslvq_loss


@ops.custom_gradient
def neural_gas_cost(x, prototypes, reach, sample_weight):
    """Rank-weighted quantisation error, averaged over the samples.

    Args:
        x: (B, D) samples.
        prototypes: (P, D).
        reach: Scalar, positive; ranks beyond it hardly count.
        sample_weight: (B,) nonnegative weights, not all zero.

    Returns:
        Scalar cost. Ranks are constant between the ties of the distances.
    """
    diff = x[:, None, :] - prototypes[None, :, :]
    dist = ops.sum(ops.square(diff), axis=-1)
    rank = ops.cast(ops.argsort(ops.argsort(dist, axis=1), axis=1), x.dtype)
    hood = ops.exp(-rank / reach)
    norm = ops.sum(hood, axis=1)
    error = ops.sum(hood * dist, axis=1) / norm
    mass = ops.sum(sample_weight)
    mean = ops.sum(sample_weight * error) / mass

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        g_error = g * sample_weight / mass
        share = (g_error / norm)[:, None] * hood
        flow = 2.0 * share[:, :, None] * diff
        g_reach = ops.sum(share * (dist - error[:, None]) * rank) / ops.square(reach)
        return ops.sum(flow, axis=1), -ops.sum(flow, axis=0), g_reach, g * (error - mean) / mass

    return mean, grad


class PrototypeCosts(keras.layers.Layer):
    """Prototypes with a cost as output: "glvq" or "rslvq"."""

    def __init__(self, prototype_labels, num_classes, criterion="glvq", **kwargs):
        super().__init__(**kwargs)
        table = label_table(prototype_labels, num_classes)
        self.count = table.shape[1]
        self.criterion = criterion
        self.cost = make_glvq_cost(table) if criterion == "glvq" else make_rslvq_loss(table)

    def build(self, shape):
        dim = shape[-1]
        self.prototypes = self.add_weight(shape=(self.count, dim), initializer="random_normal")
        self.relevance = self.add_weight(shape=(dim,), initializer="ones")
        self.prior = self.add_weight(shape=(self.count,), initializer="zeros")
        self.log_width = self.add_weight(shape=(), initializer="zeros")

    def call(self, x, targets):
        protos = ops.multiply(self.prototypes, 1.0)  # a tensor instead of the variable
        if self.criterion == "glvq":
            return self.cost(x, protos, ops.relu(self.relevance), targets)
        width, prior = ops.multiply(self.log_width, 1.0), ops.multiply(self.prior, 1.0)
        return self.cost(x, protos, width, prior, targets)
