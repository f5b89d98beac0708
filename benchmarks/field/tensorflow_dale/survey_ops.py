"""Differentiable pieces of the field-survey pipeline (seismic gathers, beacons, gauges)."""

from __future__ import annotations

import tensorflow as tf

__all__ = ["semblance", "trilaterate", "shepard_interpolate", "adc_readout"]


def _moving_sum(x: tf.Tensor, window: int) -> tf.Tensor:
    """Sum over `window` neighbouring samples of the last axis, zeros outside, same length."""
    shape = tf.shape(x)
    flat = tf.reshape(x, [-1, shape[-1], 1])
    kernel = tf.ones([window, 1, 1], dtype=x.dtype)
    return tf.reshape(tf.nn.conv1d(flat, kernel, stride=1, padding="SAME"), shape)


def _reduce_to(grad, like):
    """Sum `grad` over the axes along which `like` was broadcast."""
    extra = grad.shape.rank - like.shape.rank
    if extra:
        grad = tf.reduce_sum(grad, axis=list(range(extra)))
    axes = [i for i, n in enumerate(like.shape) if n == 1 and grad.shape[i] != 1]
    return tf.reduce_sum(grad, axis=axes, keepdims=True) if axes else grad


def semblance(gather: tf.Tensor, window: int = 11, eps: float = 1e-8) -> tf.Tensor:
    r"""Windowed semblance (coherence) of a seismic gather.

    For traces :math:`d_{r,t}` of a gather with :math:`R` traces

    .. math:: S_t = \frac{\sum_{s \in W(t)} (\sum_r d_{r,s})^2}
                         {R \sum_{s \in W(t)} \sum_r d_{r,s}^2 + \epsilon}

    where :math:`W(t)` holds the `window` samples around `t`.

    Parameters
    ----------
    gather : tf.Tensor
        Moveout-corrected traces, shape ``(..., traces, time)``.
    window : int, optional
        Length of the smoothing window in samples, any number from 1 up to the number of
        time samples. Samples outside of the record count as zero.
    eps : float, optional
        Keeps dead zones finite.

    Returns
    -------
    tf.Tensor
        Semblance, shape ``(..., time)``.

    Notes
    -----
    The backward pass keeps three arrays of shape ``(..., time)`` and the gather itself.
    """

    @tf.custom_gradient
    def coherence(d):
        fold = tf.cast(tf.shape(d)[-2], d.dtype)
        stack = tf.reduce_sum(d, axis=-2)
        num = _moving_sum(tf.square(stack), window)
        den = fold * _moving_sum(tf.reduce_sum(tf.square(d), axis=-2), window) + eps
        out = num / den

        def grad(dy):
            g_num = _moving_sum(dy / den, window)
            g_den = _moving_sum(-dy * out / den, window)
            d_stack = 2.0 * stack * g_num
            return d_stack[..., None, :] + 2.0 * fold * d * g_den[..., None, :]

        return out, grad

    return coherence(tf.convert_to_tensor(gather))


def _unit_vectors(x, anchors):
    diff = x[:, None, :] - anchors[None]
    dist = tf.norm(diff, axis=-1)
    return diff / dist[..., None], dist


@tf.custom_gradient
def trilaterate(ranges: tf.Tensor, anchors: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Least-squares position of a receiver from its ranges to known anchors.

    Minimises ``sum_i weights[i] * (|x - anchors[i]| - ranges[b, i]) ** 2`` for every row of
    `ranges`, starting at the mean of the anchors, and differentiates the minimiser through the
    optimality condition, so that the iterations are not recorded.

    `ranges` is (batch, anchors), `anchors` is (anchors, dim) with more anchors than
    dimensions, `weights` is (anchors,) and positive. The ranges are measurements: they carry
    noise, and no point needs to match all of them. The receiver should be inside or close to
    the hull of the anchors. Gradients flow to the ranges, the anchors and the weights.
    """
    x = tf.repeat(tf.reduce_mean(anchors, axis=0, keepdims=True), tf.shape(ranges)[0], axis=0)
    for _ in range(80):
        u, dist = _unit_vectors(x, anchors)
        lhs = tf.einsum("m,bmi,bmj->bij", weights, u, u)
        rhs = tf.einsum("m,bm,bmi->bi", weights, dist - ranges, u)
        x = x - tf.linalg.solve(lhs, rhs[..., None])[..., 0]

    def grad(dx):
        u, dist = _unit_vectors(x, anchors)
        hess = tf.einsum("m,bmi,bmj->bmij", weights, u, u)
        adj = -tf.linalg.solve(tf.reduce_sum(hess, axis=1), dx[..., None])[..., 0]
        along = tf.einsum("bmi,bi->bm", u, adj)
        d_ranges = -weights * along
        d_anchors = -tf.einsum("bmij,bj->mi", hess, adj)
        d_weights = tf.reduce_sum((dist - ranges) * along, axis=0)
        return d_ranges, d_anchors, d_weights

    return x, grad


@tf.custom_gradient
def shepard_interpolate(values, sites, query, power):
    """Inverse-distance weighting: values (sites, channels) -> (query, channels); no query on a site."""
    diff = query[:, None, :] - sites[None]
    d2 = tf.reduce_sum(tf.square(diff), axis=-1)
    w = tf.nn.softmax(-0.5 * power * tf.math.log(d2), axis=-1)
    out = tf.matmul(w, values)

    def grad(dy):
        # logits l = -p/2 log d2
        inner = tf.matmul(dy, values, transpose_b=True)
        dl = w * (inner - tf.reduce_sum(dy * out, axis=-1, keepdims=True))
        pull = (-power * dl / d2)[..., None] * diff
        return (
            tf.matmul(w, dy, transpose_a=True),
            -tf.reduce_sum(pull, axis=0),
            tf.reduce_sum(pull, axis=1),
            tf.reduce_sum(-0.5 * dl * tf.math.log(d2)),
        )

    return out, grad


@tf.custom_gradient
def adc_readout(signal, gain, pedestal, *, bits=12):
    """Recorder counts; backward is deliberately straight-through (floor = identity) and zero where the ADC clips."""
    full = float(2**bits - 1)
    analog = signal * gain + pedestal
    counts = tf.clip_by_value(tf.floor(analog), 0.0, full)

    def grad(dy):
        g = tf.where((analog >= 0.0) & (analog <= full), dy, tf.zeros_like(dy))
        return _reduce_to(g * gain, signal), _reduce_to(g * signal, gain), _reduce_to(g, pedestal)

    return counts, grad


def gauge_misfit(observed, values, sites, query, power=2.0):
    """Mean squared misfit of the interpolated field at the gauges."""
    power = tf.convert_to_tensor(power, dtype=values.dtype)
    return tf.reduce_mean(tf.square(shepard_interpolate(values, sites, query, power) - observed))
