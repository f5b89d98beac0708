"""Learning from positive and unlabelled examples (PU learning) in Keras 3.

Typical data: reviewed fraud cases (positives) against a large pool nobody has
looked at.  Three ingredients, each with its own gradient so that they run in
constant memory over large unlabelled pools:

``nonnegative_risk``
    Kiryo et al.'s risk estimator with per-example weights and a class prior
    that may itself be learned.
``pair_ranking``
    ranking of positives over unlabelled examples inside each query.
``make_label_posterior``
    Elkan and Noto's correction of a "was it labelled" classifier, with a
    labelling propensity per reviewing desk.
"""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
from keras import ops

MIN_WEIGHT = 1e-6
PROPENSITY_FLOOR = 0.02
RANK_TAU = 1.0


def logistic_loss(margin):
    """``log(1 + exp(-margin))``."""
    return ops.softplus(-margin)


def weighted_mean(values, weights):
    """Weighted mean over the batch, and the total weight."""
    total = ops.maximum(ops.sum(weights), MIN_WEIGHT)
    return ops.sum(values * weights) / total, total


@ops.custom_gradient
def nonnegative_risk(pos, pos_weight, unl, unl_weight, prior):
    """Non-negative PU risk under the logistic loss.

        R = prior * E_p[l(s)] + max(0, E_u[l(-s)] - prior * E_p[l(-s)])

    Args:
        pos: Scores of the labelled positives, shape `(P,)`.
        pos_weight: Their weights (0 for padding), shape `(P,)`.
        unl: Scores of the unlabelled examples, shape `(U,)`.
        unl_weight: shape `(U,)`.
        prior: Scalar share of positives in the unlabelled pool.

    Returns:
        Scalar risk.
    """
    as_pos = logistic_loss(pos)
    as_neg = logistic_loss(-pos)
    unl_neg = logistic_loss(-unl)
    pos_risk, pos_total = weighted_mean(as_pos, pos_weight)
    pos_neg_risk, _ = weighted_mean(as_neg, pos_weight)
    unl_risk, unl_total = weighted_mean(unl_neg, unl_weight)
    negative = unl_risk - prior * pos_neg_risk
    risk = prior * pos_risk + ops.maximum(negative, 0.0)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        active = ops.cast(negative > 0.0, pos.dtype)
        # logistic loss: l'(s) - d/ds l(-s) = -1, whatever the score
        d_pos = -upstream * prior * pos_weight / pos_total
        d_pos_weight = (
            upstream
            * prior
            * ((as_pos - pos_risk) - active * (as_neg - pos_neg_risk))
            / pos_total
        )
        d_unl = upstream * active * unl_weight * ops.sigmoid(unl) / unl_total
        d_unl_weight = upstream * active * (unl_neg - unl_risk) / unl_total
        d_prior = upstream * (pos_risk - active * pos_neg_risk)
        return d_pos, d_pos_weight, d_unl, d_unl_weight, d_prior

    return risk, grad


@ops.custom_gradient
def pair_ranking(pos, unl, pos_mask, unl_mask, margin):
    """Softplus ranking loss of positives over unlabelled items, per query.

    Parameters
    ----------
    pos : (B, P) tensor
    unl : (B, U) tensor
    pos_mask, unl_mask : (B, P) and (B, U) tensors of 0/1
        Padding.  Queries without any pair get a loss of zero.
    margin : scalar tensor

    Returns
    -------
    (B,) tensor, the mean over the query's pairs of
    ``softplus(margin - (pos - unl))``.
    """
    gap = margin - pos[:, :, None] + unl[:, None, :]
    pair = pos_mask[:, :, None] * unl_mask[:, None, :]
    count = ops.maximum(ops.sum(pair, axis=(1, 2)), 1.0)
    loss = ops.sum(pair * ops.softplus(gap / RANK_TAU), axis=(1, 2)) * RANK_TAU / count

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        push = (upstream / count)[:, None, None] * pair * ops.sigmoid(gap / RANK_TAU)
        return (
            -ops.sum(push, axis=2),
            ops.sum(push, axis=1),
            ops.zeros_like(pos_mask),
            ops.zeros_like(unl_mask),
            ops.sum(push),
        )

    return loss, grad


def make_label_posterior(num_desks, floor=PROPENSITY_FLOOR):
    """Posterior of being positive from the score of a labelling classifier.

    The propensity of desk ``d`` to label a positive is
    ``floor + (1 - floor) * sigmoid(desk_logit[d])``.  An example that bears a
    label is positive; for the rest the classifier's probability is divided by
    the propensity and held at one.
    """

    @ops.custom_gradient
    def label_posterior(logit, desk_logit, desk, labelled):
        # logit (N,), desk_logit (num_desks,), desk (N,) int, labelled (N,) bool
        score = ops.sigmoid(logit)
        squash = ops.sigmoid(ops.take(desk_logit, desk, axis=0))
        propensity = floor + (1.0 - floor) * squash
        ratio = score / propensity
        free = ops.logical_and(ratio < 1.0, ops.logical_not(labelled))
        posterior = ops.where(free, ratio, ops.ones_like(ratio))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = ops.where(free, upstream, ops.zeros_like(upstream))
            d_logit = g * ratio * (1.0 - score)
            slope = (1.0 - floor) * squash * (1.0 - squash)
            d_desk = ops.segment_sum(
                -g * ratio / propensity * slope, desk, num_segments=num_desks
            )
            return d_logit, d_desk, None, None

        return posterior, grad

    return label_posterior


class LabelPosterior(keras.layers.Layer):
    """Holds the desks' propensity logits and applies the correction."""

    def __init__(self, num_desks, floor=PROPENSITY_FLOOR, **kwargs):
        super().__init__(**kwargs)
        self.num_desks = num_desks
        self._posterior = make_label_posterior(num_desks, floor)

    def build(self, input_shape):
        self.desk_logit = self.add_weight(
            shape=(self.num_desks,), initializer="zeros", name="desk_logit"
        )

    def call(self, logit, desk, labelled):
        table = ops.multiply(self.desk_logit, 1.0)
        return self._posterior(logit, table, desk, labelled)


class PURisk(keras.layers.Layer):
    """Non-negative risk with a learned prior.

    The prior is ``sigmoid(prior_logit)``; it starts at ``initial_prior``.
    """

    def __init__(self, initial_prior=0.2, **kwargs):
        super().__init__(**kwargs)
        self.initial_prior = float(initial_prior)

    def build(self, *shapes):
        start = np.log(self.initial_prior / (1.0 - self.initial_prior))
        self.prior_logit = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(start),
            name="prior_logit",
        )

    def call(self, pos, unl, pos_weight=None, unl_weight=None):
        if pos_weight is None:
            pos_weight = ops.ones_like(pos)
        if unl_weight is None:
            unl_weight = ops.ones_like(unl)
        prior = ops.sigmoid(self.prior_logit)
        return nonnegative_risk(pos, pos_weight, unl, unl_weight, prior)


class QueryRanker(keras.layers.Layer):
    """Scores items with a two-layer net and ranks positives above the pool."""

    def __init__(self, width=16, margin=1.0, **kwargs):
        super().__init__(**kwargs)
        self.hidden = keras.layers.Dense(width, activation="gelu")
        self.score = keras.layers.Dense(1)
        self.margin = margin

    def scores(self, items):
        return ops.squeeze(self.score(self.hidden(items)), axis=-1)

    def call(self, pos_items, unl_items, pos_mask, unl_mask):
        pos = self.scores(pos_items)
        unl = self.scores(unl_items)
        margin = ops.convert_to_tensor(self.margin, dtype=pos.dtype)
        return pair_ranking(pos, unl, pos_mask, unl_mask, margin)


def length_mask(lengths, size, dtype="float32"):
    """0/1 mask `(B, size)` of the first ``lengths`` places."""
    steps = np.arange(size)[None, :]
    return ops.cast(steps < np.asarray(lengths)[:, None], dtype)


def prior_from_propensity(label_rate, propensity):
    """Share of positives implied by the rate of labels and their propensity."""
    return float(np.clip(label_rate / max(propensity, PROPENSITY_FLOOR), 0.0, 1.0))


def demo_batch(rng, positives=8, pool=24, features=6):
    shift = np.linspace(0.5, 1.0, features)
    pos = rng.normal(size=(positives, features)) + shift
    unl = rng.normal(size=(pool, features))
    unl[: pool // 4] += shift
    return pos.astype("float32"), unl.astype("float32")


if __name__ == "__main__":
    import tensorflow as tf

    rng = np.random.default_rng(0)
    pos, unl = demo_batch(rng)
    ranker = QueryRanker()
    risk = PURisk(0.25)
    correct = LabelPosterior(3)
    with tf.GradientTape() as tape:
        loss = risk(ranker.scores(pos), ranker.scores(unl))
        queries = ranker(
            pos.reshape(2, 4, -1),
            unl.reshape(2, 12, -1),
            length_mask([4, 2], 4),
            length_mask([12, 9], 12),
        )
        post = correct(
            ranker.scores(unl),
            ops.convert_to_tensor(rng.integers(0, 3, 24).astype("int32")),
            ops.convert_to_tensor(np.arange(24) % 6 == 0),
        )
        total = loss + ops.mean(queries) + ops.mean(ops.square(post - 0.25))
    weights = ranker.trainable_weights + risk.trainable_weights + correct.trainable_weights
    grads = tape.gradient(total, [w.value for w in weights])
    print(float(total), [tuple(g.shape) for g in grads])
