"""Retention modelling for subscription products.

Three pieces that the weekly refit uses:

``RenewalMixtureNLL``
    Shifted-beta-geometric likelihood of contract tenures (Fader & Hardie 2007).
``EngagementDecay``
    Exponentially forgotten usage, read at irregular event times.
``PlanMigration``
    Discounted margin of a cohort that migrates between plans.

The rules are written by hand because the refit runs over ~10^7 accounts and the
taped versions kept every intermediate alive.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

DAYS_PER_WEEK = 7.0
WEEKS_PER_YEAR = 52
CHURNED_PLAN = 0


def tenure_mask(lengths, width):
    """(B,) lengths -> (B, width) bool."""
    return torch.arange(width, device=lengths.device)[None] < lengths[:, None]


def masked_row_softmax(logits, allowed):
    return torch.softmax(logits.masked_fill(~allowed, float("-inf")), dim=-1)


def absorbing_moves(n_plans, downgrades=True):
    """Which plan may follow which.

    Plan 0 stands for having left and can't be departed from.  Without
    downgrades a plan can only be followed by itself, a higher one, or by 0.
    """
    allowed = torch.ones(n_plans, n_plans, dtype=torch.bool)
    if not downgrades:
        allowed = torch.triu(allowed)
        allowed[:, CHURNED_PLAN] = True
    allowed[CHURNED_PLAN] = False
    allowed[CHURNED_PLAN, CHURNED_PLAN] = True
    return allowed


class RenewalMixtureNLL(torch.autograd.Function):
    """Negative log-likelihood of tenures under a beta mixture of geometrics.

    An account leaves at each renewal with a probability drawn once from
    Beta(alpha, beta).  ``tenure`` counts the renewals faced; for churned
    accounts the last one was declined (tenure >= 1), the others are censored.

    alpha, beta: (B,) positive; tenure: (B,) integer; churned: (B,) bool;
    weight: (B,) number of accounts that share the row.
    Returns the weighted sum.
    """

    @staticmethod
    def forward(ctx, alpha, beta, tenure, churned, weight):
        t = tenure.to(alpha.dtype)
        kept = torch.where(churned, t - 1.0, t)
        log_like = (
            torch.lgamma(beta + kept)
            - torch.lgamma(beta)
            + torch.lgamma(alpha + beta)
            - torch.lgamma(alpha + beta + t)
        )
        log_like = log_like + torch.where(churned, torch.log(alpha), torch.zeros_like(alpha))
        ctx.save_for_backward(alpha, beta, t, kept, churned, weight, log_like)
        return -(weight * log_like).sum()

    @staticmethod
    def backward(ctx, grad):
        alpha, beta, t, kept, churned, weight, log_like = ctx.saved_tensors
        both = torch.digamma(alpha + beta) - torch.digamma(alpha + beta + t)
        d_alpha = both + torch.where(churned, 1.0 / alpha, torch.zeros_like(alpha))
        d_beta = both + torch.digamma(beta + kept) - torch.digamma(beta)
        outer = -grad * weight
        return outer * d_alpha, outer * d_beta, None, None, -grad * log_like


class RenewalModel(nn.Module):
    """Regression of both beta parameters on account features."""

    def __init__(self, n_features):
        super().__init__()
        self.to_log = nn.Linear(n_features, 2)

    def forward(self, features, tenure, churned, weight=None):
        alpha, beta = self.to_log(features).exp().unbind(-1)
        if weight is None:
            weight = torch.ones_like(alpha)
        return RenewalMixtureNLL.apply(alpha, beta, tenure, churned, weight)


class EngagementDecay(torch.autograd.Function):
    """Forgetting accumulator over a padded event log.

        h[k] = exp(-rate * gap[k]) * h[k-1] + events[k],    h[-1] = 0

    Padded positions repeat the last state.

    Args:
        events (Tensor): (B, T, C) usage per channel.
        gaps (Tensor): (B, T) days since the previous event.
        rate (Tensor): (C,) forgetting rate per day.
        valid (BoolTensor): (B, T).

    Returns:
        Tensor: the state after every event, (B, T, C).
    """

    @staticmethod
    def forward(ctx, events, gaps, rate, valid):
        live = valid[..., None]
        keep = torch.exp(-gaps[..., None] * rate)
        keep = torch.where(live, keep, torch.ones_like(keep))
        state = torch.zeros_like(events[:, 0])
        states = []
        for k in range(events.shape[1]):
            state = keep[:, k] * state + events[:, k] * live[:, k]
            states.append(state)
        states = torch.stack(states, dim=1)
        ctx.save_for_backward(keep, states, gaps, rate, live)
        return states

    @staticmethod
    def backward(ctx, grad):
        keep, states, gaps, rate, live = ctx.saved_tensors
        total = torch.empty_like(grad)
        carry = torch.zeros_like(grad[:, 0])
        for k in range(grad.shape[1] - 1, -1, -1):
            carry = grad[:, k] + carry * keep[:, k]
            total[:, k] = carry
        previous = F.pad(states, (0, 0, 1, 0))[:, :-1]
        d_exponent = total * previous * keep * live
        g_gaps = -(d_exponent * rate).sum(-1)
        g_rate = -(d_exponent * gaps[..., None]).sum((0, 1))
        return total * live, g_gaps, g_rate, None


class UsageEncoder(nn.Module):
    """Usage features of an account: one forgetting rate per channel.

    Accounts on a weekly digest have events every seven days; app users have
    events whenever they open the app.
    """

    def __init__(self, channels, half_life_days=30.0):
        super().__init__()
        start = math.log(math.log(2.0) / half_life_days)
        self.log_rate = nn.Parameter(torch.full((channels,), start))
        self.mix = nn.Linear(channels, channels)

    def forward(self, events, gaps=None, lengths=None):
        b, t, _ = events.shape
        if gaps is None:
            gaps = events.new_full((b, t), DAYS_PER_WEEK)
        if lengths is None:
            valid = torch.ones(b, t, dtype=torch.bool, device=events.device)
        else:
            valid = tenure_mask(lengths, t)
        states = EngagementDecay.apply(events, gaps, self.log_rate.exp(), valid)
        return self.mix(torch.log1p(states.clamp_min(0.0)))


class PlanMigration(torch.autograd.Function):
    """Discounted margin of each account over a horizon of billing periods.

    In period ``t`` a plan earns ``margin * (1 + escalation)**t``, discounted by
    ``discount**t``; between periods accounts move by the softmax of the row of
    ``logits`` over the moves allowed.

    start (B, K) plan probabilities, logits (K, K), margin (K,), discount scalar
    tensor, allowed (K, K) bool.
    """

    @staticmethod
    def forward(ctx, start, logits, margin, discount, allowed, horizon, escalation):
        moves = masked_row_softmax(logits, allowed)
        held = start
        occupancy = []
        value = start.new_zeros(start.shape[0])
        for t in range(horizon):
            occupancy.append(held)
            value = value + (discount * (1.0 + escalation)) ** t * (held @ margin)
            held = held @ moves
        ctx.save_for_backward(moves, margin, discount, *occupancy)
        ctx.escalation = escalation
        return value

    @staticmethod
    def backward(ctx, grad):
        moves, margin, discount, *occupancy = ctx.saved_tensors
        growth = 1.0 + ctx.escalation
        adjoint = torch.zeros_like(occupancy[0])
        g_moves = torch.zeros_like(moves)
        g_margin = torch.zeros_like(margin)
        g_discount = torch.zeros_like(discount)
        for t in range(len(occupancy) - 1, -1, -1):
            held = occupancy[t]
            g_moves = g_moves + held.t() @ adjoint
            factor = discount**t
            g_margin = g_margin + factor * (grad @ held)
            if t:
                earned = torch.dot(grad, held @ margin)
                g_discount = g_discount + t * discount ** (t - 1) * growth**t * earned
            adjoint = adjoint @ moves.t() + (factor * growth**t) * grad[:, None] * margin
        g_logits = moves * (g_moves - (g_moves * moves).sum(-1, keepdim=True))
        return adjoint, g_logits, g_margin, g_discount, None, None, None


class CohortValue(nn.Module):
    """Lifetime value with a learned migration table.

    Finance passes ``escalation`` when the price list is indexed (2-6 % per
    period in the yearly model).
    """

    def __init__(self, n_plans, horizon=12, escalation=0.0, downgrades=True):
        super().__init__()
        self.logits = nn.Parameter(2.0 * torch.eye(n_plans))
        self.margin = nn.Parameter(torch.linspace(0.0, 30.0, n_plans))
        self.register_buffer("allowed", absorbing_moves(n_plans, downgrades))
        self.register_buffer("discount", torch.tensor(0.97))
        self.horizon = horizon
        self.escalation = escalation

    def forward(self, plan):
        start = F.one_hot(plan, self.margin.shape[0]).to(self.margin.dtype)
        return PlanMigration.apply(
            start, self.logits, self.margin, self.discount, self.allowed,
            self.horizon, self.escalation,
        )


if __name__ == "__main__":
    torch.manual_seed(11)
    model = RenewalModel(4)
    nll = model(torch.randn(6, 4), torch.tensor([1, 3, 2, 8, 0, 5]),
                torch.tensor([True, False, True, False, False, True]))
    nll.backward()
    print("nll", nll.item())
    enc = UsageEncoder(3)
    out = enc(torch.rand(2, 6, 3), torch.rand(2, 6) * 10, torch.tensor([6, 4]))
    out.sum().backward()
    print("rates", enc.log_rate.grad)
    value = CohortValue(4, escalation=0.03)(torch.tensor([1, 2, 3]))
    print("value", value.detach())
