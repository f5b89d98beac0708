"""Proportions of the pretraining corpora, adjusted while the model trains.

The loader draws every batch from a handful of corpora.  Their shares start from
token counts flattened by an exponent, and are then moved by how far each
corpus' loss lies above that of a small reference model.  A board of smoothed
losses keeps the record, because not every corpus occurs in every batch.

The whole schedule is unrolled over a few hundred steps and differentiated with
respect to the exponent, the losses of a proxy model and the starting shares
(bilevel tuning), so the three pieces have hand-written backward passes with
little memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterable, List, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

TOKENS_PER_BILLION = 1e9
DEFAULT_EXPONENT = 0.7
DEFAULT_STEP_SIZE = 1.0
DEFAULT_SMOOTHING = 1e-3


class MixStep(NamedTuple):
    """What one reweighting gives: new shares, and their mean excess loss."""

    shares: Tensor
    mean_excess: Tensor


@dataclass(frozen=True)
class Corpus:
    name: str
    tokens: float
    max_epochs: float = 4.0


def token_vector(corpora: Iterable[Corpus]) -> Tensor:
    return torch.tensor([c.tokens / TOKENS_PER_BILLION for c in corpora])


class TemperedCorpusShare(Function):
    """Shares proportional to ``tokens ** exponent``.

    Args:
        log_tokens: log of the corpora's sizes, (..., corpora).
        exponent: scalar, or anything that broadcasts against ``log_tokens``
            with a last axis of one.  1 is proportional, 0 uniform.
        training_tokens: float, tokens the run will see.

    Returns:
        shares: sum to one on the last axis.
        epochs: passes over each corpus implied by the shares.
        effective: exponential of the entropy of the shares, last axis removed.
    """

    @staticmethod
    def forward(ctx, log_tokens, exponent, training_tokens):
        log_share = torch.log_softmax(exponent * log_tokens, dim=-1)
        share = log_share.exp()
        epochs = training_tokens * torch.exp(log_share - log_tokens)
        effective = torch.exp(-(share * log_share).sum(dim=-1))
        ctx.save_for_backward(log_tokens, exponent, log_share, share, epochs, effective)
        return share, epochs, effective

    @staticmethod
    def backward(ctx, g_share, g_epochs, g_effective):
        log_tokens, exponent, log_share, share, epochs, effective = ctx.saved_tensors
        from_epochs = g_epochs * epochs
        g_log = g_share * share + from_epochs
        g_log = g_log - (g_effective * effective)[..., None] * share * (log_share + 1.0)
        g_logit = g_log - share * g_log.sum(dim=-1, keepdim=True)

        d_tokens = d_exponent = None
        if ctx.needs_input_grad[0]:
            d_tokens = (exponent * g_logit - from_epochs).sum_to_size(log_tokens.shape)
        if ctx.needs_input_grad[1]:
            d_exponent = (g_logit * log_tokens).sum_to_size(exponent.shape)
        return d_tokens, d_exponent, None


class DomainLossBoard(Function):
    """Bias-corrected moving average of per-corpus losses.

    losses (steps, corpora); seen (steps, corpora) boolean, False where the
    corpus had no sample in the batch and the loss entry is filler.  An entry
    that was not seen leaves its average as it is.  ``beta`` is a float.  Before
    a corpus is first seen its average reads zero.
    """

    @staticmethod
    def forward(ctx, losses: Tensor, seen: Tensor, beta: float) -> Tensor:
        state = torch.zeros_like(losses[0])
        times = torch.zeros_like(losses[0])
        rows: List[Tensor] = []
        for loss, here in zip(losses, seen):
            state = torch.where(here, beta * state + (1.0 - beta) * loss, state)
            times = times + here.to(times.dtype)
            scale = 1.0 - beta**times
            rows.append(torch.where(times > 0, state / scale.clamp(min=1e-12), torch.zeros_like(state)))
        ctx.save_for_backward(seen)
        ctx.beta = beta
        return torch.stack(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (seen,) = ctx.saved_tensors
        beta = ctx.beta
        steps = grad.shape[0]
        ever = seen.cumsum(dim=0) > 0
        d_losses = torch.zeros_like(grad)
        carry = torch.zeros_like(grad[0])
        for t in range(steps - 1, -1, -1):
            scale = 1.0 - beta ** (t + 1)
            carry = carry + torch.where(ever[t], grad[t] / scale, torch.zeros_like(carry))
            d_losses[t] = torch.where(seen[t], (1.0 - beta) * carry, torch.zeros_like(carry))
            carry = torch.where(seen[t], beta * carry, carry)
        return d_losses, None, None


def make_reweighter(step_size: float = DEFAULT_STEP_SIZE, smoothing: float = DEFAULT_SMOOTHING) -> Callable[..., MixStep]:
    """Multiplicative-weights step on the corpora's shares.

    The returned callable takes the current shares, the smoothed losses and the
    reference model's losses, all ``(corpora,)`` or with leading axes.  The
    excess of a corpus is its loss less the reference, not below zero; shares
    are multiplied by ``exp(step_size * excess)``, normalised, and mixed with
    the uniform distribution.
    """

    class ExcessLossReweight(Function):
        @staticmethod
        def forward(shares, losses, reference):
            excess = (losses - reference).clamp(min=0.0)
            raised = shares * torch.exp(step_size * (excess - excess.amax(dim=-1, keepdim=True)))
            fresh = raised / raised.sum(dim=-1, keepdim=True)
            mixed = (1.0 - smoothing) * fresh + smoothing / shares.shape[-1]
            return mixed, (fresh * excess).sum(dim=-1)

        @staticmethod
        def setup_context(ctx, inputs, output):
            shares, losses, reference = inputs
            ctx.save_for_backward(shares, losses, reference)
            ctx.set_materialize_grads(True)

        @staticmethod
        def backward(ctx, g_mixed, g_mean):
            shares, losses, reference = ctx.saved_tensors
            excess = (losses - reference).clamp(min=0.0)
            fresh = torch.softmax(shares.log() + step_size * excess, dim=-1)

            g_fresh = (1.0 - smoothing) * g_mixed + g_mean[..., None] * excess
            g_logit = fresh * (g_fresh - (fresh * g_fresh).sum(dim=-1, keepdim=True))
            d_shares = g_logit / shares
            d_losses = step_size * g_logit + g_mean[..., None] * fresh
            d_reference = -d_losses if ctx.needs_input_grad[2] else None
            return d_shares, d_losses, d_reference

    def step(shares: Tensor, losses: Tensor, reference: Tensor) -> MixStep:
        return MixStep(*ExcessLossReweight.apply(shares, losses, reference))

    step.rule = ExcessLossReweight
    return step


class MixtureSchedule(nn.Module):
    """Shares of the corpora over a run.

    Example
    -------
    >>> schedule = MixtureSchedule([Corpus("web", 9e11), Corpus("code", 1e11)])
    >>> schedule.start()[0].sum()
    tensor(1., grad_fn=<SumBackward0>)
    """

    def __init__(
        self,
        corpora: List[Corpus],
        training_tokens: float = 1e12,
        exponent: float = DEFAULT_EXPONENT,
        beta: float = 0.9,
        reweight_every: int = 10,
        step_size: float = DEFAULT_STEP_SIZE,
        smoothing: float = DEFAULT_SMOOTHING,
    ):
        super().__init__()
        self.names = [c.name for c in corpora]
        self.register_buffer("log_tokens", token_vector(corpora).log())
        self.register_buffer("max_epochs", torch.tensor([c.max_epochs for c in corpora]))
        self.exponent = nn.Parameter(torch.tensor(exponent))
        self.training_tokens = training_tokens / TOKENS_PER_BILLION
        self.beta = beta
        self.reweight_every = reweight_every
        self.reweight = make_reweighter(step_size, smoothing)

    def start(self) -> Tuple[Tensor, Tensor, Tensor]:
        return TemperedCorpusShare.apply(self.log_tokens, self.exponent, self.training_tokens)

    def repetition_penalty(self, epochs: Tensor) -> Tensor:
        return (epochs / self.max_epochs - 1.0).clamp(min=0.0).square().sum()

    def unroll(self, losses: Tensor, seen: Tensor, reference: Tensor) -> Tuple[Tensor, Tensor]:
        """Shares after each reweighting, and the summed mean excess.

        Parameters
        ----------
        losses, seen
            ``(steps, corpora)`` as for :class:`DomainLossBoard`.
        reference
            ``(corpora,)``
        """
        smoothed = DomainLossBoard.apply(losses, seen, self.beta)
        shares, _, _ = self.start()
        history, total = [shares], losses.new_zeros(())
        for t in range(self.reweight_every - 1, losses.shape[0], self.reweight_every):
            out = self.reweight(history[-1], smoothed[t], reference)
            history.append(out.shares)
            total = total + out.mean_excess
        return torch.stack(history), total


def sample_presence(shares: Tensor, steps: int, batch: int, generator: Optional[torch.Generator] = None) -> Tensor:
    """Which corpora occur in each of ``steps`` batches drawn with ``shares``."""
    with torch.no_grad():
        draws = torch.multinomial(shares, steps * batch, replacement=True, generator=generator)
        present = torch.zeros(steps, shares.shape[0], dtype=torch.bool)
        rows = torch.arange(steps).repeat_interleave(batch)
        present[rows, draws] = True
    return present


def tune_exponent(schedule: MixtureSchedule, losses: Tensor, seen: Tensor, reference: Mapping[str, float], steps: int = 20):
    """Move the exponent so that the unrolled excess and repetition are small."""
    target = torch.tensor([reference[name] for name in schedule.names])
    optimiser = torch.optim.SGD(schedule.parameters(), lr=0.02)
    record = []
    for _ in range(steps):
        optimiser.zero_grad()
        _, epochs, effective = schedule.start()
        _, excess = schedule.unroll(losses, seen, target)
        objective = excess + 0.1 * schedule.repetition_penalty(epochs) - 0.01 * effective
        objective.backward()
        optimiser.step()
        record.append((objective.item(), schedule.exponent.item()))
    return record


if __name__ == "__main__":
    torch.manual_seed(2)
    corpora = [
        Corpus("web", 9.0e11, 1.5),
        Corpus("code", 1.2e11),
        Corpus("papers", 6.0e10),
        Corpus("encyclopedia", 5.0e9, 6.0),
    ]
    plan = MixtureSchedule(corpora)
    presence = sample_presence(plan.start()[0], steps=40, batch=16)
    proxy = 3.0 + 0.4 * torch.randn(40, 4)
    print(tune_exponent(plan, proxy, presence, {"web": 2.9, "code": 2.4, "papers": 2.7, "encyclopedia": 2.5})[-1])
