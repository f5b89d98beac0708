from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


class PopularityOffset(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, log_pop, items, tau):
        ctx.save_for_backward(items)
        ctx.tau = tau
        ctx.n_items = log_pop.shape[0]
        return scores - tau * log_pop[items]

    @staticmethod
    def backward(ctx, grad):
        (items,) = ctx.saved_tensors
        g_pop = None
        if ctx.needs_input_grad[1]:
            g_pop = grad.new_zeros(ctx.n_items)
            g_pop[items.reshape(-1)] -= ctx.tau * grad.reshape(-1)
        return grad, g_pop, None, None


class PairwiseSoftHinge(torch.autograd.Function):
    """Soft hinge on pos (B,) against neg (B, K) with row weights (B,); reduction is none, sum or (weighted) mean."""

    @staticmethod
    def forward(ctx, pos, neg, weight, margin, reduction):
        z = margin - pos.unsqueeze(1) + neg
        loss = F.softplus(z) * weight.unsqueeze(1)
        ctx.save_for_backward(z, weight)
        ctx.reduction = reduction
        if reduction == "none":
            return loss
        if reduction == "sum":
            return loss.sum()
        return loss.sum() / (weight.sum() * neg.shape[1])

    @staticmethod
    def backward(ctx, grad):
        z, weight = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad = grad / z.numel()
        g_neg = grad * weight.unsqueeze(1) * torch.sigmoid(z)
        return -g_neg.sum(1), g_neg, None, None, None


class SoftBootstrapCE(torch.autograd.Function):
    """Soft bootstrapping cross entropy (Reed et al., 2015) with a frozen target.

    The target of each row is the mix ``beta * onehot(label) + (1 - beta) * p`` of the
    given label and the model's own prediction ``p = softmax(logits)``, and the loss is the
    cross entropy to that mix, averaged over the rows whose label is not ``ignore_index``.

    The gradient is *not* that of the value: as in the reference implementation the mixed
    target is a constant in backward (no gradient flows through the ``p`` in it), so that the
    rows' gradient is ``softmax(logits) - target``.

    Args:
        logits: ``(N, C)``.
        labels: ``(N,)`` int64, classes or ``ignore_index``.
        beta: share of the given label, in ``[0, 1]``.
        ignore_index: label of rows to leave out. If all are left out the loss is 0.
    """

    @staticmethod
    def forward(ctx, logits, labels, beta=0.95, ignore_index=-100):
        logp = logits.log_softmax(-1)
        p = logp.exp()
        keep = labels != ignore_index
        onehot = F.one_hot(labels.masked_fill(~keep, 0), logits.shape[-1]).to(p.dtype)
        target = beta * onehot + (1.0 - beta) * p
        count = keep.sum().clamp(min=1)
        rows = -(target * logp).sum(-1)
        ctx.save_for_backward(p, target, keep, count)
        return rows.masked_fill(~keep, 0.0).sum() / count

    @staticmethod
    def backward(ctx, grad):
        p, target, keep, count = ctx.saved_tensors
        g = (p - target) * keep.unsqueeze(-1).to(p.dtype)
        return g * (grad / count), None, None, None


class DebiasedRanker(nn.Module):
    def __init__(self, n_users: int, n_items: int, dim: int = 32, tau: float = 1.0, margin: float = 0.0):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        self.log_pop = nn.Parameter(torch.zeros(n_items))
        self.tau = tau
        self.margin = margin

    def score(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        raw = torch.einsum("bd,bkd->bk", self.user(users), self.item(items))
        return PopularityOffset.apply(raw, self.log_pop, items, self.tau)

    def loss(self, users, pos_items, neg_items, weight: Optional[torch.Tensor] = None, reduction: str = "mean"):
        pos = self.score(users, pos_items.unsqueeze(1)).squeeze(1)
        neg = self.score(users, neg_items)
        if weight is None:
            weight = torch.ones_like(pos)
        return PairwiseSoftHinge.apply(pos, neg, weight, self.margin, reduction)


def bootstrap_step(model, optimizer, batch, beta=0.95):
    x, y = batch
    optimizer.zero_grad()
    loss = SoftBootstrapCE.apply(model(x), y, beta)
    loss.backward()
    optimizer.step()
    return loss.item()
