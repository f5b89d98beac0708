"""Convolution, pooling and resampling operators in pure PyTorch.

Reference implementations for exporting to accelerators without cuDNN.
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class CausalDepthwiseConv1d(Function):
    """Depthwise causal convolution (Mamba / WaveNet style).

    x: (batch, channels, time); weight: (channels, kernel); bias: (channels,).
    The last tap is multiplied with the present sample.
    """

    @staticmethod
    def forward(ctx, x, weight, bias, dilation=1):
        k, t = weight.shape[1], x.shape[2]
        pad = (k - 1) * dilation
        xp = F.pad(x, (pad, 0))
        y = bias[:, None].expand_as(x).clone()
        for j in range(k):
            y += weight[:, j, None] * xp[:, :, j * dilation : j * dilation + t]
        ctx.save_for_backward(xp, weight)
        ctx.dilation = dilation
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, gy):
        xp, weight = ctx.saved_tensors
        k, t, dil = weight.shape[1], gy.shape[2], ctx.dilation
        pad = xp.shape[2] - t
        gx = torch.zeros_like(xp)
        for j in range(k):
            gx[:, :, j * dil : j * dil + t] += weight[:, j, None] * gy
        windows = xp[:, :, pad - (k - 1) :].unfold(2, t, 1)  # (B, C, K, T)
        gw = torch.einsum("bckt,bct->ck", windows, gy)
        gb = gy.sum(dim=(0, 2))
        return gx[:, :, pad:], gw, gb, None


class AvgPool2dFn(Function):
    """Average pooling.

    :param x: images, (N, C, H, W)
    :param kernel: window, (kh, kw)
    :param stride: (sh, sw)
    :param padding: zeros on each side, (ph, pw)
    :param count_include_pad: whether the zeros count in the average
    """

    @staticmethod
    def _windows(h, w, kernel, stride):
        oh, ow = (h - kernel[0]) // stride[0] + 1, (w - kernel[1]) // stride[1] + 1
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                yield (
                    Ellipsis,
                    slice(i, i + (oh - 1) * stride[0] + 1, stride[0]),
                    slice(j, j + (ow - 1) * stride[1] + 1, stride[1]),
                )

    @staticmethod
    def forward(ctx, x, kernel, stride, padding=(0, 0), count_include_pad=True):
        ph, pw = padding
        xp = F.pad(x, (pw, pw, ph, ph))
        ones = torch.ones_like(x[:1, :1])
        ones = F.pad(ones, (pw, pw, ph, ph), value=1.0 if count_include_pad else 0.0)
        wins = list(AvgPool2dFn._windows(xp.shape[2], xp.shape[3], kernel, stride))
        count = sum(ones[s] for s in wins)
        ctx.save_for_backward(count)
        ctx.geometry = (xp.shape, kernel, stride, padding)
        return sum(xp[s] for s in wins) / count

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (count,) = ctx.saved_tensors
        shape, kernel, stride, (ph, pw) = ctx.geometry
        g = g / count
        gx = g.new_zeros(shape)
        for s in AvgPool2dFn._windows(shape[2], shape[3], kernel, stride):
            gx[s] += g
        return gx[:, :, ph : shape[2] - ph, pw : shape[3] - pw], None, None, None, None


class MaxPoolWithIndices(Function):
    """Max pooling that also gives the flat position of each maximum.

    Parameters
    ----------
    x : Tensor (N, C, H, W)
    kernel_size : int
    stride : int, optional
        ``kernel_size`` if not given.

    Returns
    -------
    out : Tensor (N, C, OH, OW)
    indices : LongTensor (N, C, OH, OW)
        Positions in the flattened H*W plane, for unpooling.
    """

    @staticmethod
    def forward(ctx, x, kernel_size, stride=None):
        stride = kernel_size if stride is None else stride
        n, c, h, w = x.shape
        win = x.unfold(2, kernel_size, stride).unfold(3, kernel_size, stride)
        oh, ow = win.shape[2:4]
        out, local = win.reshape(n, c, oh, ow, -1).max(dim=-1)
        row = torch.arange(oh, device=x.device)[:, None] * stride + local // kernel_size
        col = torch.arange(ow, device=x.device)[None, :] * stride + local % kernel_size
        indices = row * w + col
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        return out, indices

    @staticmethod
    def backward(ctx, grad_out, _grad_indices):
        (indices,) = ctx.saved_tensors
        n, c, h, w = ctx.shape
        grad = grad_out.new_zeros(n, c, h * w)
        grad = grad.scatter(2, indices.flatten(2), grad_out.flatten(2))
        return grad.view(ctx.shape), None, None


def _shuffle(x, groups):
    n, c = x.shape[:2]
    return x.reshape(n, groups, c // groups, *x.shape[2:]).transpose(1, 2).reshape(x.shape)


class ChannelShuffle(Function):

    @staticmethod
    def forward(ctx, x, groups):
        ctx.groups = groups
        return _shuffle(x, groups)

    @staticmethod
    def backward(ctx, g):
        return _shuffle(g, ctx.groups), None


class ShuffleUnit(nn.Module):
    """Grouped 1x1 -> shuffle -> depthwise 3x3 (ShuffleNet v1)."""

    def __init__(self, channels, groups=2):
        super().__init__()
        self.groups = groups
        self.pw = nn.Conv2d(channels, channels, 1, groups=groups)
        self.dw = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x):
        return x + self.dw(ChannelShuffle.apply(F.relu(self.pw(x)), self.groups))


def _unnormalise(coord, size, align_corners):
    if align_corners:
        return (coord + 1) / 2 * (size - 1)
    return ((coord + 1) * size - 1) / 2


class BilinearSampler(Function):
    """Spatial transformer sampling with zeros outside of the image.

    Args:
        feat: (N, C, H, W) feature map.
        grid: (N, OH, OW, 2), x and y in [-1, 1].
        align_corners: meaning of -1 and 1 as in ``F.grid_sample``.

    Returns:
        (N, C, OH, OW)
    """

    @staticmethod
    def _corners(feat, grid, align_corners):
        n, c, h, w = feat.shape
        ix = _unnormalise(grid[..., 0], w, align_corners)
        iy = _unnormalise(grid[..., 1], h, align_corners)
        x0, y0 = ix.floor(), iy.floor()
        fx, fy = ix - x0, iy - y0
        taps = []
        for dy in (0, 1):
            for dx in (0, 1):
                xi, yi = (x0 + dx).long(), (y0 + dy).long()
                inside = (xi >= 0) & (xi < w) & (yi >= 0) & (yi < h)
                flat = yi.clamp(0, h - 1) * w + xi.clamp(0, w - 1)
                wx = fx if dx else 1 - fx
                wy = fy if dy else 1 - fy
                taps.append((flat.flatten(1), inside, wx, wy, 2 * dx - 1, 2 * dy - 1))
        return taps

    @staticmethod
    def forward(ctx, feat, grid, align_corners=True):
        n, c = feat.shape[:2]
        src = feat.flatten(2)
        out = 0
        for flat, inside, wx, wy, _, _ in BilinearSampler._corners(feat, grid, align_corners):
            val = src.gather(2, flat[:, None].expand(-1, c, -1)).view(n, c, *grid.shape[1:3])
            out = out + val * (wx * wy * inside)[:, None]
        ctx.save_for_backward(feat, grid)
        ctx.align_corners = align_corners
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        feat, grid = ctx.saved_tensors
        n, c, h, w = feat.shape
        src = feat.flatten(2)
        dfeat = torch.zeros_like(src)
        dix = torch.zeros_like(grid[..., 0])
        diy = torch.zeros_like(grid[..., 1])
        for flat, inside, wx, wy, sx, sy in BilinearSampler._corners(feat, grid, ctx.align_corners):
            idx = flat[:, None].expand(-1, c, -1)
            dfeat.scatter_add_(2, idx, (g * (wx * wy * inside)[:, None]).flatten(2))
            val = src.gather(2, idx).view_as(g)
            dot = (val * g).sum(1) * inside
            dix += sx * wy * dot
            diy += sy * wx * dot
        dgrid = torch.stack((dix * (w - 1) / 2, diy * (h - 1) / 2), dim=-1)
        return dfeat.view_as(feat), dgrid, None


def _interp_matrix(n_in, n_out, dtype, device):
    pos = (torch.arange(n_out, dtype=dtype, device=device) + 0.5) * (n_in / n_out) - 0.5
    pos = pos.clamp(0, n_in - 1)
    lo = pos.floor().long()
    hi = (lo + 1).clamp(max=n_in - 1)
    frac = pos - lo
    m = torch.zeros(n_out, n_in, dtype=dtype, device=device)
    rows = torch.arange(n_out, device=device)
    m[rows, lo] += 1 - frac
    m[rows, hi] += frac
    return m


class SeparableResize(Function):
    """Bilinear resize of (..., H, W) to ``size`` = (h, w), half-pixel centres."""

    @staticmethod
    def forward(ctx, x, size):
        a = _interp_matrix(x.shape[-2], size[0], x.dtype, x.device)
        b = _interp_matrix(x.shape[-1], size[1], x.dtype, x.device)
        ctx.save_for_backward(a, b)
        return a @ x @ b.t()

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return a.t() @ g @ b, None


if __name__ == "__main__":
    img = torch.randn(2, 6, 12, 10, requires_grad=True)
    pooled, where = MaxPoolWithIndices.apply(img, 2)
    mixed = ChannelShuffle.apply(pooled, 3)
    small = SeparableResize.apply(mixed, (4, 3))
    print(small.shape, where.dtype)
    small.sum().backward()
    print(img.grad.abs().mean())
