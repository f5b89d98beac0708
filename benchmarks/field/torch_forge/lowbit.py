"""Low-bit weights, activations and timing codes."""

from typing import Callable, Optional

import torch
from torch import Tensor, nn
from torch.autograd import Function


def _per_channel(p: Tensor, ndim: int, axis: Optional[int]) -> Tensor:
    if axis is None:
        return p
    shape = [1] * ndim
    shape[axis] = -1
    return p.reshape(shape)


def _reduce_like(g: Tensor, p: Tensor, axis: Optional[int]) -> Tensor:
    if axis is None:
        return g.sum().reshape(p.shape)
    axis = axis % g.ndim
    dims = [d for d in range(g.ndim) if d != axis]
    return (g.sum(dim=dims) if dims else g).reshape(p.shape)


class AsymmetricStepQuantSte(Function):
    """Quantiser with a learned step and a learned offset.

    ``y = round(clamp((x - offset) / step, qmin, qmax)) * step + offset``

    The rounding alone is straight-through (its derivative is taken as one); all else,
    the clamp and both uses of ``step`` and ``offset``, is differentiated.
    ``step`` and ``offset`` hold one value, or one per entry of ``axis``.
    """

    @staticmethod
    def forward(x: Tensor, step: Tensor, offset: Tensor, qmin: int, qmax: int, axis: Optional[int] = None):
        s, o = _per_channel(step, x.ndim, axis), _per_channel(offset, x.ndim, axis)
        return torch.round(torch.clamp((x - o) / s, qmin, qmax)) * s + o

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, step, offset, ctx.qmin, ctx.qmax, ctx.axis = inputs
        ctx.save_for_backward(x, step, offset)

    @staticmethod
    def backward(ctx, grad):
        x, step, offset = ctx.saved_tensors
        s = _per_channel(step, x.ndim, ctx.axis)
        v = (x - _per_channel(offset, x.ndim, ctx.axis)) / s
        inside = ((v >= ctx.qmin) & (v <= ctx.qmax)).to(grad.dtype)
        q = torch.round(v.clamp(ctx.qmin, ctx.qmax))
        grad_step = _reduce_like(grad * (q - v * inside), step, ctx.axis)
        grad_offset = _reduce_like(grad * (1 - inside), offset, ctx.axis)
        return grad * inside, grad_step, grad_offset, None, None, None


class StepQuantizer(nn.Module):
    def __init__(self, channels: int, bits: int = 4, axis: int = 1):
        super().__init__()
        self.step = nn.Parameter(torch.full((channels,), 0.1))
        self.offset = nn.Parameter(torch.zeros(channels))
        self.qmin, self.qmax, self.axis = 0, 2**bits - 1, axis

    def forward(self, x):
        return AsymmetricStepQuantSte.apply(x, self.step, self.offset, self.qmin, self.qmax, self.axis)


class GradBoundedSqrt(Function):
    """Square root whose derivative is kept below ``max_grad`` near zero, on purpose.

    Forward is exactly ``sqrt(x)`` for ``x >= 0``; backward multiplies by
    ``min(1 / (2 sqrt(x)), max_grad)``.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x, max_grad=1000.0):
        return torch.sqrt(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, max_grad = inputs
        ctx.save_for_backward(x)
        ctx.floor = 1.0 / (max_grad * max_grad)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.rsqrt(torch.clamp(4.0 * x, min=ctx.floor)), None


def make_binary_weight(clip: float = 1.0, channel_dim: int = 0) -> Callable[[Tensor], Tensor]:
    """Build a binariser ``w -> alpha * sign(w)`` with one ``alpha = mean |w|`` per channel.

    The sign is straight-through where ``|w| <= clip`` and flat outside;
    the scale ``alpha`` is a function of ``w`` and is differentiated as such.

    Args:
        clip: half-width of the straight-through window.
        channel_dim: the dimension that counts the output channels.
    """

    class _BinaryWeight(Function):
        @classmethod
        def forward(cls, ctx, w):
            dims = tuple(d for d in range(w.dim()) if d != channel_dim % w.dim())
            alpha = w.abs().mean(dim=dims, keepdim=True)
            ctx.save_for_backward(w, alpha)
            return alpha * torch.sign(w)

        @staticmethod
        def backward(ctx, grad):
            w, alpha = ctx.saved_tensors
            sign = torch.sign(w)
            through_sign = grad * alpha * (w.abs() <= clip)
            through_alpha = sign * (grad * sign).mean()
            return through_sign + through_alpha

    def binarize(w: Tensor) -> Tensor:
        return _BinaryWeight.apply(w)

    return binarize


class LatencyDecoder(nn.Module):

    class ExpectedTime(Function):

        @staticmethod
        def forward(p, dim=-1, miss_time=None):
            moved = p.movedim(dim, 0)
            steps = moved.shape[0]
            rest = torch.full_like(moved[0], steps + 1 if miss_time is None else miss_time)
            for t in range(steps - 1, -1, -1):
                rest = moved[t] * (t + 1) + (1 - moved[t]) * rest
            return rest

        @staticmethod
        def setup_context(ctx, inputs, output):
            p, ctx.dim, ctx.miss_time = inputs
            ctx.save_for_backward(p)

        @staticmethod
        def backward(ctx, grad):
            (p,) = ctx.saved_tensors
            moved = p.movedim(ctx.dim, 0)
            steps = moved.shape[0]
            alive = torch.ones_like(moved)
            if steps > 1:
                alive[1:] = torch.cumprod(1 - moved[:-1], dim=0)
            out = torch.empty_like(moved)
            rest = torch.full_like(moved[0], steps + 1 if ctx.miss_time is None else ctx.miss_time)
            for t in range(steps - 1, -1, -1):
                out[t] = grad * alive[t] * ((t + 1) - rest)
                rest = moved[t] * (t + 1) + (1 - moved[t]) * rest
            return out.movedim(0, ctx.dim), None, None

    def __init__(self, dim: int = -1, miss_time: Optional[float] = None):
        super().__init__()
        self.dim, self.miss_time = dim, miss_time

    def forward(self, membrane: Tensor) -> Tensor:
        return self.ExpectedTime.apply(torch.sigmoid(membrane), self.dim, self.miss_time)
