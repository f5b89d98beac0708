"""A small sequence model of lace charts.

A chart is read as a row of stitch symbols (yarn over, slip, k2tog, ...).  Lace repeats: a motif of, say, 12 stitches
comes again and again, and the model is told so by an attention bias which depends on the distance *within the motif*.

Everything is `keras.ops`, so it runs on whichever backend Keras is set to.
"""
import math

import keras
from keras import ops


def _only(args, upstream):
    # tensorflow and jax hand over the upstream gradient alone, torch as a keyword beside the inputs
    return args[0] if upstream is None else upstream


def make_power_norm(order=2.0, epsilon=1e-6):
    """Normalise the last axis by its power mean of the given order (order > 1).

    order=2 is the RMS norm, larger orders look more at the big channels, order=1.5 is gentler on them.
    Returns `f(x, scale)` for x (..., channels) and scale (channels,).
    """

    @ops.custom_gradient
    def power_norm(x, scale):
        channels = x.shape[-1]
        size = ops.abs(x)
        mean = ops.sum(ops.power(size, order), axis=-1, keepdims=True) / channels + epsilon
        radius = ops.power(mean, 1.0 / order)
        unit = x / radius

        def grad(*args, upstream=None):
            g = _only(args, upstream)
            gs = g * scale
            inner = ops.sum(gs * x, axis=-1, keepdims=True)
            pull = ops.sign(x) * ops.power(size, order - 1.0) / channels
            dx = gs / radius - pull * inner / (radius * radius * radius)
            dscale = ops.sum(ops.reshape(g * unit, (-1, channels)), axis=0)
            return dx, dscale

        return unit * scale, grad

    return power_norm


def make_motif_attention(period, causal=True):
    """Self attention with a bias for the distance within the motif.

    The inner function takes query, key, value of (batch, heads, stitches, depth) and a bias of (heads, period); the
    pair of stitch i and earlier (or, with causal=False, any) stitch j is given bias[(i - j) % period].
    """

    @ops.custom_gradient
    def motif_attention(query, key, value, bias):
        n, depth = query.shape[-2], query.shape[-1]
        heads = bias.shape[0]
        scale = 1.0 / math.sqrt(depth)
        place = ops.arange(n, dtype="int32")
        gap = place[:, None] - place[None, :]
        slot = ops.one_hot(ops.reshape(ops.mod(gap, period), (-1,)), period, dtype=query.dtype)
        spread = ops.reshape(ops.einsum("hp,ep->he", bias, slot), (1, heads, n, n))
        logits = scale * ops.einsum("bhid,bhjd->bhij", query, key) + spread
        if causal:
            logits = ops.where(gap >= 0, logits, ops.full_like(logits, -1e9))
        weight = ops.softmax(logits, axis=-1)

        def grad(*args, upstream=None):
            g = _only(args, upstream)
            dvalue = ops.einsum("bhij,bhid->bhjd", weight, g)
            dweight = ops.einsum("bhid,bhjd->bhij", g, value)
            dlogits = weight * (dweight - ops.sum(dweight * weight, axis=-1, keepdims=True))
            dquery = scale * ops.einsum("bhij,bhjd->bhid", dlogits, key)
            dkey = scale * ops.einsum("bhij,bhid->bhjd", dlogits, query)
            pooled = ops.reshape(ops.sum(dlogits, axis=0), (heads, n * n))
            return dquery, dkey, dvalue, ops.einsum("he,ep->hp", pooled, slot)

        return ops.einsum("bhij,bhjd->bhid", weight, value), grad

    return motif_attention


class ChartLoss:
    """Cross entropy with a fee on confidence, for charts that were typed in by hand with slips.

    The loss of a stitch is  -log p[symbol] - fee * H(p)  with H the entropy (nats) of the predicted symbols.

    Parameters
    ----------
    fee : float
        May be zero, which leaves the cross entropy.
    reduction : "mean" (over the stitches that are not padding), "sum" or "none"
    padding : int
        Symbol id that marks padding; such stitches have no loss.
    """

    def __init__(self, fee=0.0, reduction="mean", padding=0):
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(reduction)
        self.fee, self.reduction, self.padding = fee, reduction, padding

    def __call__(self, symbols, logits):
        """symbols (batch, stitches) int, logits (batch, stitches, vocabulary)."""
        symbols = ops.cast(ops.convert_to_tensor(symbols), "int32")

        @ops.custom_gradient
        def chart_loss(logits):
            keep = ops.cast(ops.not_equal(symbols, self.padding), logits.dtype)
            right = ops.one_hot(symbols, logits.shape[-1], dtype=logits.dtype)
            logp = ops.log_softmax(logits, axis=-1)
            p = ops.exp(logp)
            entropy = -ops.sum(p * logp, axis=-1)
            each = keep * (-ops.sum(right * logp, axis=-1) - self.fee * entropy)
            count = ops.maximum(ops.sum(keep), 1.0)

            def grad(*args, upstream=None):
                g = _only(args, upstream) * keep
                if self.reduction == "mean":
                    g = g / count
                surprise = logp + ops.expand_dims(entropy, -1)
                return ops.expand_dims(g, -1) * (p - right + self.fee * p * surprise)

            if self.reduction == "none":
                return each, grad
            total = ops.sum(each)
            return (total / count if self.reduction == "mean" else total), grad

        return chart_loss(logits)


class MotifBlock(keras.layers.Layer):
    """Pre-norm attention block, heads taken from the last axis."""

    def __init__(self, heads, period, order=2.0, **kwargs):
        super().__init__(**kwargs)
        self.heads, self.period = heads, period
        self.norm = make_power_norm(order)
        self.attend = make_motif_attention(period)

    def build(self, shape):
        width = shape[-1]
        self.scale = self.add_weight(shape=(width,), initializer="ones")
        self.bias = self.add_weight(shape=(self.heads, self.period), initializer="zeros")
        self.mix = self.add_weight(shape=(width, 3 * width))

    def call(self, x):
        b, n, w = x.shape
        h = ops.matmul(self.norm(x, 1.0 * self.scale), self.mix)
        parts = [ops.transpose(ops.reshape(p, (-1, n, self.heads, w // self.heads)), (0, 2, 1, 3))
                 for p in ops.split(h, 3, axis=-1)]
        y = self.attend(*parts, 1.0 * self.bias)
        return x + ops.reshape(ops.transpose(y, (0, 2, 1, 3)), (-1, n, w))
