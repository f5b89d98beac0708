"""Pieces of a news summariser: choosing sentences, placing attention, avoiding repetition.

B summaries, N sentences, S source positions.
"""
from __future__ import annotations

import torch
from torch import nn
from torch.autograd import Function


def _length_mask(lengths: torch.Tensor, size: int) -> torch.Tensor:
    """(B,) lengths -> (B, size) bool, True on real positions."""
    return torch.arange(size, device=lengths.device)[None, :] < lengths[:, None]


def _spent(scores, tokens, price, tau):
    keep = torch.sigmoid((scores - price[:, None] * tokens) / tau)
    return keep, (tokens * keep).sum(1)


class SentenceBudget(Function):
    """Soft choice of sentences under a budget of tokens.

        keep[b, i] = sigmoid((score[b, i] - price[b] * tokens[b, i]) / tau)

    where the price is zero if the summary already fits, and otherwise such that the kept tokens
    use up exactly ``budget[b]``.  scores, tokens (B, N); budget (B,).  Padding has zero tokens.
    Returns ``keep``.
    """

    @staticmethod
    def forward(ctx, scores, tokens, budget, tau=1.0):
        with torch.no_grad():
            low = torch.zeros_like(budget)
            high = torch.ones_like(budget)
            for _ in range(40):
                high = torch.where(_spent(scores, tokens, high, tau)[1] > budget, 2 * high, high)
            for _ in range(60):
                mid = (low + high) / 2
                dear = _spent(scores, tokens, mid, tau)[1] > budget
                low, high = torch.where(dear, mid, low), torch.where(dear, high, mid)
            price = (low + high) / 2
            tight = _spent(scores, tokens, torch.zeros_like(price), tau)[1] > budget
        for _ in range(2):     # polish by Newton
            keep, used = _spent(scores, tokens, price, tau)
            slope = (tokens**2 * keep * (1 - keep)).sum(1) / tau
            price = torch.where(tight, price + (used - budget) / slope, torch.zeros_like(price))
        keep, _ = _spent(scores, tokens, price, tau)
        ctx.save_for_backward(tokens, keep, price, tight)
        ctx.tau = tau
        return keep

    @staticmethod
    def backward(ctx, g):
        tokens, keep, price, tight = ctx.saved_tensors
        bend = keep * (1 - keep) / ctx.tau
        slope = (tokens**2 * bend).sum(1)
        pull = (g * bend * tokens).sum(1) / torch.where(tight, slope, torch.ones_like(slope))
        pull = torch.where(tight, pull, torch.zeros_like(pull))[:, None]
        g_scores = (g - pull * tokens) * bend
        g_tokens = -price[:, None] * g_scores - pull * keep
        return g_scores, g_tokens, pull[:, 0], None


class LocalAlignment(Function):
    """Attention concentrated around a predicted centre (local-p).

    softmax over the real positions times a Gaussian bump of width ``sigma`` around ``centre``; with
    ``renorm`` the row is scaled to sum to one again.
    scores (B, S), centre (B,), sigma () or (1,), lengths (B,) integer.
    """

    @staticmethod
    def forward(ctx, scores, centre, sigma, lengths, renorm=False):
        mask = _length_mask(lengths, scores.shape[1])
        soft = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1)
        pos = torch.arange(scores.shape[1], dtype=scores.dtype, device=scores.device)
        off = pos[None, :] - centre[:, None]
        bump = torch.exp(-0.5 * (off / sigma) ** 2)
        raw = soft * bump
        z = raw.sum(-1, keepdim=True)
        ctx.save_for_backward(soft, bump, off, z, sigma)
        ctx.renorm = renorm
        return raw / z if renorm else raw

    @staticmethod
    def backward(ctx, g):
        soft, bump, off, z, sigma = ctx.saved_tensors
        raw = soft * bump
        if ctx.renorm:
            g = (g - (g * raw).sum(-1, keepdim=True)) / z
        g_soft = g * bump
        g_scores = soft * (g_soft - (g_soft * soft).sum(-1, keepdim=True))
        along = g * raw * off / sigma**2
        g_centre = along.sum(-1)
        g_sigma = (along * off / sigma).sum().reshape(sigma.shape)
        return g_scores, g_centre, g_sigma, None, None


class RunOnPenalty(Function):
    """Hinge on the cosine of neighbouring sentence vectors: a summary should not repeat itself.

    ``sentences`` is (B, N, D), ``lengths`` the number of sentences of each summary.  Mean over all
    neighbouring pairs of the batch; a summary of one sentence has none.
    """

    EPS = 1e-6

    @staticmethod
    def forward(ctx, sentences, lengths, margin=0.2):
        norm = sentences.norm(dim=-1, keepdim=True)
        unit = sentences / norm.clamp(min=RunOnPenalty.EPS)
        cos = (unit[:, 1:] * unit[:, :-1]).sum(-1)
        pair = _length_mask(lengths - 1, sentences.shape[1] - 1)
        n = pair.sum().clamp(min=1)
        active = pair & (cos > margin)
        ctx.save_for_backward(unit, norm, active, n)
        return ((cos - margin) * active).sum() / n

    @staticmethod
    def backward(ctx, grad):
        unit, norm, active, n = ctx.saved_tensors
        w = (grad / n * active)[..., None]
        g_unit = torch.zeros_like(unit)
        g_unit[:, 1:] += w * unit[:, :-1]
        g_unit[:, :-1] += w * unit[:, 1:]
        radial = (unit * g_unit).sum(-1, keepdim=True) * unit
        radial = torch.where(norm > RunOnPenalty.EPS, radial, torch.zeros_like(radial))
        return (g_unit - radial) / norm.clamp(min=RunOnPenalty.EPS), None, None


class LocalAttention(nn.Module):
    """Luong's predictive alignment for one decoder step."""

    def __init__(self, dim: int, width: float = 4.0, renorm: bool = False):
        super().__init__()
        self.query = nn.Linear(dim, dim, bias=False)
        self.where = nn.Linear(dim, 1)
        self.sigma = nn.Parameter(torch.tensor(width / 2))
        self.renorm = renorm

    def forward(self, state, memory, lengths):
        scores = torch.einsum("bd,bsd->bs", self.query(state), memory)
        centre = torch.sigmoid(self.where(state))[:, 0] * (lengths - 1)
        a = LocalAlignment.apply(scores, centre, self.sigma, lengths, self.renorm)
        return torch.einsum("bs,bsd->bd", a, memory), a
