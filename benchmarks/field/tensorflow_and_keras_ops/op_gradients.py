"""Gradients for stock TensorFlow ops that ship without one.

Importing this module is enough: afterwards ``tf.image.adjust_contrast``, ``tf.raw_ops.ResizeArea`` and weighted
``tf.raw_ops.DenseBincount`` can be differentiated, in eager mode as well as inside ``tf.function``.
"""
import numpy as np
import tensorflow as tf


@tf.RegisterGradient("AdjustContrastv2")
def _adjust_contrast_grad(op, grad):
    # images [..., H, W, C], contrast_factor scalar
    images, factor = op.inputs
    mean = tf.reduce_mean(images, axis=[-3, -2], keepdims=True)
    grad_mean = tf.reduce_mean(grad, axis=[-3, -2], keepdims=True)
    d_images = factor * grad + (1.0 - factor) * grad_mean
    d_factor = tf.reduce_sum(grad * (images - mean))
    return d_images, d_factor


def _overlap(n_in, n_out):
    """(n_out, n_in) length of every input pixel inside every output cell."""
    step = n_in / n_out
    lo = np.arange(n_out)[:, None] * step
    hi = lo + step
    px = np.arange(n_in)[None, :]
    return np.maximum(0.0, np.minimum(hi, px + 1) - np.maximum(lo, px)).astype(np.float32)


@tf.RegisterGradient("ResizeArea")
def _resize_area_grad(op, grad):
    images = op.inputs[0]
    _, h, w, _ = images.shape
    _, oh, ow, _ = grad.shape
    rows, cols = _overlap(h, oh), _overlap(w, ow)
    cell = (h / oh) ** 2
    d_images = tf.einsum("ph,qw,bpqc->bhwc", rows, cols, grad) / cell
    return [d_images, None]


@tf.RegisterGradient("DenseBincount")
def _dense_bincount_grad(op, grad):
    """Gradient with respect to the weights.

    ``input`` is (n,) or (batch, n); ids at or above ``size`` fall into no bin.
    """
    ids, size, weights = op.inputs
    size = tf.cast(size, ids.dtype)
    ok = ids < size
    safe = tf.minimum(ids, size - 1)
    picked = tf.gather(grad, safe, axis=-1, batch_dims=ids.shape.rank - 1)
    return [None, None, tf.where(ok, picked, tf.zeros_like(picked))]


def weighted_histogram(ids, weights, n_bins):
    """Sum of the weights per bin, per row for two-dimensional ids."""
    return tf.raw_ops.DenseBincount(input=ids, size=n_bins, weights=weights, binary_output=False)


def thumbnail(images, size):
    return tf.raw_ops.ResizeArea(images=images, size=tf.constant(size, tf.int32), align_corners=False)
