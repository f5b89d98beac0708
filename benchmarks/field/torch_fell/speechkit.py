"""Small building blocks of the neural vocoder."""
import math

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class ReflectionToLpc(torch.autograd.Function):
    """Step-up recursion. Memory does not grow with the order squared: lower-order predictors are rebuilt by
    stepping down from the final one."""

    @staticmethod
    def forward(ctx, k: Tensor) -> Tensor:
        a = k[..., :1]
        for m in range(1, k.shape[-1]):
            km = k[..., m:m + 1]
            a = torch.cat((a + km * a.flip(-1), km), dim=-1)
        ctx.save_for_backward(k, a)
        return a.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> Tensor:
        k, a = ctx.saved_tensors
        grad_k = torch.zeros_like(k)
        g = grad
        for m in range(k.shape[-1] - 1, 0, -1):
            km = k[..., m:m + 1]
            head, last = g[..., :m], g[..., m]
            a = a[..., :m]
            grad_k[..., m] = last + (head * a.flip(-1)).sum(-1)
            g = head + km * head.flip(-1)
            a = (a - km * a.flip(-1)) / (1.0 - km * km)
        grad_k[..., 0] = g[..., 0]
        return grad_k


def reflection_to_lpc(k: Tensor) -> Tensor:
    """PARCOR coefficients to predictor coefficients.

    Args:
        k (Tensor): reflection coefficients, (..., order), each in (-1, 1), order >= 1.

    Returns:
        Tensor: ``a_1 .. a_p`` of ``A(z) = 1 + sum a_i z^-i``, (..., order).
    """
    return ReflectionToLpc.apply(k)


class AdaptiveSegmentMean(torch.autograd.Function):

    @staticmethod
    def _bounds(n: int, segments: int):
        for s in range(segments):
            yield (s * n) // segments, -((-(s + 1) * n) // segments)

    @staticmethod
    def forward(ctx, frames: Tensor, segments: int, log: bool) -> Tensor:
        n = frames.shape[-1]
        out = torch.stack(
            [frames[..., lo:hi].mean(-1) for lo, hi in AdaptiveSegmentMean._bounds(n, segments)], dim=-1
        )
        ctx.n, ctx.segments, ctx.log = n, segments, log
        ctx.save_for_backward(out)
        return out.log() if log else out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (mean,) = ctx.saved_tensors
        if ctx.log:
            grad = grad / mean
        d_frames = grad.new_zeros(*grad.shape[:-1], ctx.n)
        for s, (lo, hi) in enumerate(AdaptiveSegmentMean._bounds(ctx.n, ctx.segments)):
            d_frames[..., lo:hi] = grad[..., s:s + 1] / (hi - lo)
        return d_frames, None, None


def segment_mean_energy(frames: Tensor, segments: int, log: bool = False) -> Tensor:
    """Pool a track of frame energies of any length to a fixed number of segments.

    Segment ``s`` covers the frames ``floor(s n / segments) .. ceil((s + 1) n / segments) - 1``, as in PyTorch's
    adaptive pooling.

    frames: (..., n), positive when ``log`` is set
    segments: number of outputs, 1 or more
    log: return log energies
    """
    return AdaptiveSegmentMean.apply(frames, segments, log)


class NoiseGate(torch.autograd.Function):
    """Hard noise gate with a surrogate gradient.

    Forward: ``y = x`` where ``|x| > threshold`` and 0 elsewhere.

    Backward is NOT the derivative of that. The signal gets the incoming gradient unchanged, open or closed
    (straight-through), so that a muted input can still learn to open the gate; the threshold gets the derivative of a
    logistic gate of the given width, ``x * sigmoid((|x| - threshold) / width)``.
    """

    @staticmethod
    def forward(ctx, x, threshold, width):
        ctx.save_for_backward(x, threshold)
        ctx.width = width
        return x * (x.abs() > threshold).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        x, threshold = ctx.saved_tensors
        s = torch.sigmoid((x.abs() - threshold) / ctx.width)
        d_threshold = -(grad * x * s * (1 - s) / ctx.width).sum_to_size(threshold.shape)
        return grad, d_threshold, None


class LearnedGate(nn.Module):
    """Per-channel gate on (batch, channel, time) audio; see NoiseGate for what is back-propagated."""

    def __init__(self, channels: int, open_db: float = -40.0, width: float = 0.01):
        super().__init__()
        self.threshold = nn.Parameter(torch.full((channels, 1), 10.0 ** (open_db / 20.0)))
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return NoiseGate.apply(x, self.threshold, self.width)


class LatticeHead(nn.Module):
    """Predict a stable all-pole envelope from conditioning features."""

    def __init__(self, dim: int, order: int = 10):
        super().__init__()
        self.proj = nn.Linear(dim, order)

    def forward(self, feats: Tensor, n_freq: int = 129) -> Tensor:
        a = reflection_to_lpc(0.99 * torch.tanh(self.proj(feats)))
        w = torch.linspace(0, math.pi, n_freq, dtype=a.dtype, device=a.device)
        m = torch.arange(1, a.shape[-1] + 1, dtype=a.dtype, device=a.device)
        re = 1 + a @ torch.cos(m[:, None] * w)
        im = a @ torch.sin(m[:, None] * w)
        return -10.0 * torch.log10(re * re + im * im + 1e-9)
