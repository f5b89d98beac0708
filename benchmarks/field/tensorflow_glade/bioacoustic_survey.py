"""Passive acoustic monitoring: an index, call synthesis, and density estimation."""

import keras
import numpy as np
from keras import ops


def _upstream(args, upstream):
    return args[0] if upstream is None else upstream


def make_acoustic_complexity(clump=None):
    """Acoustic complexity index of a magnitude spectrogram.

    Every band is cut into clumps of ``clump`` frames (a trailing rest is dropped); each clump
    gives ``sum |x[t + 1] - x[t]| / sum x[t]`` over its own frames. The index is the sum over
    bands and clumps. With ``clump=None`` the recording is one clump.

    Takes positive magnitudes (batch, bands, frames) and returns (batch,).
    """

    @ops.custom_gradient
    def index(x):
        batch, bands, frames = x.shape
        size = frames if clump is None else clump
        count = frames // size
        used = x[:, :, : count * size]
        parts = ops.reshape(used, (batch, bands, count, size))
        change = ops.sum(ops.abs(parts[..., 1:] - parts[..., :-1]), axis=-1)
        energy = ops.sum(parts, axis=-1)
        ratio = change / energy

        def grad(*args, upstream=None):
            g = _upstream(args, upstream)
            step = ops.sign(used[..., 1:] - used[..., :-1])
            edge = ops.zeros_like(used[..., :1])
            slope = ops.concatenate([edge, step], axis=-1) - ops.concatenate([step, edge], axis=-1)
            slope = ops.reshape(slope, parts.shape)
            d = (slope - ratio[..., None]) / energy[..., None]
            d = g[:, None, None] * ops.reshape(d, used.shape)
            rest = ops.zeros_like(x[:, :, count * size :])
            return ops.concatenate([d, rest], axis=-1)

        return ops.sum(ratio, axis=(1, 2)), grad

    return index


_LOG1P = [(-1.0) ** n / (n + 1) for n in range(18)]
_LOG1P_SLOPE = [(n + 1) * _LOG1P[n + 1] for n in range(17)]


def _polynomial(y, coefficients):
    acc = ops.zeros_like(y) + coefficients[-1]
    for c in coefficients[-2::-1]:
        acc = acc * y + c
    return acc


def _log1p_ratio(y):
    """``log1p(y) / y`` and its derivative, smooth through zero."""
    small = ops.abs(y) < 0.1
    far = ops.where(small, ops.ones_like(y), y)
    near = ops.where(small, y, ops.zeros_like(y))
    value = ops.log1p(far) / far
    slope = (1.0 / (1.0 + far) - value) / far
    return (
        ops.where(small, _polynomial(near, _LOG1P), value),
        ops.where(small, _polynomial(near, _LOG1P_SLOPE), slope),
    )


@ops.custom_gradient
def hyperbolic_phase(f_start, f_end, duration, t):
    """Phase of a bat-like call whose period changes linearly in time.

    The instantaneous frequency is ``f_start / (1 + y)`` with
    ``y = (f_start - f_end) t / (f_end * duration)``, so the phase is
    ``2 pi f_start t log1p(y) / y``. A constant frequency (``f_start == f_end``) and up-sweeps
    are allowed.

    Frequencies and duration are positive and (calls,); ``t`` is (samples,) with
    ``0 <= t <= duration`` for every call. Returns radians, (calls, samples).
    """
    f0, f1, span = f_start[:, None], f_end[:, None], duration[:, None]
    time = t[None, :]
    y = (f0 - f1) * time / (f1 * span)
    ratio, slope = _log1p_ratio(y)
    phase = 2.0 * np.pi * f0 * time * ratio

    def grad(*args, upstream=None):
        d_phase = 2.0 * np.pi * _upstream(args, upstream)
        d_y = d_phase * f0 * time * slope
        d_start = ops.sum(d_phase * time * ratio + d_y * time / (f1 * span), axis=1)
        d_end = -ops.sum(d_y * f0 * time / (f1 * f1 * span), axis=1)
        d_span = -ops.sum(d_y * y / span, axis=1)
        # along the call the phase grows with the instantaneous frequency
        d_t = ops.sum(d_phase * f0 / (1.0 + y), axis=0)
        return d_start, d_end, d_span, d_t

    return phase, grad


def synthesize_calls(f_start, f_end, duration, amplitude, t):
    """Hann-windowed calls, (calls, samples)."""
    window = 0.5 - 0.5 * ops.cos(2.0 * np.pi * t[None, :] / duration[:, None])
    return amplitude[:, None] * window * ops.sin(hyperbolic_phase(f_start, f_end, duration, t))


def make_hazard_nll(distances, weights=None, truncation=1.0, reduction="mean", nodes=64):
    """Point-transect likelihood with a hazard-rate detection function.

    Detection at distance r has probability ``g(r) = 1 - exp(-(r / sigma)**(-b))``. Detected
    distances within ``truncation`` then have the density ``2 r g(r) / (W**2 p)`` where p is the
    average of g over the disc, computed by Gauss-Legendre quadrature.

    Parameters
    ----------
    distances : array of float, shape (N,)
        Radial distances, ``0 < r <= truncation``.
    weights : array of float, shape (N,), optional
        Non-negative weights (confidence of the classifier, or 0 to leave a call out). Ones if
        omitted.
    truncation : float
    reduction : {"mean", "sum"}
        Weighted mean, ``sum(w * nll) / sum(w)``, or weighted sum.
    nodes : int
        Number of quadrature nodes.

    Returns
    -------
    callable
        ``nll(log_sigma, log_b)``: log scale of each detection (N,) and a scalar log shape to a
        scalar loss.
    """
    r = np.asarray(distances, "float64")
    w = np.ones_like(r) if weights is None else np.asarray(weights, "float64")
    abscissa, mass = np.polynomial.legendre.leggauss(nodes)
    node_r = 0.5 * truncation * (abscissa + 1.0)
    node_w = mass * node_r / truncation  # integrates 2 r / W**2 over (0, W)
    log_prior = np.log(2.0 * r / truncation**2)

    def hazard(log_r, log_sigma, b):
        """h, then dg/dlog_sigma and dg/dlog_b divided by b * exp(-h)."""
        z = log_r - log_sigma
        h = ops.exp(-b * z)
        return h, h, -z * h

    @ops.custom_gradient
    def nll(log_sigma, log_b):
        def const(value):
            return ops.cast(ops.convert_to_tensor(value), log_sigma.dtype)

        b = ops.exp(log_b)
        count = log_sigma.shape[0]
        weight = const(w)
        h, h_s, h_b = hazard(const(np.log(r)), log_sigma, b)
        q, q_s, q_b = hazard(const(np.log(node_r))[None, :], log_sigma[:, None], b)
        quad = const(node_w)[None, :]
        p = ops.sum(-quad * ops.expm1(-q), axis=1)
        each = ops.log(p) - const(log_prior) - ops.log(-ops.expm1(-h))
        total = ops.sum(weight * each)
        if reduction == "mean":
            total = total / ops.sum(weight)

        def grad(*args, upstream=None):
            scale = _upstream(args, upstream) * weight
            if reduction == "mean":
                scale = scale / count
            point = 1.0 / ops.expm1(h)
            tail = quad * ops.exp(-q)
            d_s = b * (ops.sum(tail * q_s, axis=1) / p - point * h_s)
            d_b = b * (ops.sum(tail * q_b, axis=1) / p - point * h_b)
            return scale * d_s, ops.sum(scale * d_b)

        return total, grad

    return nll


def effective_radius(log_sigma, log_b, truncation=1.0, nodes=64):
    """Radius within which as many calls are missed as are heard beyond it."""
    abscissa, mass = np.polynomial.legendre.leggauss(nodes)
    r = 0.5 * truncation * (abscissa + 1.0)
    g = 1.0 - np.exp(-((r / np.exp(log_sigma)) ** (-np.exp(log_b))))
    return truncation * np.sqrt(np.sum(mass * r / truncation * g))


class ComplexityPooling(keras.layers.Layer):
    """Spectrogram to one complexity value per recording, on a learned compression of it."""

    def __init__(self, clump=None, **kwargs):
        super().__init__(**kwargs)
        self.index = make_acoustic_complexity(clump)

    def build(self, shape):
        self.exponent = self.add_weight(
            name="exponent", shape=(shape[1], 1), initializer=keras.initializers.Constant(0.5)
        )

    def call(self, power):
        return self.index((power + 1e-6) ** self.exponent)
