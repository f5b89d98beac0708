import math

import keras
import numpy as np
from keras import ops

EPS = 1e-8


def make_leaky_clamp(low, high, leak=0.1):
    """Clamp whose backward pass lets a fraction of the gradient through.

    The value is exactly ``clip(x, low, high)``. The gradient is deliberately
    not the one of the clip: inside the interval the upstream gradient passes
    unchanged, outside it is multiplied by ``leak`` instead of by zero, so that
    a control which has hit its stop can still find its way back.

    Args:
        low: float, lower stop.
        high: float, upper stop, above ``low``.
        leak: float in [0, 1], share of the gradient that passes outside.

    Returns:
        A function of one tensor of any shape.
    """

    @ops.custom_gradient
    def clamp(x):
        inside = ops.logical_and(x >= low, x <= high)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            return ops.where(inside, upstream, leak * upstream)

        return ops.clip(x, low, high), grad

    return clamp


pan_stop = make_leaky_clamp(-1.0, 1.0, leak=0.05)


class StiffString:
    def __init__(self, n_samples, sample_rate=16000.0):
        self.n_samples = n_samples
        self.sample_rate = sample_rate

    def partials(self, f0, inharmonicity, n):
        k = ops.cast(np.arange(1, n + 1), f0.dtype)
        stretch = ops.sqrt(1.0 + inharmonicity[:, None] * k**2)
        return k, stretch, k * f0[:, None] * stretch

    def render(self, f0, inharmonicity, amps, decay):
        """(batch,), (batch,), (batch, partials), (batch,) -> (batch, n_samples)"""

        @ops.custom_gradient
        def rule(f0, inharmonicity, amps, decay):
            t = ops.cast(np.arange(self.n_samples) / self.sample_rate, f0.dtype)
            k, stretch, freq = self.partials(f0, inharmonicity, amps.shape[-1])
            audible = ops.cast(freq < 0.5 * self.sample_rate, f0.dtype)
            level = amps * audible
            phase = 2.0 * math.pi * freq[:, :, None] * t
            fade = ops.exp(-decay[:, None] * t)
            dry = ops.einsum("bk,bkt->bt", level, ops.sin(phase))

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                g = upstream * fade
                d_amps = ops.einsum("bt,bkt->bk", g, ops.sin(phase))
                d_freq = 2.0 * math.pi * level * ops.einsum("bt,bkt->bk", g * t, ops.cos(phase))
                d_f0 = ops.sum(d_freq * k * stretch, axis=-1)
                d_inh = ops.sum(d_freq * f0[:, None] * k**3 / (2.0 * stretch), axis=-1)
                d_decay = -ops.sum(g * t * dry, axis=-1)
                return d_f0, d_inh, d_amps, d_decay

            return fade * dry, grad

        return rule(f0, inharmonicity, amps, decay)


def _standardize(x):
    axes = tuple(range(len(x.shape) - 1))
    mean = ops.mean(x, axis=axes, keepdims=True)
    var = ops.mean(ops.square(x - mean), axis=axes, keepdims=True)
    inv = ops.rsqrt(var + EPS)
    return (x - mean) * inv, inv


@ops.custom_gradient
def dice_activation(x, alpha):
    """Data adaptive activation of DIN, p * x + (1 - p) * alpha * x.

    x: (batch, ..., units); p is the sigmoid of x standardised per unit over
    all other axes. alpha: (units,).
    """
    z, inv = _standardize(x)
    p = ops.sigmoid(z)
    gate = p + alpha * (1.0 - p)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        dz = upstream * x * (1.0 - alpha) * p * (1.0 - p)
        centred = (dz - ops.mean(dz, axis=0, keepdims=True)
                   - z * ops.mean(dz * z, axis=0, keepdims=True))
        d_alpha = upstream * x * (1.0 - p)
        d_alpha = ops.sum(d_alpha, axis=tuple(range(len(x.shape) - 1)))
        return upstream * gate + inv * centred, d_alpha

    return x * gate, grad


class AdaptiveDice(keras.layers.Layer):
    """Dice with batch statistics; alpha learned per unit."""

    def __init__(self, alpha_initializer="zeros", **kwargs):
        super().__init__(**kwargs)
        self.alpha_initializer = keras.initializers.get(alpha_initializer)

    def build(self, input_shape):
        self.alpha = self.add_weight(
            shape=(input_shape[-1],), initializer=self.alpha_initializer, name="alpha")

    def call(self, x):
        # a plain tensor: TensorFlow wants no variable read inside the rule
        return dice_activation(x, 1.0 * self.alpha)
