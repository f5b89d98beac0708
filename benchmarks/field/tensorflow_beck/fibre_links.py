"""Terms of a differentiable optical link budget (any Keras backend)."""

import math

import keras
from keras import ops


def _sum_to_shape(x, shape):
    extra = len(x.shape) - len(shape)
    if extra:
        x = ops.sum(x, axis=tuple(range(extra)))
    for i, n in enumerate(shape):
        if n == 1 and x.shape[i] != 1:
            x = ops.sum(x, axis=i, keepdims=True)
    return x


def fibre_coupling(waist, mode, offset, tilt, wavelength=1.55, in_db=False):
    """Power coupled from a Gaussian beam into a single-mode fibre.

    Args:
        waist: beam waist radius at the facet, micrometres, > 0.
        mode: mode field radius of the fibre, micrometres, > 0.
        offset: lateral offset ``[..., 2]``, micrometres.
        tilt: angle between the axes, radians (small).
        wavelength: in micrometres.
        in_db: give the loss in decibels (>= 0) and not the efficiency.

    ``waist``, ``mode``, ``tilt`` and ``offset[..., 0]`` broadcast; the result
    has their broadcast shape.
    """
    k = math.pi / wavelength

    @keras.ops.custom_gradient
    def coupling(waist, mode, offset, tilt):
        spread = waist**2 + mode**2
        distance2 = ops.sum(offset**2, axis=-1)
        phase = k * waist * mode * tilt
        log_eta = 2.0 * ops.log(2.0 * waist * mode / spread) - 2.0 * (distance2 + phase**2) / spread
        out = -10.0 / math.log(10.0) * log_eta if in_db else ops.exp(log_eta)

        def grad(*args, upstream=None):
            upstream = upstream if upstream is not None else args[0]
            d_log = upstream * (-10.0 / math.log(10.0)) if in_db else upstream * out
            d_spread = d_log * (-2.0 / spread + 2.0 * (distance2 + phase**2) / spread**2)
            d_phase = d_log * (-4.0 * phase / spread)
            d_waist = d_log * 2.0 / waist + 2.0 * waist * d_spread + d_phase * k * mode * tilt
            d_mode = d_log * 2.0 / mode + 2.0 * mode * d_spread + d_phase * k * waist * tilt
            d_offset = ops.expand_dims(d_log * (-4.0) / spread, -1) * offset
            d_tilt = d_phase * k * waist * mode
            return (
                _sum_to_shape(d_waist, waist.shape),
                _sum_to_shape(d_mode, mode.shape),
                _sum_to_shape(d_offset, offset.shape),
                _sum_to_shape(d_tilt, tilt.shape),
            )

        return out, grad

    return coupling(waist, mode, offset, tilt)


def make_raman_tilt(num_channels, coefficient=0.02, axis=-1):
    """Channel powers after stimulated Raman scattering; channels lie along ``axis``."""
    position = [n - 0.5 * (num_channels - 1) for n in range(num_channels)]

    @keras.ops.custom_gradient
    def raman_tilt(launch):
        shape = [1] * len(launch.shape)
        shape[axis] = num_channels
        comb = ops.reshape(ops.convert_to_tensor(position, dtype=launch.dtype), shape)
        total = ops.sum(launch, axis=axis, keepdims=True)
        gain = ops.exp(-coefficient * total * comb)
        norm = ops.sum(launch * gain, axis=axis, keepdims=True)
        share = launch * gain / norm

        def grad(*args, upstream=None):
            upstream = upstream if upstream is not None else args[0]
            mean = ops.sum(upstream * share, axis=axis, keepdims=True)
            contrast = upstream - mean
            moment = ops.sum(share * contrast * comb, axis=-1, keepdims=True)
            return total * gain / norm * contrast + mean - coefficient * total * moment

        return total * share, grad

    return raman_tilt


class EyeMonitor:
    def __init__(self, bits, ddof=0, floor=1e-12):
        self.bits = bits
        self.ddof = ddof
        self.floor = floor

    def _rail(self, samples, member):
        count = ops.sum(member, axis=-1, keepdims=True)
        level = ops.sum(member * samples, axis=-1, keepdims=True) / count
        excess = member * (samples - level)
        variance = ops.sum(excess**2, axis=-1, keepdims=True) / (count - self.ddof)
        return count, level, excess, ops.sqrt(variance + self.floor)

    def q_factor(self, samples):
        ones = ops.cast(ops.convert_to_tensor(self.bits), samples.dtype)
        zeros = 1.0 - ones

        @keras.ops.custom_gradient
        def q(samples):
            n1, mu1, e1, sigma1 = self._rail(samples, ones)
            n0, mu0, e0, sigma0 = self._rail(samples, zeros)
            width = sigma1 + sigma0
            ratio = (mu1 - mu0) / width

            def grad(*args, upstream=None):
                upstream = upstream if upstream is not None else args[0]
                opening = ones / n1 - zeros / n0
                jitter = e1 / (n1 * sigma1) + e0 / (n0 * sigma0)
                return ops.expand_dims(upstream, -1) * (opening - ratio * jitter) / width

            return ops.squeeze(ratio, -1), grad

        return q(samples)
