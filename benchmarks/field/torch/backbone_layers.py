"""Building blocks of the detection backbones (ResNet-D / ConvNeXt / RepVGG stems).

The functions in this file keep the number of saved feature maps low; at 1333x800 the
plain autograd versions need about 1.7x the memory.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _pair(v):
    return (v, v) if isinstance(v, int) else tuple(v)


class LayerNorm2dFunction(Function):
    # channels-first layer norm, statistics over C at every pixel

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        ctx.eps = eps
        N, C, H, W = x.size()
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        y = (x - mu) / (var + eps).sqrt()
        ctx.save_for_backward(y, var, weight)
        return weight.view(1, C, 1, 1) * y + bias.view(1, C, 1, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        y, var, weight = ctx.saved_tensors
        C = grad_output.size(1)
        g = grad_output * weight.view(1, C, 1, 1)
        mean_g = g.mean(dim=1, keepdim=True)
        mean_gy = (g * y).mean(dim=1, keepdim=True)
        gx = 1. / torch.sqrt(var + ctx.eps) * (g - y * mean_gy - mean_g)
        return (gx, (grad_output * y).sum(dim=(0, 2, 3)),
                grad_output.sum(dim=(0, 2, 3)), None)


class LayerNorm2d(nn.Module):
    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.eps = eps

    def forward(self, x):
        return LayerNorm2dFunction.apply(x, self.weight, self.bias, self.eps)


class GroupNormFunction(Function):
    """Group normalisation.

    Args:
        x (Tensor): feature map of shape (N, C, *).
        num_groups (int): number of groups, divides C.
        weight (Tensor): scale, shape (C,).
        bias (Tensor): shift, shape (C,).
        eps (float): added to the variance.

    Returns:
        Tensor: normalised feature map, same shape as ``x``.
    """

    @staticmethod
    def forward(ctx, x, num_groups, weight, bias, eps=1e-5):
        n, c = x.shape[:2]
        xg = x.reshape(n, num_groups, -1)
        mean = xg.mean(-1, keepdim=True)
        rstd = torch.rsqrt(xg.var(-1, unbiased=False, keepdim=True) + eps)
        x_hat = ((xg - mean) * rstd).reshape(n, c, -1)
        out = x_hat * weight.view(1, c, 1) + bias.view(1, c, 1)
        ctx.save_for_backward(x_hat, rstd, weight)
        ctx.num_groups = num_groups
        return out.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        x_hat, rstd, weight = ctx.saved_tensors
        n, c, _ = x_hat.shape
        go = grad_output.reshape(n, c, -1)
        grad_weight = (go * x_hat).sum(dim=(0, 2))
        grad_bias = go.sum(dim=(0, 2))
        dxhat = go * weight.view(1, c, 1)
        rstd = rstd.repeat_interleave(c // ctx.num_groups, dim=1)
        grad_x = rstd * (dxhat
                         - dxhat.mean(-1, keepdim=True)
                         - x_hat * (dxhat * x_hat).mean(-1, keepdim=True))
        return grad_x.view_as(grad_output), None, grad_weight, grad_bias, None


class ABNFunction(Function):
    """Batch norm (training statistics) followed by a leaky ReLU, in one node."""

    @staticmethod
    def forward(ctx, x, weight, bias, slope, eps):
        dims = (0, 2, 3)
        mean = x.mean(dims, keepdim=True)
        var = x.var(dims, unbiased=False, keepdim=True)
        inv_std = (var + eps).rsqrt()
        z = (x - mean) * inv_std * weight[None, :, None, None] + bias[None, :, None, None]
        ctx.save_for_backward(x, mean, inv_std, weight, bias)
        ctx.slope = slope
        return torch.where(z > 0, z, slope * z)

    @staticmethod
    def backward(ctx, dy):
        x, mean, inv_std, weight, bias = ctx.saved_tensors
        b, c, h, _ = x.shape
        m = b * h * h
        w = weight[None, :, None, None]
        x_hat = (x - mean) * inv_std
        z = x_hat * w + bias[None, :, None, None]
        dz = torch.where(z > 0, dy, ctx.slope * dy)
        dw = (dz * x_hat).sum((0, 2, 3))
        db = dz.sum((0, 2, 3))
        dx = w * inv_std * (dz - (db[None, :, None, None] + x_hat * dw[None, :, None, None]) / m)
        return dx, dw, db, None, None


class ABN(nn.Module):
    def __init__(self, channels, slope=0.01, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.slope, self.eps = slope, eps

    def forward(self, x):
        return ABNFunction.apply(x, self.weight, self.bias, self.slope, self.eps)


class ChannelPReLU(Function):
    """PReLU with one slope per channel. x: [B, C, ...], slope: [C]"""

    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x, slope)
        a = slope.view(1, -1, *([1] * (x.dim() - 2)))
        return torch.where(x >= 0, x, a * x)

    @staticmethod
    def backward(ctx, grad_output):
        x, slope = ctx.saved_tensors
        a = slope.view(1, -1, *([1] * (x.dim() - 2)))
        grad_x = torch.where(x >= 0, grad_output, a * grad_output)
        grad_slope = None
        if ctx.needs_input_grad[1]:
            neg = grad_output * x.clamp(max=0)
            grad_slope = neg.flatten(1).view(x.size(0), x.size(1), -1).sum(-1).mean(0)
        return grad_x, grad_slope


class Conv2dIm2col(Function):
    """2D convolution written with unfold, so the columns can be shared with the offset branch.

    Shapes:
        x:      (B, Cin, H, W)
        weight: (Cout, Cin, kh, kw)
        bias:   (Cout,) or None
        output: (B, Cout, Ho, Wo)
    """

    @staticmethod
    def forward(ctx, x, weight, bias, stride, padding, dilation):
        stride, padding, dilation = _pair(stride), _pair(padding), _pair(dilation)
        kh, kw = weight.shape[2:]
        H, W = x.shape[2:]
        Ho = (H + 2 * padding[0] - dilation[0] * (kh - 1) - 1) // stride[0] + 1
        Wo = (W + 2 * padding[1] - dilation[1] * (kw - 1) - 1) // stride[1] + 1
        cols = F.unfold(x, (kh, kw), dilation=dilation, padding=padding, stride=stride)
        out = weight.flatten(1) @ cols                       # (B, Cout, Ho*Wo)
        if bias is not None:
            out = out + bias[:, None]
        ctx.save_for_backward(x, weight)
        ctx.geometry = dict(dilation=dilation, padding=padding, stride=stride)
        ctx.has_bias = bias is not None
        return out.view(x.size(0), weight.size(0), Ho, Wo)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        kernel = tuple(weight.shape[2:])
        g = grad_output.flatten(2)
        grad_x = grad_w = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_cols = weight.flatten(1).t() @ g
            grad_x = F.fold(grad_cols, tuple(x.shape[2:]), kernel, **ctx.geometry)
        if ctx.needs_input_grad[1]:
            cols = F.unfold(x, kernel, **ctx.geometry)
            grad_w = torch.einsum("bol,bkl->ok", g, cols).view_as(weight)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            grad_b = g.sum(dim=(0, 2))
        return grad_x, grad_w, grad_b, None, None, None


class Stem(nn.Module):
    """conv 3x3/2 - GN - PReLU"""

    def __init__(self, cin=3, cout=32, groups=8):
        super().__init__()
        self.groups = groups
        self.conv = nn.Parameter(torch.randn(cout, cin, 3, 3) * (2 / (9 * cin)) ** 0.5)
        self.gn_w = nn.Parameter(torch.ones(cout))
        self.gn_b = nn.Parameter(torch.zeros(cout))
        self.slope = nn.Parameter(torch.full((cout,), 0.25))

    def forward(self, x):
        x = Conv2dIm2col.apply(x, self.conv, None, 2, 1, 1)
        x = GroupNormFunction.apply(x, self.groups, self.gn_w, self.gn_b)
        return ChannelPReLU.apply(x, self.slope)


if __name__ == "__main__":
    net = nn.Sequential(Stem(), ABN(32), LayerNorm2d(32))
    out = net(torch.randn(2, 3, 32, 32))
    out.mean().backward()
    print(out.shape)
