"""Building blocks for low-power inference: spikes, ternary weights, rate conversion."""
import math
from typing import Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ErfcSpike(torch.autograd.Function):
    r"""Heaviside spike with an error-function surrogate.

    Forward emits 1 where ``x >= 0`` and 0 elsewhere. Backward replaces the derivative of the
    step by that of ``0.5 * erfc(-k * x)``, i.e. ``k / sqrt(pi) * exp(-(k * x) ** 2)``.

    :param x: membrane potential minus threshold
    :param k: steepness of the surrogate
    """

    @staticmethod
    def forward(x: Tensor, k: float = 2.0) -> Tensor:
        return (x >= 0).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, k = inputs
        ctx.save_for_backward(x)
        ctx.k = k

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        (x,) = ctx.saved_tensors
        slope = ctx.k / math.sqrt(math.pi) * torch.exp(-(ctx.k * x) ** 2)
        return grad_output * slope, None


def _unbroadcast(grad: Tensor, like: Tensor) -> Tensor:
    return grad.sum_to_size(like.shape)


class TrainedTernaryFunction(torch.autograd.Function):
    """Trained ternary quantisation of a weight.

    The output is ``alpha_pos`` where the weight exceeds ``+delta``, ``-alpha_neg`` where it is
    below ``-delta`` and zero between, with ``delta = threshold * max(abs(weight))``.

    The two scales (scalars, or any shape that broadcasts against the weight, such as
    ``(out, 1)``) receive their ordinary gradients. The weight gets a straight-through gradient:
    the incoming one, multiplied by ``alpha_pos`` above ``+delta``, by ``alpha_neg`` below
    ``-delta`` and by one between.
    """

    @staticmethod
    def forward(ctx, weight: Tensor, alpha_pos: Tensor, alpha_neg: Tensor, threshold: float = 0.05) -> Tensor:
        delta = threshold * weight.abs().max()
        above = weight > delta
        below = weight < -delta
        ctx.save_for_backward(above, below, alpha_pos, alpha_neg)
        return above * alpha_pos - below * alpha_neg

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        above, below, alpha_pos, alpha_neg = ctx.saved_tensors
        zero = torch.zeros_like(grad_output)
        grad_pos = _unbroadcast(torch.where(above, grad_output, zero), alpha_pos)
        grad_neg = _unbroadcast(torch.where(below, grad_output, zero), alpha_neg)
        gain = torch.where(above, alpha_pos, torch.where(below, alpha_neg, torch.ones_like(grad_output)))
        return grad_output * gain, grad_pos, grad_neg, None


class TernaryLinear(nn.Linear):
    def __init__(self, in_features: int, out_features: int, bias: bool = True, threshold: float = 0.05):
        super().__init__(in_features, out_features, bias)
        self.threshold = threshold
        self.alpha_pos = nn.Parameter(torch.ones(out_features, 1))
        self.alpha_neg = nn.Parameter(torch.ones(out_features, 1))

    def forward(self, input: Tensor) -> Tensor:
        w = TrainedTernaryFunction.apply(self.weight, self.alpha_pos, self.alpha_neg, self.threshold)
        return F.linear(input, w, self.bias)


def _stuff(x: Tensor, factor: int, length: int) -> Tensor:
    out = x.new_zeros(x.shape[:-1] + (length,))
    out[..., ::factor] = x
    return out


def _fir(x: Tensor, taps: Tensor, pad: Tuple[int, int]) -> Tensor:
    x = F.pad(x, pad)
    return x.unfold(-1, taps.numel(), 1) @ taps.flip(0)


def make_resampler(taps: Sequence[float] = (0.125, 0.375, 0.375, 0.125), up: int = 1, down: int = 1,
                   pad: Tuple[int, int] = (0, 0)):
    """Build a polyphase resampler for the last axis.

    The signal is zero-stuffed by ``up``, padded by ``pad`` (entries may be negative), convolved
    with ``taps`` and decimated by ``down``. Any FIR is accepted: linear-phase designs as well as
    minimum-phase ones.

    Args:
        taps: coefficients of the filter, first tap first.
        up: integer upsampling factor.
        down: integer downsampling factor.
        pad: zeros before and after the stuffed signal.

    Returns:
        A callable that maps ``(..., T)`` to ``(..., T_out)``.
    """
    coeffs = tuple(float(t) for t in taps)
    width = len(coeffs)

    class _Resample(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            h = x.new_tensor(coeffs)
            full = _fir(_stuff(x, up, x.shape[-1] * up), h, pad)
            ctx.full_len = full.shape[-1]
            return full[..., ::down].contiguous()

        @staticmethod
        def backward(ctx, grad):
            h = grad.new_tensor(coeffs)
            stuffed = _stuff(grad, down, ctx.full_len)
            back = _fir(stuffed, h, (width - 1 - pad[0], width - 1 - pad[1]))
            return back[..., ::up]

    def resample(x: Tensor) -> Tensor:
        return _Resample.apply(x)

    return resample
