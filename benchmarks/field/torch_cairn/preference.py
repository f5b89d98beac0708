"""Preference and annotation models: histories, paired comparisons, crowd labels, decoding."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

FIRST_WINS, SECOND_WINS, TIE = 0, 1, 2
MISSING = -1


class RecencyPooledHistory(torch.autograd.Function):
    """Sum (or average) of the embeddings of a user's past items, faded by age.

    An item seen ``age`` days ago has the weight ``2 ** (-age / half_life)``.

    Args:
        table: Item embeddings, ``(items, dim)``.
        half_life: One positive value per user, ``(users,)``, in days.
        item_ids: ``(users, events)``; an item may occur many times.
        ages: ``(users, events)``, days since the event, non-negative. Data, no gradient.
        mask: ``(users, events)``, True for real events.
        normalize: Divide by the sum of the weights, so that the result is an average.

    Returns:
        ``(users, dim)``. Zero for users without events.
    """

    @staticmethod
    def forward(
        ctx,
        table: Float[Tensor, "items dim"],
        half_life: Float[Tensor, "users"],
        item_ids: Int[Tensor, "users events"],
        ages: Float[Tensor, "users events"],
        mask: Bool[Tensor, "users events"],
        normalize: bool = False,
    ) -> Float[Tensor, "users dim"]:
        weights = torch.exp2(-ages / half_life.unsqueeze(1)) * mask
        if normalize:
            total = weights.sum(1, keepdim=True)
            weights = weights / torch.where(total > 0, total, torch.ones_like(total))
        ctx.save_for_backward(table, half_life, item_ids, ages, weights)
        return torch.einsum("ue,ued->ud", weights, table[item_ids])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        table, half_life, item_ids, ages, weights = ctx.saved_tensors
        grad_table = grad_half_life = None
        if ctx.needs_input_grad[0]:
            contribution = weights.unsqueeze(-1) * grad_output.unsqueeze(1)
            grad_table = torch.zeros_like(table).index_add_(
                0, item_ids.reshape(-1), contribution.reshape(-1, table.shape[1])
            )
        if ctx.needs_input_grad[1]:
            affinity = torch.einsum("ud,ued->ue", grad_output, table[item_ids])
            fade = weights * ages * (math.log(2.0) / half_life.square()).unsqueeze(1)
            grad_half_life = (fade * affinity).sum(1)
        return grad_table, grad_half_life, None, None, None, None


class HistoryEncoder(nn.Module):
    """User tower made of a recency-pooled history and a projection."""

    def __init__(self, num_items: int, dim: int, num_users: int, normalize: bool = False):
        super().__init__()
        self.items = nn.Embedding(num_items, dim)
        self.log_half_life = nn.Embedding(num_users, 1)
        nn.init.constant_(self.log_half_life.weight, math.log(14.0))
        self.project = nn.Linear(dim, dim)
        self.normalize = normalize

    def forward(self, users: Tensor, item_ids: Tensor, ages: Tensor, mask: Tensor) -> Tensor:
        half_life = self.log_half_life(users).squeeze(-1).exp()
        pooled = RecencyPooledHistory.apply(
            self.items.weight, half_life, item_ids, ages, mask, self.normalize
        )
        return self.project(pooled)


def _outcome_slopes(
    gap: Tensor, margin: Tensor, outcome: Tensor
) -> Tuple[Tensor, Tensor]:
    """Derivatives of the log probability with respect to the gap and the margin."""
    lose_first = torch.sigmoid(margin - gap)
    lose_second = torch.sigmoid(margin + gap)
    zero = torch.zeros_like(gap)
    first = torch.where(outcome == SECOND_WINS, zero, lose_first)
    second = torch.where(outcome == FIRST_WINS, zero, lose_second)
    opening = torch.where(outcome == TIE, -2.0 / torch.expm1(-2.0 * margin), zero)
    return first - second, opening - first - second


class RaoKupperLoss(torch.autograd.Function):
    """Negative log likelihood of paired comparisons with ties (Rao and Kupper, 1967).

    With the gap ``d = skill[first] - skill[second]`` and a margin ``m > 0`` the first
    player wins with ``sigmoid(d - m)``, the second with ``sigmoid(-d - m)``; the rest
    is the probability of a tie.

    Args:
        skill: ``(players,)``.
        margin: Positive; a scalar, or one value per match.
        first: ``(matches,)`` player index. Players meet as often as they like.
        second: ``(matches,)`` player index.
        outcome: ``(matches,)`` with 0 (first wins), 1 (second wins) or 2 (tie).
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    @staticmethod
    def forward(skill, margin, first, second, outcome, reduction="mean"):
        gap = skill[first] - skill[second]
        log_first = F.logsigmoid(gap - margin)
        log_second = F.logsigmoid(-gap - margin)
        log_tie = 2.0 * margin + torch.log(-torch.expm1(-2.0 * margin)) + log_first + log_second
        picked = torch.where(outcome == TIE, log_tie, log_second)
        loss = -torch.where(outcome == FIRST_WINS, log_first, picked)
        if reduction == "mean":
            return loss.mean()
        if reduction == "sum":
            return loss.sum()
        if reduction == "none":
            return loss
        raise ValueError(f"unknown reduction {reduction!r}")

    @staticmethod
    def setup_context(ctx, inputs, output):
        skill, margin, first, second, outcome, reduction = inputs
        ctx.save_for_backward(skill, margin, first, second, outcome)
        ctx.reduction = reduction

    @staticmethod
    def backward(ctx, grad_output):
        skill, margin, first, second, outcome = ctx.saved_tensors
        gap = skill[first] - skill[second]
        by_gap, by_margin = _outcome_slopes(gap, margin.expand_as(gap), outcome)
        scale = -grad_output
        if ctx.reduction == "mean":
            scale = scale / outcome.numel()
        by_gap = by_gap * scale
        grad_skill = torch.zeros_like(skill).index_add(0, first, by_gap)
        grad_skill = grad_skill.index_add(0, second, -by_gap)
        grad_margin = (by_margin * scale).sum_to_size(margin.shape)
        return grad_skill, grad_margin, None, None, None, None


def rao_kupper_loss(skill, margin, first, second, outcome, reduction: str = "mean"):
    """Functional form of :class:`RaoKupperLoss`."""
    return RaoKupperLoss.apply(skill, margin, first, second, outcome, reduction)


def fit_ratings(first, second, outcome, players: int, steps: int = 200, lr: float = 0.1):
    """Ratings (zero mean) and margin of a season."""
    skill = torch.zeros(players, requires_grad=True)
    raw_margin = torch.zeros((), requires_grad=True)
    optimizer = torch.optim.Adam([skill, raw_margin], lr=lr)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = rao_kupper_loss(skill, F.softplus(raw_margin), first, second, outcome)
        (loss + 1e-3 * skill.square().sum()).backward()
        optimizer.step()
    with torch.no_grad():
        return skill - skill.mean(), F.softplus(raw_margin)


class RepetitionPenalty(torch.autograd.Function):
    """Make tokens that were generated before less likely (Keskar et al., 2019).

    The logit of every token that is in the history is divided by the penalty where it is
    positive and multiplied by it where it is negative. A token is penalized once, however
    often it occurs.

    Args:
        logits: ``(batch, vocab)``.
        penalty: Scalar tensor, at least one. Learned in the controllable-decoding setup.
        history: ``(batch, length)`` token ids, -1 for padding.

    Returns:
        ``(batch, vocab)``.
    """

    @staticmethod
    def forward(ctx, logits, penalty, history):
        valid = history >= 0
        seen = torch.zeros_like(logits).scatter_add_(
            1, history.clamp(min=0), valid.to(logits.dtype)
        ) > 0
        ctx.save_for_backward(logits, penalty, history, seen)
        penalized = torch.where(logits > 0, logits / penalty, logits * penalty)
        return torch.where(seen, penalized, logits)

    @staticmethod
    def backward(ctx, grad_output):
        logits, penalty, history, seen = ctx.saved_tensors
        grad_logits = grad_penalty = None
        if ctx.needs_input_grad[0]:
            factor = torch.where(logits > 0, 1.0 / penalty, penalty)
            grad_logits = torch.where(seen, grad_output * factor, grad_output)
        if ctx.needs_input_grad[1]:
            # only the few tokens of the history matter, the vocabulary is large
            index = history.clamp(min=0)
            value = logits.gather(1, index)
            slope = torch.where(value > 0, -value / penalty.square(), value)
            slope = slope * (history >= 0)
            grad_penalty = (grad_output.gather(1, index) * slope).sum()
        return grad_logits, grad_penalty, None


class DawidSkene(torch.autograd.Function):
    """Crowd labels of unknown truth (Dawid and Skene, 1979).

    Args:
        prior_logits: ``(classes,)``; the softmax is the prior of the true class.
        confusion_logits: ``(raters, classes, answers)``; the softmax over the last axis is
            what a rater answers for a true class.
        answers: ``(items, raters)`` integers, -1 where a rater did not see the item.

    Returns:
        The log likelihood of every item, ``(items,)``, and the posterior of its class,
        ``(items, classes)``. Both are differentiable (once).
    """

    @staticmethod
    def forward(
        ctx,
        prior_logits: Float[Tensor, "classes"],
        confusion_logits: Float[Tensor, "raters classes answers"],
        answers: Int[Tensor, "items raters"],
    ) -> Tuple[Tensor, Tensor]:
        log_prior = F.log_softmax(prior_logits, -1)
        log_confusion = F.log_softmax(confusion_logits, -1)
        given = answers != MISSING
        raters = torch.arange(answers.shape[1], device=answers.device)
        terms = log_confusion[raters, :, answers.clamp(min=0)]  # (items, raters, classes)
        joint = log_prior + (terms * given.unsqueeze(-1)).sum(1)
        evidence = torch.logsumexp(joint, -1)
        posterior = torch.exp(joint - evidence.unsqueeze(-1))
        ctx.save_for_backward(log_prior, log_confusion, answers, posterior)
        return evidence, posterior

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_evidence, grad_posterior):
        log_prior, log_confusion, answers, posterior = ctx.saved_tensors
        raters, classes, width = log_confusion.shape
        centred = grad_posterior - (grad_posterior * posterior).sum(-1, keepdim=True)
        grad_joint = posterior * (grad_evidence.unsqueeze(-1) + centred)

        grad_prior = grad_joint.sum(0)
        grad_prior = grad_prior - log_prior.exp() * grad_prior.sum()

        given = (answers != MISSING).unsqueeze(-1)
        cell = answers.clamp(min=0) + width * torch.arange(raters, device=answers.device)
        spread = (grad_joint.unsqueeze(1) * given).reshape(-1, classes)
        grad_table = spread.new_zeros(raters * width, classes).index_add_(0, cell.reshape(-1), spread)
        grad_table = grad_table.reshape(raters, width, classes).transpose(1, 2)
        grad_confusion = grad_table - log_confusion.exp() * grad_table.sum(-1, keepdim=True)
        return grad_prior, grad_confusion, None


class CrowdModel(nn.Module):
    def __init__(self, raters: int, classes: int, answers: Optional[int] = None, trust: float = 1.0):
        super().__init__()
        answers = classes if answers is None else answers
        self.prior = nn.Parameter(torch.zeros(classes))
        self.confusion = nn.Parameter(trust * torch.eye(classes, answers).repeat(raters, 1, 1))

    def forward(self, labels: Tensor) -> Tuple[Tensor, Tensor]:
        evidence, posterior = DawidSkene.apply(self.prior, self.confusion, labels)
        return -evidence.mean(), posterior
