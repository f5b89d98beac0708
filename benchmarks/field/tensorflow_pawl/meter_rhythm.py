"""Layers for smart-meter curves: one value of load features per hour.

Written against keras.ops only, so the same file runs under TensorFlow, JAX and
Torch.  Hours are always axis 1, channels always last.
"""
import keras
from keras import ops

EDGE_MODES = ("hold", "round")


def _upstream(args, upstream):
    # TensorFlow and JAX hand the incoming gradient over by position,
    # Torch by keyword.
    return args[0] if upstream is None else upstream


def _shifted(x, lag, mode):
    """The curve ``lag`` hours ago, same shape as ``x``."""
    if lag == 0:
        return x
    if mode == "round":
        return ops.roll(x, lag, axis=1)
    first = ops.repeat(x[:, :1], lag, axis=1)
    return ops.concatenate([first, x[:, :-lag]], axis=1)


def make_past_hours(mode="round"):
    """A short memory over the present and the past hours.

    Args:
        mode: what stands before the first hour. ``"round"`` takes the last hours
            of the same day (a typical-day profile has no beginning), ``"hold"``
            repeats the first reading.

    Returns:
        ``past_hours(x, taps)`` for ``x`` of (homes, hours, channels) and ``taps``
        of (lags, channels); there must be more hours than lags.
    """
    if mode not in EDGE_MODES:
        raise ValueError(f"unknown mode {mode!r}")

    @ops.custom_gradient
    def past_hours(x, taps):
        lags = taps.shape[0]
        out = sum(_shifted(x, k, mode) * taps[k] for k in range(lags))

        def grad(*args, upstream=None):
            up = _upstream(args, upstream)
            d_x = up * taps[0]
            d_taps = []
            for k in range(lags):
                d_taps.append(ops.sum(up * _shifted(x, k, mode), axis=(0, 1)))
                if k == 0:
                    continue
                if mode == "round":
                    back = ops.roll(up, -k, axis=1)
                else:
                    back = ops.concatenate([up[:, k:], ops.zeros_like(up[:, :k])], axis=1)
                d_x = d_x + back * taps[k]
            return d_x, ops.stack(d_taps, axis=0)

        return out, grad

    return past_hours


@ops.custom_gradient
def evening_summary(x, query, missing):
    """Attention readout of the hours.

    x is (homes, hours, channels), query (channels,), missing (homes, hours) is 1
    where the meter sent nothing; such hours get no weight.  A home without any
    reading gives zeros.
    """
    seen = 1.0 - missing
    scale = float(query.shape[0]) ** -0.5
    score = ops.sum(x * query, axis=-1) * scale
    score = ops.where(seen > 0.5, score, -1e9)
    raw = ops.exp(score - ops.max(score, axis=1, keepdims=True)) * seen
    total = ops.sum(raw, axis=1, keepdims=True)
    weight = raw / ops.where(total > 0, total, ops.ones_like(total))
    out = ops.sum(ops.expand_dims(weight, -1) * x, axis=1)

    def grad(*args, upstream=None):
        up = _upstream(args, upstream)
        inner = ops.sum(ops.expand_dims(up, 1) * x, axis=-1)
        mean = ops.sum(weight * inner, axis=1, keepdims=True)
        d_score = ops.expand_dims(weight * (inner - mean) * scale, -1)
        d_x = ops.expand_dims(weight, -1) * ops.expand_dims(up, 1) + d_score * query
        d_query = ops.sum(d_score * x, axis=(0, 1))
        return d_x, d_query, ops.zeros_like(missing)

    return out, grad


@ops.custom_gradient
def tempered_bypass(trunk, branch, gain, reach):
    """``trunk + gain * reach * tanh(branch / reach)``.

    The branch can move the trunk by ``gain * reach`` at most.  ``gain`` and
    ``reach`` (positive) hold one number per channel, whatever the leading axes.
    """
    bent = 2.0 * ops.sigmoid(2.0 * branch / reach) - 1.0  # tanh
    out = trunk + gain * reach * bent

    def grad(*args, upstream=None):
        up = _upstream(args, upstream)
        lead = tuple(range(len(up.shape) - 1))
        slope = 1.0 - bent * bent
        d_gain = ops.sum(up * reach * bent, axis=lead)
        d_reach = ops.sum(up * gain * (bent - branch / reach * slope), axis=lead)
        return up, up * gain * slope, d_gain, d_reach

    return out, grad


class RhythmBlock(keras.layers.Layer):
    """Past-hours memory with a tempered bypass."""

    def __init__(self, lags=4, mode="round", **kwargs):
        super().__init__(**kwargs)
        self.lags = lags
        self._memory = make_past_hours(mode)

    def build(self, shape):
        width = shape[-1]
        self.taps = self.add_weight(shape=(self.lags, width), initializer="glorot_uniform")
        self.gain = self.add_weight(shape=(width,), initializer="ones")
        self.reach = self.add_weight(shape=(width,), initializer="ones")

    def call(self, x):
        # plain tensors: TensorFlow's custom gradients refuse to touch variables
        taps, gain, reach = (1.0 * w for w in (self.taps, self.gain, self.reach))
        return tempered_bypass(x, self._memory(x, taps), gain, reach)
