"""Losses and pooling for dense detectors and segmenters."""
from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function


def _reduce(loss, reduction):
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    return loss


def _expand(grad, like, reduction):
    if reduction == "none":
        return grad
    if reduction == "mean":
        grad = grad / like.numel()
    return grad.expand_as(like)


class DIoULossFunction(Function):
    """Distance-IoU loss of matched boxes.

    Parameters
    ----------
    pred, target : Tensor (N, 4)
        ``x1, y1, x2, y2`` with ``x1 < x2`` and ``y1 < y2``.
    reduction : {"mean", "sum", "none"}
    eps : float
        Added to the union and to the squared diagonal of the hull.
    """

    @staticmethod
    def forward(ctx, pred, target, reduction="mean", eps=1e-7):
        lt = torch.maximum(pred[:, :2], target[:, :2])
        rb = torch.minimum(pred[:, 2:], target[:, 2:])
        side = (rb - lt).clamp_min(0)
        hull = torch.maximum(pred[:, 2:], target[:, 2:]) - torch.minimum(pred[:, :2], target[:, :2])
        size_p = pred[:, 2:] - pred[:, :2]
        size_t = target[:, 2:] - target[:, :2]
        inter = side.prod(-1)
        union = size_p.prod(-1) + size_t.prod(-1) - inter + eps
        shift = (pred[:, :2] + pred[:, 2:] - target[:, :2] - target[:, 2:]) / 2
        rho = shift.square().sum(-1)
        diag = hull.square().sum(-1) + eps
        loss = 1 - inter / union + rho / diag
        ctx.save_for_backward(pred, target, side, hull, size_p, size_t, inter, union, shift, rho, diag)
        ctx.reduction = reduction
        return _reduce(loss, reduction)

    @staticmethod
    def backward(ctx, grad):
        pred, target, side, hull, size_p, size_t, inter, union, shift, rho, diag = ctx.saved_tensors
        g = _expand(grad, inter, ctx.reduction)
        g_inter = (-g / union - g * inter / union ** 2)[:, None]
        g_area = (g * inter / union ** 2)[:, None]
        g_hull = (-2 * g * rho / diag ** 2)[:, None] * hull
        g_shift = (2 * g / diag)[:, None] * shift
        g_side = g_inter * side.flip(-1) * (side > 0)

        p1, t1 = pred[:, :2] > target[:, :2], target[:, :2] >= pred[:, :2]
        p2, t2 = pred[:, 2:] < target[:, 2:], target[:, 2:] <= pred[:, 2:]

        def corner(lo_in, hi_in, size, sign):
            turn = g_area * size.flip(-1)
            low = -turn - g_side * lo_in - g_hull * ~lo_in + sign * g_shift / 2
            high = turn + g_side * hi_in + g_hull * ~hi_in + sign * g_shift / 2
            return torch.cat([low, high], -1)

        return corner(p1, p2, size_p, 1), corner(t1, t2, size_t, -1), None, None


class VarifocalFunction(Function):
    """Varifocal loss for IoU-aware scores.

    ``logits`` and ``quality`` share any shape; ``quality`` is the IoU with the
    assigned box (0 for background). Foreground is weighted by its quality,
    background by ``alpha * p ** gamma``. Returns the sum over all entries
    divided by ``avg_factor``. ``alpha``, ``gamma`` > 0.
    """

    @staticmethod
    def forward(ctx, logits, quality, alpha=0.75, gamma=2.0, avg_factor=1.0):
        p = logits.sigmoid()
        fg = quality > 0
        weight = torch.where(fg, quality, alpha * p.pow(gamma))
        bce = F.binary_cross_entropy_with_logits(logits, quality, reduction="none")
        ctx.save_for_backward(p, quality, weight, bce, fg)
        ctx.norm = avg_factor
        return (weight * bce).sum() / avg_factor

    @staticmethod
    def backward(ctx, grad):
        p, quality, weight, bce, fg = ctx.saved_tensors
        d = weight * (p - quality)
        d = d + torch.where(fg, torch.zeros_like(p), 2.0 * weight * (1 - p) * bce)
        return grad * d / ctx.norm, None, None, None, None


class HardPixelCEFunction(Function):
    """Cross entropy over the hardest pixels of every image.

    ``logits (B, C, H, W)``, ``labels (B, H, W)`` with ``ignore_index`` for
    unlabelled pixels, positive ``class_weight (C,)`` or None, ``0 < keep <= 1``. In each image the
    ``ceil(keep * labelled)`` largest weighted losses are kept and the mean is
    taken over everything kept in the batch; no labels at all gives zero.
    """

    @staticmethod
    def forward(ctx, logits, labels, class_weight, keep=0.25, ignore_index=255):
        logp = logits.log_softmax(1)
        valid = labels != ignore_index
        safe = torch.where(valid, labels, torch.zeros_like(labels))
        nll = -logp.gather(1, safe[:, None])[:, 0]
        scale = torch.ones_like(nll) if class_weight is None else class_weight[safe]
        flat = torch.where(valid, nll * scale, nll.new_full((), -1.0)).flatten(1)
        kept = torch.zeros_like(flat, dtype=torch.bool)
        for b in range(flat.shape[0]):
            k = math.ceil(keep * int(valid[b].sum()))
            if k:
                kept[b, flat[b].topk(k).indices] = True
        count = kept.sum().clamp_min(1).to(nll.dtype)
        share = scale * kept.view_as(nll) / count
        ctx.save_for_backward(logp, safe, share, nll)
        ctx.weighted = class_weight is not None
        return (share * nll).sum()

    @staticmethod
    def backward(ctx, grad):
        logp, safe, share, nll = ctx.saved_tensors
        d = logp.exp()
        d.scatter_add_(1, safe[:, None], -torch.ones_like(d[:, :1]))
        d_weight = None
        if ctx.weighted and ctx.needs_input_grad[2]:
            count = (share > 0).sum().clamp_min(1).to(nll.dtype)
            d_weight = nll.new_zeros(logp.shape[1])
            d_weight.index_add_(0, safe.flatten(), ((share > 0) * nll / count).flatten())
            d_weight = grad * d_weight
        return grad * share[:, None] * d, None, d_weight, None, None


class _Taps(NamedTuple):
    image: torch.Tensor   # (R,)
    index: torch.Tensor   # (R, ph, pw, S, 4) into H * W
    weight: torch.Tensor  # same


def _axis_taps(start, size, bins, samples, limit):
    step = size / (bins * samples)
    pos = start[:, None] + (torch.arange(bins * samples, dtype=start.dtype) + 0.5) * step[:, None]
    inside = (pos >= -1.0) & (pos <= limit)
    pos = pos.clamp(0, limit - 1)
    low = pos.floor().long().clamp_max(limit - 1)
    high = (low + 1).clamp_max(limit - 1)
    frac = pos - low
    idx = torch.stack([low, high], -1)
    w = torch.stack([1 - frac, frac], -1) * inside[..., None]
    return idx.view(-1, bins, samples, 2), w.view(-1, bins, samples, 2)


def _roi_taps(rois, hw, out_size, spatial_scale, samples, aligned=False) -> _Taps:
    h, w = hw
    half = 0.5 if aligned else 0.0
    x1, y1, x2, y2 = (rois[:, 1:] * spatial_scale - half).unbind(-1)
    rw, rh = x2 - x1, y2 - y1
    if not aligned:
        rw, rh = rw.clamp_min(1.0), rh.clamp_min(1.0)
    yi, yw = _axis_taps(y1, rh, out_size[0], samples, h)
    xi, xw = _axis_taps(x1, rw, out_size[1], samples, w)
    r, (ph, pw) = rois.shape[0], out_size
    index = yi[:, :, None, :, None, :, None] * w + xi[:, None, :, None, :, None, :]
    weight = yw[:, :, None, :, None, :, None] * xw[:, None, :, None, :, None, :]
    shape = (r, ph, pw, samples * samples, 4)
    return _Taps(rois[:, 0].long(), index.reshape(shape), weight.reshape(shape))


class ROIAlignFunction(Function):
    """Bilinear pooling of regions.

    ``feats (B, C, H, W)``; ``rois (R, 5)`` rows ``(image, x1, y1, x2, y2)`` in
    input pixels, not differentiated; ``out_size (ph, pw)``. With ``aligned``
    the boxes are moved by half a cell and may be narrower than one cell.
    Returns ``(R, C, ph, pw)``.
    """

    @staticmethod
    def forward(ctx, feats, rois, out_size, spatial_scale=1.0, samples=2, aligned=False):
        b, c, h, w = feats.shape
        taps = _roi_taps(rois, (h, w), out_size, spatial_scale, samples, aligned)
        planes = feats.flatten(2)[taps.image]
        picked = planes.gather(2, taps.index.flatten(1)[:, None].expand(-1, c, -1))
        picked = picked.view(rois.shape[0], c, *taps.index.shape[1:])
        ctx.save_for_backward(rois)
        ctx.shape = feats.shape
        ctx.opts = (out_size, spatial_scale, samples)
        return (picked * taps.weight[:, None]).sum((-1, -2)) / samples ** 2

    @staticmethod
    def backward(ctx, grad):
        (rois,) = ctx.saved_tensors
        b, c, h, w = ctx.shape
        out_size, scale, samples = ctx.opts
        taps = _roi_taps(rois, (h, w), out_size, scale, samples)
        part = grad[..., None, None] * taps.weight[:, None] / samples ** 2
        flat = (taps.image[:, None] * (h * w) + taps.index.flatten(1)).flatten()
        out = grad.new_zeros(b * h * w, c)
        out.index_add_(0, flat, part.flatten(2).transpose(1, 2).reshape(-1, c))
        return out.view(b, h, w, c).permute(0, 3, 1, 2), None, None, None, None, None


class RoIPool(nn.Module):
    def __init__(self, out_size=(7, 7), *, stride=8, samples=2, aligned=True):
        super().__init__()
        self.out_size, self.scale = tuple(out_size), 1.0 / stride
        self.samples, self.aligned = samples, aligned

    def forward(self, feats, rois):
        return ROIAlignFunction.apply(feats, rois, self.out_size, self.scale, self.samples, self.aligned)


class DetectionCriterion(nn.Module):
    def __init__(self, *, alpha=0.75, gamma=2.0, box_weight=2.0):
        super().__init__()
        self.alpha, self.gamma, self.box_weight = alpha, gamma, box_weight

    def forward(self, out, tgt):
        n = max(int((tgt["quality"] > 0).sum()), 1)
        cls = VarifocalFunction.apply(out["logits"], tgt["quality"], self.alpha, self.gamma, float(n))
        box = DIoULossFunction.apply(out["boxes"], tgt["boxes"], "mean", 1e-7)
        return {"cls": cls, "box": self.box_weight * box}


def hard_pixel_loss(logits, labels, *, class_weight=None, keep=0.25, ignore_index=255):
    return HardPixelCEFunction.apply(logits, labels, class_weight, keep, ignore_index)
