"""Operations on interferometric SAR stacks used by the phase-linking trainer."""
import math

import tensorflow as tf

TWO_PI = 2.0 * math.pi


def _sum_to(grad, shape):
    """Reduces `grad` to the static `shape` it was broadcast from."""
    extra = len(grad.shape) - len(shape)
    if extra:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    axes = [i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1]
    if axes:
        grad = tf.reduce_sum(grad, axis=axes, keepdims=True)
    return grad


@tf.custom_gradient
def insar_coherence(reference, secondary, taper):
    """Magnitude of the multi-look complex coherence of two SLC patches.

    Args:
      reference: `[..., looks, 2]`, real and imaginary part in the last axis.
      secondary: same shape as `reference`.
      taper: non-negative look weights, `[looks]` or anything that broadcasts
        to `[..., looks]`. Every patch needs positive weighted power in both
        images; patches without any are given coherence 0 and no gradient.

    Returns:
      `[...]` coherence in [0, 1]. Where it is exactly zero the phase is
      undefined, and the gradient is taken as zero.
    """
    mr, mi = tf.unstack(reference, axis=-1)
    sr, si = tf.unstack(secondary, axis=-1)
    dot = mr * sr + mi * si
    cross = mi * sr - mr * si
    pow_m = mr * mr + mi * mi
    pow_s = sr * sr + si * si

    re = tf.reduce_sum(taper * dot, -1, keepdims=True)
    im = tf.reduce_sum(taper * cross, -1, keepdims=True)
    p = tf.reduce_sum(taper * pow_m, -1, keepdims=True)
    q = tf.reduce_sum(taper * pow_s, -1, keepdims=True)
    amp = tf.sqrt(re * re + im * im)
    den = tf.sqrt(p) * tf.sqrt(q)
    coh = tf.math.divide_no_nan(amp, den)

    def grad(dy):
        dy = dy[..., None]
        u = tf.math.divide_no_nan(re, amp * den)
        v = tf.math.divide_no_nan(im, amp * den)
        cp = tf.math.divide_no_nan(coh, p)
        cq = tf.math.divide_no_nan(coh, q)
        scale = dy * taper
        d_ref = tf.stack(
            [scale * (u * sr - v * si - cp * mr), scale * (u * si + v * sr - cp * mi)],
            axis=-1,
        )
        d_sec = tf.stack(
            [scale * (u * mr + v * mi - cq * sr), scale * (u * mi - v * mr - cq * si)],
            axis=-1,
        )
        d_taper = dy * (u * dot + v * cross - 0.5 * (cp * pow_m + cq * pow_s))
        return d_ref, d_sec, _sum_to(d_taper, taper.shape)

    return tf.squeeze(coh, -1), grad


def make_speckle_nll(looks=1.0, reduction="mean"):
    """Gamma speckle likelihood of multi-look intensity, log-reflectivity parametrised."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(reduction)
    looks = float(looks)
    const = math.lgamma(looks) - looks * math.log(looks)

    @tf.custom_gradient
    def speckle_nll(intensity, log_reflectivity, valid):
        keep = tf.cast(valid, intensity.dtype)
        keep = tf.broadcast_to(keep, tf.shape(intensity))
        ratio = intensity * tf.exp(-log_reflectivity)
        nll = looks * (log_reflectivity + ratio) + const
        if looks != 1.0:
            nll -= (looks - 1.0) * tf.math.log(tf.where(keep > 0, intensity, 1.0))
        nll = tf.where(keep > 0, nll, 0.0)
        count = tf.maximum(tf.reduce_sum(keep), 1.0)

        def grad(dy):
            w = dy * keep
            if reduction == "mean":
                w = w / count
            d_int = w * looks * tf.exp(-log_reflectivity)
            d_log = w * looks * (1.0 - ratio)
            return d_int, _sum_to(d_log, log_reflectivity.shape), None

        if reduction == "mean":
            return tf.reduce_sum(nll) / count, grad
        if reduction == "sum":
            return tf.reduce_sum(nll), grad
        return nll, grad

    return speckle_nll


def wrap(phase):
    return tf.math.floormod(phase + math.pi, TWO_PI) - math.pi


def _scatter_diff(edge, axis):
    """Adjoint of the forward difference along `axis` of a [b, r, c] field."""
    before = [[0, 0], [0, 0], [0, 0]]
    after = [[0, 0], [0, 0], [0, 0]]
    before[axis], after[axis] = [1, 0], [0, 1]
    return tf.pad(edge, before) - tf.pad(edge, after)


@tf.custom_gradient
def unwrap_misfit(unwrapped, wrapped, quality):
    diff = unwrapped - wrapped
    q = tf.broadcast_to(quality, tf.shape(diff))
    r_row = wrap(diff[:, 1:] - diff[:, :-1])
    r_col = wrap(diff[:, :, 1:] - diff[:, :, :-1])
    w_row = q[:, 1:] * q[:, :-1]
    w_col = q[:, :, 1:] * q[:, :, :-1]
    energy = 0.5 * (
        tf.reduce_sum(w_row * r_row**2, [1, 2]) + tf.reduce_sum(w_col * r_col**2, [1, 2])
    )

    def grad(dy):
        dy = dy[:, None, None]
        d = dy * (_scatter_diff(w_row * r_row, 1) + _scatter_diff(w_col * r_col, 2))
        hr = 0.5 * r_row**2
        hc = 0.5 * r_col**2
        dq = (
            tf.pad(hr * q[:, 1:], [[0, 0], [0, 1], [0, 0]])
            + tf.pad(hr * q[:, :-1], [[0, 0], [1, 0], [0, 0]])
            + tf.pad(hc * q[:, :, 1:], [[0, 0], [0, 0], [0, 1]])
            + tf.pad(hc * q[:, :, :-1], [[0, 0], [0, 0], [1, 0]])
        )
        return (
            _sum_to(d, unwrapped.shape),
            _sum_to(-d, wrapped.shape),
            _sum_to(dy * dq, quality.shape),
        )

    return energy, grad
