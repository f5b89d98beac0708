"""Post-hoc calibration of classifiers, with per-domain parameters."""
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class DomainTemperatureNLL(torch.autograd.Function):
    """Cross entropy of ``logits / exp(log_temp[domain])``.

    logits [N, C]; log_temp [D]; domain [N] long; target [N] long, where
    ``ignore_index`` takes a row out. ``reduction``: "none", "sum" or "mean" (over
    the rows that are kept; 0 when there is none).
    """

    @staticmethod
    def forward(ctx, logits, log_temp, domain, target, ignore_index=-100, reduction="mean"):
        scale = torch.exp(-log_temp)[domain].unsqueeze(1)
        scaled = logits * scale
        log_prob = torch.log_softmax(scaled, dim=1)
        keep = target != ignore_index
        safe = target.masked_fill(~keep, 0).unsqueeze(1)
        nll = -log_prob.gather(1, safe).squeeze(1).masked_fill(~keep, 0.0)
        count = keep.sum().clamp(min=1)
        ctx.save_for_backward(scaled, scale, log_prob, domain, safe, keep, count, log_temp)
        ctx.reduction = reduction
        if reduction == "none":
            return nll
        return nll.sum() / count if reduction == "mean" else nll.sum()

    @staticmethod
    def backward(ctx, grad):
        scaled, scale, log_prob, domain, safe, keep, count, log_temp = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad = grad / count
        row = (grad * keep.to(log_prob.dtype)).unsqueeze(1)
        g_scaled = log_prob.exp()
        g_scaled = g_scaled.scatter_add(1, safe, -torch.ones_like(safe, dtype=g_scaled.dtype)) * row
        g_temp = torch.zeros_like(log_temp)
        g_temp.index_add_(0, domain, -(g_scaled * scaled).sum(1))
        return g_scaled * scale, g_temp, None, None, None, None


class BetaCalibration(torch.autograd.Function):
    """sigmoid(a log p - b log(1 - p) + c) for p [..., C] in (0, 1) and a, b, c [C].

    With ``monotone`` the map may not decrease: negative ``a`` and ``b`` act as 0.
    """

    @staticmethod
    def forward(ctx, p, a, b, c, monotone=True):
        if monotone:
            a, b = a.clamp(min=0), b.clamp(min=0)
        lp, lq = torch.log(p), torch.log1p(-p)
        out = torch.sigmoid(a * lp - b * lq + c)
        ctx.save_for_backward(p, a, b, lp, lq, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        p, a, b, lp, lq, out = ctx.saved_tensors
        gz = grad * out * (1 - out)
        gp = gz * (a / p + b / (1 - p))
        lead = tuple(range(p.dim() - 1))
        ga = (gz * lp).sum(lead)
        gb = -(gz * lq).sum(lead)
        return gp, ga, gb, gz.sum(lead), None


class SoftBinGap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, conf, correct, centers, width, mask, norm):
        score = -((conf.unsqueeze(-1) - centers) / width) ** 2
        member = torch.softmax(score, dim=-1) * mask.unsqueeze(-1).to(conf.dtype)
        mass = member.sum(0)
        diff = (member * (conf - correct.to(conf.dtype)).unsqueeze(-1)).sum(0)
        count = mask.sum().clamp(min=1)
        gap = diff / mass.clamp(min=1e-12)
        ctx.save_for_backward(conf, correct, centers, member, gap, mask, count)
        ctx.width, ctx.norm = width, norm
        return (diff.abs() if norm == 1 else diff * gap).sum() / count

    @staticmethod
    def backward(ctx, grad):
        conf, correct, centers, member, gap, mask, count = ctx.saved_tensors
        g = grad / count
        if ctx.norm == 1:
            g_diff, g_mass = g * gap.sign(), torch.zeros_like(gap)
        else:
            g_diff, g_mass = 2 * g * gap, -g * gap * gap
        err = (conf - correct.to(conf.dtype)).unsqueeze(-1)
        direct = (member * g_diff).sum(-1)
        g_member = g_diff * err + g_mass
        # softmax; `member` is zero on the masked rows, so they drop out
        g_score = member * (g_member - (member * g_member).sum(-1, keepdim=True))
        pull = -2 * (conf.unsqueeze(-1) - centers) / ctx.width ** 2
        g_score = g_score * pull
        return direct + g_score.sum(-1), None, -g_score.sum(0), None, None, None


class PriorShift(torch.autograd.Function):
    """Adapt log posteriors [..., C] to a new class prior; also gives the log evidence ratio [...]."""

    @staticmethod
    def forward(ctx, log_post, log_ratio):
        shifted = log_post + log_ratio
        evidence = torch.logsumexp(shifted, dim=-1)
        out = shifted - evidence.unsqueeze(-1)
        ctx.save_for_backward(out)
        ctx.ratio_shape = log_ratio.shape
        return out, evidence

    @staticmethod
    def backward(ctx, grad_out, grad_evidence):
        (out,) = ctx.saved_tensors
        g = grad_out - out.exp() * grad_out.sum(-1, keepdim=True)
        return g, g.sum_to_size(ctx.ratio_shape)


def soft_bin_gap(conf, correct, bins: int = 15, width: Optional[float] = None, mask=None, norm=1):
    """Calibration gap with Gaussian-softmax bins: conf [N] in [0, 1], correct [N] bool, mask [N] bool."""
    centers = (torch.arange(bins, dtype=conf.dtype, device=conf.device) + 0.5) / bins
    width = 0.5 / bins if width is None else width
    mask = torch.ones_like(conf, dtype=torch.bool) if mask is None else mask
    return SoftBinGap.apply(conf, correct, centers, width, mask, norm)


class BetaHead(nn.Module):
    def __init__(self, classes, monotone=True):
        super().__init__()
        self.a = nn.Parameter(torch.ones(classes))
        self.b = nn.Parameter(torch.ones(classes))
        self.c = nn.Parameter(torch.zeros(classes))
        self.monotone = monotone

    def forward(self, logits):
        p = F.softmax(logits, dim=-1)
        p = p.clamp(1e-6, 1 - 1e-6)
        return BetaCalibration.apply(p, self.a, self.b, self.c, self.monotone)
