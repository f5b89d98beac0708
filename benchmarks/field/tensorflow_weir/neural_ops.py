"""Backend-neutral ops with hand-written gradients (TensorFlow, JAX and PyTorch).

Each rule follows the calling convention of ``keras.ops.custom_gradient``: the gradient
function gets the upstream gradient as its only positional argument (TF, JAX) or as the
keyword ``upstream`` (PyTorch).
"""

import keras
import numpy as np
from keras import ops


def _upstream(args, upstream):
    return args[0] if upstream is None else upstream


@ops.custom_gradient
def pair_norm(x, mask, scale):
    """PairNorm (Zhao & Akoglu, 2020) for padded batches of graphs.

    Centres the node features of each graph and rescales them so that the mean squared
    norm of a node is ``scale ** 2``.

    Args:
        x: Float tensor of shape `(batch, nodes, features)`.
        mask: Bool tensor of shape `(batch, nodes)`, `False` for padding. Padded nodes
            do not contribute to the statistics and come out as zero. A graph may be empty.
        scale: Float scalar.

    Returns:
        Tensor like `x`.
    """
    m = ops.expand_dims(ops.cast(mask, x.dtype), -1)
    count = ops.maximum(ops.sum(m, axis=1, keepdims=True), 1.0)
    centred = (x - ops.sum(x * m, axis=1, keepdims=True) / count) * m
    power = ops.sum(ops.square(centred), axis=(1, 2), keepdims=True) / count
    inv = ops.rsqrt(power + 1e-6)
    unit = centred * inv

    def grad(*args, upstream=None):
        g = _upstream(args, upstream) * m
        dot = ops.sum(g * unit, axis=(1, 2), keepdims=True)
        g_centred = scale * inv * (g - unit * dot / count)
        g_x = (g_centred - ops.sum(g_centred, axis=1, keepdims=True) / count) * m
        return g_x, None, ops.sum(dot)

    return scale * unit, grad


@ops.custom_gradient
def ranked_probability_score(logits, labels, weights):
    """Weighted mean ranked probability score of an ordinal forecast.

    Args:
        logits: `(batch, classes)`, at least two ordered classes.
        labels: `(batch,)` integer class of the observation.
        weights: `(batch,)` non-negative weights of the cases, not all zero; set 0 to leave a
            case out.

    Returns:
        Scalar, `sum(w * rps) / sum(w)`, where `rps` is the mean over the `classes - 1`
        thresholds of the squared difference of the cumulative distributions.
    """
    classes = logits.shape[-1]
    probs = ops.softmax(logits, axis=-1)
    hit = ops.one_hot(labels, classes, dtype=logits.dtype)
    gap = ops.cumsum(probs - hit, axis=-1)
    rps = ops.sum(ops.square(gap), axis=-1) / (classes - 1)
    mass = ops.sum(weights)
    score = ops.sum(weights * rps) / mass

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        case = ops.expand_dims(weights / ops.cast(ops.shape(rps)[0], weights.dtype), -1)
        g_gap = 2.0 * gap * case / (classes - 1)
        g_probs = ops.flip(ops.cumsum(ops.flip(g_gap, axis=-1), axis=-1), axis=-1)
        g_logits = probs * (g_probs - ops.sum(probs * g_probs, axis=-1, keepdims=True))
        return g * g_logits, None, g * (rps - score) / mass

    return score, grad


def make_multi_similarity(alpha=2.0, beta=50.0, base=0.5):
    """Multi-similarity loss (Wang et al., 2019), without pair mining.

    Args:
        alpha: Sharpness over positive pairs.
        beta: Sharpness over negative pairs.
        base: Similarity margin.

    Returns:
        A function `loss(embeddings, labels)` of a `(batch, dim)` float tensor, usually with
        rows of unit length, and `(batch,)` integer labels; it returns the mean over anchors.
    """

    def log1p_sum(z, keep):
        # log(1 + sum(exp(z))) over the kept entries of a row, and the weights of the entries
        z = ops.where(keep, z, -1e30)
        top = ops.maximum(ops.max(z, axis=1, keepdims=True), 0.0)
        e = ops.exp(z - top)
        total = ops.sum(e, axis=1, keepdims=True) + ops.exp(-top)
        return ops.squeeze(top + ops.log(total), axis=1), e / total

    @ops.custom_gradient
    def loss(embeddings, labels):
        n = embeddings.shape[0]
        sim = ops.matmul(embeddings, ops.transpose(embeddings))
        same = ops.equal(ops.expand_dims(labels, 1), ops.expand_dims(labels, 0))
        positive = ops.logical_and(same, ops.logical_not(ops.eye(n, dtype="bool")))
        negative = ops.logical_not(same)
        pos, w_pos = log1p_sum(-alpha * (sim - base), positive)
        neg, w_neg = log1p_sum(beta * (sim - base), negative)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            g_sim = (w_neg - w_pos) * (g / n)
            return 2.0 * ops.matmul(g_sim, embeddings), None

        return ops.mean(pos / alpha + neg / beta), grad

    return loss


multi_similarity_loss = make_multi_similarity()


def make_sinc_bank(kernel_size, sample_rate=16000.0, min_low_hz=50.0, min_band_hz=50.0):
    """SincNet kernels (Ravanelli & Bengio, 2018) as a function of the cut-off frequencies.

    Args:
        kernel_size: Odd number of taps.
        sample_rate: Sampling rate in Hz.
        min_low_hz: Smallest lower cut-off.
        min_band_hz: Smallest bandwidth.

    Returns:
        `bank(low_hz, band_hz)`: from two `(filters,)` tensors of non-zero values (the sign is
        ignored) to `(filters, kernel_size)` Hamming-windowed band-pass kernels with unit centre
        tap. The lower cut-off `min_low_hz + |low_hz|` has to stay below Nyquist; the upper one,
        `lower + min_band_hz + |band_hz|`, is clipped to Nyquist and then no longer depends on
        the parameters.
    """
    if kernel_size % 2 == 0:
        raise ValueError("kernel_size must be odd")
    nyquist = sample_rate / 2.0
    half = kernel_size // 2
    lag = np.arange(-half, half + 1) / sample_rate
    window = np.hamming(kernel_size)

    @ops.custom_gradient
    def bank(low_hz, band_hz):
        t = ops.convert_to_tensor(lag[None, :], dtype=low_hz.dtype)
        win = ops.convert_to_tensor(window[None, :], dtype=low_hz.dtype)

        def ideal(f):
            safe = ops.where(ops.equal(t, 0.0), 1.0, t)
            return ops.where(ops.equal(t, 0.0), 2.0 * f, ops.sin(2.0 * np.pi * f * t) / (np.pi * safe))

        lower = ops.expand_dims(min_low_hz + ops.abs(low_hz), 1)
        wanted = lower + ops.expand_dims(min_band_hz + ops.abs(band_hz), 1)
        upper = ops.minimum(wanted, nyquist)
        width = upper - lower
        shape = (ideal(upper) - ideal(lower)) / (2.0 * width)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream) * win / width
            # d/df [2 f sinc(2 f t)] = 2 cos(2 pi f t)
            g_upper = ops.sum(g * (ops.cos(2.0 * np.pi * upper * t) - shape), axis=1)
            g_lower = ops.sum(g * (shape - ops.cos(2.0 * np.pi * lower * t)), axis=1)
            free = ops.squeeze(ops.cast(wanted < nyquist, low_hz.dtype), axis=1)
            g_upper = g_upper * free
            return ops.sign(low_hz) * (g_lower + g_upper), ops.sign(band_hz) * g_upper

        return shape * win, grad

    return bank


@keras.saving.register_keras_serializable(package="neural_ops")
class SincConv1D(keras.layers.Layer):
    """First layer of SincNet: learnable band-pass filters over a mono waveform."""

    def __init__(self, filters=80, kernel_size=251, sample_rate=16000.0, **kwargs):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_size = kernel_size
        self.sample_rate = sample_rate
        self._bank = make_sinc_bank(kernel_size, sample_rate)

    def build(self, input_shape):
        edges = np.linspace(30.0, self.sample_rate / 2 - 200.0, self.filters + 1)
        self.low_hz = self.add_weight(shape=(self.filters,), name="low_hz")
        self.band_hz = self.add_weight(shape=(self.filters,), name="band_hz")
        self.low_hz.assign(edges[:-1])
        self.band_hz.assign(np.diff(edges))

    def call(self, waveform):
        kernels = self._bank(1.0 * self.low_hz, 1.0 * self.band_hz)
        kernels = ops.expand_dims(ops.transpose(kernels), 1)
        return ops.conv(ops.expand_dims(waveform, -1), kernels, padding="same")

    def get_config(self):
        config = super().get_config()
        config.update(filters=self.filters, kernel_size=self.kernel_size, sample_rate=self.sample_rate)
        return config
