"""Operators on graphs, images and signals."""

from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function


class PersonalizedPropagation(Function):
    r"""Diffusion of node features with restarts.

    Iterates :math:`h_{k+1} = (1 - \alpha) A h_k + \alpha x` from :math:`h_0 = x`, where
    ``A[target, source]`` holds the weight of the edge from source to target.

    :param x: node features, ``(nodes, channels)``
    :param edge_weight: ``(edges,)``
    :param edge_index: ``(2, edges)``, first row sources and second row targets
    :param alpha: restart probability
    :param num_steps: number of iterations
    """

    @staticmethod
    def forward(ctx, x, edge_weight, edge_index, alpha: float = 0.1, num_steps: int = 4):
        source, target = edge_index
        states = [x]
        for _ in range(num_steps):
            h = states[-1]
            agg = torch.zeros_like(x).index_add_(0, target, edge_weight.unsqueeze(-1) * h[source])
            states.append((1 - alpha) * agg + alpha * x)
        ctx.alpha = alpha
        ctx.save_for_backward(edge_weight, edge_index, *states[:-1])
        return states[-1].clone()

    @staticmethod
    def backward(ctx, grad):
        edge_weight, edge_index, *states = ctx.saved_tensors
        source, target = edge_index
        keep = 1 - ctx.alpha
        grad_x = torch.zeros_like(grad)
        grad_weight = torch.zeros_like(edge_weight)
        for h in reversed(states):
            grad_x = grad_x + ctx.alpha * grad
            grad_weight = grad_weight + keep * (grad[target] * h[source]).sum(-1)
            message = edge_weight.unsqueeze(-1) * grad[source]
            grad = keep * torch.zeros_like(grad).index_add_(0, target, message)
        return grad_x + grad, grad_weight, None, None, None


class ScatterMaxFunction(Function):
    """Largest entry per group, and the row it came from.

    Groups without rows get ``empty_value`` and the index ``len(src)``. On ties the first row wins.
    """

    @staticmethod
    def forward(src: torch.Tensor, index: torch.Tensor, dim_size: int, empty_value: float = 0.0):
        rows = src.shape[0]
        where = index.reshape(-1, *([1] * (src.ndim - 1))).expand_as(src)
        out = src.new_full((dim_size, *src.shape[1:]), float("-inf"))
        out = out.scatter_reduce(0, where, src, "amax")
        number = torch.arange(rows, device=src.device).reshape(-1, *([1] * (src.ndim - 1)))
        number = torch.where(src == out.gather(0, where), number, rows)
        arg = torch.full(out.shape, rows, dtype=torch.long, device=src.device)
        arg = arg.scatter_reduce(0, where, number, "amin")
        return torch.where(arg == rows, torch.full_like(out, empty_value), out), arg

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])
        ctx.src_shape = inputs[0].shape

    @staticmethod
    def backward(ctx, grad_out, _):
        (arg,) = ctx.saved_tensors
        rows, *rest = ctx.src_shape
        padded = grad_out.new_zeros((rows + 1, *rest))
        padded.scatter_add_(0, arg, grad_out)
        return padded[:-1], None, None, None


def scatter_max(src, index, dim_size: Optional[int] = None):
    if dim_size is None:
        dim_size = int(index.max()) + 1
    return ScatterMaxFunction.apply(src, index, dim_size)[0]


class InvolutionFunction(Function):
    """Spatially varying convolution with kernels that the groups of channels share.

    Args:
        x: ``(batch, channels, height, width)``; channels are a multiple of the groups.
        kernel: ``(batch, groups, size * size, height, width)``, one kernel per position.
        dilation: spacing of the taps. Padding keeps the extent.
    """

    @staticmethod
    def _patches(x, size, groups, dilation):
        b, c, h, w = x.shape
        cols = F.unfold(x, size, dilation=dilation, padding=dilation * (size // 2))
        return cols.reshape(b, groups, c // groups, size * size, h, w)

    @staticmethod
    def forward(ctx, x, kernel, dilation=1):
        groups = kernel.shape[1]
        size = int(round(kernel.shape[2] ** 0.5))
        patches = InvolutionFunction._patches(x, size, groups, dilation)
        ctx.save_for_backward(x, kernel)
        ctx.size, ctx.dilation = size, dilation
        return (patches * kernel.unsqueeze(2)).sum(3).reshape(x.shape)

    @staticmethod
    def backward(ctx, grad):
        x, kernel = ctx.saved_tensors
        b, c, h, w = x.shape
        groups = kernel.shape[1]
        g = grad.reshape(b, groups, c // groups, 1, h, w)
        grad_x = grad_kernel = None
        if ctx.needs_input_grad[0]:
            cols = (g * kernel.unsqueeze(2)).reshape(b, c * ctx.size**2, h * w)
            grad_x = F.fold(cols, (h, w), ctx.size, padding=ctx.size // 2)
        if ctx.needs_input_grad[1]:
            patches = InvolutionFunction._patches(x, ctx.size, groups, ctx.dilation)
            grad_kernel = (g * patches).sum(2)
        return grad_x, grad_kernel, None


class Involution2d(nn.Module):
    def __init__(self, channels: int, size: int = 3, groups: int = 1, dilation: int = 1):
        super().__init__()
        self.size, self.groups, self.dilation = size, groups, dilation
        self.span = nn.Conv2d(channels, groups * size * size, 1)

    def forward(self, x):
        kernel = self.span(x).unflatten(1, (self.groups, self.size**2))
        return InvolutionFunction.apply(x, kernel, self.dilation)


def _quadrature(x: torch.Tensor, dim: int) -> torch.Tensor:
    n = x.shape[dim]
    gain = torch.zeros(n, dtype=x.dtype, device=x.device)
    gain[1:(n + 1) // 2] = 1
    gain[n // 2 + 1:] = -1
    shape = [1] * x.ndim
    shape[dim] = n
    return torch.fft.ifft(torch.fft.fft(x, dim=dim) * (-1j * gain.reshape(shape)), dim=dim).real


class SignalEnvelope(Function):
    """Magnitude of the analytic signal, ``sqrt(x**2 + H(x)**2 + eps)``, along ``dim``."""

    @staticmethod
    def forward(ctx, x, dim=-1, eps=1e-12):
        shifted = _quadrature(x, dim)
        envelope = torch.sqrt(x * x + shifted * shifted + eps)
        ctx.save_for_backward(x, shifted, envelope)
        ctx.dim = dim
        return envelope

    @staticmethod
    def backward(ctx, grad):
        x, shifted, envelope = ctx.saved_tensors
        unit = grad / envelope
        return unit * x - _quadrature(unit * shifted, ctx.dim), None, None
