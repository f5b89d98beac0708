"""Next-basket ranking: factorised transition scores, decayed history pooling, margin loss."""
from typing import Literal, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

PAD = -1


class BasketTransition(torch.autograd.Function):
    """Scores candidates from the items of the previous basket (the Markov half of FPMC).

    ``score[b, j] = 1 / |basket_b| * sum_{i in basket_b} <source[i], target[cand[b, j]]>``

    Args:
        source: ``(V, K)`` embedding of items seen in the last basket.
        target: ``(V, K)`` embedding of candidate items.
        basket: ``(B, L)`` int64, item ids, right-padded with ``-1``. An item that was
            bought twice is listed twice. The same item is of course found in
            the baskets of many users.
        cand: ``(B, J)`` int64, candidate ids, no padding; may repeat.

    Returns:
        ``(B, J)`` scores. An empty basket scores 0.

    Dense gradients are returned for ``source`` and ``target``.
    """

    @staticmethod
    def forward(ctx, source: Tensor, target: Tensor, basket: Tensor, cand: Tensor) -> Tensor:
        valid = basket != PAD
        size = valid.sum(1, keepdim=True).clamp(min=1).to(source.dtype)
        rows = source[basket.clamp(min=0)] * valid.unsqueeze(-1)
        query = rows.sum(1) / size
        ctx.save_for_backward(source, target, basket, cand, query, size)
        return torch.einsum("bk,bjk->bj", query, target[cand])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_score):
        source, target, basket, cand, query, size = ctx.saved_tensors
        grad_source = grad_target = None
        if ctx.needs_input_grad[0]:
            grad_query = torch.einsum("bj,bjk->bk", grad_score, target[cand]) / size
            valid = basket != PAD
            per_item = grad_query.unsqueeze(1).expand(-1, basket.shape[1], -1)
            grad_source = torch.zeros_like(source)
            grad_source[basket[valid]] += per_item[valid]
        if ctx.needs_input_grad[1]:
            outer = grad_score.unsqueeze(-1) * query.unsqueeze(1)
            grad_target = torch.zeros_like(target)
            grad_target.index_add_(0, cand.reshape(-1), outer.reshape(-1, target.shape[1]))
        return grad_source, grad_target, None, None


class GapDecayPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, history, gaps, log_rate, mask):
        rate = log_rate.exp()
        logits = (-rate * gaps).masked_fill(~mask, float("-inf"))
        any_valid = mask.any(-1, keepdim=True)
        w = torch.softmax(logits.masked_fill(~any_valid, 0.0), -1) * any_valid
        out = torch.einsum("bt,btd->bd", w, history)
        ctx.save_for_backward(history, gaps, rate, w, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        history, gaps, rate, w, out = ctx.saved_tensors
        g_hist = w.unsqueeze(-1) * grad.unsqueeze(1)
        centred = torch.einsum("bd,btd->bt", grad, history) - (grad * out).sum(-1, keepdim=True)
        g_logit = w * centred
        g_gaps = -rate * g_logit
        g_rate = -(g_logit * gaps).sum() * rate
        return g_hist, g_gaps, g_rate, None


class RankMarginHinge(torch.autograd.Function):
    """Mean hinge max(0, margin - pos[b] + neg[b, n]) over the unmasked negatives of the batch."""

    @staticmethod
    def forward(ctx, pos: Tensor, neg: Tensor, neg_mask: Tensor, margin: float = 1.0):
        viol = margin - pos.unsqueeze(1) + neg
        active = viol > 0
        count = neg_mask.sum().clamp(min=1).to(pos.dtype)
        ctx.save_for_backward(active, neg_mask, count)
        ctx.dtype = pos.dtype
        return (viol.clamp(min=0) * neg_mask).sum() / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        active, neg_mask, count = ctx.saved_tensors
        unit = active.to(ctx.dtype) * (grad / count)
        return -unit.sum(1), unit * neg_mask, None, None


def hinge_ranking_loss(pos: Tensor, neg: Tensor, neg_mask: Optional[Tensor] = None, margin: float = 1.0) -> Tensor:
    if neg_mask is None:
        neg_mask = torch.ones_like(neg, dtype=torch.bool)
    return RankMarginHinge.apply(pos, neg, neg_mask, margin)


class NextBasketModel(nn.Module):
    def __init__(self, num_items: int, dim: int = 32, combine: Literal["sum", "transition"] = "sum"):
        super().__init__()
        self.source = nn.Parameter(torch.randn(num_items, dim) * 0.05)
        self.target = nn.Parameter(torch.randn(num_items, dim) * 0.05)
        self.log_rate = nn.Parameter(torch.tensor(-1.0))
        self.combine = combine

    def forward(self, basket: Tensor, cand: Tensor, past: Tensor, gaps: Tensor) -> Tensor:
        score = BasketTransition.apply(self.source, self.target, basket, cand)
        if self.combine == "transition":
            return score
        mask = past != PAD
        hist = F.embedding(past.clamp(min=0), self.target)
        taste = GapDecayPool.apply(hist, gaps, self.log_rate, mask)
        return score + torch.einsum("bd,bjd->bj", taste, self.target[cand])


def fit_step(model: NextBasketModel, opt: torch.optim.Optimizer, batch: dict) -> float:
    opt.zero_grad()
    cand = torch.cat([batch["next"].unsqueeze(1), batch["negatives"]], 1)
    s = model(batch["basket"], cand, batch["past"], batch["gaps"])
    # a sampled negative that is the true next item does not count
    keep = batch["negatives"] != batch["next"].unsqueeze(1)
    loss = hinge_ranking_loss(s[:, 0], s[:, 1:], keep)
    loss.backward()
    opt.step()
    return float(loss.detach())
