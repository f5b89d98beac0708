"""Phenomenological models of the early visual pathway as Keras 3 layers (any backend).

Stages, from the photoreceptors on:

1. centre--surround receptive fields (difference of Gaussians over the receptor mosaic),
2. divisive normalisation within pools of channels,
3. depressing synapses,
4. spatial-frequency tuning of the cortical population.
"""
import math

import keras
import numpy as np
from keras import ops


def _resolve(args, upstream):
    """The upstream gradient, however the backend hands it over."""
    return args[0] if upstream is None else upstream


# ----------------------------------------------------------------------------------------------------------------------
# receptive fields


def mosaic(height: int, width: int, pitch: float = 1.0) -> np.ndarray:
    """Coordinates of a square receptor mosaic centred on the origin, (height * width, 2)."""
    rows = (np.arange(height) - (height - 1) / 2) * pitch
    cols = (np.arange(width) - (width - 1) / 2) * pitch
    return np.stack(np.meshgrid(rows, cols, indexing="ij"), axis=-1).reshape(-1, 2)


@ops.custom_gradient
def centre_surround(light, receptors, centres, sigma_c, sigma_s, k_s):
    """Linear response of ganglion cells.

    :param light: (batch, receptors) luminance
    :param receptors: (receptors, 2) positions
    :param centres: (cells, 2) positions of the receptive fields
    :param sigma_c: (cells,) width of the centre, positive
    :param sigma_s: (cells,) width of the surround, positive
    :param k_s: (cells,) weight of the surround
    :return: (batch, cells)
    """
    offset = ops.expand_dims(receptors, 0) - ops.expand_dims(centres, 1)  # cells, receptors, 2
    r2 = ops.sum(ops.square(offset), axis=-1)
    c2 = ops.expand_dims(ops.square(sigma_c), 1)
    s2 = ops.expand_dims(ops.square(sigma_s), 1)
    centre = ops.exp(-0.5 * r2 / c2) / (2.0 * math.pi * c2)
    surround = ops.exp(-0.5 * r2 / s2) / (2.0 * math.pi * s2)
    weight = ops.expand_dims(k_s, 1)
    field = centre - weight * surround

    def grad(*args, upstream=None):
        g = _resolve(args, upstream)
        d_light = ops.einsum("bc,cr->br", g, field)
        d_field = ops.einsum("bc,br->cr", g, light)
        d_r2 = -0.5 * d_field * (centre / c2 - weight * surround / s2)
        d_offset = 2.0 * ops.expand_dims(d_r2, -1) * offset
        d_c = ops.sum(d_field * centre * (r2 / c2 - 2.0), axis=1) / sigma_c
        d_s = -k_s * ops.sum(d_field * surround * (r2 / s2 - 2.0), axis=1) / sigma_s
        d_k = -ops.sum(d_field * surround, axis=1)
        return d_light, ops.sum(d_offset, axis=0), -ops.sum(d_offset, axis=1), d_c, d_s, d_k

    return ops.einsum("br,cr->bc", light, field), grad


class GanglionLayer(keras.layers.Layer):
    """Cells on a coarse mosaic looking at a (batch, height, width) image."""

    def __init__(self, shape, cells, pitch=1.0, **kwargs):
        super().__init__(**kwargs)
        self.receptors = mosaic(*shape, pitch=pitch)
        self.grid = mosaic(*cells, pitch=pitch * shape[0] / cells[0])

    def build(self, input_shape):
        n = len(self.grid)
        self.jitter = self.add_weight(shape=(n, 2), initializer="zeros", name="jitter")
        self.log_c = self.add_weight(shape=(n,), initializer="zeros", name="log_c")
        self.log_s = self.add_weight(shape=(n,), initializer="ones", name="log_s")
        self.log_k = self.add_weight(shape=(n,), initializer="zeros", name="log_k")

    def call(self, image):
        light = ops.reshape(image, (ops.shape(image)[0], -1))
        receptors = ops.convert_to_tensor(self.receptors, dtype=self.compute_dtype)
        return centre_surround(
            light,
            receptors,
            ops.convert_to_tensor(self.grid, dtype=self.compute_dtype) + self.jitter,
            ops.exp(self.log_c),
            ops.exp(self.log_s),
            ops.exp(self.log_k),
        )


# ----------------------------------------------------------------------------------------------------------------------
# gain control


def divisive_normalization(drive, sigma, exponent: float = 2.0, pools: int = 1):
    """Normalise every channel by the activity of its pool.

        out_c = drive_c^n / (sigma_c^n + mean over the pool of c of drive^n)

    `drive` is (batch, channels), positive; `sigma` (channels,), positive; neighbouring channels share a pool and
    `pools` divides the number of channels.
    """

    @ops.custom_gradient
    def _normalize(drive, sigma):
        channels = drive.shape[-1]
        size = channels // pools
        raised = ops.power(drive, exponent)
        pooled = ops.sum(ops.reshape(raised, (-1, pools, size)), axis=-1) / size
        denominator = ops.power(sigma, exponent) + ops.repeat(pooled, size, axis=-1)
        out = raised / denominator

        def grad(*args, upstream=None):
            g = _resolve(args, upstream)
            suppression = g * out / denominator
            from_pool = ops.sum(suppression, axis=-1, keepdims=True) / size
            d_raised = g / denominator - from_pool
            d_drive = d_raised * exponent * ops.power(drive, exponent - 1.0)
            d_sigma = -ops.sum(suppression, axis=0) * exponent * ops.power(sigma, exponent - 1.0)
            return d_drive, d_sigma

        return out, grad

    return _normalize(drive, sigma)


# ----------------------------------------------------------------------------------------------------------------------
# synapses


@ops.custom_gradient
def depressing_synapse(rate, release, recovery):
    # rate (batch, time, synapses); release and recovery (synapses,), both in (0, 1)
    resource = ops.ones_like(rate[:, 0])
    resources, current = [], []
    for t in range(rate.shape[1]):
        used = release * resource * rate[:, t]
        resources.append(resource)
        current.append(used)
        resource = resource + recovery * (1.0 - resource) - used
    output = ops.stack(current, axis=1)

    def grad(*args, upstream=None):
        g = _resolve(args, upstream)
        later = ops.zeros_like(resource)
        d_release, d_recovery = ops.zeros_like(release), ops.zeros_like(recovery)
        d_rate = []
        for t in reversed(range(len(resources))):
            res, x = resources[t], rate[:, t]
            d_used = g[:, t] - later
            d_rate.append(d_used * release * res)
            d_release = d_release + ops.sum(d_used * res * x, axis=0)
            d_recovery = d_recovery + ops.sum(later * (1.0 - res), axis=0)
            later = d_used * release * x + later * (1.0 - recovery)
        return ops.stack(d_rate[::-1], axis=1), d_release, d_recovery

    return output, grad


class DepressingSynapses(keras.layers.Layer):
    def build(self, input_shape):
        shape = (input_shape[-1],)
        self.release = self.add_weight(shape=shape, initializer="zeros", name="release")
        self.recovery = self.add_weight(shape=shape, initializer="zeros", name="recovery")

    def call(self, rate):
        return depressing_synapse(rate, ops.sigmoid(self.release), ops.sigmoid(self.recovery))


# ----------------------------------------------------------------------------------------------------------------------
# cortex


def _per_neuron(t):
    """Collect the contributions of the trials."""
    return ops.sum(t, axis=0) / t.shape[0]


@ops.custom_gradient
def frequency_tuning(octave, preferred, width, gain, baseline):
    """Mean firing rate of a population tuned to spatial frequency.

    ``rate = baseline + gain * exp(-(octave - preferred)^2 / (2 width^2))``; ``octave``, the log2 of the frequency of the
    grating, has shape (trials,), everything else (neurons,), the rate (trials, neurons).
    """
    z = (ops.expand_dims(octave, 1) - preferred) / width
    bump = ops.exp(-0.5 * ops.square(z))
    rate = baseline + gain * bump

    def grad(*args, upstream=None):
        g = _resolve(args, upstream)
        slope = g * gain * bump * z / width
        return (
            -ops.sum(slope, axis=1),
            _per_neuron(slope),
            _per_neuron(slope * z),
            _per_neuron(g * bump),
            _per_neuron(g),
        )

    return rate, grad


class TunedPopulation(keras.layers.Layer):
    """`neurons` cells with preferred frequencies spread over `octaves`; takes (trials,) frequencies."""

    def __init__(self, neurons: int, octaves: float = 4.0, **kwargs):
        super().__init__(**kwargs)
        self.spread = np.linspace(-octaves / 2, octaves / 2, neurons)
        self.shift = self.add_weight(shape=(neurons,), initializer="zeros", name="shift")
        self.log_width = self.add_weight(shape=(neurons,), initializer="zeros", name="log_width")
        self.log_gain = self.add_weight(shape=(neurons,), initializer="ones", name="log_gain")
        self.log_baseline = self.add_weight(shape=(neurons,), initializer="zeros", name="log_baseline")

    def call(self, frequency):
        return frequency_tuning(
            ops.log2(frequency),
            ops.convert_to_tensor(self.spread, dtype=self.compute_dtype) + self.shift,
            ops.exp(self.log_width),
            ops.exp(self.log_gain),
            ops.exp(self.log_baseline),
        )
