"""Building blocks for finding the moment of a video that a sentence describes."""

import math

import torch
from torch import nn


class ClipSpanMean(torch.autograd.Function):
    """Mean of the clip features inside each candidate span, by differences of a running sum."""

    @staticmethod
    def forward(ctx, clips, spans, valid):
        b, t, c = clips.shape
        first = spans[..., 0].clamp(0, t)
        stop = (spans[..., 1] + 1).clamp(0, t)
        stop = torch.maximum(stop, first)
        keep = valid.to(clips.dtype)
        total = torch.cat([clips.new_zeros(b, 1, c), (clips * keep.unsqueeze(-1)).cumsum(1)], dim=1)
        count = torch.cat([keep.new_zeros(b, 1), keep.cumsum(1)], dim=1)
        wide = (-1, -1, c)
        summed = total.gather(1, stop.unsqueeze(-1).expand(*wide)) - total.gather(1, first.unsqueeze(-1).expand(*wide))
        number = (count.gather(1, stop) - count.gather(1, first)).clamp(min=1)
        ctx.save_for_backward(first, stop, number, keep)
        return summed / number.unsqueeze(-1)

    @staticmethod
    def backward(ctx, grad):
        first, stop, number, keep = ctx.saved_tensors
        b, n, c = grad.shape
        part = grad / number.unsqueeze(-1)
        edge = grad.new_zeros(b, keep.shape[1] + 1, c)
        edge.scatter_add_(1, first.unsqueeze(-1).expand(-1, -1, c), part)
        edge.scatter_add_(1, stop.unsqueeze(-1).expand(-1, -1, c), -part)
        return edge.cumsum(1)[:, :-1] * keep.unsqueeze(-1), None, None


def clip_span_mean(clips, spans, valid=None):
    """Pool clips over spans.

    Args:
        clips: (batch, time, channels).
        spans: (batch, candidates, 2) integers, first and last clip, both inside the span. Spans may overlap or
            repeat; a span whose last clip lies before its first one, or that has no valid clip, gives zeros.
        valid: (batch, time) bool, False for padding.

    Returns:
        (batch, candidates, channels).
    """
    if valid is None:
        valid = torch.ones(clips.shape[:2], dtype=torch.bool, device=clips.device)
    return ClipSpanMean.apply(clips, spans, valid)


class SentenceFusion(torch.autograd.Function):
    """Unit-length product of candidate and sentence features."""

    @staticmethod
    def forward(ctx, candidates, sentence, exists, eps):
        product = candidates * sentence.unsqueeze(1)
        length = product.norm(dim=-1, keepdim=True)
        denom = length.clamp(min=eps)
        unit = product / denom
        ctx.save_for_backward(candidates, sentence, exists, unit, denom)
        ctx.above = length > eps
        return unit * exists.unsqueeze(-1)

    @staticmethod
    def backward(ctx, grad):
        candidates, sentence, exists, unit, denom = ctx.saved_tensors
        radial = (grad * unit).sum(-1, keepdim=True) * ctx.above
        g_product = (grad - radial * unit) / denom
        g_candidates = g_product * sentence.unsqueeze(1) * exists.unsqueeze(-1)
        g_sentence = (g_product * candidates).sum(1)
        return g_candidates, g_sentence, None, None


def sentence_fusion(candidates, sentence, exists=None, eps=1e-6):
    """Fuse candidate moments with their sentence.

    Args:
        candidates: (batch, candidates, channels).
        sentence: (batch, channels).
        exists: (batch, candidates) bool; the cells of the moment map below its diagonal and those past the end of
            the video do not exist and come out as zeros.
        eps: smallest length to divide by.
    """
    if exists is None:
        exists = torch.ones(candidates.shape[:2], dtype=torch.bool, device=candidates.device)
    return SentenceFusion.apply(candidates, sentence, exists, eps)


class SpanGIoU(torch.autograd.Function):
    """Generalised overlap loss of centre/width spans."""

    @staticmethod
    def forward(ctx, centre, width, target, weight, reduction):
        lo, hi = centre - 0.5 * width, centre + 0.5 * width
        t_lo, t_hi = target.unbind(-1)
        inner = torch.minimum(hi, t_hi) - torch.maximum(lo, t_lo)
        inter = inner.clamp(min=0)
        union = width + (t_hi - t_lo) - inter
        hull = torch.maximum(hi, t_hi) - torch.minimum(lo, t_lo)
        loss = 2.0 - inter / union - union / hull
        if reduction == "none":
            scale = torch.ones_like(loss)
            out = weight * loss
        else:
            norm = weight.sum() if reduction == "mean" else torch.ones_like(weight.sum())
            scale = (1.0 / norm).expand_as(loss)
            out = (weight * loss).sum() / norm
        ctx.save_for_backward(lo, hi, t_lo, t_hi, inter, union, hull, loss, weight, scale)
        return out

    @staticmethod
    def backward(ctx, grad):
        lo, hi, t_lo, t_hi, inter, union, hull, loss, weight, scale = ctx.saved_tensors
        outer = grad * scale
        g_loss = outer * weight
        g_inter = -g_loss / union
        g_union = g_loss * (inter / union**2 - 1.0 / hull)
        g_hull = g_loss * union / hull**2
        g_inter = (g_inter - g_union) * (inter > 0)
        g_hi = g_inter * (hi < t_hi) + g_hull * (hi > t_hi)
        g_lo = -g_inter * (lo > t_lo) - g_hull * (lo < t_lo)
        g_centre = g_hi + g_lo
        g_width = 0.5 * (g_hi - g_lo) + g_union
        g_weight = outer * loss
        return g_centre, g_width, None, g_weight, None


def span_giou(centre, width, target, weight=None, reduction="mean"):
    """One minus the generalised overlap, one value per moment or reduced.

    Args:
        centre: (moments,) predicted centres.
        width: (moments,) predicted widths, positive.
        target: (moments, 2) true first and last time.
        weight: (moments,) confidences, positive; may come from a quality head that is trained along.
        reduction: "mean" (weighted mean), "sum" or "none".
    """
    if weight is None:
        weight = torch.ones_like(centre)
    return SpanGIoU.apply(centre, width, target, weight, reduction)


class MomentHead(nn.Module):
    """Candidate features, their match with the sentence, and refined spans."""

    def __init__(self, channels: int, words: int):
        super().__init__()
        self.video = nn.Linear(channels, channels)
        self.text = nn.Linear(words, channels)
        self.score = nn.Linear(channels, 1)
        self.offset = nn.Linear(channels, 3)
        self.prior = nn.Parameter(torch.tensor(-math.log(9.0)))

    def forward(self, clips, spans, sentence, valid=None):
        pooled = clip_span_mean(clips, spans, valid)
        exists = spans[..., 1] >= spans[..., 0]
        fused = sentence_fusion(self.video(pooled), self.text(sentence), exists)
        score = self.score(fused).squeeze(-1) + self.prior
        shift, stretch, quality = self.offset(fused).unbind(-1)
        width = (spans[..., 1] - spans[..., 0] + 1).clamp(min=1).to(clips.dtype)
        centre = spans.to(clips.dtype).mean(-1) + 0.5 + shift * width
        return score, centre, width * stretch.exp(), torch.sigmoid(quality)


class MomentSpanLoss(nn.Module):
    def __init__(self, reduction="mean"):
        super().__init__()
        self.reduction = reduction

    def forward(self, centre, width, quality, target):
        flat = target.reshape(-1, 2)
        return span_giou(centre.reshape(-1), width.reshape(-1), flat, quality.reshape(-1), self.reduction)
