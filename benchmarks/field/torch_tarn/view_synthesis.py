"""Differentiable pieces of a self-supervised depth / frame interpolation stack.

Images are ``(B, C, H, W)``; flow is ``(B, 2, H, W)`` in pixels, channel 0 pointing right and channel 1
pointing down.
"""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _pixel_grid(h: int, w: int, like: Tensor) -> Tuple[Tensor, Tensor]:
    ys = torch.arange(h, dtype=like.dtype, device=like.device)
    xs = torch.arange(w, dtype=like.dtype, device=like.device)
    yy, xx = torch.meshgrid(ys, xs, indexing="ij")
    return yy, xx


def _corners(flow: Tensor) -> Iterator[Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]]:
    """Yield (flat index, inside, weight, d weight / dx, d weight / dy) for the four landing pixels."""
    _, _, h, w = flow.shape
    yy, xx = _pixel_grid(h, w, flow)
    tx = xx + flow[:, 0]
    ty = yy + flow[:, 1]
    x0, y0 = tx.floor(), ty.floor()
    fx, fy = tx - x0, ty - y0
    for dx in (0, 1):
        for dy in (0, 1):
            xi = x0.long() + dx
            yi = y0.long() + dy
            wx = fx if dx else 1 - fx
            wy = fy if dy else 1 - fy
            sx = 1.0 if dx else -1.0
            sy = 1.0 if dy else -1.0
            inside = (xi >= 0) & (xi < w) & (yi >= 0) & (yi < h)
            index = yi.clamp(0, h - 1) * w + xi.clamp(0, w - 1)
            yield (
                index.flatten(1),
                inside.flatten(1),
                (wx * wy).flatten(1),
                (sx * wy).flatten(1),
                (sy * wx).flatten(1),
            )


class ForwardSplat(Function):
    """Summation splatting of an image along a flow field.

    Every source pixel ``(y, x)`` is moved to ``(y + v, x + u)`` and spread bilinearly over the four pixels
    around its landing point; contributions to the same target pixel add up. Whatever lands outside of the
    frame is discarded.

    Args:
        image: ``(B, C, H, W)`` features to move.
        flow: ``(B, 2, H, W)`` displacement in pixels. May be of any size, so that pixels leave the frame.

    Returns:
        ``(B, C, H, W)`` splatted features. Differentiable in both arguments.
    """

    @staticmethod
    def forward(ctx, image: Tensor, flow: Tensor) -> Tensor:
        b, c, h, w = image.shape
        source = image.reshape(b, c, h * w)
        out = source.new_zeros(b, c, h * w)
        for index, inside, weight, _, _ in _corners(flow):
            share = (weight * inside).unsqueeze(1)
            out.scatter_add_(2, index.unsqueeze(1).expand(b, c, -1), source * share)
        ctx.save_for_backward(image, flow)
        return out.reshape(b, c, h, w)

    @staticmethod
    def backward(ctx, grad_out: Tensor):
        image, flow = ctx.saved_tensors
        b, c, h, w = image.shape
        source = image.reshape(b, c, h * w)
        grad_flat = grad_out.reshape(b, c, h * w)
        grad_image = torch.zeros_like(source)
        grad_u = source.new_zeros(b, h * w)
        grad_v = source.new_zeros(b, h * w)
        for index, inside, weight, dw_dx, dw_dy in _corners(flow):
            landed = grad_flat.gather(2, index.unsqueeze(1).expand(b, c, -1))
            grad_image += landed * (weight * inside).unsqueeze(1)
            pull = (landed * source).sum(1)
            grad_u += pull * dw_dx
            grad_v += pull * dw_dy
        grad_flow = torch.stack([grad_u, grad_v], 1).reshape(b, 2, h, w)
        return grad_image.reshape(b, c, h, w), grad_flow


def softmax_splat(image: Tensor, flow: Tensor, metric: Tensor, eps: float = 1e-7) -> Tensor:
    """Softmax splatting: collisions are resolved in favour of pixels with a large ``metric`` ``(B, 1, H, W)``."""
    z = metric.exp()
    packed = ForwardSplat.apply(torch.cat([image * z, z], 1), flow)
    return packed[:, :-1] / (packed[:, -1:] + eps)


def _skew(v: Tensor) -> Tensor:
    x, y, z = v.unbind(-1)
    o = torch.zeros_like(x)
    return torch.stack([o, -z, y, z, o, -x, -y, x, o], -1).reshape(*v.shape[:-1], 3, 3)


class EssentialFromPose(Function):
    r"""Essential matrix :math:`E = [\hat t]_\times R` of a relative pose.

    Args:
        rotation: ``(..., 3, 3)``.
        translation: ``(..., 3)``, non-zero. Its leading dimensions broadcast with those of ``rotation``.
        unit: use the direction :math:`\hat t = t / |t|` (default); with ``False`` ``t`` itself.

    Returns:
        ``(..., 3, 3)`` with the broadcast leading dimensions.
    """

    @staticmethod
    def forward(rotation: Tensor, translation: Tensor, unit: bool = True) -> Tensor:
        t = translation / translation.norm(dim=-1, keepdim=True) if unit else translation
        return _skew(t) @ rotation

    @staticmethod
    def setup_context(ctx, inputs, output):
        rotation, translation, unit = inputs
        ctx.save_for_backward(rotation, translation)
        ctx.unit = unit

    @staticmethod
    def backward(ctx, grad_e: Tensor):
        rotation, translation = ctx.saved_tensors
        length = translation.norm(dim=-1, keepdim=True)
        t = translation / length if ctx.unit else translation
        grad_rotation = grad_translation = None
        if ctx.needs_input_grad[0]:
            grad_rotation = (_skew(t).transpose(-1, -2) @ grad_e).sum_to_size(rotation.shape)
        if ctx.needs_input_grad[1]:
            s = grad_e @ rotation.transpose(-1, -2)
            g = torch.stack(
                [
                    s[..., 2, 1] - s[..., 1, 2],
                    s[..., 0, 2] - s[..., 2, 0],
                    s[..., 1, 0] - s[..., 0, 1],
                ],
                -1,
            )
            if ctx.unit:
                g = (g - t * (t * g).sum(-1, keepdim=True)) / length
            grad_translation = g.sum_to_size(translation.shape)
        return grad_rotation, grad_translation, None


class RotationLog(Function):
    """so(3) log of rotation matrices, angle < pi."""

    @staticmethod
    def _pieces(R):
        v = 0.5 * torch.stack(
            [R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]],
            -1,
        )
        c = 0.5 * (R.diagonal(dim1=-2, dim2=-1).sum(-1) - 1)
        s = v.norm(dim=-1)
        small = (s < 0.1) & (c > 0.5)
        s_ = torch.where(small, torch.ones_like(s), s)
        c_ = torch.where(small, c, torch.ones_like(c))
        # atan(q)/q with q = s/c
        q2 = (s / c_) ** 2
        f0, h0 = torch.zeros_like(s), torch.zeros_like(s)
        for k in range(9, -1, -1):
            f0 = f0 * q2 + (-1) ** k / (2 * k + 1)
            h0 = h0 * q2 + (-1) ** (k + 1) * (2 * k + 2) / (2 * k + 3)
        theta = torch.atan2(s, c)
        f = torch.where(small, f0 / c_, theta / s_)
        h = torch.where(small, h0 / c_**3, (c / (s * s + c * c) - theta / s_) / (s_ * s_))
        return v, s, c, f, h

    @staticmethod
    def forward(ctx, R):
        v, s, c, f, h = RotationLog._pieces(R)
        ctx.save_for_backward(v, s, c, f, h)
        return f[..., None] * v

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        v, s, c, f, h = ctx.saved_tensors
        gv_dot = (g * v).sum(-1)
        gv = f[..., None] * g + (gv_dot * h)[..., None] * v
        gc = -gv_dot / (s * s + c * c)
        return 0.5 * _skew(gv) + 0.5 * gc[..., None, None] * torch.eye(
            3, dtype=g.dtype, device=g.device
        )


class SmoothnessFn(Function):
    @staticmethod
    def forward(ctx, disp, image, alpha, normalize):
        ctx.alpha = alpha
        scale = (
            disp.mean((2, 3), keepdim=True) + 1e-7
            if normalize
            else torch.ones_like(disp[:, :, :1, :1])
        )
        ctx.save_for_backward(disp, image, scale)
        d = disp / scale
        loss = disp.new_zeros(())
        for dim in (2, 3):
            w = torch.exp(-alpha * image.diff(dim=dim).abs().mean(1, keepdim=True))
            loss = loss + (d.diff(dim=dim).abs() * w).mean()
        return loss

    @staticmethod
    def backward(ctx, g):
        disp, image, scale = ctx.saved_tensors
        d = disp / scale
        gd = torch.zeros_like(disp)
        gi = torch.zeros_like(image)
        for dim in (2, 3):
            n = disp.shape[dim]
            dd = d.diff(dim=dim)
            di = image.diff(dim=dim)
            w = torch.exp(-ctx.alpha * di.abs().mean(1, keepdim=True)) / dd.numel()
            t = g * dd.sign() * w
            gd.narrow(dim, 1, n - 1).add_(t)
            gd.narrow(dim, 0, n - 1).sub_(t)
            u = -ctx.alpha * g * dd.abs() * w * di.sign() / image.shape[1]
            gi.narrow(dim, 1, n - 1).add_(u)
            gi.narrow(dim, 0, n - 1).sub_(u)
        return gd / scale, gi, None, None


def edge_aware_smoothness(disp, image, alpha=1.0, normalize=False):
    """disp (B,1,H,W), image (B,C,H,W). normalize: divide each disparity map by its mean first (monodepth2)."""
    return SmoothnessFn.apply(disp, image, alpha, normalize)


def _neighbour_differences(gray: Tensor, radius: int) -> Tensor:
    """``(B, 1, H, W)`` -> ``(B, K, H, W)``, neighbour minus centre, replicate border, centre itself left out."""
    _, _, h, w = gray.shape
    padded = F.pad(gray, (radius,) * 4, mode="replicate")
    span = range(2 * radius + 1)
    shifted = [
        padded[:, :, i : i + h, j : j + w] for i in span for j in span if (i, j) != (radius, radius)
    ]
    return torch.cat(shifted, 1) - gray


class TernaryCensus(Function):
    """Hard ternary census signature with a surrogate gradient.

    The forward pass compares each pixel with its neighbours and returns ``sign(d)`` where ``|d| > threshold`` and 0
    elsewhere, ``d`` being neighbour minus centre. This is piecewise constant, its true derivative is zero almost
    everywhere. The backward pass deliberately does *not* return that: it returns the gradient of the soft census
    ``d / sqrt(softness**2 + d**2)`` instead (a straight-through estimator), so that photometric losses on the
    signature can train.

    Args:
        gray: ``(B, 1, H, W)`` intensities.
        radius: neighbourhood radius.
        threshold: dead zone of the hard comparison.
        softness: width of the surrogate.
    """

    @staticmethod
    def forward(ctx, gray: Tensor, radius: int, threshold: float, softness: float) -> Tensor:
        ctx.save_for_backward(gray)
        ctx.radius, ctx.softness = radius, softness
        d = _neighbour_differences(gray, radius)
        return torch.sign(d) * (d.abs() > threshold)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out: Tensor):
        (gray,) = ctx.saved_tensors
        r, eps2 = ctx.radius, ctx.softness**2
        _, _, h, w = gray.shape
        d = _neighbour_differences(gray, r)
        g = grad_out * eps2 / (eps2 + d * d) ** 1.5
        padded = g.new_zeros(gray.shape[0], 1, h + 2 * r, w + 2 * r)
        k = 0
        for i in range(2 * r + 1):
            for j in range(2 * r + 1):
                if (i, j) == (r, r):
                    continue
                padded[:, :, i : i + h, j : j + w] += g[:, k : k + 1]
                k += 1
        # replicate padding: the border row / column collects what its copies received
        if r:
            padded[:, :, r] += padded[:, :, :r].sum(2)
            padded[:, :, r + h - 1] += padded[:, :, r + h :].sum(2)
            padded[..., r] += padded[..., :r].sum(3)
            padded[..., r + w - 1] += padded[..., r + w :].sum(3)
        grad = padded[:, :, r : r + h, r : r + w] - g.sum(1, keepdim=True)
        return grad, None, None, None


class CensusLoss(nn.Module):
    """Mean absolute difference of two census signatures; ``valid`` is an optional ``(B, 1, H, W)`` mask."""

    def __init__(self, radius: int = 1, threshold: float = 0.02, softness: float = 0.9):
        super().__init__()
        self.radius, self.threshold, self.softness = radius, threshold, softness

    def forward(self, a: Tensor, b: Tensor, valid: Optional[Tensor] = None) -> Tensor:
        sig_a = TernaryCensus.apply(a, self.radius, self.threshold, self.softness)
        sig_b = TernaryCensus.apply(b, self.radius, self.threshold, self.softness)
        gap = (sig_a - sig_b).abs().mean(1, keepdim=True)
        if valid is None:
            return gap.mean()
        return (gap * valid).sum() / valid.sum().clamp(min=1)
