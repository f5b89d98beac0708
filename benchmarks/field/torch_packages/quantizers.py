"""Quantisers, surrogate gradients and bounded activations."""

import math

import torch
import torch.nn as nn
from torch.autograd import Function


class RoundSteFn(Function):
    """Rounds to the nearest integer with a straight-through gradient."""

    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, grad_y):
        return grad_y


class LearnedStepFn(Function):
    """Learned step size quantisation (LSQ) with its straight-through gradients.

    The forward pass is ``step * round(clamp(x / step, qmin, qmax))``. The backward pass hands the gradient through
    to ``x`` inside of the range and stops it outside. The gradient of the step is ``round(x / step) - x / step``
    inside of the range and ``qmin`` or ``qmax`` outside, as in the paper, multiplied by ``grad_scale``.

    Args:
        x (Tensor): weights or activations.
        step (Tensor): positive step size, broadcastable to x.
        qmin (int): smallest level.
        qmax (int): largest level.
        grad_scale (float): factor of the gradient of the step.
    """

    @staticmethod
    def forward(ctx, x, step, qmin, qmax, grad_scale=1.0):
        ctx.save_for_backward(x, step)
        ctx.others = qmin, qmax, grad_scale
        return (x / step).clamp(qmin, qmax).round() * step

    @staticmethod
    def backward(ctx, grad):
        x, step = ctx.saved_tensors
        qmin, qmax, grad_scale = ctx.others
        level = x / step
        below, above = level < qmin, level > qmax
        inside = ~(below | above)
        slope = torch.where(inside, level.round() - level, below * float(qmin) + above * float(qmax))
        grad_step = (grad * slope).sum_to_size(step.shape) * grad_scale
        return grad * inside, grad_step, None, None, None


class FakeQuantizePerChannelFn(Function):
    """Affine fake quantisation with one scale and zero point for each channel.

    The output is ``scale * (clamp(round(x / scale) + zero_point, qmin, qmax) - zero_point)``. Straight-through: the
    rounding counts as the identity, and the gradient is zero wherever the clamp is active.

    Parameters
    ----------
    x : Tensor
    scale, zero_point : Tensor, shape (channels,)
        Neither gets a gradient.
    axis : int
        Channel axis of x.
    qmin, qmax : int
    """

    @staticmethod
    def forward(ctx, x, scale, zero_point, axis=0, qmin=-128, qmax=127):
        shape = [1] * x.dim()
        shape[axis] = -1
        s, z = scale.detach().view(shape), zero_point.view(shape).to(x.dtype)
        level = torch.round(x / s)
        ctx.save_for_backward((level >= qmin) & (level <= qmax))
        return ((level + z).clamp(qmin, qmax) - z) * s

    @staticmethod
    def backward(ctx, grad):
        (keep,) = ctx.saved_tensors
        return grad * keep, None, None, None, None, None


class FakeQuantize(nn.Module):
    def __init__(self, scale, zero_point, axis=0, bits=8):
        super().__init__()
        self.register_buffer("scale", scale)
        self.register_buffer("zero_point", zero_point)
        self.axis = axis
        self.qmin, self.qmax = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def forward(self, x):
        return FakeQuantizePerChannelFn.apply(x, self.scale, self.zero_point, self.axis, self.qmin, self.qmax)


def make_mu_law(mu=255.0):
    """Makes the mu-law compressor of a given strength.

    The result takes a signal with values in [-1, 1] and gives ``sign(x) * log(1 + mu |x|) / log(1 + mu)``.
    """
    norm = math.log1p(mu)

    class MuLaw(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sign(x) * torch.log1p(mu * x.abs()) / norm

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * mu / (norm * (1.0 + mu * x))

    def compress(x: torch.Tensor) -> torch.Tensor:
        return MuLaw.apply(x)

    return compress


class FastSigmoidSpike(Function):
    """Heaviside step whose surrogate gradient is that of the fast sigmoid, ``1 / (slope * |u| + 1) ** 2``."""

    @staticmethod
    def forward(input_, slope=25.0):
        return (input_ > 0).to(input_.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        input_, slope = inputs
        ctx.save_for_backward(input_)
        ctx.slope = slope

    @staticmethod
    def backward(ctx, grad_output):
        (input_,) = ctx.saved_tensors
        return grad_output / (ctx.slope * input_.abs() + 1.0) ** 2, None


def fast_sigmoid(slope=25.0):
    def inner(x):
        return FastSigmoidSpike.apply(x, slope)

    return inner


class SafeTanh(Function):
    """Tanh kept off the ends of its range, for squashed policies.

    The result is clamped to ``[-1 + eps, 1 - eps]``. The gradient is deliberately ``1 - y ** 2`` of the clamped
    result, so that it never vanishes.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(input, eps=1e-6):
        lim = 1.0 - eps
        return input.tanh().clamp(-lim, lim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * (1 - y * y), None
