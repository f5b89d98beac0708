# Student models: spaced repetition (half-life regression) and Bayesian knowledge tracing.
import math

import keras
import numpy as np
from keras import ops

LN2 = math.log(2.0)
LOG2_HALFLIFE = (-6.0, 8.0)  # days: 15 minutes ... 9 months
REDUCTIONS = ("none", "sum", "mean")


def make_hlr_loss(reduction="mean", bounds=LOG2_HALFLIFE):
    if reduction not in REDUCTIONS:
        raise ValueError(reduction)
    lo, hi = bounds

    @ops.custom_gradient
    def loss(
        theta,  # (features,)
        feats,  # (reviews, features)
        lag,  # (reviews,) days since last seen
        recall,  # (reviews,) observed share of right answers
        weight,  # (reviews,)
    ):
        z = ops.sum(feats * theta, axis=-1)
        zc = ops.clip(z, lo, hi)
        h = ops.exp(LN2 * zc)
        p = ops.exp(-LN2 * lag / h)
        err = p - recall
        each = err * err
        if reduction == "none":
            out = weight * each
        elif reduction == "sum":
            out = ops.sum(weight * each)
        else:
            total = ops.sum(weight)
            out = ops.sum(weight * each) / total

        def grad(*up, upstream=None):
            up = up[0] if upstream is None else upstream
            if reduction == "mean":
                up_w = up * (each - out) / total
                up_e = up * weight / total
            else:
                up_w = up * each
                up_e = up * weight
            dp = 2.0 * up_e * err
            open_ = ops.cast(ops.logical_and(z > lo, z < hi), dp.dtype)
            dz = dp * p * lag * LN2 * LN2 / h * open_
            return (
                ops.sum(feats * dz[:, None], axis=0),
                dz[:, None] * theta[None, :],
                -dp * LN2 * p / h,
                -dp,
                up_w,
            )

        return out, grad

    return loss


@ops.custom_gradient
def bkt_step(prior, slip, guess, learn, score):
    """One answered item: condition mastery on the score, then let the student learn.

    prior (students, skills) in (0, 1); slip, guess, learn (skills,); score (students, skills)
    from 0 (wrong) to 1 (right), with partial credit in between weighing the two outcomes.
    """
    known = score * (1.0 - slip) + (1.0 - score) * slip
    unknown = score * guess + (1.0 - score) * (1.0 - guess)
    evidence = prior * known + (1.0 - prior) * unknown
    post = prior * known / evidence
    after = post + (1.0 - post) * learn

    def grad(*up, upstream=None):
        up = up[0] if upstream is None else upstream
        d_post = up * (1.0 - learn) / (evidence * evidence)
        mixed = prior * (1.0 - prior)
        d_known = d_post * mixed * unknown
        d_unknown = -d_post * mixed * known
        side = ops.where(score >= 0.5, ops.ones_like(up), -ops.ones_like(up))
        return (
            d_post * known * unknown,
            ops.sum(-side * d_known, axis=0),
            ops.sum(side * d_unknown, axis=0),
            ops.sum(up * (1.0 - post), axis=0),
            d_known * (1.0 - 2.0 * slip) + d_unknown * (2.0 * guess - 1.0),
        )

    return after, grad


def chance_of_right(mastery, slip, guess):
    return mastery * (1.0 - slip) + (1.0 - mastery) * guess


def trace(prior, skills, scores):
    """scores: (students, items, skills) -> chance of a right answer before each item."""
    slip, guess, learn = (ops.sigmoid(skills[k]) for k in ("slip", "guess", "learn"))
    belief, seen = prior, []
    for t in range(scores.shape[1]):
        seen.append(chance_of_right(belief, slip, guess))
        belief = bkt_step(belief, slip, guess, learn, scores[:, t])
    return ops.stack(seen, axis=1), belief


class HalfLifeRegressor(keras.layers.Layer):
    def __init__(self, reduction="mean", l2=0.1, **kwargs):
        super().__init__(**kwargs)
        self.l2 = l2
        self.loss = make_hlr_loss(reduction)

    def build(self, shape):
        self.theta = self.add_weight(shape=(shape[-1],), initializer="zeros", name="theta")

    def call(self, feats, lag, recall, weight):
        fit = self.loss(ops.copy(self.theta), feats, lag, recall, weight)
        return ops.mean(fit) + self.l2 * ops.sum(ops.square(self.theta))


def review_features(right, wrong, lexeme, n_lexemes):
    one_hot = np.eye(n_lexemes)[lexeme]
    counts = np.sqrt(1.0 + np.stack([right, wrong], axis=1))
    return np.concatenate([np.ones((len(right), 1)), counts, one_hot], axis=1)


def next_review(theta, feats, target=0.9):
    z = np.clip(feats @ theta, *LOG2_HALFLIFE)
    return -np.log2(target) * 2.0**z
