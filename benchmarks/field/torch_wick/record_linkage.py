"""Probabilistic record linkage trained end to end.

Comparison vectors between two files are scored by a Fellegi-Sunter model, adjusted for how rare the agreeing words
are, and turned into the posterior of each candidate.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

MISSING = -1


@dataclass
class LinkerConfig:
    """Settings of the linker.

    Attributes:
        level_counts: Number of agreement levels of each compared field.
        corpus_size: Number of records from which the word counts were taken.
        null_score: Score of "has no partner in the other file".
        temperature: Start of the softmax temperature.
    """

    level_counts: Sequence[int] = (4, 3, 2)
    corpus_size: float = 10_000.0
    null_score: float = 0.0
    temperature: float = 1.0
    word_fields: Tuple[int, ...] = field(default_factory=lambda: (0,))


class MatchWeight(torch.autograd.Function):
    """Sum over fields of the weighted log likelihood ratio of the observed agreement level."""

    @staticmethod
    def forward(ctx, theta_m: Tensor, theta_u: Tensor, field_weight: Tensor, levels: Tensor,
                level_counts: Tensor) -> Tensor:
        """Score pairs.

        Args:
            theta_m: Logits of the levels among matches, ``[fields, max_levels]``.
            theta_u: The same among non-matches.
            field_weight: ``[fields]``.
            levels: Observed levels, integers ``[pairs, fields]``; ``-1`` where either side is missing.
            level_counts: Levels that each field has, ``[fields]``.  Columns beyond are ignored.

        Returns:
            Scores ``[pairs]``.
        """
        n_fields, width = theta_m.shape
        unused = torch.arange(width, device=theta_m.device) >= level_counts.unsqueeze(1)
        log_m = F.log_softmax(theta_m.masked_fill(unused, float("-inf")), dim=1)
        log_u = F.log_softmax(theta_u.masked_fill(unused, float("-inf")), dim=1)
        seen = levels != MISSING
        safe = levels.clamp(min=0)
        column = torch.arange(n_fields, device=levels.device).expand_as(levels)
        ratio = (log_m - log_u)[column, safe].masked_fill(~seen, 0.0)
        ctx.save_for_backward(log_m.exp(), log_u.exp(), field_weight, ratio, seen, safe, column)
        return ratio @ field_weight

    @staticmethod
    def backward(ctx, grad: Tensor):
        prob_m, prob_u, field_weight, ratio, seen, safe, column = ctx.saved_tensors
        each = grad.unsqueeze(1) * field_weight * seen
        tally = torch.zeros_like(prob_m).index_put_((column, safe), each, accumulate=True)
        total = tally.sum(1, keepdim=True)
        grad_m = tally - prob_m * total
        grad_u = prob_u * total - tally
        return grad_m, grad_u, grad @ ratio, None, None


class CandidatePosterior(torch.autograd.Function):
    """Posterior of every candidate of a record, with room for "no partner"."""

    @staticmethod
    def forward(ctx, scores: Tensor, null_score: Tensor, temperature: Tensor, candidate_mask: Tensor) -> Tensor:
        """Normalise the scores of a block.

        Args:
            scores: ``[records, candidates]``.
            null_score: Score of having no partner, ``[records]`` or a scalar.
            temperature: Positive scalar that divides all scores.
            candidate_mask: Boolean, True at real candidates.  A record may have none.

        Returns:
            Probabilities ``[records, candidates]``, 0 at padding.  A row sums to one minus the posterior of
            "no partner".
        """
        null = null_score.expand(scores.shape[0]).unsqueeze(1)
        padded = scores.masked_fill(~candidate_mask, float("-inf"))
        posterior = torch.softmax(torch.cat([null, padded], dim=1) / temperature, dim=1)
        ctx.save_for_backward(scores, null_score, temperature, posterior, candidate_mask)
        return posterior[:, 1:].clone()

    @staticmethod
    def backward(ctx, grad: Tensor):
        scores, null_score, temperature, posterior, candidate_mask = ctx.saved_tensors
        p_null, p = posterior[:, :1], posterior[:, 1:]
        mean = (p * grad).sum(dim=1, keepdim=True)
        grad_logit = p * (grad - mean)
        grad_null = grad_temperature = None
        if ctx.needs_input_grad[1]:
            grad_null = (-p_null * mean / temperature).squeeze(1).sum_to_size(null_score.shape)
        if ctx.needs_input_grad[2]:
            finite = scores.masked_fill(~candidate_mask, 0.0)
            grad_temperature = -(grad_logit * finite).sum() / temperature ** 2
        return grad_logit / temperature, grad_null, grad_temperature, None


class WordRarity(torch.autograd.Function):
    """Length-normalised rarity of the words on which two records agree."""

    @staticmethod
    def forward(ctx, counts: Tensor, smoothing: Tensor, length_power: Tensor, words: Tensor, lengths: Tensor,
                corpus_size: float) -> Tensor:
        """Compute ``sum_t log((N + a) / (c[w_t] + a)) / n ** b``.

        Args:
            counts: (Possibly corrected) frequency of every word, ``[vocabulary]``, non-negative.
            smoothing: Positive scalar ``a``.
            length_power: Scalar ``b``.
            words: Word ids ``[pairs, max_words]``; what lies beyond the length is arbitrary.
            lengths: Number of agreeing words, ``[pairs]``; 0 gives 0.
            corpus_size: ``N``.
        """
        inside = torch.arange(words.shape[1], device=words.device) < lengths.unsqueeze(1)
        smooth = counts[words] + smoothing
        rarity = torch.log((corpus_size + smoothing) / smooth).masked_fill(~inside, 0.0)
        log_n = lengths.clamp(min=1).to(counts.dtype).log()
        scale = torch.exp(-length_power * log_n)
        out = rarity.sum(1) * scale
        ctx.save_for_backward(counts, smoothing, words, inside, log_n, scale, out)
        ctx.corpus_size = corpus_size
        return out

    @staticmethod
    def backward(ctx, grad: Tensor):
        counts, smoothing, words, inside, log_n, scale, out = ctx.saved_tensors
        per_pair = grad * scale
        per_word = per_pair.unsqueeze(1) * inside / (counts[words] + smoothing)
        grad_counts = None
        if ctx.needs_input_grad[0]:
            grad_counts = -torch.bincount(words.flatten(), weights=per_word.flatten(), minlength=counts.numel())
            grad_counts = grad_counts.to(counts.dtype)
        grad_smoothing = (per_pair * inside.sum(1)).sum() / (ctx.corpus_size + smoothing) - per_word.sum()
        grad_power = -(grad * out * log_n).sum()
        return grad_counts, grad_smoothing, grad_power, None, None, None


class Linker(nn.Module):
    """Scores the candidates of a block of records and returns their posteriors."""

    def __init__(self, config: LinkerConfig, counts: Tensor):
        super().__init__()
        self.config = config
        width = max(config.level_counts)
        self.theta_m = nn.Parameter(torch.linspace(-1.0, 1.0, width).repeat(len(config.level_counts), 1))
        self.theta_u = nn.Parameter(torch.linspace(1.0, -1.0, width).repeat(len(config.level_counts), 1))
        self.field_weight = nn.Parameter(torch.ones(len(config.level_counts)))
        self.log_temperature = nn.Parameter(torch.tensor(float(config.temperature)).log())
        self.null_score = nn.Parameter(torch.tensor(float(config.null_score)))
        self.smoothing = nn.Parameter(torch.tensor(1.0))
        self.length_power = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("counts", counts)
        self.register_buffer("level_counts", torch.tensor(list(config.level_counts)))

    def forward(self, levels: Tensor, words: Tensor, lengths: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        records, candidates, fields = levels.shape
        score = MatchWeight.apply(self.theta_m, self.theta_u, self.field_weight, levels.reshape(-1, fields),
                                  self.level_counts)
        score = score + WordRarity.apply(self.counts, self.smoothing, self.length_power,
                                         words.reshape(records * candidates, -1), lengths.reshape(-1),
                                         self.config.corpus_size)
        if mask is None:
            mask = torch.ones(records, candidates, dtype=torch.bool, device=levels.device)
        return CandidatePosterior.apply(score.view(records, candidates), self.null_score,
                                        self.log_temperature.exp(), mask)


def link_loss(posterior: Tensor, partner: Tensor) -> Tensor:
    """Negative log posterior; ``partner`` holds the candidate's column, or -1 for none."""
    none = (1 - posterior.sum(1)).clamp(min=1e-9)
    hit = posterior.gather(1, partner.clamp(min=0).unsqueeze(1)).squeeze(1).clamp(min=1e-9)
    return -torch.where(partner >= 0, hit, none).log().mean()
