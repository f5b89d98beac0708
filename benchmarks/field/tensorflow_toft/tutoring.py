"""Student-model pieces shared by the tutoring experiments (backend-agnostic Keras)."""

import math

import keras
from keras import ops

LN2 = math.log(2.0)
PAD = -1


def _reduce_like(g, ref):
    gs, rs = tuple(g.shape), tuple(ref.shape)
    lead = len(gs) - len(rs)
    if lead:
        g = ops.sum(g, axis=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(rs) if n == 1 and g.shape[i] != 1)
    return ops.sum(g, axis=axes, keepdims=True) if axes else g


def pooled_tags(table, ids, pooling="mean"):
    """Embedding of an exercise as the pooled embedding of its skill tags.

    `table` is [S, D], `ids` an int array [B, K] padded with -1. `pooling` is
    "mean" or "sum"; an exercise without tags gets zeros. Returns [B, D].
    """
    present = ops.cast(ops.not_equal(ids, PAD), table.dtype)
    if pooling == "mean":
        count = ops.maximum(ops.sum(present, axis=1, keepdims=True), 1)
        share = present / count
    else:
        share = present
    slots = ops.where(ops.not_equal(ids, PAD), ids, ops.zeros_like(ids))

    @ops.custom_gradient
    def rule(table):
        rows = ops.take(table, slots, axis=0)
        out = ops.sum(rows * share[:, :, None], axis=1)

        def grad(*args, upstream=None):
            up = upstream if upstream is not None else args[0]
            updates = up[:, None, :] * share[:, :, None]
            # padding lands on one spare row behind the table
            size, dim = int(table.shape[0]), int(table.shape[1])
            where = ops.where(ops.not_equal(ids, PAD), ids, ops.full_like(ids, size))
            full = ops.scatter_update(
                ops.zeros((size + 1, dim), dtype=up.dtype),
                ops.reshape(where, (-1, 1)),
                ops.reshape(updates, (-1, dim)),
            )
            return full[:size]

        return out, grad

    return rule(table)


def half_life_recall(min_half_life=0.01, max_half_life=274.0):
    """Recall probability 2^(-lag / h), h = 2^(theta . x) kept within bounds (days)."""
    lo, hi = math.log2(min_half_life), math.log2(max_half_life)

    @ops.custom_gradient
    def recall(theta, features, lag):
        raw = ops.sum(theta * features, axis=-1)
        inside = ops.cast(ops.logical_and(raw > lo, raw < hi), raw.dtype)
        half_life = ops.exp(LN2 * ops.clip(raw, lo, hi))
        p = ops.exp(-LN2 * lag / half_life)

        def grad(*args, upstream=None):
            up = upstream if upstream is not None else args[0]
            d_lag = -LN2 * up * p / half_life
            d_raw = -d_lag * lag * LN2 * inside
            return (
                _reduce_like(d_raw[..., None] * features, theta),
                _reduce_like(d_raw[..., None] * theta, features),
                _reduce_like(d_lag, lag),
            )

        return p, grad

    return recall


class NoisyGateLoss(keras.losses.Loss):
    """DINA-type response likelihood with soft skill mastery."""

    def __init__(self, q_matrix, reduction="mean", name="noisy_gate"):
        super().__init__(reduction=None, name=name)
        self.q_matrix = q_matrix  # [J, K]
        self.mode = reduction

    def evaluate(self, mastery, slip, guess, responses, observed):
        q = ops.cast(self.q_matrix, mastery.dtype)
        r = ops.cast(responses, mastery.dtype)
        w = ops.cast(observed, mastery.dtype)

        @ops.custom_gradient
        def nll(mastery, slip, guess):
            eta = ops.exp(ops.log(mastery) @ ops.transpose(q))
            log_hit = (1.0 - eta) * ops.log(guess) + eta * ops.log(1.0 - slip)
            hit = ops.exp(log_hit)
            each = -(r * log_hit + (1.0 - r) * ops.log1p(-hit)) * w
            if self.mode == "mean":
                value = ops.sum(each) / ops.sum(w)
            else:
                value = ops.sum(each)

            def grad(*args, upstream=None):
                up = upstream if upstream is not None else args[0]
                d_log_hit = up * w * ((1.0 - r) * hit / (1.0 - hit) - r)
                if self.mode == "mean":
                    d_log_hit = d_log_hit / float(r.shape[0] * r.shape[1])
                d_eta = d_log_hit * (ops.log(1.0 - slip) - ops.log(guess))
                d_mastery = ((d_eta * eta) @ q) / mastery
                d_slip = -ops.sum(d_log_hit * eta, axis=0) / (1.0 - slip)
                d_guess = ops.sum(d_log_hit * (1.0 - eta), axis=0) / guess
                return d_mastery, d_slip, d_guess

            return value, grad

        return nll(mastery, slip, guess)
