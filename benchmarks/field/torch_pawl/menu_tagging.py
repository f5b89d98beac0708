"""Tagging dishes on scanned menus.

A dish line is looked up in a very large vocabulary of surface forms; the rows of the
vocabulary are stored as a two-core tensor train so that the model fits on a tablet.
The tags (cuisine, course, allergens, ...) come from weak annotation: a crowd worker gives
a *set* of cuisines of which one is true, and a share of workers who saw an allergen.
"""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd import Function
import torch.nn.functional as F

PAD = 0


class TrainedRows(Function):
    """Rows of a two-core tensor-train table.

    Args:
        ids: integer tensor of any shape; entry ``PAD`` gives a zero row.
        first: core of shape [n1, d1, rank].
        second: core of shape [n2, rank, d2].

    Returns:
        Tensor of shape ids.shape + [d1 * d2]; row ``i`` is the product of
        ``first[i // n2]`` and ``second[i % n2]``.
    """

    @staticmethod
    def forward(ctx, ids: Tensor, first: Tensor, second: Tensor) -> Tensor:
        n2 = second.shape[0]
        flat = ids.reshape(-1)
        hi = torch.div(flat, n2, rounding_mode="floor")
        lo = flat % n2
        live = (flat != PAD).to(first.dtype)[:, None, None]
        rows = torch.bmm(first[hi], second[lo]) * live
        ctx.save_for_backward(first, second, hi, lo, live)
        return rows.reshape(*ids.shape, -1)

    @staticmethod
    def backward(ctx, grad):
        first, second, hi, lo, live = ctx.saved_tensors
        g = grad.reshape(-1, first.shape[1], second.shape[2]) * live
        g_first = torch.zeros_like(first)
        g_second = torch.zeros_like(second)
        g_first.index_add_(0, hi, torch.bmm(g, second[lo].transpose(1, 2)))
        g_second.index_add_(0, lo, torch.bmm(first[hi].transpose(1, 2), g))
        return None, g_first, g_second


class CandidateCuisineNLL(Function):
    """-log of the probability that the model gives to the whole candidate set.

    logits [B, C]; candidates bool [B, C], at least one True a row; weight [B] is the trust
    in the worker (a constant).  The result is the trust-weighted mean over the batch.
    """

    @staticmethod
    def forward(ctx, logits, candidates, weight):
        floor = torch.finfo(logits.dtype).min
        inside = torch.logsumexp(logits.masked_fill(~candidates, floor), dim=1)
        everything = torch.logsumexp(logits, dim=1)
        share = weight / weight.sum()
        ctx.save_for_backward(logits, candidates, share)
        return ((everything - inside) * share).sum()

    @staticmethod
    def backward(ctx, grad):
        logits, candidates, share = ctx.saved_tensors
        prob = torch.softmax(logits, dim=1)
        target = candidates.to(logits.dtype)
        target = target / target.sum(1, keepdim=True)
        return grad * share[:, None] * (prob - target), None, None


class AllergenShareLoss(Function):
    """Binary cross-entropy of allergen logits [B, A] against the share of workers who
    marked the allergen, in [0, 1].  `boost` [A] multiplies the positive part of the loss.
    `reduction` is "mean", "sum" or "none".  Shares and boosts are constants.
    """

    @staticmethod
    def forward(ctx, logits, share, boost, reduction="mean"):
        loss = boost * share * F.softplus(-logits) + (1 - share) * F.softplus(logits)
        ctx.save_for_backward(logits, share, boost)
        ctx.reduction = reduction
        if reduction == "mean":
            return loss.mean()
        if reduction == "sum":
            return loss.sum()
        return loss

    @staticmethod
    def backward(ctx, grad):
        logits, share, boost = ctx.saved_tensors
        scale = torch.where(share > 0, boost, torch.ones_like(boost))
        g = scale * (torch.sigmoid(logits) - share)
        if ctx.reduction == "mean":
            g = g / logits.numel()
        return grad * g, None, None, None


class SoftTropical(Function):
    """Smoothed max-plus product: y[..., j] = t * log sum_i exp((x[..., i] + w[i, j]) / t).

    x may carry any number of leading axes; w is [n_in, n_out]; t is a positive 0-d tensor.
    """

    @staticmethod
    def forward(ctx, x, w, t):
        z = (x.unsqueeze(-1) + w) / t
        lse = torch.logsumexp(z, dim=-2)
        ctx.save_for_backward(z, lse, t)
        return t * lse

    @staticmethod
    def backward(ctx, g):
        z, lse, t = ctx.saved_tensors
        p = torch.exp(z - lse.unsqueeze(-2))
        gp = p * g.unsqueeze(-2)
        gx = gp.sum(-1)
        gw = gp.reshape(-1, *gp.shape[-2:]).sum(0)
        gt = (g * lse).sum() - (gp * z).sum()
        return gx, gw, gt


class MenuTagger(nn.Module):
    def __init__(self, n1=12, n2=10, d1=4, d2=4, rank=3, cuisines=7):
        super().__init__()
        self.first = nn.Parameter(torch.randn(n1, d1, rank) * 0.3)
        self.second = nn.Parameter(torch.randn(n2, rank, d2) * 0.3)
        self.w = nn.Parameter(torch.randn(d1 * d2, cuisines) * 0.3)
        self.log_t = nn.Parameter(torch.zeros(()))

    def forward(self, ids: Tensor) -> Tensor:
        rows = TrainedRows.apply(ids, self.first, self.second)
        return SoftTropical.apply(rows.sum(1), self.w, self.log_t.exp())


if __name__ == "__main__":
    model = MenuTagger()
    out = model(torch.randint(0, 120, (3, 5)))
    cand = torch.zeros(3, 7, dtype=torch.bool)
    cand[:, 2] = True
    print(CandidateCuisineNLL.apply(out, cand, torch.ones(3)))
