"""Differentiable pieces of a raw-to-display colour pipeline."""
from __future__ import annotations

from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _cell(x: Tensor, size: int) -> Tuple[Tensor, Tensor, Tensor]:
    """Lower node, offset inside the cell and a flag for samples inside [0, 1]."""
    inside = (x >= 0) & (x <= 1)
    pos = x.clamp(0, 1) * (size - 1)
    low = pos.detach().floor().clamp(max=size - 2).long()
    return low, pos - low.to(pos.dtype), inside


class ColorCubeLookup(Function):
    """Trilinear lookup in a 3-D colour cube (``.cube`` grading files).

    Parameters
    ----------
    rgb : Tensor, shape (..., 3)
        Colours. Values outside [0, 1] are clamped to the cube.
    cube : Tensor, shape (nr, ng, nb, K)
        Node colours; every axis needs at least two nodes, and the axes may differ in size.

    Returns
    -------
    Tensor, shape (..., K)
    """

    @staticmethod
    def forward(rgb, cube):
        nr, ng, nb, k = cube.shape
        flat = rgb.reshape(-1, 3)
        table = cube.reshape(-1, k)
        (i, a, _), (j, b, _), (l, c, _) = (_cell(flat[:, n], s) for n, s in enumerate((nr, ng, nb)))
        out = flat.new_zeros(flat.shape[0], k)
        for di in (0, 1):
            wa = a if di else 1 - a
            for dj in (0, 1):
                wb = b if dj else 1 - b
                for dl in (0, 1):
                    wc = c if dl else 1 - c
                    node = ((i + di) * ng + (j + dj)) * nb + (l + dl)
                    out = out + (wa * wb * wc)[:, None] * table[node]
        return out.reshape(*rgb.shape[:-1], k)

    @staticmethod
    def setup_context(ctx, inputs, output):
        rgb, cube = inputs
        ctx.save_for_backward(rgb, cube)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rgb, cube = ctx.saved_tensors
        nr, ng, nb, k = cube.shape
        flat = rgb.reshape(-1, 3)
        table = cube.reshape(-1, k)
        g = grad.reshape(-1, k)
        (i, a, ma), (j, b, mb), (l, c, mc) = (_cell(flat[:, n], s) for n, s in enumerate((nr, ng, nb)))
        need_rgb, need_cube = ctx.needs_input_grad
        d_table = torch.zeros_like(table) if need_cube else None
        da = db = dc = torch.zeros_like(a)
        for di in (0, 1):
            wa, sa = (a, 1.0) if di else (1 - a, -1.0)
            for dj in (0, 1):
                wb, sb = (b, 1.0) if dj else (1 - b, -1.0)
                for dl in (0, 1):
                    wc, sc = (c, 1.0) if dl else (1 - c, -1.0)
                    node = ((i + di) * ng + (j + dj)) * nb + (l + dl)
                    if need_cube:
                        d_table.index_add_(0, node, (wa * wb * wc)[:, None] * g)
                    if need_rgb:
                        p = (g * table[node]).sum(-1)
                        da = da + sa * wb * wc * p
                        db = db + wa * sb * wc * p
                        dc = dc + wa * wb * sc * p
        d_rgb = None
        if need_rgb:
            d_rgb = torch.stack(
                [da * ma * (nr - 1), db * mb * (ng - 1), dc * mc * (nb - 1)], dim=-1
            ).reshape(rgb.shape)
        return d_rgb, d_table.reshape(cube.shape) if need_cube else None


def _box_sum(x: Tensor, radius: Tuple[int, int]) -> Tensor:
    ry, rx = radius
    kh, kw = 2 * ry + 1, 2 * rx + 1
    x = F.pad(x, (rx, rx, ry, ry))
    return F.avg_pool2d(x, (kh, kw), stride=1) * (kh * kw)


class BorderedBoxMean(Function):
    """Mean filter over a (2*ry+1, 2*rx+1) window that only counts valid pixels.

    Pixels outside of the frame never count; ``valid`` (N, 1, H, W) may switch off further pixels
    (dead sensels, letterbox). A window without a valid pixel gives 0.

    Args:
        image: (N, C, H, W) tensor.
        radius: window half sizes ``(ry, rx)``.
        valid: optional 0/1 tensor, not differentiated.
    """

    @staticmethod
    def forward(ctx, image: Tensor, radius: Tuple[int, int], valid: Optional[Tensor] = None) -> Tensor:
        n, _, h, w = image.shape
        if valid is None:
            valid = image.new_ones(n, 1, h, w)
        valid = valid.to(image.dtype)
        count = _box_sum(valid, radius).round()
        inv = torch.where(count > 0, 1.0 / count.clamp(min=1), torch.zeros_like(count))
        ctx.radius = radius
        ctx.save_for_backward(valid, inv)
        return _box_sum(image * valid, radius) * inv

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        valid, inv = ctx.saved_tensors
        # the window is symmetric, so the filter is its own adjoint
        return valid * inv * _box_sum(grad, ctx.radius), None, None


class GreyWorldBalance(Function):
    """Grey-world white balance.

    ``gain_c = (grey / mean_c) ** strength`` where ``mean_c`` is the channel mean over unmasked pixels and
    ``grey`` is the mean of the channel means. ``strength`` in (0, 1] blends between no correction and a
    full one.

    Args:
        image: linear image (N, C, H, W), positive channel means.
        mask: (N, 1, H, W), 0 where the sensor clipped. At least one pixel per image is unmasked.
        strength: python float.

    Returns:
        The balanced image (N, C, H, W) and the gains (N, C).
    """

    @staticmethod
    def forward(ctx, image, mask, strength):
        mask = mask.to(image.dtype)
        n = mask.sum(dim=(-2, -1))
        mean = (image * mask).sum(dim=(-2, -1)) / n
        grey = mean.mean(dim=1, keepdim=True)
        gains = (grey / mean) ** strength
        ctx.save_for_backward(image, mask, n, mean, grey, gains)
        return image * gains[:, :, None, None], gains

    @staticmethod
    @once_differentiable
    def backward(ctx, g_image, g_gains):
        image, mask, n, mean, grey, gains = ctx.saved_tensors
        channels = image.shape[1]
        g_gains = g_gains + (g_image * image).sum(dim=(-2, -1))
        t = g_gains * gains
        g_mean = t.sum(dim=1, keepdim=True) / (grey * channels) - t / mean
        g_mean = (g_mean / n)[:, :, None, None]
        return g_image * gains[:, :, None, None] + mask * g_mean, None, None


def white_balance(image: Tensor, mask: Optional[Tensor] = None, strength: float = 1.0):
    """Balance ``image``; see :class:`GreyWorldBalance`."""
    if mask is None:
        mask = torch.ones_like(image[:, :1])
    return GreyWorldBalance.apply(image, mask, float(strength))


class LearnedGrade(nn.Module):
    """White balance, local contrast and a learned colour cube, initialised at the identity."""

    def __init__(self, nodes: Tuple[int, int, int] = (9, 9, 9), radius: Tuple[int, int] = (4, 4)):
        super().__init__()
        axes = [torch.linspace(0, 1, s) for s in nodes]
        self.cube = nn.Parameter(torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1))
        self.amount = nn.Parameter(torch.zeros(()))
        self.radius = radius

    def forward(self, image: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        image, _ = white_balance(image, mask)
        image = image + self.amount * (image - BorderedBoxMean.apply(image, self.radius))
        out = ColorCubeLookup.apply(image.permute(0, 2, 3, 1), self.cube)
        return out.permute(0, 3, 1, 2)
