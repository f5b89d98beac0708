"""Ops shared by the audio, image and recommendation towers (any Keras backend)."""

import keras
import numpy as np
from keras import ops


def _fit(g, shape):
    lead = len(g.shape) - len(shape)
    axes = list(range(lead)) + [
        lead + i for i, n in enumerate(shape) if n == 1 and g.shape[lead + i] != 1
    ]
    if axes:
        g = ops.sum(g, axis=axes)
    return ops.reshape(g, shape)


def spectral_whitening(mag, half_width=4, power=0.7, eps=1e-6):
    """Divide magnitudes (..., F) by their moving average over frequency (ends replicated) to ``power``."""
    bins = mag.shape[-1]
    table = np.arange(bins)[:, None] + np.arange(-half_width, half_width + 1)
    table = np.clip(table, 0, bins - 1).astype("int32")

    def smooth(x):
        return ops.mean(ops.take(x, table, axis=-1), axis=-1)

    @ops.custom_gradient
    def whiten(mag):
        envelope = smooth(mag) + eps
        gain = ops.power(envelope, -power)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g_envelope = -power * upstream * mag * gain / envelope
            return upstream * gain + smooth(g_envelope)

        return mag * gain, grad

    return whiten(mag)


@ops.custom_gradient
def reinhard_extended(lum, white):
    w2 = ops.square(white)
    den = 1.0 + lum
    out = lum * (1.0 + lum / w2) / den

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        d_lum = (1.0 + lum * (2.0 + lum) / w2) / ops.square(den)
        d_white = -2.0 * ops.square(lum) / (den * w2 * white)
        return _fit(upstream * d_lum, lum.shape), _fit(upstream * d_white, white.shape)

    return out, grad


@ops.custom_gradient
def poisson_mf_nll(user_table, item_table, users, items, counts):
    u = ops.take(user_table, users, axis=0)
    v = ops.take(item_table, items, axis=0)
    score = ops.sum(u * v, axis=-1)
    rate = ops.softplus(score) + 1e-6
    n = users.shape[0]
    loss = ops.sum(rate - counts * ops.log(rate)) / n

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        ds = (upstream / n * (1.0 - counts / rate) * ops.sigmoid(score))[:, None]
        du = ops.segment_sum(ds * v, users, num_segments=user_table.shape[0])
        dv = ops.segment_sum(ds * u, items, num_segments=item_table.shape[0])
        return du, dv, None, None, -upstream / n * ops.log(rate)

    return loss, grad


def lme_pool(x, sharpness, size=3, stride=1):
    """Log-mean-exp pooling over time.

    ``y = log(mean(exp(r * x))) / r`` over each window: the mean for small ``r``, the
    maximum for large ``r``. Windows overlap when ``stride < size``; steps at the end
    that do not fill a window are dropped.

    Args:
        x: Tensor of shape ``(batch, time, channels)``.
        sharpness: Positive tensor ``r`` of shape ``(channels,)``, trainable.
        size: Window length.
        stride: Hop between windows.

    Returns:
        Tensor of shape ``(batch, windows, channels)``.
    """
    steps = x.shape[1]
    windows = (steps - size) // stride + 1
    table = (stride * np.arange(windows)[:, None] + np.arange(size)).astype("int32")

    @ops.custom_gradient
    def pool(x, sharpness):
        taps = ops.take(x, table, axis=1)  # (batch, windows, size, channels)
        z = sharpness * taps
        out = (ops.logsumexp(z, axis=2) - np.log(size)) / sharpness
        weight = ops.softmax(z, axis=2)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            g = ops.transpose(weight * upstream[:, :, None, :], (1, 2, 0, 3))
            g = ops.reshape(g, (windows * size, -1))
            dx = ops.segment_sum(g, table.reshape(-1), num_segments=steps)
            dx = ops.reshape(dx, (steps, x.shape[0], x.shape[2]))
            centre = ops.sum(weight * taps, axis=2)
            dr = ops.sum(upstream * (centre - out), axis=(0, 1))
            return ops.transpose(dx, (1, 0, 2)), dr

        return out, grad

    return pool(x, sharpness)


class LMEPool1D(keras.layers.Layer):
    """Layer around :func:`lme_pool` with one trainable sharpness per channel."""

    def __init__(self, size=3, stride=1, initial_sharpness=1.0, **kwargs):
        super().__init__(**kwargs)
        self.size, self.stride = size, stride
        self.initial_sharpness = initial_sharpness

    def build(self, input_shape):
        start = np.log(np.expm1(self.initial_sharpness))
        self.raw = self.add_weight(
            shape=(input_shape[-1],), initializer=keras.initializers.Constant(start)
        )

    def call(self, x):
        return lme_pool(x, ops.softplus(ops.convert_to_tensor(self.raw)), self.size, self.stride)
