"""Objectives for taggers trained on ambiguous annotations: candidate label sets and bags of crops with known class shares."""

from keras import ops

_TINY = -1e9


class CandidateSetLoss:
    """-log of the probability that falls inside a candidate label set.

    ``__call__(logits, candidates)``: logits ``(..., classes)``; candidates the same
    shape, 0/1. Rows without any candidate are unlabelled and contribute nothing.
    reduction: "none" | "sum" | "mean", the mean taken over the labelled rows.
    """

    def __init__(self, reduction="mean"):
        if reduction not in ("none", "sum", "mean"):
            raise ValueError(f"unknown reduction {reduction!r}")
        self.reduction = reduction

    def __call__(self, logits, candidates):
        inside = ops.cast(candidates, "bool")
        labelled = ops.any(inside, axis=-1)
        reduction = self.reduction

        @ops.custom_gradient
        def candidate_nll(z):
            allowed = ops.where(inside, z, ops.full_like(z, _TINY))
            row = ops.logsumexp(z, axis=-1) - ops.logsumexp(allowed, axis=-1)
            row = ops.where(labelled, row, ops.zeros_like(row))
            weight = ops.cast(labelled, z.dtype)
            if reduction == "mean":
                weight = weight / ops.maximum(ops.sum(weight), 1.0)
            value = row if reduction == "none" else ops.sum(weight * row)

            def grad(*args, upstream=None):
                g = upstream if upstream is not None else args[0]
                posterior = ops.softmax(allowed, axis=-1)
                return ops.expand_dims(g * weight, -1) * (ops.softmax(z, axis=-1) - posterior)

            return value, grad

        return candidate_nll(logits)


def make_proportion_loss(present, proportions, eps=1e-8):
    # present (bags, crops) 0/1, at least one crop a bag; proportions (bags, classes), known for the bag as a whole
    def proportion_nll(z):
        seen = ops.expand_dims(ops.cast(present, z.dtype), -1)
        q = ops.cast(proportions, z.dtype)
        count = ops.sum(seen, axis=1)
        p = ops.softmax(z, axis=-1)
        bag = ops.sum(seen * p, axis=1) / count
        loss = -ops.sum(q * ops.log(bag + eps), axis=-1)

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            d_bag = -ops.expand_dims(g, -1) * q / (bag + eps) / count
            d_p = ops.expand_dims(d_bag, 1)
            return p * (d_p - ops.sum(p * d_p, axis=-1, keepdims=True))

        return loss, grad

    return ops.custom_gradient(proportion_nll)
