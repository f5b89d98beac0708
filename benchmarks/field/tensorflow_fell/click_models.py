"""Unbiased learning to rank from clicks, on keras.ops."""

import keras
from keras import ops


def _pick(value, mask, reduction):
    if reduction == "none":
        return value
    total = ops.sum(value)
    if reduction == "sum":
        return total
    return total / ops.maximum(ops.sum(mask), 1.0)


def examination_click_loss(relevance, examination, position, clicks, mask=None, reduction="mean"):
    """Negative log-likelihood of the position-based click model.

    A document is clicked when it is both examined and relevant,
    ``P(click) = sigmoid(relevance) * sigmoid(examination[position])``.

    Args:
        relevance: `(batch, slots)` relevance logits from the ranker.
        examination: `(positions,)` examination logits, shared by all sessions.
        position: `(batch, slots)` integer display position of each document.
        clicks: `(batch, slots)` 0 / 1.
        mask: `(batch, slots)` 1 for documents that were shown, 0 for padding.
            All ones if left out.
        reduction: `"mean"` over the documents that were shown, `"sum"` or
            `"none"` (padding has zero loss).

    Returns:
        Scalar, or `(batch, slots)` with `reduction="none"`.
    """
    position = ops.cast(position, "int32")
    clicks = ops.cast(clicks, relevance.dtype)
    mask = ops.ones_like(clicks) if mask is None else ops.cast(mask, relevance.dtype)

    @ops.custom_gradient
    def nll(relevance, examination):
        seen = ops.take(examination, position)
        log_p = ops.log_sigmoid(relevance) + ops.log_sigmoid(seen)
        # 1 - s(r) s(e) = s(r) s(e) (exp(-r) + exp(-e) + exp(-r-e))
        log_not = log_p + ops.logsumexp(ops.stack([-relevance, -seen, -relevance - seen]), axis=0)
        value = -mask * ops.where(clicks > 0.5, log_p, log_not)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            scale = upstream * mask
            if reduction == "mean":
                scale = scale / ops.cast(ops.size(relevance), relevance.dtype)
            odds = ops.where(clicks > 0.5, -ops.ones_like(log_p), ops.exp(log_p - log_not))
            d_rel = scale * odds * ops.sigmoid(-relevance)
            d_seen = scale * odds * ops.sigmoid(-seen)
            d_exam = ops.segment_sum(
                ops.reshape(d_seen, (-1,)),
                ops.reshape(position, (-1,)),
                num_segments=examination.shape[0],
            )
            return d_rel, d_exam

        return _pick(value, mask, reduction), grad

    return nll(relevance, examination)


class PositionBias(keras.layers.Layer):
    """Holds the examination logits and adds the click loss."""

    def __init__(self, positions, **kwargs):
        super().__init__(**kwargs)
        self.positions = positions

    def build(self, _):
        self.logits = self.add_weight(shape=(self.positions,), initializer="zeros", name="examination")

    def call(self, relevance, position, clicks, mask=None):
        # only differences are identified, the top position is the reference
        logits = self.logits - self.logits[0]
        self.add_loss(examination_click_loss(relevance, logits, position, clicks, mask))
        return relevance
