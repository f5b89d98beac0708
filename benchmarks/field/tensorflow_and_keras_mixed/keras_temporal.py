"""Sequence and dense-prediction ops written once for all Keras backends."""
import math

import keras
from keras import ops


def _single(args, upstream):
    return args[0] if upstream is None else upstream


def _several(args, upstream):
    """Cotangents of a multi-output op; JAX hands over one tuple, TF one per output."""
    if upstream is not None:
        return tuple(upstream)
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        return tuple(args[0])
    return args


@ops.custom_gradient
def linear_recurrence(decay, inputs, initial):
    """h_t = decay_t * h_{t-1} + inputs_t.

    Parameters
    ----------
    decay, inputs : (batch, time, channels)
    initial : (batch, channels)

    Returns
    -------
    All states, (batch, time, channels).
    """
    steps = inputs.shape[1]
    h = initial
    states = []
    for t in range(steps):
        h = decay[:, t] * h + inputs[:, t]
        states.append(h)
    states = ops.stack(states, axis=1)

    def grad(*args, upstream=None):
        g = _single(args, upstream)
        carry = ops.zeros_like(initial)
        lam = [None] * steps
        for t in reversed(range(steps)):
            lam[t] = g[:, t] + carry
            carry = decay[:, t] * lam[t]
        lam = ops.stack(lam, axis=1)
        return lam * states, lam, carry

    return states, grad


def causal_depthwise_conv(x, kernel, dilation=1):
    """TCN block convolution: y_t = sum_j kernel_j * x_{t - j * dilation}, zero history.

    x (batch, time, channels), kernel (taps, channels), dilation int >= 1.
    """
    time = x.shape[1]
    taps = kernel.shape[0]

    def delay(y, n):
        if n >= time:
            return ops.zeros_like(y)
        return ops.pad(y, [[0, 0], [n, 0], [0, 0]])[:, :time]

    def advance(y, n):
        if n >= time:
            return ops.zeros_like(y)
        return ops.pad(y, [[0, 0], [0, n], [0, 0]])[:, n:]

    @ops.custom_gradient
    def _conv(x, kernel):
        y = sum(kernel[j] * delay(x, j * dilation) for j in range(taps))

        def grad(*args, upstream=None):
            g = _single(args, upstream)
            dx = sum(kernel[j] * advance(g, j * dilation) for j in range(taps))
            dk = [ops.sum(g * delay(x, j), axis=(0, 1)) for j in range(taps)]
            return dx, ops.stack(dk, axis=0)

        return y, grad

    return _conv(x, kernel)


def reversible_instance_norm(series, epsilon=1e-5):
    """RevIN statistics step.

    series: (batch, time, channels).
    Returns (normalised, mean, std); mean and std are (batch, 1, channels) and are used
    again to de-normalise the forecast.
    """

    @ops.custom_gradient
    def _norm(x):
        mean = ops.mean(x, axis=1, keepdims=True)
        centred = x - mean
        std = ops.sqrt(ops.mean(ops.square(centred), axis=1, keepdims=True) + epsilon)
        z = centred / std
        steps = x.shape[1]

        def grad(*args, upstream=None):
            dz, dmean, dstd = _several(args, upstream)
            dx = dz - ops.mean(dz, axis=1, keepdims=True)
            dx = dx - z * ops.mean(dz * z, axis=1, keepdims=True)
            return dx / std + (dmean + dstd) / steps

        return (z, mean, std), grad

    return _norm(series)


def smoothed_cross_entropy(logits, labels, smoothing=0.1, ignore_index=-1):
    """Token-level cross entropy, averaged over the tokens that count.

    logits (B, T, V), labels int (B, T).
    """

    @ops.custom_gradient
    def _xent(logits, labels):
        vocab = logits.shape[-1]
        valid = ops.cast(ops.not_equal(labels, ignore_index), logits.dtype)
        count = ops.maximum(ops.sum(valid), 1.0)
        safe = ops.where(ops.equal(labels, ignore_index), ops.zeros_like(labels), labels)
        target = ops.one_hot(safe, vocab, dtype=logits.dtype)
        target = (1.0 - smoothing) * target + smoothing / vocab
        logp = ops.log_softmax(logits, axis=-1)
        loss = -ops.sum(valid[..., None] * target * logp) / count

        def grad(*args, upstream=None):
            g = _single(args, upstream)
            d = (ops.exp(logp) - target) * valid[..., None] / count
            return g * d, None

        return loss, grad

    return _xent(logits, labels)


@ops.custom_gradient
def mixture_density_nll(y, logits, means, log_scales):
    """Negative log likelihood of a scalar under a Gaussian mixture, per example.

    y (B,), the other three (B, K).
    """
    z = (y[:, None] - means) * ops.exp(-log_scales)
    comp = -0.5 * z * z - log_scales - 0.5 * math.log(2 * math.pi)
    logw = ops.log_softmax(logits, axis=-1)
    joint = logw + comp
    total = ops.logsumexp(joint, axis=-1)

    def grad(*args, upstream=None):
        g = _single(args, upstream)[:, None]
        resp = ops.exp(joint - total[:, None])
        d_means = -g * resp * z * ops.exp(-log_scales)
        return (
            -ops.sum(d_means, axis=-1),
            g * (ops.exp(logw) - resp),
            d_means,
            g * resp * (1.0 - z * z),
        )

    return -total, grad


def dice_with_void(probs, labels, void=255, smooth=1.0):
    """Squared-denominator Dice (V-Net), void pixels do not count.

    probs (B, N, C), labels int (B, N) with classes 0..C-1 or `void`. Mean over classes.
    """
    classes = probs.shape[-1]

    @ops.custom_gradient
    def _dice(p, labels):
        seen = ops.cast(ops.not_equal(labels, void), p.dtype)[..., None]
        safe = ops.where(ops.equal(labels, void), ops.zeros_like(labels), labels)
        t = ops.one_hot(safe, classes, dtype=p.dtype) * seen
        overlap = ops.sum(p * t, axis=(0, 1))
        size = ops.sum(seen * p * p, axis=(0, 1)) + ops.sum(t, axis=(0, 1)) + smooth
        score = (2.0 * overlap + smooth) / size
        loss = 1.0 - ops.mean(score)

        def grad(*args, upstream=None):
            g = _single(args, upstream) / classes
            return -2.0 * g * (t - score * p) / size, None

        return loss, grad

    return _dice(probs, labels)


@ops.custom_gradient
def exponential_smoothing(series, alpha):
    """Simple exponential smoothing, level_0 = y_0. series (B, T), alpha (B,) in (0, 1)."""
    steps = series.shape[1]
    level = [series[:, 0]]
    for t in range(1, steps):
        level.append(alpha * series[:, t] + (1.0 - alpha) * level[-1])

    def grad(*args, upstream=None):
        g = _single(args, upstream)
        lam = ops.zeros_like(alpha)
        d_alpha = ops.zeros_like(alpha)
        d_series = [None] * steps
        for t in reversed(range(1, steps)):
            lam = lam + g[:, t]
            d_series[t] = alpha * lam
            d_alpha = d_alpha + lam * (series[:, t] - level[t - 1])
            lam = (1.0 - alpha) * lam
        d_series[0] = lam + g[:, 0]
        return ops.stack(d_series, axis=1), d_alpha

    return ops.stack(level, axis=1), grad


class CausalConvBlock(keras.layers.Layer):
    def __init__(self, taps=3, dilation=1, **kwargs):
        super().__init__(**kwargs)
        self.taps, self.dilation = taps, dilation

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(self.taps, input_shape[-1]), name="kernel")

    def call(self, x):
        mixed = causal_depthwise_conv(x, 1.0 * self.kernel, self.dilation)
        return x + ops.gelu(mixed)
