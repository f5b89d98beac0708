"""Reading comprehension and media attribution heads for Keras 3 (any backend)."""

from __future__ import annotations

import keras
from keras import ops


def span_marginal_nll(start_logits, end_logits, spans, span_mask, token_mask):
    """Negative log-likelihood of the gold answers of extractive question answering.

    The answer string often occurs several times in the passage, so the likelihood sums over all
    occurrences:  -log sum_k p_start(s_k) p_end(e_k).

    Args:
        start_logits: Float tensor (batch, tokens).
        end_logits: Float tensor (batch, tokens).
        spans: Int tensor (batch, occurrences, 2), first and last token of each occurrence. Occurrences
            may share a start or an end.
        span_mask: (batch, occurrences), 0 for padding; at least one occurrence per row is valid.
        token_mask: (batch, tokens), 0 for padding and question tokens, which no valid span touches.

    Returns:
        (batch,) losses.
    """
    tokens = start_logits.shape[-1]
    dtype = keras.backend.standardize_dtype(start_logits.dtype)
    first = ops.one_hot(spans[..., 0], tokens, dtype=dtype)
    last = ops.one_hot(spans[..., 1], tokens, dtype=dtype)
    live = ops.cast(token_mask, "bool")
    alive = ops.cast(span_mask, "bool")

    @ops.custom_gradient
    def nll(start, end):
        floor = -1e30 if dtype != "float16" else -6e4
        start = ops.where(live, start, floor)
        end = ops.where(live, end, floor)
        log_ps = start - ops.logsumexp(start, axis=-1, keepdims=True)
        log_pe = end - ops.logsumexp(end, axis=-1, keepdims=True)
        joint = ops.einsum("bkt,bt->bk", first, log_ps) + ops.einsum("bkt,bt->bk", last, log_pe)
        joint = ops.where(alive, joint, floor)
        total = ops.logsumexp(joint, axis=-1)
        share = ops.exp(joint - total[:, None])

        def grad(*args, upstream=None):
            g = args[-1] if upstream is None else upstream
            g = g[:, None]
            dstart = g * (ops.exp(log_ps) - ops.einsum("bk,bkt->bt", share, first))
            dend = g * (ops.exp(log_pe) - ops.einsum("bk,bkt->bt", share, last))
            return dstart, dend

        return -total, grad

    return nll(start_logits, end_logits)


class Adstock(keras.layers.Layer):
    """Carry-over of advertising pressure, one retention rate per channel.

    Args:
        window: Number of periods over which a campaign is remembered.
        peak_lag: None for the geometric adstock, weights r ** l at lag l. A number gives the delayed
            adstock, weights r ** ((l - peak_lag) ** 2), for media that take a while to work.
        normalize: Divide the weights by their sum, so that spend is only moved in time.
    """

    def __init__(
        self,
        window: int = 8,
        peak_lag: float | None = None,
        normalize: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.window = window
        self.peak_lag = peak_lag
        self.normalize = normalize

    def build(self, input_shape):
        self.logit = self.add_weight(shape=(input_shape[-1],), initializer="zeros", name="logit")

    def carryover(self, spend, retention):
        """Apply the adstock to spend (batch, time, channels); retention is (channels,), in (0, 1)."""
        window, peak, normalize = self.window, self.peak_lag, self.normalize

        def lagged(x, lag):
            steps = x.shape[1]
            return ops.pad(x, ((0, 0), (lag, 0), (0, 0)))[:, :steps, :]

        @ops.custom_gradient
        def adstock(x, r):
            lags = ops.cast(ops.arange(window), r.dtype)[:, None]
            exponent = lags if peak is None else ops.square(lags - peak)
            raw = r ** exponent
            mass = ops.sum(raw, axis=0) if normalize else ops.ones_like(r)
            weights = raw / mass
            y = ops.zeros_like(x)
            for lag in range(window):
                y = y + weights[lag] * lagged(x, lag)

            def grad(*args, upstream=None):
                g = args[-1] if upstream is None else upstream
                steps = g.shape[1]
                dx = ops.zeros_like(g)
                dweights = []
                for lag in range(window):
                    ahead = ops.pad(g, ((0, 0), (0, lag), (0, 0)))[:, lag : lag + steps, :]
                    dx = dx + weights[lag] * ahead
                    dweights.append(ops.sum(g * lagged(x, lag), axis=(0, 1)))
                dweights = ops.stack(dweights)
                if normalize:
                    dweights = dweights - ops.sum(dweights * weights, axis=0)
                dr = ops.sum(dweights * weights * lags, axis=0) / r
                return dx, dr

            return y, grad

        return adstock(spend, retention)

    def call(self, inputs):
        return self.carryover(inputs, ops.sigmoid(self.logit))
