"""Building blocks for compressed models: quantisers, packed kernels, rates."""

import math

import keras
import numpy as np
from keras import ops


def _sum_to_shape(grad, shape):
    extra = len(grad.shape) - len(shape)
    if extra:
        grad = ops.sum(grad, axis=tuple(range(extra)))
    axes = tuple(
        i for i, size in enumerate(shape) if size == 1 and grad.shape[i] != 1
    )
    if axes:
        grad = ops.sum(grad, axis=axes, keepdims=True)
    return grad


def ladder_round_ste(x, low, high, levels=16):
    """Rounds `x` to `levels` evenly spaced values between `low` and `high`.

    Straight-through: rounding is treated as the identity on the backward pass,
    so the gradients are those of `clip(x, low, high)`. Values inside the range
    pass their gradient on, values outside hand it to the bound that they hit.

    Args:
        x: Float tensor.
        low: Float tensor that broadcasts to `x`.
        high: Float tensor that broadcasts to `x`, above `low`.
        levels: Integer, number of rungs, at least 2.

    Returns:
        A tensor shaped as `x`.
    """

    @ops.custom_gradient
    def quantize(x, low, high):
        step = (high - low) / (levels - 1)
        below = x < low
        above = x > high
        clipped = ops.where(below, low, ops.where(above, high, x))
        rungs = ops.round((clipped - low) / step)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            zeros = ops.zeros_like(upstream)
            d_low = ops.where(below, upstream, zeros)
            d_high = ops.where(above, upstream, zeros)
            d_x = ops.where(ops.logical_or(below, above), zeros, upstream)
            return (
                d_x,
                _sum_to_shape(d_low, low.shape),
                _sum_to_shape(d_high, high.shape),
            )

        return low + rungs * step, grad

    return quantize(
        ops.convert_to_tensor(x),
        ops.convert_to_tensor(low),
        ops.convert_to_tensor(high),
    )


def laplace_bin_bits(values, mean, scale):

    @ops.custom_gradient
    def bits(values, mean, scale):
        v = values - mean
        size = ops.abs(v)
        inside = size < 0.5
        h = 0.5 / scale
        # mass of the unit bin around v: one formula when the mode lies in the
        # bin, another for the tails
        near = ops.where(inside, size, 0.5 * ops.ones_like(size))
        upper = (near - 0.5) / scale
        lower = (-near - 0.5) / scale
        mass = -0.5 * (ops.expm1(upper) + ops.expm1(lower))
        log_tail = (
            -(size - 0.5) / scale + ops.log(-ops.expm1(-2.0 * h)) - math.log(2.0)
        )
        nats = -ops.where(inside, ops.log(mass), log_tail)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            e_upper, e_lower = ops.exp(upper), ops.exp(lower)
            by_size = ops.where(
                inside,
                0.5 * (e_upper - e_lower) / (scale * mass),
                ops.ones_like(size) / scale,
            )
            by_scale = ops.where(
                inside,
                -0.5 * (upper * e_upper + lower * e_lower) / (scale * mass),
                (h / ops.tanh(h) - size / scale) / scale,
            )
            g = upstream / math.log(2.0)
            d_v = g * by_size * ops.sign(v)
            return (
                d_v,
                _sum_to_shape(-d_v, mean.shape),
                _sum_to_shape(g * by_scale, scale.shape),
            )

        return nats / math.log(2.0), grad

    return bits(
        ops.convert_to_tensor(values),
        ops.convert_to_tensor(mean),
        ops.convert_to_tensor(scale),
    )


class BlockScaledDense:
    """An integer kernel with one scale for each block of input rows.

    Args:
        codes: Integer array of shape `(inputs, outputs)`.
        block_size: Number of consecutive input rows that share a scale;
            divides `inputs`.
    """

    def __init__(self, codes, block_size=32):
        self.codes = np.asarray(codes)
        self.block_size = block_size
        rows, self.units = self.codes.shape
        if rows % block_size:
            raise ValueError("block_size must divide the number of input rows")
        self.num_blocks = rows // block_size

    def contract(self, inputs, scales):
        """Multiplies by the dequantised kernel.

        Args:
            inputs: Tensor of shape `(..., inputs)`.
            scales: Tensor of shape `(inputs // block_size, outputs)`.

        Returns:
            Tensor of shape `(..., outputs)`.
        """
        codes, block, blocks = self.codes, self.block_size, self.num_blocks

        @ops.custom_gradient
        def matmul(inputs, scales):
            dtype = keras.backend.standardize_dtype(inputs.dtype)
            packed = ops.cast(ops.convert_to_tensor(codes), dtype)
            kernel = packed * ops.repeat(scales, block, axis=0)
            rows = ops.reshape(inputs, (-1, packed.shape[0]))
            shape = tuple(inputs.shape)

            def grad(*args, upstream=None):
                if upstream is None:
                    (upstream,) = args
                kernel_t = ops.transpose(packed * ops.tile(scales, (block, 1)))
                cols = ops.reshape(upstream, (-1, packed.shape[1]))
                d_inputs = ops.reshape(cols @ kernel_t, shape)
                d_kernel = ops.transpose(rows) @ cols
                d_scales = ops.sum(
                    ops.reshape(d_kernel * packed, (blocks, block, -1)), axis=1
                )
                return d_inputs, d_scales

            return ops.reshape(rows @ kernel, shape[:-1] + (self.units,)), grad

        return matmul(ops.convert_to_tensor(inputs), ops.convert_to_tensor(scales))
