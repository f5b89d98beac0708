"""Matching photographs of leaves to the sheets of a regional herbarium.

A photo becomes a vector; a shortlist of sheets comes from an index, and the match is a cosine with a learned
temperature.  Field notes ("hairy", "by water", ...) enter as a weighted mix of tag vectors.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

NO_SHEET = -1
NO_SHEET_SCORE = -1.0e4


def _unit(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    norm = (x.square().sum(-1, keepdim=True) + eps).sqrt()
    return x / norm, norm


class LeafCandidates(torch.autograd.Function):
    """Scaled cosine of each photo with its shortlisted sheets.

    Parameters
    ----------
    photo : (batch, dim)
    sheets : (n_sheets, dim), the whole collection
    shortlist : (batch, m) integer rows of `sheets`; ``NO_SHEET`` fills up short lists, and a sheet may be on many lists
    log_scale : scalar tensor, the scores are multiplied by its exponential

    Returns
    -------
    (batch, m) scores, ``NO_SHEET_SCORE`` at filled places.
    """

    @staticmethod
    def forward(ctx, photo, sheets, shortlist, log_scale, eps=1e-6):
        empty = shortlist == NO_SHEET
        rows = shortlist.clamp(min=0)
        p, p_norm = _unit(photo, eps)
        s, s_norm = _unit(sheets[rows], eps)
        cosine = torch.einsum("bd,bmd->bm", p, s)
        scale = log_scale.exp()
        ctx.save_for_backward(p, p_norm, s, s_norm, cosine, scale, rows, empty)
        ctx.n_sheets = sheets.shape[0]
        return (scale * cosine).masked_fill(empty, NO_SHEET_SCORE)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        p, p_norm, s, s_norm, cosine, scale, rows, empty = ctx.saved_tensors
        grad = grad.masked_fill(empty, 0.0)
        g_scale = (grad * cosine).sum() * scale
        g_cos = grad * scale
        g_p = torch.einsum("bm,bmd->bd", g_cos, s)
        g_photo = (g_p - p * (g_p * p).sum(-1, keepdim=True)) / p_norm
        g_rows = g_cos.unsqueeze(-1) * (p.unsqueeze(1) - s * cosine.unsqueeze(-1)) / s_norm
        g_sheets = g_rows.new_zeros(ctx.n_sheets, p.shape[-1])
        g_sheets.index_add_(0, rows.reshape(-1), g_rows.reshape(-1, p.shape[-1]))
        return g_photo, g_sheets, None, g_scale, None


class WeightedTagMix(torch.autograd.Function):
    """Mix the vectors of field-note tags with weights that a scorer gives to every slot.

    table (tags, dim), tags (batch, slots) integers, weight (batch, slots) positive.
    Slots that hold `pad` count for nothing.  how="sum" adds weight * vector, how="mean" divides that by the sum of
    the weights in use (an all-pad note gives zeros).
    """

    @staticmethod
    def forward(ctx, table, tags, weight, how="mean", pad=0):
        used = (tags != pad).to(table.dtype)
        w = weight * used
        mixed = torch.einsum("bl,bld->bd", w, table[tags])
        if how == "mean":
            total = w.sum(1, keepdim=True)
            total = torch.where(total > 0, total, torch.ones_like(total))
            mixed = mixed / total
        elif how == "sum":
            total = torch.ones_like(mixed[:, :1])
        else:
            raise ValueError(how)
        ctx.save_for_backward(table, tags, w, total, mixed)
        ctx.how = how
        return mixed

    @staticmethod
    def backward(ctx, grad):
        table, tags, w, total, mixed = ctx.saved_tensors
        g = grad / total
        rows = table[tags]
        if ctx.how == "mean":
            rows = rows - mixed.unsqueeze(1)
        g_weight = torch.einsum("bd,bld->bl", g, rows)
        g_table = torch.zeros_like(table)
        spread = w.unsqueeze(-1) * g.unsqueeze(1)
        g_table.index_put_((tags,), spread, accumulate=True)
        return g_table, None, g_weight, None, None


class ChannelGroupScore(torch.autograd.Function):
    """z-score of groups of channels, with the sample variance (n - 1), a gain and an offset per channel.

    features: (batch, channels) or (batch, channels, height, width)
    """

    @staticmethod
    def forward(ctx, features, gain, offset, groups, eps=1e-5):
        batch, channels = features.shape[:2]
        flat = features.reshape(batch, groups, -1)
        mean = flat.mean(-1, keepdim=True)
        std = (flat.var(-1, keepdim=True, unbiased=True) + eps).sqrt()
        z = ((flat - mean) / std).reshape(features.shape)
        shape = (1, channels) + (1,) * (features.dim() - 2)
        ctx.save_for_backward(z, std, gain)
        ctx.groups, ctx.shape = groups, shape
        return z * gain.view(shape) + offset.view(shape)

    @staticmethod
    def backward(ctx, grad):
        z, std, gain = ctx.saved_tensors
        over = [i for i in range(grad.dim()) if i != 1]
        g_gain = (grad * z).sum(over)
        g_offset = grad.sum(over)
        gz = (grad * gain.view(ctx.shape)).reshape(z.shape[0], ctx.groups, -1)
        zf = z.reshape(gz.shape)
        n = gz.shape[-1]
        gx = (gz - gz.mean(-1, keepdim=True) - zf * (gz * zf).sum(-1, keepdim=True) / (n - 1)) / std
        return gx.reshape(grad.shape), g_gain, g_offset, None, None


class SignMagnitudeLinear(torch.autograd.Function):
    """One-bit layer: y = x @ (size * sign(W)).T + b, with size the mean of |W| of each output row.

    The gradient of W is deliberately NOT the derivative of the forward: it is straight-through.  The binarised weight is
    taken for W itself (size as constant 1), and entries with |W| > 1 receive no gradient.
    The gradients of x and b are the ordinary ones.
    """

    @staticmethod
    def forward(ctx, x, weight, bias):
        size = weight.abs().mean(1, keepdim=True)
        bits = torch.where(weight >= 0, size, -size)
        ctx.save_for_backward(x, weight, bits)
        return F.linear(x, bits, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight, bits = ctx.saved_tensors
        flat = grad.reshape(-1, grad.shape[-1])
        g_weight = flat.t() @ x.reshape(-1, x.shape[-1])
        g_weight = g_weight * (weight.abs() <= 1)
        return grad @ bits, g_weight, flat.sum(0)


class LeafMatcher(nn.Module):
    def __init__(self, sheets: int, tags: int, dim: int = 32, groups: int = 4):
        super().__init__()
        self.groups = groups
        self.sheets = nn.Parameter(torch.randn(sheets, dim))
        self.tags = nn.Parameter(0.1 * torch.randn(tags, dim))
        self.gain = nn.Parameter(torch.ones(dim))
        self.offset = nn.Parameter(torch.zeros(dim))
        self.project = nn.Parameter(0.1 * torch.randn(dim, dim))
        self.project_bias = nn.Parameter(torch.zeros(dim))
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, features, tags, tag_weight, shortlist):
        x = features + WeightedTagMix.apply(self.tags, tags, tag_weight, "mean", 0)
        x = ChannelGroupScore.apply(x, self.gain, self.offset, self.groups)
        x = SignMagnitudeLinear.apply(x, self.project, self.project_bias)
        return LeafCandidates.apply(x, self.sheets, shortlist, self.log_scale)
