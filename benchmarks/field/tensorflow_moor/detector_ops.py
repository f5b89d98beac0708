"""Backend-agnostic operations of the beamline: line shapes, magnetometry and hit maps (Keras 3).

Gradient functions accept ``*args, upstream=None`` because the PyTorch backend passes the inputs as well.
"""

import math

import keras
from keras import ops


def _upstream(args, upstream):
    return args[-1] if upstream is None else upstream


def _fold(grad, target_shape):
    """Sum a gradient back to the shape that was broadcast."""
    lead = len(grad.shape) - len(target_shape)
    if lead:
        grad = ops.sum(grad, axis=tuple(range(lead)))
    ones = tuple(i for i, n in enumerate(target_shape) if n == 1 and grad.shape[i] != 1)
    return ops.sum(grad, axis=ones, keepdims=True) if ones else grad


@ops.custom_gradient
def crystal_ball_log_density(x, mean, sigma, alpha, order):
    r"""Log-density of the Crystal Ball line shape: a Gaussian with a power law tail on the low side.

    With :math:`z = (x - \mu) / \sigma` the unnormalised density is :math:`e^{-z^2/2}` for
    :math:`z > -\alpha` and :math:`(n/\alpha)^n e^{-\alpha^2/2} (n/\alpha - \alpha - z)^{-n}` below.

    Parameters
    ----------
    x : tensor
        Energies, e.g. ``(spectra, events)``.
    mean, sigma, alpha, order : tensor
        Position, width (> 0), start of the tail in widths (> 0) and exponent n of the tail (> 1). Each
        broadcasts against ``x``, e.g. ``(spectra, 1)``, or ``()`` if all spectra share it.
    """
    z = (x - mean) / sigma
    tail = z < -alpha
    ratio = order / alpha
    reach = ops.where(tail, ratio - alpha - z, ratio)
    falling = order * (ops.log(ratio) - ops.log(reach)) - 0.5 * ops.square(alpha)
    height = ops.exp(-0.5 * ops.square(alpha))
    tail_mass = ratio / (order - 1.0) * height
    core_mass = math.sqrt(math.pi / 2.0) * (1.0 + ops.erf(alpha / math.sqrt(2.0)))
    mass = tail_mass + core_mass
    out = ops.where(tail, falling, -0.5 * ops.square(z)) - ops.log(sigma * mass)
    shapes = [tuple(a.shape) for a in (x, mean, sigma, alpha, order)]

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        none = ops.zeros_like(z)
        dz = g * ops.where(tail, order / reach, -z)
        dalpha = ops.where(tail, order * (ratio / alpha + 1.0) / reach - ratio - alpha, none)
        dorder = ops.where(tail, ops.log(ratio / reach) + 1.0 - ratio / reach, none)
        dalpha = dalpha - (height - tail_mass * (1.0 / alpha + alpha)) / mass
        dorder = dorder + tail_mass / (order * (order - 1.0) * mass)
        parts = (dz / sigma, -dz / sigma, -(g + dz * z) / sigma, g * dalpha, g * dorder)
        return tuple(_fold(p, s) for p, s in zip(parts, shapes))

    return out, grad


def _coth_parts(t):
    """coth(t) - 1/t and its derivative, accurate through t = 0."""
    small = ops.abs(t) < 0.3
    s = ops.where(small, t, ops.zeros_like(t))
    big = ops.where(small, ops.ones_like(t), t)
    s2 = s * s
    # Taylor coefficients 2^{2k} B_{2k} / (2k)!
    coeffs = (1 / 3, -1 / 45, 2 / 945, -1 / 4725, 2 / 93555, -1382 / 638512875, 4 / 18243225)
    value = ops.zeros_like(t)
    slope = ops.zeros_like(t)
    power = ops.ones_like(t)
    for k, c in enumerate(coeffs):
        value = value + c * power * s
        slope = slope + c * (2 * k + 1) * power
        power = power * s2
    e = ops.exp(-2.0 * ops.abs(big))
    exact = ops.sign(big) * (1.0 + e) / (1.0 - e) - 1.0 / big
    exact_slope = 1.0 / ops.square(big) - 4.0 * e / ops.square(1.0 - e)
    return ops.where(small, value, exact), ops.where(small, slope, exact_slope)


def make_paramagnet(spin=0.5, moment=0.6717):
    """Relative magnetisation of a paramagnet, the Brillouin function of spin `spin` (1/2, 1, 3/2, ... 7/2).

    Args:
        spin: total angular momentum quantum number J.
        moment: saturation moment over Boltzmann constant, kelvin per tesla.

    Returns:
        ``magnetization(field, temperature)``: tensors that broadcast against each other, field of any sign (zero
        included) in tesla, temperature positive in kelvin.
    """
    outer = (2.0 * spin + 1.0) / (2.0 * spin)
    inner = 1.0 / (2.0 * spin)

    @ops.custom_gradient
    def magnetization(field, temperature):
        x = moment * field / temperature
        value_o, slope_o = _coth_parts(outer * x)
        value_i, slope_i = _coth_parts(inner * x)
        # The poles 1/x of the two terms cancel.
        out = outer * value_o - inner * value_i
        slope = outer**2 * slope_o - inner**2 * slope_i
        shapes = tuple(field.shape), tuple(temperature.shape)

        def grad(*args, upstream=None):
            g = _upstream(args, upstream) * slope / temperature
            return _fold(moment * g, shapes[0]), _fold(-g * x, shapes[1])

        return out, grad

    return magnetization


paramagnet_half = make_paramagnet(0.5)


def _shift(x, i, j):
    """x[..., h + i, w + j, :] for a padded image, cropped by the caller's window."""
    return x[:, i : x.shape[1], j : x.shape[2], :]


@ops.custom_gradient
def grey_dilation(image, element):
    """Grey-scale dilation, ``y[h, w] = max_ij image[h + i - ci, w + j - cj] + element[i, j]``.

    Args:
        image: (batch, height, width, channels). Typically hit maps or 8-bit scans cast to float.
        element: (kh, kw) structuring element shared by the channels; zeros give the flat dilation. The origin is
            ``(kh // 2, kw // 2)``. Pixels outside of the image do not take part.
    """
    kh, kw = element.shape
    height, width = image.shape[1], image.shape[2]
    top, left = kh // 2, kw // 2
    margin = ((0, 0), (top, kh - 1 - top), (left, kw - 1 - left), (0, 0))
    padded = ops.pad(image, margin, constant_values=-float("inf"))

    def candidate(i, j):
        return _shift(padded, i, j)[:, :height, :width, :] + element[i, j]

    out = candidate(0, 0)
    for i in range(kh):
        for j in range(kw):
            out = ops.maximum(out, candidate(i, j))

    def grad(*args, upstream=None):
        g = _upstream(args, upstream)
        dimage = ops.zeros_like(padded)
        rows = []
        for i in range(kh):
            for j in range(kw):
                won = ops.where(ops.equal(candidate(i, j), out), g, ops.zeros_like(g))
                rows.append(ops.sum(won))
                spread = ((0, 0), (i, kh - 1 - i), (j, kw - 1 - j), (0, 0))
                dimage = dimage + ops.pad(won, spread)
        dimage = dimage[:, top : top + height, left : left + width, :]
        return dimage, ops.reshape(ops.stack(rows), (kh, kw))

    return out, grad


class MorphologicalGradient(keras.layers.Layer):
    """Dilation minus input, with a learned structuring element (peak height zero)."""

    def __init__(self, size=3, **kwargs):
        super().__init__(**kwargs)
        self.size = size

    def build(self, input_shape):
        self.element = self.add_weight(shape=(self.size, self.size), initializer="zeros", name="element")

    def call(self, inputs):
        element = self.element - ops.max(self.element)
        return grey_dilation(inputs, element) - inputs
