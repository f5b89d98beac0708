"""Eye movements in reading, for any Keras backend.

A trial is a line of text with at most ``U`` words and at most ``T`` fixations;
``valid`` arrays of 0 and 1 say which are real.
"""
import math

import keras
from keras import ops


def _upstream(args, upstream):
    """Cotangent from either calling convention of the backends."""
    return args[-1] if upstream is None else upstream


def _like(array, ref):
    return ops.cast(ops.convert_to_tensor(array), keras.backend.standardize_dtype(ref.dtype))


def make_dwell_pool(word_valid, normalise=False):
    """Pool word features under a Gaussian window around each gaze position.

    Args:
        word_valid: [B, U], 1 for words of the line and 0 for padding.
        normalise: whether the window's weights are made to sum to one over the
            line. Each line must then have a word.

    Returns:
        `pool(gaze, centre, log_width, features)` with gaze [B, Q], word centres
        [B, U], the logarithm of the window's width per reader [B] and word
        features [B, U, C]; the result is [B, Q, C].
    """

    @ops.custom_gradient
    def pool(gaze, centre, log_width, features):
        mask = _like(word_valid, gaze)[:, None, :]
        inv = ops.exp(-log_width)[:, None, None]
        u = (gaze[:, :, None] - centre[:, None, :]) * inv
        kernel = ops.exp(-0.5 * u * u)
        weight = kernel * mask
        if normalise:
            total = ops.sum(weight, axis=2, keepdims=True)
            weight = weight / total
        out = ops.einsum("bqu,buc->bqc", weight, features)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            g_weight = ops.einsum("bqc,buc->bqu", g, features)
            g_features = ops.einsum("bqc,bqu->buc", g, weight)
            if normalise:
                shared = ops.sum(g_weight * weight, axis=2, keepdims=True)
                g_weight = (g_weight - shared) / total
            g_u = -g_weight * kernel * u
            g_diff = g_u * inv
            return (
                ops.sum(g_diff, axis=2),
                -ops.sum(g_diff, axis=1),
                -ops.sum(g_u * u, axis=(1, 2)),
                g_features,
            )

        return out, grad

    return pool


def make_line_levelling(fix_valid):
    """Correct a rotated head: shear the fixations of a line about its centroid.

    ``level(points, incline)`` takes points [B, T, 2] and the rise per unit of x of
    each line [B]. Padded fixations come out as zeros.
    """

    @ops.custom_gradient
    def level(points, incline):
        mask = _like(fix_valid, points)
        count = ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)
        slope = incline[:, None]
        x, y = points[..., 0], points[..., 1]
        middle = ops.sum(x * mask, axis=1, keepdims=True) / count
        offset = x - middle
        out = ops.stack([x * mask, (y - slope * offset) * mask], axis=-1)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream) * mask[..., None]
            g_y = g[..., 1]
            g_x = g[..., 0] - slope * g_y
            g_slope = -ops.sum(g_y * offset, axis=1)
            return ops.stack([g_x, g_y], axis=-1), g_slope

        return out, grad

    return level


def make_fixation_nll(reader, fix_valid, readers, reduction="mean", floor=1e-3):
    """Negative log-likelihood of fixation durations, shifted inverse Gaussian.

    Parameters
    ----------
    reader : int array [B]
        Reader of each line; readers may have many lines, or none.
    fix_valid : array [B, T]
    readers : int
    reduction : {"none", "sum", "mean", "line"}
        ``"mean"`` is over the valid fixations of the batch, ``"line"`` over those
        of each line, which gives [B].
    floor : float
        Durations less the shift are held at this value from below.

    Returns
    -------
    callable
        ``nll(duration, log_mean, log_shape, shift)``: [B, T] three times, and the
        shift per reader [readers].
    """

    @ops.custom_gradient
    def nll(duration, log_mean, log_shape, shift):
        mask = _like(fix_valid, duration)
        owner = _like(ops.one_hot(ops.convert_to_tensor(reader, dtype="int32"), readers), duration)
        raw = duration - ops.einsum("br,r->b", owner, shift)[:, None]
        held = raw <= floor
        t = ops.where(held, ops.full_like(raw, floor), raw)
        mean, shape = ops.exp(log_mean), ops.exp(log_shape)
        dev = (t - mean) / mean
        quad = 0.5 * shape * dev * dev / t
        each = 0.5 * math.log(2.0 * math.pi) + 1.5 * ops.log(t) - 0.5 * log_shape + quad
        each = each * mask
        if reduction == "none":
            out, scale = each, mask
        elif reduction == "sum":
            out, scale = ops.sum(each), mask
        elif reduction == "mean":
            count = ops.maximum(ops.sum(mask), 1.0)
            out, scale = ops.sum(each) / count, mask / count
        else:
            count = ops.maximum(ops.sum(mask, axis=1), 1.0)
            out, scale = ops.sum(each, axis=1) / count, mask / count[:, None]

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            if reduction == "line":
                g = g[:, None]
            g = g * scale
            d_t = 1.5 / t + 0.5 * shape * dev * (t + mean) / (mean * t * t)
            g_t = ops.where(held, ops.zeros_like(t), g * d_t)
            g_shift = -ops.einsum("br,bt->r", owner, g_t)
            return g_t, -g * shape * dev / mean, g * (quad - 0.5), g_shift

        return out, grad

    return nll


class DwellReadout(keras.layers.Layer):
    """Window of learned width over the words, then a dense readout."""

    def __init__(self, units, normalise=True, **kwargs):
        super().__init__(**kwargs)
        self.normalise = normalise
        self.readout = keras.layers.Dense(units)

    def build(self, gaze_shape, centre_shape, features_shape, valid_shape):
        self.log_width = self.add_weight(name="log_width", shape=(), initializer="zeros")
        self.readout.build((*gaze_shape, features_shape[-1]))

    def call(self, gaze, centre, features, valid):
        width = ops.broadcast_to(self.log_width, (ops.shape(gaze)[0],))
        pool = make_dwell_pool(valid, self.normalise)
        return self.readout(pool(gaze, centre, width, features))
