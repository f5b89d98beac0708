"""Differentiable grading ops used by the look-matching scripts."""

import numpy as np
import tensorflow as tf

_BAYER_2 = np.array([[0, 2], [3, 1]])


def _bayer(order):
    m = _BAYER_2
    while m.shape[0] < order:
        m = np.block([[4 * m + 0, 4 * m + 2], [4 * m + 3, 4 * m + 1]])
    return (m + 0.5) / m.size


# tf.image.adjust_saturation has no gradient out of the box.
# The kernel goes through HSV with s' = min(1, s * scale), RGB in [0, 1], scale >= 0.
@tf.RegisterGradient("AdjustSaturation")
def _adjust_saturation_grad(op, grad):
    rgb, scale = op.inputs
    scale = tf.cast(scale, rgb.dtype)
    hi = tf.reduce_max(rgb, axis=-1, keepdims=True)
    lo = tf.reduce_min(rgb, axis=-1, keepdims=True)
    sat = tf.math.divide_no_nan(hi - lo, hi)
    clipped = sat * scale > 1.0
    # out = hi - k * (hi - rgb)
    k = tf.where(clipped, tf.math.divide_no_nan(tf.ones_like(sat), sat), scale)
    is_hi = tf.one_hot(tf.argmax(rgb, axis=-1), 3, dtype=rgb.dtype)
    total = tf.reduce_sum(grad, axis=-1, keepdims=True)
    d_rgb = k * grad + (1.0 - k) * total * is_hi
    d_scale = -tf.where(clipped, tf.zeros_like(grad), (hi - rgb) * grad)
    return d_rgb, tf.cast(tf.reduce_sum(d_scale), op.inputs[1].dtype)


def _sum_leading(x):
    return tf.reduce_sum(tf.reshape(x, [-1, tf.shape(x)[-1]]), axis=0)


@tf.custom_gradient
def asc_cdl(image, cdl):
    """ASC CDL, cdl = dict(slope, offset, power), each (3,), power > 0. image (..., 3)."""
    slope, offset, power = cdl["slope"], cdl["offset"], cdl["power"]
    lin = image * slope + offset
    v = tf.clip_by_value(lin, 0.0, 1.0)
    out = tf.pow(v, power)

    def grad(g):
        inside = tf.logical_and(lin > 0.0, lin < 1.0)
        vs = tf.where(inside, v, tf.ones_like(v))
        d_lin = tf.where(inside, g * power * tf.pow(vs, power - 1.0), tf.zeros_like(g))
        d_pow = tf.where(inside, g * out * tf.math.log(vs), tf.zeros_like(g))
        return d_lin * slope, {
            "slope": _sum_leading(d_lin * image),
            "offset": _sum_leading(d_lin),
            "power": _sum_leading(d_pow),
        }

    return out, grad


def make_bayer_dither(order):
    tile = _bayer(order)

    @tf.custom_gradient
    def dither(image):
        # 1-bit ordered dither of (batch, h, w, c).
        # Straight-through on purpose: backward pretends the op is clip(image, 0, 1).
        h, w = image.shape[1], image.shape[2]
        reps = (-(-h // order), -(-w // order))
        t = tf.constant(np.tile(tile, reps)[:h, :w, None], image.dtype)

        def grad(g):
            keep = tf.logical_and(image >= 0.0, image <= 1.0)
            return tf.where(keep, g, tf.zeros_like(g))

        return tf.cast(image > t, image.dtype), grad

    return dither


bayer_dither = make_bayer_dither(4)


def match_look(src, dst, steps=50, lr=0.05):
    cdl = {
        "slope": tf.Variable(tf.ones(3)),
        "offset": tf.Variable(tf.zeros(3)),
        "power": tf.Variable(tf.ones(3)),
    }
    sat = tf.Variable(1.0)
    params = [cdl["offset"], cdl["power"], cdl["slope"], sat]
    for _ in range(steps):
        with tf.GradientTape() as tape:
            x = asc_cdl(src, {k: tf.convert_to_tensor(v) for k, v in cdl.items()})
            x = tf.raw_ops.AdjustSaturation(images=x, scale=sat)
            loss = tf.reduce_mean(tf.square(x - dst))
        for p, g in zip(params, tape.gradient(loss, params)):
            p.assign_sub(lr * g)
    return cdl, sat
