"""Normalisation layers with hand-written backward passes.

The point of these is memory: only the input and the per-row statistics are kept.
"""
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class FusedLayerNorm(Function):
    """Layer norm over the trailing ``weight.dim()`` axes of ``x``.

    Parameters
    ----------
    x : Tensor, shape (..., *normalized_shape)
    weight : Tensor, shape normalized_shape
    bias : Tensor or None, shape normalized_shape
    eps : float
    """

    @staticmethod
    def forward(ctx, x, weight, bias=None, eps=1e-5):
        dims = tuple(range(-weight.dim(), 0))
        mean = x.mean(dims, keepdim=True)
        var = (x - mean).pow(2).mean(dims, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        y = (x - mean) * rstd * weight
        if bias is not None:
            y = y + bias
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.dims = dims
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y):
        x, weight, mean, rstd = ctx.saved_tensors
        dims = ctx.dims
        lead = tuple(range(x.dim() - len(dims)))
        xhat = (x - mean) * rstd
        grad_x = grad_w = grad_b = None
        if ctx.needs_input_grad[0]:
            gw = grad_y * weight
            grad_x = rstd * (
                gw - gw.mean(dims, keepdim=True) - xhat * (gw * xhat).mean(dims, keepdim=True)
            )
        if ctx.needs_input_grad[1]:
            grad_w = grad_y * xhat
            if lead:
                grad_w = grad_w.sum(lead)
        if ctx.needs_input_grad[2]:
            grad_b = grad_y.sum(lead) if lead else grad_y.clone()
        return grad_x, grad_w, grad_b, None


class RMSNormFn(Function):
    @staticmethod
    def forward(x, weight, eps):
        rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
        return x * rstd * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, eps = inputs
        ctx.save_for_backward(x, weight)
        ctx.eps = eps

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + ctx.eps)
        xhat = x * rstd
        dx = rstd * (dy * weight - xhat * (dy * xhat).mean(-1, keepdim=True))
        dw = (dy * xhat).reshape(-1, x.shape[-1]).sum(0)
        return dx, dw, None


class GroupNormFn(Function):
    """Group normalisation for ``(N, C, *)`` inputs.

    Args:
        x: feature map of shape (N, C, *spatial).
        weight: per-channel scale, (C,).
        bias: per-channel shift, (C,).
        num_groups: number of groups; must divide C.
        eps: variance floor.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, num_groups, eps=1e-5):
        n, c = x.shape[:2]
        xg = x.reshape(n, num_groups, -1)
        mean = xg.mean(-1, keepdim=True)
        rstd = torch.rsqrt(xg.var(-1, unbiased=False, keepdim=True) + eps)
        xhat = ((xg - mean) * rstd).reshape(x.shape)
        shape = (1, c) + (1,) * (x.dim() - 2)
        ctx.save_for_backward(xhat, rstd, weight)
        ctx.num_groups = num_groups
        ctx.shape = shape
        return xhat * weight.view(shape) + bias.view(shape)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        xhat, rstd, weight = ctx.saved_tensors
        n = dy.shape[0]
        reduce_dims = (0,) + tuple(range(2, dy.dim()))
        dw = (dy * xhat).sum(reduce_dims)
        db = dy.sum(reduce_dims)

        m = dy.numel() // n
        dxhat = (dy * weight.view(ctx.shape)).reshape(n, ctx.num_groups, -1)
        xh = xhat.reshape(n, ctx.num_groups, -1)
        s1 = dxhat.sum(-1, keepdim=True)
        s2 = (dxhat * xh).sum(-1, keepdim=True)
        dx = rstd / m * (m * dxhat - s1 - xh * s2)
        return dx.reshape(dy.shape), dw, db, None, None


def _norm_except(v, dim):
    axes = [d for d in range(v.dim()) if d != dim]
    return v.pow(2).sum(axes, keepdim=True).sqrt()


class WeightNormFn(Function):
    """w = g * v / ||v||, the norm being taken over every axis but ``dim``.

    :param v: direction, e.g. ``(out, in)`` or ``(out, in, k)``
    :param g: magnitude, same rank as ``v`` with size 1 everywhere but ``dim``
    :param dim: axis that keeps its own magnitude (default 0, the output channels)
    """

    @staticmethod
    def forward(ctx, v, g, dim=0):
        norm = _norm_except(v, dim)
        ctx.save_for_backward(v, g, norm)
        ctx.dim = dim
        return v * (g / norm)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_w):
        v, g, norm = ctx.saved_tensors
        axes = [d for d in range(v.dim()) if d != ctx.dim]
        grad_g = (grad_w * v).sum(axes, keepdim=True) / norm
        # remove the radial part of the gradient
        radial = (grad_w * v).flatten(1).sum(1).view(-1, *[1] * (v.dim() - 1))
        grad_v = g / norm * (grad_w - v * radial / norm.pow(2))
        return grad_v, grad_g, None


class LayerNormChannelsFirst(Function):
    # x (N, C, H, W); weight, bias (C,)
    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        mu = x.mean(1, keepdim=True)
        xc = x - mu
        inv = (xc.square().mean(1, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return torch.addcmul(bias[:, None, None], xc * inv, weight[:, None, None])

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        xc = x - x.mean(1, keepdim=True)
        inv = (xc.square().mean(1, keepdim=True) + ctx.eps).rsqrt()
        xhat = xc * inv
        h = g * weight[:, None, None]
        gx = inv * (h - h.mean(1, keepdim=True) - xhat * (h * xhat).mean(1, keepdim=True))
        gw = torch.einsum("nchw,nchw->c", g, xhat)
        gb = g.sum(dim=(0, 2, 3))
        return gx, gw, gb, None


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return RMSNormFn.apply(x, self.weight, self.eps)


class LayerNorm2d(nn.Module):
    """ConvNeXt-style layer norm on NCHW maps."""

    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x):
        return LayerNormChannelsFirst.apply(x, self.weight, self.bias, self.eps)


class GroupNorm(nn.Module):
    def __init__(self, num_groups, channels, eps=1e-5):
        super().__init__()
        self.num_groups, self.eps = num_groups, eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        return GroupNormFn.apply(x, self.weight, self.bias, self.num_groups, self.eps)


class WNLinear(nn.Module):
    def __init__(self, d_in, d_out, dim=0):
        super().__init__()
        self.dim = dim
        self.v = nn.Parameter(torch.randn(d_out, d_in) / d_in ** 0.5)
        self.g = nn.Parameter(_norm_except(self.v.detach(), dim))

    def forward(self, x):
        return x @ WeightNormFn.apply(self.v, self.g, self.dim).t()
