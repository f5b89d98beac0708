"""Votes-to-seats models for district magnitudes of one and more."""
from keras import ops

REDUCTIONS = ("none", "sum", "mean")


def make_seat_shares(standing):
    standing = ops.convert_to_tensor(standing, dtype="bool")

    @ops.custom_gradient
    def power_law(votes, exponent):
        neg = ops.full_like(votes, -1e30)
        log_v = ops.log(ops.where(standing, votes, ops.ones_like(votes)))
        logits = ops.where(standing, exponent * log_v, neg)
        top = ops.max(logits, axis=-1, keepdims=True)
        weight = ops.where(standing, ops.exp(logits - top), ops.zeros_like(votes))
        total = ops.sum(weight, axis=-1, keepdims=True)
        share = weight / ops.where(total > 0, total, ops.ones_like(total))

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            d_logits = share * (g - ops.sum(g * share, axis=-1, keepdims=True))
            safe = ops.where(standing, votes, ops.ones_like(votes))
            d_votes = d_logits * exponent / safe
            d_exponent = d_logits * log_v
            shape = ops.shape(exponent)
            if len(shape) == 0:
                d_exponent = ops.sum(d_exponent)
            else:
                # (districts, 1) or (1, 1)
                d_exponent = ops.sum(d_exponent, axis=-1, keepdims=True)
                if shape[0] == 1:
                    d_exponent = ops.sum(d_exponent, axis=0, keepdims=True)
            return d_votes, d_exponent

        return share, grad

    return power_law


def gallagher_index(votes, seats, contested=None, reduction="none"):
    """Least-squares disproportionality of each district, in percentage points.

    ``100 * sqrt(0.5 * sum_p (v_p - s_p)^2)`` with the vote shares v and the seat shares s of the parties p.

    Args:
        votes: ``(districts, parties)`` vote counts, or any non-negative weights; normalised here.
        seats: ``(districts, parties)`` (expected) seats; normalised here.
        contested: optional bool ``(districts,)``. Districts that were not contested are left out: their index is zero
            and they do not count in the mean. Their votes and seats may all be zero.
        reduction: ``"none"`` for ``(districts,)``, ``"sum"``, or ``"mean"`` over the contested districts.
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {REDUCTIONS}, not {reduction!r}")

    @ops.custom_gradient
    def disproportionality(votes, seats):
        if contested is None:
            keep = ops.ones_like(votes[:, 0])
        else:
            keep = ops.cast(ops.convert_to_tensor(contested), votes.dtype)
        on = keep[:, None] > 0

        def shares(counts):
            total = ops.sum(counts, axis=-1, keepdims=True)
            total = ops.where(on, total, ops.ones_like(total))
            return counts / total, total

        v, v_total = shares(votes)
        s, s_total = shares(seats)
        gap = v - s
        index = 100.0 * keep * ops.sqrt(0.5 * ops.sum(gap * gap, axis=-1))
        if reduction == "none":
            out = index
        elif reduction == "sum":
            out = ops.sum(index)
        else:
            out = ops.sum(index) / ops.maximum(ops.sum(keep), 1.0)

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            if reduction == "mean":
                g = g / index.shape[0]
            g = g * keep
            positive = index > 0
            slope = ops.where(positive, 5e3 * g / ops.where(positive, index, ops.ones_like(index)), 0.0 * g)
            d_gap = slope[:, None] * gap
            d_votes = (d_gap - ops.sum(d_gap * v, axis=-1, keepdims=True)) / v_total
            d_seats = -(d_gap - ops.sum(d_gap * s, axis=-1, keepdims=True)) / s_total
            return d_votes, d_seats

        return out, grad

    return disproportionality(votes, seats)
