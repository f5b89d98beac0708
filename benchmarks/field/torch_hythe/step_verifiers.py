"""Answer selection with step-level verifiers.

A reasoning model draws several samples per question.  A verifier scores every
step of every sample; the file holds what turns those scores into a training
signal and into a choice of answer:

* a sample is as good as its weakest step (softened),
* samples that reach the same final answer pool their votes,
* samples known to be correct should outscore those known to be incorrect.

Batches are padded.  ``STEP_PAD`` marks padding in integer tables, and a final
answer that could not be parsed carries the id ``UNPARSED``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

STEP_PAD = -100
UNPARSED = -1
VOTE_FLOOR = 1e-6


class SampleBatch(NamedTuple):
    """Samples of a batch of questions."""

    hidden: Tensor        # [questions, samples, steps, width]
    step_mask: Tensor     # [questions, samples, steps] bool
    answer_ids: Tensor    # [questions, samples] int64, UNPARSED where none
    present: Tensor       # [questions, samples] bool
    correct: Tensor       # [questions, samples] bool


@dataclass
class SelectionConfig:
    width: int = 32
    num_answers: int = 6
    vote_temperature: float = 1.0
    sharpness: float = 1.0
    loss_weights: Tuple[float, float] = (1.0, 0.5)
    hidden_sizes: Sequence[int] = field(default_factory=lambda: (32,))


def canonical_ids(answers: List[List[Optional[str]]]) -> Tensor:
    """Number the distinct answers of each question in order of appearance."""
    rows = []
    for row in answers:
        seen: dict = {}
        ids = []
        for text in row:
            if text is None:
                ids.append(UNPARSED)
            else:
                ids.append(seen.setdefault(text.strip().lower(), len(seen)))
        rows.append(ids)
    return torch.tensor(rows, dtype=torch.long)


def _masked_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis; a row with nothing in the mask is all zero."""
    top = logits.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    weights = torch.exp((logits - top).clamp(max=0.0)) * mask.to(logits.dtype)
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(logits.dtype).tiny)


class SoftWeakestStep(Function):
    """Softened minimum over the steps of a sample.

    Computes ``-t * log(mean(exp(-r / t)))`` over the unmasked steps, so that a
    sample of equal rewards keeps that reward whatever its length.  Samples with
    no steps score zero.

    Args:
        ctx: autograd context.
        reward: step rewards, ``[..., steps]``.
        temperature: positive scalar tensor.
        step_mask: boolean, same shape as ``reward``.

    Returns:
        ``[...]`` scores.
    """

    @staticmethod
    def forward(ctx, reward: Tensor, temperature: Tensor, step_mask: Tensor) -> Tensor:
        logits = (-reward / temperature).masked_fill(~step_mask, -torch.inf)
        count = step_mask.sum(-1)
        filled = count > 0
        safe = torch.where(filled.unsqueeze(-1), logits, torch.zeros_like(logits))
        log_mean = torch.logsumexp(safe, -1) - count.clamp(min=1).to(reward.dtype).log()
        score = torch.where(filled, -temperature * log_mean, torch.zeros_like(log_mean))
        ctx.save_for_backward(reward, temperature, step_mask, score, filled)
        return score

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_score: Tensor):
        reward, temperature, step_mask, score, filled = ctx.saved_tensors
        blame = _masked_softmax(-reward / temperature, step_mask)
        grad_reward = grad_score.unsqueeze(-1) * blame
        expected = (blame * reward).sum(-1)
        per_sample = torch.where(filled, (score - expected) / temperature,
                                 torch.zeros_like(score))
        grad_temperature = (grad_score * per_sample).sum().reshape(temperature.shape)
        return grad_reward, grad_temperature, None


class AnswerVote(Function):
    """Verifier-weighted vote over final answers.

    Every present sample holds the softmax share of its score within the
    question.  Shares are added up per answer id; the share of samples without
    a parsed answer is reported on its own and goes to no answer.

    Returns ``(votes [questions, num_answers], abstained [questions])``.
    """

    @staticmethod
    def forward(scores: Tensor, answer_ids: Tensor, present: Tensor,
                num_answers: int, temperature: float) -> Tuple[Tensor, Tensor]:
        share = _masked_softmax(scores / temperature, present)
        parsed = answer_ids != UNPARSED
        votes = scores.new_zeros(scores.shape[0], num_answers)
        votes.scatter_add_(1, answer_ids.clamp(min=0), share * parsed.to(share.dtype))
        abstained = (share * (~parsed).to(share.dtype)).sum(-1)
        return votes, abstained

    @staticmethod
    def setup_context(ctx, inputs, output):
        scores, answer_ids, present, num_answers, temperature = inputs
        ctx.save_for_backward(scores, answer_ids, present)
        ctx.temperature = temperature

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_votes: Tensor, grad_abstained: Tensor):
        scores, answer_ids, present = ctx.saved_tensors
        share = _masked_softmax(scores / ctx.temperature, present)
        silent = (answer_ids == UNPARSED).to(share.dtype)
        grad_share = grad_votes.gather(1, answer_ids.clamp(min=0))
        grad_share = grad_share + silent * grad_abstained.unsqueeze(-1)
        inner = (share * grad_share).sum(-1, keepdim=True)
        grad_scores = share * (grad_share - inner) / ctx.temperature
        return grad_scores, None, None, None, None


class CorrectOverIncorrect(Function):
    """Mean softplus margin over all (correct, incorrect) pairs of a question.

    ``loss[q] = mean_ij softplus(sharpness * (margin[q] - s_i + s_j)) / sharpness``

    Questions whose samples are all correct or all incorrect contribute zero.
    """

    @staticmethod
    def _pairs(scores, margin, correct, present, sharpness):
        better = (correct & present).unsqueeze(2)
        worse = (~correct & present).unsqueeze(1)
        pair = (better & worse).to(scores.dtype)
        count = pair.sum((1, 2)).clamp(min=1.0)
        gap = margin[:, None, None] - scores.unsqueeze(2) + scores.unsqueeze(1)
        return pair, count, sharpness * gap

    @staticmethod
    def forward(scores, margin, correct, present, sharpness):
        pair, count, scaled = CorrectOverIncorrect._pairs(
            scores, margin, correct, present, sharpness
        )
        return (pair * F.softplus(scaled)).sum((1, 2)) / (sharpness * count)

    @staticmethod
    def setup_context(ctx, inputs, output):
        scores, margin, correct, present, sharpness = inputs
        ctx.save_for_backward(scores, margin, correct, present)
        ctx.sharpness = sharpness

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss):
        scores, margin, correct, present = ctx.saved_tensors
        pair, count, scaled = CorrectOverIncorrect._pairs(
            scores, margin, correct, present, ctx.sharpness
        )
        push = pair * torch.sigmoid(scaled) * (grad_loss / count)[:, None, None]
        grad_scores = push.sum(1) - push.sum(2)
        grad_margin = push.sum((1, 2))
        return grad_scores, grad_margin, None, None, None


class StepHead(nn.Module):
    """Small MLP scoring each step from its hidden state."""

    def __init__(self, width: int, hidden_sizes: Sequence[int]):
        super().__init__()
        layers: List[nn.Module] = []
        last = width
        for size in hidden_sizes:
            layers += [nn.Linear(last, size), nn.GELU()]
            last = size
        layers.append(nn.Linear(last, 1))
        self.net = nn.Sequential(*layers)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.net(hidden).squeeze(-1)


class AnswerSelector(nn.Module):
    """Scores samples by their weakest step and votes over final answers."""

    def __init__(self, config: SelectionConfig):
        super().__init__()
        self.config = config
        self.head = StepHead(config.width, config.hidden_sizes)
        self.log_temperature = nn.Parameter(torch.zeros(()))
        self.margin_head = nn.Linear(config.width, 1)

    def sample_scores(self, batch: SampleBatch) -> Tensor:
        reward = self.head(batch.hidden)
        return SoftWeakestStep.apply(reward, self.log_temperature.exp(), batch.step_mask)

    def votes(self, batch: SampleBatch) -> Tuple[Tensor, Tensor]:
        return AnswerVote.apply(
            self.sample_scores(batch), batch.answer_ids, batch.present,
            self.config.num_answers, self.config.vote_temperature,
        )

    @torch.no_grad()
    def choose(self, batch: SampleBatch) -> Tensor:
        votes, _ = self.votes(batch)
        return votes.argmax(-1)

    def forward(self, batch: SampleBatch, gold: Tensor) -> Tensor:
        """Training loss.

        gold: id of the right answer of each question, UNPARSED when no sample
        reached it (the question then only enters through the pair loss).
        """
        scores = self.sample_scores(batch)
        votes, abstained = AnswerVote.apply(
            scores, batch.answer_ids, batch.present,
            self.config.num_answers, self.config.vote_temperature,
        )
        reached = gold != UNPARSED
        picked = votes.gather(1, gold.clamp(min=0).unsqueeze(1)).squeeze(1)
        vote_loss = -torch.log(picked.clamp(min=VOTE_FLOOR)) + 0.1 * abstained
        vote_loss = torch.where(reached, vote_loss, torch.zeros_like(vote_loss))

        pooled = batch.hidden.mean((1, 2))
        margin = F.softplus(self.margin_head(pooled)).squeeze(-1)
        pair_loss = CorrectOverIncorrect.apply(
            scores, margin, batch.correct, batch.present, self.config.sharpness
        )
        vote_weight, pair_weight = self.config.loss_weights
        return (vote_weight * vote_loss + pair_weight * pair_loss).mean()


def random_batch(questions: int, samples: int, steps: int, config: SelectionConfig) -> SampleBatch:
    lengths = torch.randint(1, steps + 1, (questions, samples))
    step_mask = torch.arange(steps) < lengths.unsqueeze(-1)
    answers = torch.randint(UNPARSED, config.num_answers, (questions, samples))
    present = torch.ones(questions, samples, dtype=torch.bool)
    present[:, -1] = torch.rand(questions) > 0.5
    return SampleBatch(
        torch.randn(questions, samples, steps, config.width),
        step_mask, answers, present, answers == 0,
    )


if __name__ == "__main__":
    torch.manual_seed(1)
    cfg = SelectionConfig()
    selector = AnswerSelector(cfg)
    demo = random_batch(4, 8, 5, cfg)
    target = torch.where((demo.answer_ids == 0).any(1), 0, UNPARSED)
    optimiser = torch.optim.AdamW(selector.parameters(), lr=3e-3)
    for _ in range(3):
        optimiser.zero_grad()
        loss = selector(demo, target)
        loss.backward()
        optimiser.step()
        print(loss.item(), selector.choose(demo).tolist())
    print(canonical_ids([["12", "12 ", None, "7"], [None, "a", "A", "b"]]).tolist())
