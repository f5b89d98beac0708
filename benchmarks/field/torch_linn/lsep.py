"""Log-sum-exp pairwise loss for multi-label ranking with partially labelled rows."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

IGNORE = -1


def _masked_logits(s, keep):
    return s.masked_fill(~keep, float("-inf"))


class LsepLoss(torch.autograd.Function):
    """log(1 + sum_{n in neg, p in pos} exp(scale * (s_n - s_p) + margin)) per row; labels 1 / 0 / -1 (ignored)."""

    @staticmethod
    def forward(ctx, scores, labels, scale, margin, reduction):
        pos, neg = labels == 1, labels == 0
        usable = pos.any(-1) & neg.any(-1)
        z = scale * scores
        # rows without a pair: fall back on all entries, their loss is zeroed below
        pos_k, neg_k = pos | ~usable[:, None], neg | ~usable[:, None]
        zp, zn = _masked_logits(-z, pos_k), _masked_logits(z, neg_k)
        gap = torch.logsumexp(zn, -1) + torch.logsumexp(zp, -1) + margin
        loss = torch.where(usable, F.softplus(gap), torch.zeros_like(gap))
        n_rows = usable.sum().clamp(min=1)
        direction = torch.softmax(zn, -1) - torch.softmax(zp, -1)
        slope = torch.where(usable, torch.sigmoid(gap), torch.zeros_like(gap))
        ctx.save_for_backward(scores, scale, direction, slope, n_rows)
        ctx.reduction = reduction
        if reduction == "none":
            return loss
        return loss.sum() / n_rows if reduction == "mean" else loss.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        scores, scale, direction, slope, n_rows = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad_out = grad_out / n_rows
        g = (grad_out * slope)[:, None] * direction
        g_scale = (g * scores).sum() if ctx.needs_input_grad[2] else None
        return scale * g, None, g_scale, None, None


class MultiTagRanking(nn.Module):
    def __init__(self, dim, n_tags, margin=0.0, reduction="mean"):
        super().__init__()
        self.head = nn.Linear(dim, n_tags)
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.margin, self.reduction = margin, reduction

    def forward(self, feats, labels):
        return LsepLoss.apply(
            self.head(feats), labels, self.log_scale.exp(), self.margin, self.reduction
        )
