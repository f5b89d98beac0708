"""Scores for link prediction and a coverage loss for the summariser.

All three are written as autograd Functions because the default graphs keep
(B, K, d) sized intermediates alive.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
import torch.nn as nn

if TYPE_CHECKING:
    from jaxtyping import Float, Int

_EPS = 1e-12


def _circular_correlation(a, b):
    """[a * b]_k = sum_i a_i b_{(k + i) mod d}."""
    d = a.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(a).conj() * torch.fft.rfft(b), n=d)


def _circular_convolution(a, b):
    d = a.shape[-1]
    return torch.fft.irfft(torch.fft.rfft(a) * torch.fft.rfft(b), n=d)


class HolographicScore(torch.autograd.Function):
    """HolE: score(h, r, t) = <r, h (star) t>, star the circular correlation.

    h, r, t: (..., d), leading axes broadcast against each other (one relation
    against many tails and so on), d the same for the three. Returns (...).
    """

    @staticmethod
    def forward(
        ctx,
        head: Float[torch.Tensor, "*b d"],
        rel: Float[torch.Tensor, "*b d"],
        tail: Float[torch.Tensor, "*b d"],
    ) -> Float[torch.Tensor, "*b"]:
        ctx.save_for_backward(head, rel, tail)
        return (rel * _circular_correlation(head, tail)).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        head, rel, tail = ctx.saved_tensors
        g = grad.unsqueeze(-1)
        g_head = g_rel = g_tail = None
        if ctx.needs_input_grad[0]:
            g_head = (g * _circular_correlation(rel, tail)).sum_to_size(head.shape)
        if ctx.needs_input_grad[1]:
            g_rel = (g * _circular_correlation(head, tail)).sum_to_size(rel.shape)
        if ctx.needs_input_grad[2]:
            g_tail = (g * _circular_convolution(head, rel)).sum_to_size(tail.shape)
        return g_head, g_rel, g_tail


def _distance(diff, p):
    if p == 1:
        return diff.abs().sum(-1)
    return (diff.square().sum(-1) + _EPS).sqrt()


def _direction(diff, p):
    if p == 1:
        return diff.sign()
    return diff / _distance(diff, 2).unsqueeze(-1)


class TranslationMargin(torch.autograd.Function):
    """TransE margin ranking loss with corrupted tails.

        mean_{b,k} relu(margin + |h + r - t|_p - |h + r - t'_k|_p)

    Args:
        entities: (N, d) entity table.
        relations: (R, d) relation table.
        triples: (B, 3) integer ids (head, relation, tail) of a batch drawn from
            the graph; the same entity or relation may occur many times.
        corrupt: (B, K) integer ids of the negative tails.
        margin: float.
        p: 1 or 2.
    """

    @staticmethod
    def forward(
        ctx,
        entities: Float[torch.Tensor, "n d"],
        relations: Float[torch.Tensor, "r d"],
        triples: Int[torch.Tensor, "b 3"],
        corrupt: Int[torch.Tensor, "b k"],
        margin: float = 1.0,
        p: int = 2,
    ) -> Float[torch.Tensor, ""]:
        h, r, t = triples.unbind(1)
        query = entities[h] + relations[r]
        pos = _distance(query - entities[t], p)
        neg = _distance(query[:, None] - entities[corrupt], p)
        violation = margin + pos[:, None] - neg
        ctx.save_for_backward(entities, relations, triples, corrupt, violation > 0)
        ctx.p = p
        return violation.relu().mean()

    @staticmethod
    def backward(ctx, grad):
        entities, relations, triples, corrupt, active = ctx.saved_tensors
        h, r, t = triples.unbind(1)
        query = entities[h] + relations[r]
        share = grad * active.to(entities.dtype) / active.numel()

        d_pos = _direction(query - entities[t], ctx.p) * share.sum(1, keepdim=True)
        d_neg = _direction(query[:, None] - entities[corrupt], ctx.p) * share.unsqueeze(-1)
        d_query = d_pos - d_neg.sum(1)

        g_ent = torch.zeros_like(entities)
        g_ent.index_add_(0, h, d_query)
        g_ent.index_add_(0, t, -d_pos)
        g_ent.index_add_(0, corrupt.reshape(-1), d_neg.reshape(-1, d_neg.shape[-1]))
        g_rel = torch.zeros_like(relations)
        g_rel[r] += d_query
        return g_ent, g_rel, None, None, None, None


class CoveragePenalty(torch.autograd.Function):
    r"""Coverage loss of See et al., :math:`\sum_i \min(a_{ti}, c_{ti})` with
    :math:`c_t = \sum_{t' < t} a_{t'}`.

    Args:
        attn: attention over the source, (B, T, S), positive.
        lengths: number of decoded tokens, (B,), between 1 and T. Later steps are
            padding.
        reduction: ``"mean"`` averages over the tokens of a sentence and then over
            the sentences, ``"sum"`` adds all tokens, ``"none"`` returns (B, T)
            with zeros at padding.
    """

    @staticmethod
    def forward(ctx, attn, lengths, reduction: Literal["mean", "sum", "none"] = "mean"):
        steps = torch.arange(attn.shape[1], device=attn.device)
        mask = (steps[None, :] < lengths[:, None]).to(attn.dtype)
        coverage = attn.cumsum(1) - attn
        per_token = torch.minimum(attn, coverage).sum(-1) * mask
        ctx.save_for_backward(attn < coverage, mask)
        ctx.reduction = reduction
        if reduction == "none":
            return per_token
        if reduction == "sum":
            return per_token.sum()
        return (per_token.sum(1) / lengths.to(attn.dtype)).mean()

    @staticmethod
    def backward(ctx, grad):
        from_attn, mask = ctx.saved_tensors
        if ctx.reduction == "mean":
            token_grad = grad * mask / mask.sum()
        else:
            token_grad = grad * mask
        g = token_grad.unsqueeze(-1).expand(from_attn.shape)
        zero = torch.zeros((), dtype=g.dtype, device=g.device)
        direct = torch.where(from_attn, g, zero)
        to_cov = torch.where(from_attn, zero, g)
        # every earlier step feeds the coverage of the later ones
        later = to_cov.flip(1).cumsum(1).flip(1) - to_cov
        return direct + later, None, None


class HolE(nn.Module):
    def __init__(self, n_entities: int, n_relations: int, dim: int):
        super().__init__()
        self.entity = nn.Embedding(n_entities, dim)
        self.relation = nn.Embedding(n_relations, dim)

    def forward(self, triples: torch.Tensor) -> torch.Tensor:
        h, r, t = triples.unbind(-1)
        return HolographicScore.apply(self.entity(h), self.relation(r), self.entity(t))

    def rank_tails(self, head: torch.Tensor, rel: torch.Tensor) -> torch.Tensor:
        h, r = self.entity(head)[:, None], self.relation(rel)[:, None]
        return HolographicScore.apply(h, r, self.entity.weight[None])


class TransE(nn.Module):
    def __init__(self, n_entities: int, n_relations: int, dim: int, margin: float = 1.0, p: int = 2):
        super().__init__()
        self.entity = nn.Parameter(torch.randn(n_entities, dim) / dim ** 0.5)
        self.relation = nn.Parameter(torch.randn(n_relations, dim) / dim ** 0.5)
        self.margin, self.p = margin, p

    def forward(self, triples, corrupt):
        return TranslationMargin.apply(self.entity, self.relation, triples, corrupt, self.margin, self.p)


def summary_loss(log_probs, targets, attn, lengths, coverage_weight: float = 1.0):
    """Masked token NLL plus the coverage term."""
    nll = -log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    mask = torch.arange(nll.shape[1], device=nll.device)[None] < lengths[:, None]
    nll = (nll * mask).sum(1) / lengths
    return nll.mean() + coverage_weight * CoveragePenalty.apply(attn, lengths, "mean")
