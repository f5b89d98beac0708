"""Pure-PyTorch fallbacks for the CUDA ops used by the detector / NeRF code."""
from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch.autograd import Function


def _corner(feat: torch.Tensor, ix: torch.Tensor, iy: torch.Tensor):
    """Reads ``feat[n, :, iy, ix]`` with zeros outside of the map.

    Args:
        feat: (N, C, H, W).
        ix, iy: integer (N, P).

    Returns:
        values (N, C, P), flat index (N, P), validity (N, P).
    """
    n, c, h, w = feat.shape
    ok = (ix >= 0) & (ix < w) & (iy >= 0) & (iy < h)
    flat = iy.clamp(0, h - 1) * w + ix.clamp(0, w - 1)
    vals = feat.reshape(n, c, h * w).gather(2, flat[:, None].expand(n, c, -1))
    return vals * ok[:, None], flat, ok


class BilinearSample2d(Function):
    """Samples a feature map at real-valued pixel positions.

    Args:
        feat: (N, C, H, W) features.
        points: (N, P, 2) positions ``(x, y)`` in pixel units; pixel centres are
            at the integers. Outside of the map the features are zero.

    Returns:
        (N, C, P)
    """

    @staticmethod
    def forward(ctx, feat, points):
        x, y = points[..., 0], points[..., 1]
        x0, y0 = x.floor().long(), y.floor().long()
        fx, fy = (x - x0)[:, None], (y - y0)[:, None]
        v00, _, _ = _corner(feat, x0, y0)
        v01, _, _ = _corner(feat, x0 + 1, y0)
        v10, _, _ = _corner(feat, x0, y0 + 1)
        v11, _, _ = _corner(feat, x0 + 1, y0 + 1)
        ctx.save_for_backward(feat, points)
        top = v00 * (1 - fx) + v01 * fx
        bot = v10 * (1 - fx) + v11 * fx
        return top * (1 - fy) + bot * fy

    @staticmethod
    def backward(ctx, grad_out):
        feat, points = ctx.saved_tensors
        n, c, h, w = feat.shape
        x, y = points[..., 0], points[..., 1]
        x0, y0 = x.floor().long(), y.floor().long()
        fx, fy = (x - x0)[:, None], (y - y0)[:, None]
        grad_feat = torch.zeros(n, c, h * w, dtype=feat.dtype, device=feat.device)
        grad_x = torch.zeros_like(x)
        grad_y = torch.zeros_like(y)
        for dy in (0, 1):
            wy = fy if dy else 1 - fy
            sy = 1.0 if dy else -1.0
            for dx in (0, 1):
                wx = fx if dx else 1 - fx
                sx = 1.0 if dx else -1.0
                val, flat, ok = _corner(feat, x0 + dx, y0 + dy)
                grad_feat.scatter_add_(
                    2, flat[:, None].expand(n, c, -1), grad_out * wx * wy * ok[:, None]
                )
                dot = grad_out * val
                grad_x += (dot * wy).sum(1) * sx
                grad_y += (dot * wx).sum(1) * sy
        return grad_feat.view_as(feat), torch.stack([grad_x, grad_y], -1)


def sample_roi_centres(feat, boxes):
    """Features at the centres of ``boxes`` (N, P, 4), xyxy in pixels."""
    centres = 0.5 * (boxes[..., :2] + boxes[..., 2:])
    return BilinearSample2d.apply(feat, centres)


class DepthwiseConv2dFn(Function):
    """Depthwise convolution written as a sum over kernel taps.

    Args:
        x: (N, C, H, W).
        weight: (C, kh, kw).
        bias: (C,).
        stride (int), padding (int), dilation (int).
    """

    @staticmethod
    def forward(ctx, x, weight, bias, stride=1, padding=0, dilation=1):
        kh, kw = weight.shape[1:]
        xp = nn.functional.pad(x, (padding,) * 4)
        ho = (xp.shape[2] - dilation * (kh - 1) - 1) // stride + 1
        wo = (xp.shape[3] - dilation * (kw - 1) - 1) // stride + 1
        out = bias.view(1, -1, 1, 1).expand(x.shape[0], -1, ho, wo).clone()
        for i in range(kh):
            for j in range(kw):
                top, left = i * dilation, j * dilation
                tap = xp[:, :, top:top + stride * (ho - 1) + 1:stride,
                         left:left + stride * (wo - 1) + 1:stride]
                out += tap * weight[:, i, j].view(1, -1, 1, 1)
        ctx.save_for_backward(x, weight)
        ctx.conf = (stride, padding, dilation)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        x, weight = ctx.saved_tensors
        stride, padding, dilation = ctx.conf
        kh, kw = weight.shape[1:]
        ho, wo = grad_out.shape[2:]
        h, w = x.shape[2:]
        xp = nn.functional.pad(x, (padding,) * 4)
        grad_xp = torch.zeros_like(xp)
        grad_w = torch.zeros_like(weight)
        for i in range(kh):
            for j in range(kw):
                rows = slice(i * dilation, i * dilation + stride * (ho - 1) + 1, stride)
                cols = slice(j * dilation, j * dilation + stride * (wo - 1) + 1, stride)
                grad_w[:, i, j] = (xp[:, :, rows, cols] * grad_out).sum((0, 2, 3))
                rows = slice(i, i + stride * (ho - 1) + 1, stride)
                cols = slice(j, j + stride * (wo - 1) + 1, stride)
                grad_xp[:, :, rows, cols] += grad_out * weight[:, i, j].view(1, -1, 1, 1)
        grad_x = grad_xp[:, :, padding:padding + h, padding:padding + w]
        return grad_x, grad_w, grad_out.sum((0, 2, 3)), None, None, None


class DepthwiseConv2d(nn.Module):
    def __init__(self, channels: int, kernel_size: int = 3, stride: int = 1, dilation: int = 1):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, kernel_size, kernel_size) * 0.1)
        self.bias = nn.Parameter(torch.zeros(channels))
        self.stride, self.dilation = stride, dilation
        self.padding = dilation * (kernel_size // 2)

    def forward(self, x):
        return DepthwiseConv2dFn.apply(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation
        )


class GIoULossFn(Function):
    """Generalised IoU loss between matched boxes.

    Args:
        pred: (N, 4) boxes as x1, y1, x2, y2 with x2 > x1 and y2 > y1.
        target: (N, 4) boxes, same format.
        reduction: 'none', 'mean' or 'sum'.
    """

    @staticmethod
    def forward(ctx, pred, target, reduction="mean"):
        lt = torch.maximum(pred[:, :2], target[:, :2])
        rb = torch.minimum(pred[:, 2:], target[:, 2:])
        iwh = (rb - lt).clamp(min=0)
        ewh = torch.maximum(pred[:, 2:], target[:, 2:]) - torch.minimum(pred[:, :2], target[:, :2])
        pwh = pred[:, 2:] - pred[:, :2]
        twh = target[:, 2:] - target[:, :2]
        inter = iwh.prod(1)
        union = pwh.prod(1) + twh.prod(1) - inter
        hull = ewh.prod(1)
        loss = 2.0 - inter / union - union / hull
        ctx.save_for_backward(pred, target, iwh, ewh, pwh, twh, inter, union, hull)
        ctx.reduction = reduction
        if reduction == "mean":
            return loss.mean()
        if reduction == "sum":
            return loss.sum()
        return loss

    @staticmethod
    def backward(ctx, grad_out):
        pred, target, iwh, ewh, pwh, twh, inter, union, hull = ctx.saved_tensors
        g = grad_out.expand(pred.shape[0])
        if ctx.reduction == "mean":
            g = g / pred.shape[0]
        d_union = g * (inter / union ** 2 - 1.0 / hull)
        d_inter = -g / union - d_union
        d_hull = g * union / hull ** 2

        # (N, 2): derivative wrt the extents
        d_iwh = d_inter[:, None] * iwh.flip(1) * (iwh > 0)
        d_ewh = d_hull[:, None] * ewh.flip(1)
        d_pwh = d_union[:, None] * pwh.flip(1)
        d_twh = d_union[:, None] * twh.flip(1)

        p_lt = pred[:, :2] > target[:, :2]
        p_rb = pred[:, 2:] < target[:, 2:]

        def zero_unless(cond, v):
            return torch.where(cond, v, torch.zeros_like(v))

        gp1 = -zero_unless(p_lt, d_iwh) - zero_unless(~p_lt, d_ewh) - d_pwh
        gt1 = -zero_unless(~p_lt, d_iwh) - zero_unless(p_lt, d_ewh) - d_twh
        gp2 = zero_unless(p_rb, d_iwh) + zero_unless(~p_rb, d_ewh) + d_pwh
        gt2 = zero_unless(~p_rb, d_iwh) + zero_unless(p_rb, d_ewh) + d_twh
        return torch.cat([gp1, gp2], 1), torch.cat([gt1, gt2], 1), None


def giou_loss(pred, target, reduction: str = "mean"):
    return GIoULossFn.apply(pred, target, reduction)


class AlphaComposite(Function):
    """Emission-absorption quadrature along rays.

    Args:
        sigma: (R, S) non-negative densities.
        rgb: (R, S, 3) colours in [0, 1].
        deltas: (R, S) distances between neighbouring samples.
        background: (3,) colour seen through whatever is left of the ray.

    Returns:
        color (R, 3) and opacity (R,).
    """

    @staticmethod
    def forward(ctx, sigma, rgb, deltas, background):
        tau = sigma * deltas
        cum = tau.cumsum(1)
        trans = torch.exp(-(cum - tau))            # light arriving at sample i
        t_after = torch.exp(-cum)                  # light leaving sample i
        weights = trans - t_after
        t_end = t_after[:, -1]
        color = (weights[..., None] * rgb).sum(1) + t_end[:, None] * background
        ctx.save_for_backward(sigma, rgb, deltas, background, weights, t_after)
        return color, 1.0 - t_end

    @staticmethod
    def backward(ctx, g_color, g_opacity):
        sigma, rgb, deltas, background, weights, t_after = ctx.saved_tensors
        t_end = t_after[:, -1:]
        g_rgb = weights[..., None] * g_color[:, None]
        gc = (rgb * g_color[:, None]).sum(-1)                      # (R, S)
        wgc = weights * gc
        behind = wgc.flip(1).cumsum(1).flip(1) - wgc               # sum over j > i
        g_tau = t_after * gc - behind + t_end * g_opacity[:, None]
        g_bg = (t_end * g_color).sum(0)
        return g_tau * deltas, g_rgb, g_tau * sigma, g_bg


def render_rays(sigma, rgb, z_vals, background: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
    """Composites samples at depths ``z_vals`` (R, S + 1); black background by default."""
    deltas = z_vals[:, 1:] - z_vals[:, :-1]
    if background is None:
        background = rgb.new_zeros(3)
    return AlphaComposite.apply(sigma, rgb, deltas, background)


class ChamferDistanceFn(Function):
    """Squared nearest neighbour distances both ways.

    Args:
        xyz1: (B, N, 3) first clouds.
        xyz2: (B, M, 3) second clouds.

    Returns:
        dist1 (B, N), dist2 (B, M).
    """

    @staticmethod
    def forward(ctx, xyz1, xyz2):
        diff = xyz1[:, :, None] - xyz2[:, None]
        d = diff.pow(2).sum(-1)
        dist1, idx1 = d.min(2)
        dist2, idx2 = d.min(1)
        ctx.save_for_backward(xyz1, xyz2, idx1, idx2)
        return dist1, dist2

    @staticmethod
    def backward(ctx, g1, g2):
        xyz1, xyz2, idx1, idx2 = ctx.saved_tensors
        b = torch.arange(xyz1.shape[0], device=xyz1.device)[:, None]
        d1 = 2.0 * g1[..., None] * (xyz1 - xyz2[b, idx1])
        d2 = 2.0 * g2[..., None] * (xyz2 - xyz1[b, idx2])
        grad1, grad2 = d1.clone(), d2.clone()
        grad1[b, idx2] -= d2
        grad2[b, idx1] -= d1
        return grad1, grad2


class ChamferLoss(nn.Module):
    def forward(self, pred, gt):
        d1, d2 = ChamferDistanceFn.apply(pred, gt)
        return d1.mean() + d2.mean()
