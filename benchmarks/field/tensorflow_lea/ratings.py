"""Ratings and item-item models, backend-agnostic."""

import math

from keras import ops

Q = math.log(10.0) / 400.0


def expected_score(ratings, deviations, home, away, advantage=0.0, pooled=False):
    """Glicko expectation of the home side of each game.

    Args:
        ratings: (players,) ratings, about 1500.
        deviations: (players,) rating deviations, positive.
        home, away: (games,) integer player numbers; players may recur.
        advantage: rating points added to the home side.
        pooled: attenuate by sqrt(rd_home**2 + rd_away**2) (prediction)
            instead of by the opponent's deviation alone (rating update).

    Returns:
        (games,) expected scores in (0, 1).
    """
    home = ops.convert_to_tensor(home, dtype="int32")
    away = ops.convert_to_tensor(away, dtype="int32")

    @ops.custom_gradient
    def expectation(ratings, deviations):
        players = ratings.shape[0]
        rd = ops.take(deviations, away)
        rd2 = ops.square(rd)
        if pooled:
            rd2 = rd2 + ops.square(ops.take(deviations, home))
        damp = ops.rsqrt(1.0 + 3.0 * Q**2 / math.pi**2 * rd2)
        margin = ops.take(ratings, home) - ops.take(ratings, away) + advantage
        score = ops.sigmoid(Q * damp * margin)

        def per_player(values, index):
            return ops.segment_sum(values, index, num_segments=players)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            slope = upstream * score * (1.0 - score) * Q
            pull = slope * damp
            d_ratings = per_player(pull, home) - per_player(pull, away)
            spread = -3.0 * Q**2 / math.pi**2 * slope * margin * damp**3 * rd
            d_deviations = per_player(spread, away)
            if pooled:
                d_deviations = d_deviations + per_player(spread, home)
            return d_ratings, d_deviations

        return score, grad

    return expectation(ratings, deviations)


@ops.custom_gradient
def ease_weights(x, reg):
    """Closed-form EASE item-item weights.

    Args:
        x: (users, items) interactions, real.
        reg: ridge penalty, scalar tensor or (items,).

    Returns:
        (items, items) weights with zero diagonal; scores are `x @ weights`.
    """
    items = x.shape[1]
    eye = ops.eye(items, dtype=x.dtype)
    p = ops.inv(ops.transpose(x) @ x + eye * reg)
    scale = ops.diagonal(p)
    weights = (eye - 1.0) * p / scale

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g = (eye - 1.0) * upstream / scale
        dp = g - eye * (ops.sum(upstream * weights, axis=0) / scale)
        da = -(p @ dp @ p)
        dx = x @ (da + ops.transpose(da))
        dreg = ops.diagonal(da)
        return dx, ops.sum(dreg) if len(reg.shape) == 0 else dreg

    return weights, grad


def recommend(x, reg, top=10):
    scores = x @ ease_weights(x, reg)
    scores = ops.where(x > 0, -float("inf"), scores)
    return ops.top_k(scores, top)[1]
