"""Fused building blocks for transformer and convolutional trunks.

Every block keeps only what its backward pass needs, which for long sequences
matters more than the arithmetic.
"""
from typing import Optional

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = [
    "GhostBatchNormFunction",
    "GhostBatchNorm",
    "ScaleNormFunction",
    "ScaleNorm",
    "GatedResidualFunction",
    "QKNormFunction",
    "QKNorm",
    "MaxoutFunction",
    "maxout",
]


class GhostBatchNormFunction(Function):
    """Batch normalisation over virtual batches.

    Args:
        x: activations of shape ``(N, C, *)``.
        weight: per-channel scale ``(C,)`` or ``None``.
        bias: per-channel shift ``(C,)`` or ``None``.
        num_splits: number of virtual batches; must divide ``N``.
        eps: added to the variance.

    Returns:
        Tensor of the shape of ``x``.
    """

    @staticmethod
    def forward(ctx, x, weight=None, bias=None, num_splits=1, eps=1e-5):
        n, c = x.shape[:2]
        if n % num_splits:
            raise ValueError(f"batch of {n} cannot be cut into {num_splits} equal parts")
        grouped = x.reshape(num_splits, n // num_splits, c, -1)
        mean = grouped.mean(dim=(1, 3), keepdim=True)
        centred = grouped - mean
        rstd = torch.rsqrt(centred.square().mean(dim=(1, 3), keepdim=True) + eps)
        normed = centred * rstd
        ctx.save_for_backward(normed, rstd, weight)
        ctx.shape = x.shape
        ctx.has_bias = bias is not None
        out = normed
        if weight is not None:
            out = out * weight.view(1, 1, c, 1)
        if bias is not None:
            out = out + bias.view(1, 1, c, 1)
        return out.reshape(x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        normed, rstd, weight = ctx.saved_tensors
        g = grad_out.reshape(normed.shape)
        grad_weight = grad_bias = None
        if weight is not None:
            grad_weight = (g * normed).sum(dim=(0, 1, 3))
        if ctx.has_bias:
            grad_bias = g.sum(dim=(0, 1, 3))
        if weight is not None:
            g = g * weight.view(1, 1, -1, 1)
        mean_g = g.mean(dim=(1, 3), keepdim=True)
        mean_gn = (g * normed).mean(dim=(1, 3), keepdim=True)
        grad_x = rstd * (g - mean_g - normed * mean_gn)
        return grad_x.reshape(ctx.shape), grad_weight, grad_bias, None, None


class GhostBatchNorm(nn.Module):
    def __init__(self, channels: int, num_splits: int = 1, eps: float = 1e-5, affine: bool = True):
        super().__init__()
        self.num_splits, self.eps = num_splits, eps
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None

    def forward(self, x):
        return GhostBatchNormFunction.apply(x, self.weight, self.bias, self.num_splits, self.eps)


class ScaleNormFunction(Function):
    """Rescale every row to length ``g``.

    Rows shorter than ``floor`` are divided by ``floor`` instead of by their own
    length, so that nearly empty tokens stay small.

    :param x: tokens, ``(..., features)``
    :param g: scalar tensor, the target length
    :param floor: smallest divisor
    """

    @staticmethod
    def forward(x: torch.Tensor, g: torch.Tensor, floor: float = 0.1) -> torch.Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return g * x / length.clamp(min=floor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, g, floor = inputs
        ctx.save_for_backward(x, g)
        ctx.floor = floor

    @staticmethod
    def backward(ctx, grad):
        x, g = ctx.saved_tensors
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=ctx.floor)
        unit = x / length
        grad_x = g / length * (grad - unit * (grad * unit).sum(-1, keepdim=True))
        grad_g = (grad * unit).sum().reshape(g.shape)
        return grad_x, grad_g, None


class ScaleNorm(nn.Module):
    """Replacement for layer normalisation with one learned length."""

    def __init__(self, features: int, floor: float = 0.1):
        super().__init__()
        self.g = nn.Parameter(torch.tensor(float(features) ** 0.5))
        self.floor = floor

    def forward(self, x):
        return ScaleNormFunction.apply(x, self.g, self.floor)


class GatedResidualFunction(Function):

    @staticmethod
    def forward(ctx, residual, branch, gate, keep=None):
        ctx.save_for_backward(branch, gate, keep)
        ctx.residual_shape = residual.shape
        update = torch.sigmoid(gate) * branch
        if keep is not None:
            update = update * keep
        return residual + update

    @staticmethod
    def backward(ctx, grad):
        branch, gate, keep = ctx.saved_tensors
        open_ = torch.sigmoid(gate)
        g_update = grad if keep is None else grad * keep
        g_residual = g_branch = g_gate = g_keep = None
        if ctx.needs_input_grad[0]:
            g_residual = grad.sum_to_size(ctx.residual_shape)
        if ctx.needs_input_grad[1]:
            g_branch = (g_update * open_).sum_to_size(branch.shape)
        if ctx.needs_input_grad[2]:
            g_gate = (g_update * branch * open_ * (1 - open_)).sum_to_size(gate.shape)
        if keep is not None and ctx.needs_input_grad[3]:
            g_keep = (grad * open_ * branch).sum_to_size(keep.shape)
        return g_residual, g_branch, g_gate, g_keep


def _rms_input_grad(g, x, w, rstd):
    gw = g * w
    return rstd * (gw - x * rstd.square() * (gw * x).mean(-1, keepdim=True))


class QKNormFunction(Function):
    """Root-mean-square normalisation of queries and keys before attention.

    Parameters
    ----------
    q : (batch, heads, length, dim)
    k : (batch, kv_heads, length, dim)
    q_scale, k_scale : (dim,)
    eps : float

    Returns
    -------
    tuple of the normalised queries and keys
    """

    @staticmethod
    def forward(ctx, q, k, q_scale, k_scale, eps: float = 1e-6):
        q_rstd = torch.rsqrt(q.square().mean(-1, keepdim=True) + eps)
        k_rstd = torch.rsqrt(k.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(q, k, q_scale, k_scale, q_rstd, k_rstd)
        return q * q_rstd * q_scale, k * k_rstd * k_scale

    @staticmethod
    @once_differentiable
    def backward(ctx, gq, gk):
        q, k, q_scale, k_scale, q_rstd, k_rstd = ctx.saved_tensors
        dq = _rms_input_grad(gq, q, q_scale, q_rstd)
        dk = _rms_input_grad(gk, k, k_scale, k_rstd)
        d_q_scale = (gq * (q * q_rstd)).flatten(0, -2).sum(0)
        d_k_scale = (gk * k).flatten(0, -2).sum(0)
        return dq, dk, d_q_scale, d_k_scale, None


class QKNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.q_scale = nn.Parameter(torch.ones(dim))
        self.k_scale = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, q, k):
        return QKNormFunction.apply(q, k, self.q_scale, self.k_scale, self.eps)


class MaxoutFunction(Function):
    """Largest of ``pieces`` neighbouring channels along ``dim``."""

    @staticmethod
    def forward(ctx, x: torch.Tensor, pieces: int, dim: int = 1):
        dim = dim % x.dim()
        if x.shape[dim] % pieces:
            raise ValueError("pieces must divide the number of channels")
        split = x.unflatten(dim, (x.shape[dim] // pieces, pieces))
        best, where = split.max(dim=dim + 1, keepdim=True)
        ctx.save_for_backward(where)
        ctx.dim, ctx.split_shape = dim, split.shape
        return best.squeeze(dim + 1)

    @staticmethod
    def backward(ctx, grad):
        (where,) = ctx.saved_tensors
        spread = grad.new_zeros(ctx.split_shape)
        spread = spread.scatter(ctx.dim + 1, where, grad.unsqueeze(ctx.dim + 1))
        return spread.flatten(ctx.dim, ctx.dim + 1), None, None


def maxout(x: torch.Tensor, pieces: int, dim: Optional[int] = None) -> torch.Tensor:
    return MaxoutFunction.apply(x, pieces, 1 if dim is None else dim)
