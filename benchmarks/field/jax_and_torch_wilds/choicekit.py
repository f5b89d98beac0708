"""Likelihoods for discrete choice, ranking and duration data.

All objects are autograd functions with a thin functional or module wrapper;
the wrappers are what the estimation scripts use.
"""
from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn


# ---------------------------------------------------------------------------
# Utilities
# ---------------------------------------------------------------------------

class BoxCox(torch.autograd.Function):
    """Box-Cox transform of an attribute (cost, travel time).

    ``y = ((x + shift) ** lam - 1) / lam``

    x: ``(..., alternatives)``, with ``x + shift > 0``
    lam: ``(alternatives,)``, non-zero
    shift: float constant
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, lam: Tensor, shift: float = 0.0) -> Tensor:
        power = (x + shift) ** lam
        ctx.save_for_backward(x, lam, power)
        ctx.shift = shift
        return (power - 1.0) / lam

    @staticmethod
    def backward(ctx: Any, grad: Tensor):
        x, lam, power = ctx.saved_tensors
        grad_x = grad * power / (x + ctx.shift)
        slope = power * torch.log(x) / lam - (power - 1.0) / lam**2
        grad_lam = (grad * slope).reshape(-1, lam.shape[0]).sum(0)
        return grad_x, grad_lam, None


class BoxCoxUtility(nn.Module):
    """``V = asc + beta * boxcox(cost)`` for every alternative."""

    def __init__(self, n_alternatives: int, shift: float = 0.0):
        super().__init__()
        self.asc = nn.Parameter(torch.zeros(n_alternatives))
        self.beta = nn.Parameter(-torch.ones(()))
        self.lam = nn.Parameter(torch.full((n_alternatives,), 0.8))
        self.shift = shift

    def forward(self, cost: Tensor) -> Tensor:
        return self.asc + self.beta * BoxCox.apply(cost, self.lam, self.shift)


# ---------------------------------------------------------------------------
# Nested logit
# ---------------------------------------------------------------------------

def _pool(values: Tensor, nest: Tensor, n_nests: int) -> Tensor:
    """Sum the columns of ``values`` (rows, alternatives) by nest."""
    return values.new_zeros(values.shape[0], n_nests).index_add(1, nest, values)


class NestedLogit(torch.autograd.Function):
    """Log choice probabilities of the two-level nested logit.

    Parameters
    ----------
    utility : (rows, alternatives)
    scale : (nests,)
        dissimilarity parameter of each nest, positive
    nest : (alternatives,), long
        the nest of each alternative; nests may have any number of members

    Returns
    -------
    (rows, alternatives) log probabilities
    """

    @staticmethod
    def forward(ctx, utility, scale, nest):
        n_nests = scale.shape[0]
        scaled = utility / scale[nest]
        top = scaled.amax(dim=1, keepdim=True)
        # running maximum per nest keeps the exponentials in range
        peak = top.expand(-1, n_nests).clone()
        peak = peak.scatter_reduce(1, nest.expand_as(scaled), scaled, "amax", include_self=False)
        mass = _pool(torch.exp(scaled - peak[:, nest]), nest, n_nests)
        occupied = mass > 0
        inclusive = torch.where(occupied, peak + torch.where(occupied, mass, 1.0).log(), 0.0)
        upper = torch.where(occupied, scale * inclusive, float("-inf"))
        log_nest = upper - upper.logsumexp(dim=1, keepdim=True)
        log_within = scaled - inclusive[:, nest]
        ctx.save_for_backward(utility, scale, nest, inclusive, log_nest.exp(), log_within.exp())
        return log_within + log_nest[:, nest]

    @staticmethod
    def backward(ctx, grad):
        utility, scale, nest, inclusive, p_nest, p_within = ctx.saved_tensors
        by_nest = _pool(grad, nest, scale.shape[0])
        total = grad.sum(dim=1, keepdim=True)
        excess = by_nest - total * p_nest
        grad_incl = scale * excess - by_nest
        grad_scaled = grad + grad_incl[:, nest] * p_within
        grad_utility = grad_scaled / scale[nest]
        pull = _pool(grad_scaled * utility, nest, scale.shape[0])
        grad_scale = (inclusive * excess - pull / scale**2).sum(0)
        return grad_utility, grad_scale, None


# ---------------------------------------------------------------------------
# Rankings
# ---------------------------------------------------------------------------

class PlackettLuce(torch.autograd.Function):

    @staticmethod
    def forward(ctx, scores: Tensor, ranking: Tensor, depth: Tensor) -> Tensor:
        ranked = scores.gather(1, ranking)
        remaining = ranked.flip(1).logcumsumexp(1).flip(1)
        place = torch.arange(scores.shape[1], device=scores.device)
        observed = place < depth[:, None]
        ctx.save_for_backward(ranked, remaining, observed, ranking)
        return torch.where(observed, ranked - remaining, 0.0).sum(1)

    @staticmethod
    def backward(ctx, grad: Tensor):
        ranked, remaining, observed, ranking = ctx.saved_tensors
        # an item is at risk in each stage up to the one at which it is taken
        shift = remaining.amin(dim=1, keepdim=True)
        stage = torch.where(observed, torch.exp(shift - remaining), 0.0)
        at_risk = torch.exp(ranked - shift) * stage.cumsum(1)
        local = grad[:, None] * (observed.to(ranked.dtype) - at_risk)
        return local.gather(1, ranking), None, None


def ranking_loglik(scores: Tensor, ranking: Tensor, depth: Optional[Tensor] = None) -> Tensor:
    """Plackett-Luce log-likelihood of (partial) rankings.

    Args:
        scores: (voters, items) worth of the items on the log scale.
        ranking: (voters, items) item ids from the best to the worst; the ids
            past ``depth`` are the items that the voter left out, in any order.
        depth: (voters,) number of places that were filled in; all by default.

    Returns:
        (voters,)
    """
    if depth is None:
        depth = torch.full((scores.shape[0],), scores.shape[1], device=scores.device)
    return PlackettLuce.apply(scores, ranking, depth)


# ---------------------------------------------------------------------------
# Durations
# ---------------------------------------------------------------------------

class StratifiedCox(torch.autograd.Function):
    """Negative log partial likelihood, Breslow ties, within strata.

    risk: ``(n,)`` log relative hazards.  time: ``(n,)``.  event: ``(n,)``
    bool, true where the event was seen.  stratum: ``(n,)`` long.  With
    ``average`` the sum is divided by the number of events.
    """

    @staticmethod
    def forward(ctx, risk, time, event, stratum, average=False):
        same = stratum[:, None] == stratum[None, :]
        at_risk = same & (time[None, :] >= time[:, None])       # row: event, column: subject
        logits = torch.where(at_risk, risk[None, :], float("-inf"))
        log_total = torch.logsumexp(logits, dim=1)
        weight = event.to(risk.dtype)
        if average:
            weight = weight / weight.sum().clamp_min(1.0)
        ctx.save_for_backward(torch.exp(logits - log_total[:, None]), weight)
        return (weight * (log_total - risk)).sum()

    @staticmethod
    def backward(ctx, grad):
        share, weight = ctx.saved_tensors
        return grad * (weight @ share - weight), None, None, None, None


class CoxHead(nn.Module):
    def __init__(self, features: int, average: bool = True):
        super().__init__()
        self.linear = nn.Linear(features, 1, bias=False)
        self.average = average

    def forward(self, x: Tensor, time: Tensor, event: Tensor, stratum: Optional[Tensor] = None):
        if stratum is None:
            stratum = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
        return StratifiedCox.apply(self.linear(x).squeeze(-1), time, event, stratum, self.average)
