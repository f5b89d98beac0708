"""Memory- and bandwidth-saving layers."""
from __future__ import annotations

from typing import Callable

import tensorflow as tf


def _absmax_scale(x, axis):
    peak = tf.reduce_max(tf.abs(x), axis=axis, keepdims=True)
    return 127.0 / tf.maximum(peak, 1e-7)


class Int8Projection(tf.Module):
    """A frozen linear map with int8 weights and int8 dynamic activations.

    Inputs are quantised to int8 by their own largest magnitude along the last
    axis, multiplied with the int8 kernel in int32, and scaled back.

    The backward pass is a straight-through estimate: inputs get the gradient of
    ``x @ dequantised_kernel``, as though activations were not quantised. The
    kernel is frozen and gets none.

    Args:
      kernel: float array of shape `[features, units]` to quantise per unit.
      bias: optional float array `[units]`, frozen.
    """

    def __init__(self, kernel, bias=None, name=None):
        super().__init__(name=name)
        kernel = tf.convert_to_tensor(kernel)
        scale = _absmax_scale(kernel, axis=0)
        self.kernel = tf.Variable(
            tf.cast(tf.round(kernel * scale), tf.int8), trainable=False)
        self.kernel_scale = tf.Variable(scale, trainable=False)
        self.bias = None if bias is None else tf.convert_to_tensor(bias, kernel.dtype)

    def project(self, inputs: tf.Tensor) -> tf.Tensor:
        @tf.custom_gradient
        def matmul_with_inputs_gradient(inputs, kernel, kernel_scale):
            features, units = kernel.shape
            flat = tf.reshape(inputs, [-1, features])
            scale = _absmax_scale(flat, axis=-1)
            codes = tf.cast(tf.round(flat * scale), tf.int32)
            product = tf.matmul(codes, tf.cast(kernel, tf.int32))
            out = tf.cast(product, inputs.dtype) / (scale * kernel_scale)
            out = tf.reshape(out, tf.concat([tf.shape(inputs)[:-1], [units]], 0))

            def grad(upstream):
                dense = tf.cast(kernel, upstream.dtype) / kernel_scale
                return tf.tensordot(upstream, dense, [[-1], [1]]), None, None

            return out, grad

        out = matmul_with_inputs_gradient(
            inputs, tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.kernel_scale))
        return out if self.bias is None else out + self.bias

    __call__ = project


class ReversibleBlock(tf.Module):
    """Additive coupling ``y1 = x1 + f(x2)``, ``y2 = x2 + g(y1)``.

    Inputs are rebuilt from outputs in the backward pass, so that a stack of
    blocks keeps the activations of its top alone.

    Args:
      f: callable that keeps its argument's shape; may read trainable variables.
      g: likewise.
    """

    def __init__(self, f: Callable, g: Callable, name=None):
        super().__init__(name=name)
        self.f = f
        self.g = g

    def couple(self, x1: tf.Tensor, x2: tf.Tensor):
        @tf.custom_gradient
        def _couple(x1, x2):
            y1 = x1 + self.f(x2)
            y2 = x2 + self.g(y1)

            def grad(dy1, dy2, variables=None):
                weights = list(variables or [])
                mid = tf.stop_gradient(y1)
                with tf.GradientTape() as tape:
                    tape.watch(mid)
                    g_out = self.g(mid)
                d_mid, *dw_g = tape.gradient(
                    g_out, [mid] + weights, output_gradients=dy2,
                    unconnected_gradients=tf.UnconnectedGradients.ZERO)
                d_mid = d_mid + dy1

                lower = tf.stop_gradient(y2 - g_out)
                with tf.GradientTape() as tape:
                    tape.watch(lower)
                    f_out = self.f(lower)
                d_lower, *dw_f = tape.gradient(
                    f_out, [lower] + weights, output_gradients=d_mid,
                    unconnected_gradients=tf.UnconnectedGradients.ZERO)

                d_inputs = (d_mid, dy2 + d_lower)
                if variables is None:
                    return d_inputs
                return d_inputs, [a + b for a, b in zip(dw_f, dw_g)]

            return (y1, y2), grad

        return _couple(x1, x2)
