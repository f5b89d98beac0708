"""Light-curve and detector models for survey photometry, on ``keras.ops``."""

import math

import keras
from keras import ops


def _collapse(grad, ref):
    """Undo broadcasting: reduce ``grad`` to the (static) shape of ``ref``."""
    lead = len(grad.shape) - len(ref.shape)
    if lead:
        grad = ops.sum(grad, axis=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(ref.shape) if n == 1 and grad.shape[i] != 1)
    if axes:
        grad = ops.sum(grad, axis=axes, keepdims=True)
    return grad


@ops.custom_gradient
def microlensing_flux(times, t0, t_e, u0, f_source, f_blend):
    """Blended point-source point-lens (Paczynski) light curves.

    Args:
        times: epochs, shape ``(n_times,)``, shared by all events.
        t0: times of closest approach, shape ``(n_events,)``.
        t_e: Einstein crossing times, positive, shape ``(n_events,)``.
        u0: impact parameters in Einstein radii, shape ``(n_events,)``, non zero.
            The sign tells on which side the lens passes the source, as in fits
            with parallax; the flux depends on the magnitude only.
        f_source: unlensed source flux, shape ``(n_events,)``.
        f_blend: blend flux, shape ``(n_events,)``.

    Returns:
        Flux, shape ``(n_events, n_times)``.
    """
    impact = ops.abs(u0)[:, None]
    tau = (times[None, :] - t0[:, None]) / t_e[:, None]
    u = ops.sqrt(impact * impact + tau * tau)
    root = ops.sqrt(u * u + 4.0)
    magnification = (u * u + 2.0) / (u * root)
    flux = f_source[:, None] * magnification + f_blend[:, None]

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        # dA/du = -8 / (u^2 (u^2+4)^(3/2)); the 1/u of du/d(tau, u0) is folded in
        g_u = -8.0 * upstream * f_source[:, None] / (u**3 * root**3)
        g_tau = g_u * tau / t_e[:, None]
        return (
            ops.sum(g_tau, axis=0),
            -ops.sum(g_tau, axis=1),
            -ops.sum(g_tau * tau, axis=1),
            ops.sum(g_u * impact, axis=1),
            ops.sum(upstream * magnification, axis=1),
            ops.sum(upstream, axis=1),
        )

    return flux, grad


@ops.custom_gradient
def _stabilize(x, gain, sigma, offset):
    variance = gain * x + 0.375 * gain * gain + sigma * sigma - gain * offset
    positive = variance > 0
    root = ops.sqrt(ops.where(positive, variance, ops.ones_like(variance)))
    value = ops.where(positive, 2.0 * root / gain, ops.zeros_like(variance))

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        slope = ops.where(positive, upstream / root, ops.zeros_like(upstream))
        d_gain = slope * (x + 0.75 * gain - offset) / gain - upstream * value / gain
        d_sigma = 2.0 * sigma * slope
        return (
            _collapse(slope, x),
            _collapse(d_gain, gain),
            _collapse(d_sigma, sigma),
            _collapse(-slope, offset),
        )

    return value, grad


def stabilize_counts(x, gain=1.0, sigma=0.0, offset=0.0):
    """Generalised Anscombe transform of Poisson-Gaussian pixel values.

    ``2 / gain * sqrt(max(gain x + 3/8 gain^2 + sigma^2 - gain offset, 0))``.

    Args:
        x: pixel values, ``(..., amplifiers)``.
        gain: ADU per electron, positive; scalar or ``(amplifiers,)``.
        sigma: read noise in ADU; scalar or ``(amplifiers,)``.
        offset: bias level in ADU; scalar or ``(amplifiers,)``.

    All four can be trained: the detector constants are refined together with the
    denoiser in :class:`NoiseStabilizer`.
    """
    x = ops.convert_to_tensor(x)
    gain, sigma, offset = (ops.convert_to_tensor(v, dtype=x.dtype) for v in (gain, sigma, offset))
    return _stabilize(x, gain, sigma, offset)


@keras.saving.register_keras_serializable("survey")
class NoiseStabilizer(keras.layers.Layer):
    """Learns read-out constants per amplifier (last axis).

    Gain and read noise are kept positive by training their logarithms; the bias
    is trained in electrons, which puts all three on a similar scale.
    """

    def __init__(self, gain=1.0, read_noise=3.0, **kwargs):
        super().__init__(**kwargs)
        self.gain_init = gain
        self.read_noise_init = read_noise

    def build(self, input_shape):
        n = (input_shape[-1],)
        constant = keras.initializers.Constant
        self.log_gain = self.add_weight(
            name="log_gain", shape=n, initializer=constant(math.log(self.gain_init))
        )
        self.log_sigma = self.add_weight(
            name="log_sigma", shape=n, initializer=constant(math.log(self.read_noise_init))
        )
        self.bias_electrons = self.add_weight(name="bias_electrons", shape=n, initializer="zeros")

    def call(self, x):
        gain = ops.exp(self.log_gain)
        return stabilize_counts(x, gain, ops.exp(self.log_sigma), gain * self.bias_electrons)

    def get_config(self):
        return {**super().get_config(), "gain": self.gain_init, "read_noise": self.read_noise_init}
