"""Learned parts of a mail filter.

Old-school Bayesian filtering with its few hyperparameters trained end to
end: Robinson's combination of token probabilities, the standing of senders
over time, and soft confusion measures per mailbox in which a lost
legitimate message ("ham") is dearer than a delivered piece of spam.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

EPS = 1e-9
NEUTRAL = 0.5
DAY = 86_400.0


@dataclass
class FilterConfig:
    min_deviation: float = 0.1
    reputation_gain: float = 0.25
    temperature: float = 0.5
    half_lives_days: Sequence[float] = field(default_factory=lambda: (7.0, 30.0))


class SoftConfusion(NamedTuple):
    """Per mailbox, each of shape (mailboxes,)."""

    cost_ratio: Tensor
    precision: Tensor
    recall: Tensor
    false_positive: Tensor
    false_negative: Tensor


class RobinsonIndicator(Function):
    """Robinson's geometric-mean indicator of a message.

    A token seen ``n`` times with spam share ``p`` has the smoothed value
    ``f = (s x + n p) / (s + n)``; with the means over the k tokens used::

        P = 1 - prod(1 - f) ** (1/k)      Q = 1 - prod(f) ** (1/k)
        indicator = P / (P + Q)

    Used are the tokens of the message that are at least ``min_deviation``
    away from neutral; a message without any is neutral.

    Args:
        share: (messages, tokens) spam share of each token, in (0, 1).
        seen: (messages, tokens) integer counts.
        mask: (messages, tokens) bool, false at padding.
        strength: 0-d tensor, s.
        prior: 0-d tensor, x.
        min_deviation: float.
    """

    @staticmethod
    def forward(ctx, share, seen, mask, strength, prior, min_deviation=0.0):
        n = seen.to(share.dtype)
        f = (strength * prior + n * share) / (strength + n)
        used = mask & ((f - NEUTRAL).abs() >= min_deviation)
        u = used.to(share.dtype)
        k = u.sum(-1).clamp_min(1.0)
        keep = torch.where(used, f, torch.full_like(f, NEUTRAL))
        spam_mean = torch.exp((u * torch.log1p(-keep)).sum(-1) / k)
        ham_mean = torch.exp((u * keep.log()).sum(-1) / k)
        p, q = 1.0 - spam_mean, 1.0 - ham_mean
        some = used.any(-1)
        total = torch.where(some, p + q, torch.ones_like(p))
        ctx.save_for_backward(
            n, f, keep, mask, used, strength, prior, spam_mean, ham_mean, total
        )
        return torch.where(some, p / total, torch.full_like(p, NEUTRAL))

    @staticmethod
    def backward(ctx, grad):
        n, f, keep, mask, used, strength, prior, spam_mean, ham_mean, total = ctx.saved_tensors
        p, q = 1.0 - spam_mean, 1.0 - ham_mean
        k = mask.sum(-1).clamp_min(1).to(grad.dtype)
        d_p = grad * q / total.square()
        d_q = -grad * p / total.square()
        d_f = (d_p * spam_mean / k).unsqueeze(-1) / (1.0 - keep)
        d_f = d_f - (d_q * ham_mean / k).unsqueeze(-1) / keep
        d_f = d_f * used.to(grad.dtype)
        weight = d_f / (strength + n)
        d_share = weight * n
        d_strength = (weight * (prior - f)).sum()
        d_prior = weight.sum() * strength
        return d_share, None, None, d_strength, d_prior, None


class SenderStanding(Function):
    """Standing of each message's sender at its arrival.

    Messages come in the order of time. Since the sender's last message its
    standing has drifted towards ``neutral`` at the sender's own rate, and
    after the message it moves to the verdict by ``gain``.

    Shapes: verdict, gap (messages,); sender (messages,) integer; initial,
    rate (senders,); neutral a scalar tensor; gain a float. Returns the
    standing met by each message and the final one of each sender.
    """

    @staticmethod
    def forward(ctx, verdict, initial, rate, neutral, sender, gap, gain):
        decay = torch.exp(-rate[sender] * gap)
        state = initial.clone()
        met, held = [], []
        for i, s in enumerate(sender.tolist()):
            held.append(state[s].clone())
            now = neutral + (held[-1] - neutral) * decay[i]
            met.append(now)
            state[s] = now + gain * (verdict[i] - now)
        ctx.gain = gain
        ctx.save_for_backward(decay, torch.stack(held), neutral, sender, gap, rate)
        return torch.stack(met), state

    @staticmethod
    def backward(ctx, g_met, g_final):
        decay, held, neutral, sender, gap, rate = ctx.saved_tensors
        gain = ctx.gain
        adjoint = g_final.clone()
        d_verdict = torch.zeros_like(decay)
        d_rate = torch.zeros_like(rate)
        d_neutral = torch.zeros_like(neutral)
        senders = sender.tolist()
        for i in range(len(senders) - 1, -1, -1):
            s = senders[i]
            d_verdict[i] = gain * adjoint[s]
            d_now = g_met[i] + (1.0 - gain) * adjoint[s]
            d_neutral = d_neutral + d_now * (1.0 - decay[i])
            d_rate[s] -= d_now * (held[i] - neutral) * decay[i] * gap[i]
            adjoint[s] = d_now * decay[i]
        return d_verdict, adjoint, d_rate, d_neutral, None, None, None


class MailboxConfusion(Function):
    """Soft confusion measures with message weights.

    ``logit``, ``weight`` : (mailboxes, messages), ``is_spam`` and ``mask``
    bool of the same shape, ``ham_cost`` : (mailboxes,). ``temperature``
    divides the logits.

    Returns cost ratio ``S / (ham_cost * fp + fn)``, precision
    ``tp / (tp + fp)``, recall ``tp / S``, ``fp`` and ``fn``, where ``S`` is
    the weight of the mailbox's spam.
    """

    @staticmethod
    def forward(ctx, logit, weight, ham_cost, is_spam, mask, temperature):
        p = torch.sigmoid(logit / temperature)
        spam = (is_spam & mask).to(logit.dtype)
        ham = (~is_spam & mask).to(logit.dtype)
        tp = (spam * weight * p).sum(-1)
        fp = (ham * weight * p).sum(-1)
        fn = (spam * weight * (1.0 - p)).sum(-1)
        amount = (spam * weight).sum(-1)
        cost = ham_cost * fp + fn + EPS
        flagged = tp + fp + EPS
        amount_safe = amount + EPS
        ctx.temperature = temperature
        ctx.save_for_backward(p, weight, spam, ham, tp, fp, amount, cost, flagged, ham_cost)
        return amount / cost, tp / flagged, tp / amount_safe, fp, fn

    @staticmethod
    def backward(ctx, g_ratio, g_precision, g_recall, g_fp, g_fn):
        p, weight, spam, ham, tp, fp, amount, cost, flagged, ham_cost = ctx.saved_tensors
        d_cost = -g_ratio * amount / cost.square()
        d_flagged = -g_precision * tp / flagged.square()
        d_tp = g_precision / flagged + d_flagged + g_recall / (amount + EPS)
        d_fp = g_fp + d_flagged + d_cost * ham_cost
        d_fn = g_fn + d_cost
        d_amount = g_ratio / cost

        on_spam = (d_tp - d_fn).unsqueeze(-1) * spam
        on_ham = d_fp.unsqueeze(-1) * ham
        d_p = (on_spam + on_ham) * weight
        d_logit = d_p * p * (1.0 - p) / ctx.temperature
        d_weight = (on_spam + on_ham) * p + (d_fn + d_amount).unsqueeze(-1) * spam
        return d_logit, d_weight, d_cost * fp, None, None, None


class TokenStatistics:
    """Counts of tokens in the training mail (host side, plain python)."""

    def __init__(self) -> None:
        self.index: Dict[str, int] = {}
        self.spam: List[int] = []
        self.ham: List[int] = []

    def learn(self, tokens: Sequence[str], spam: bool) -> None:
        for token in set(tokens):
            slot = self.index.setdefault(token, len(self.index))
            if slot == len(self.spam):
                self.spam.append(0)
                self.ham.append(0)
            (self.spam if spam else self.ham)[slot] += 1

    def tensors(self) -> Tuple[Tensor, Tensor]:
        spam = torch.tensor(self.spam, dtype=torch.get_default_dtype())
        ham = torch.tensor(self.ham, dtype=torch.get_default_dtype())
        seen = spam + ham
        return ((spam + 0.01) / (seen + 0.02)), seen.long()

    def encode(self, messages: Sequence[Sequence[str]], length: int) -> Tuple[Tensor, Tensor]:
        ids = torch.zeros(len(messages), length, dtype=torch.long)
        mask = torch.zeros(len(messages), length, dtype=torch.bool)
        for row, tokens in enumerate(messages):
            known = [self.index[t] for t in dict.fromkeys(tokens) if t in self.index][:length]
            ids[row, : len(known)] = torch.tensor(known, dtype=torch.long)
            mask[row, : len(known)] = True
        return ids, mask


class MailFilter(nn.Module):
    def __init__(self, senders: int, config: FilterConfig = FilterConfig()):
        super().__init__()
        self.config = config
        self.log_strength = nn.Parameter(torch.tensor(-0.8))
        self.prior_logit = nn.Parameter(torch.tensor(0.0))
        self.initial = nn.Parameter(torch.full((senders,), NEUTRAL))
        self.rate = nn.Parameter(torch.full((senders,), 0.7 / config.half_lives_days[0]))
        self.neutral = nn.Parameter(torch.tensor(NEUTRAL))
        self.mix = nn.Linear(2, 1)

    def content(self, share: Tensor, seen: Tensor, mask: Tensor) -> Tensor:
        return RobinsonIndicator.apply(
            share, seen, mask, self.log_strength.exp(), self.prior_logit.sigmoid(),
            self.config.min_deviation,
        )

    def forward(self, mail: Mapping[str, Tensor]) -> Tensor:
        content = self.content(mail["share"], mail["seen"], mail["mask"])
        standing, _ = SenderStanding.apply(
            mail["verdict"], self.initial, self.rate, self.neutral,
            mail["sender"], mail["gap_days"], self.config.reputation_gain,
        )
        return self.mix(torch.stack([content, standing], dim=-1)).squeeze(-1)


def mailbox_report(logit, weight, ham_cost, is_spam, mask, temperature=1.0) -> SoftConfusion:
    return SoftConfusion(
        *MailboxConfusion.apply(logit, weight, ham_cost, is_spam, mask, temperature)
    )


def filter_objective(report: SoftConfusion, recall_floor: float = 0.8) -> Tensor:
    """Large cost ratio, with a hinge on the mailboxes' recall."""
    missing = (recall_floor - report.recall).clamp_min(0.0)
    return -torch.log(report.cost_ratio + EPS).mean() + 10.0 * missing.square().mean()


if __name__ == "__main__":
    stats = TokenStatistics()
    stats.learn("cheap pills now buy".split(), spam=True)
    stats.learn("cheap watches buy".split(), spam=True)
    stats.learn("minutes of the meeting now".split(), spam=False)
    share, seen = stats.tensors()
    ids, mask = stats.encode([["cheap", "pills"], ["the", "meeting", "now"]], length=4)
    model = MailFilter(senders=2)
    logit = model({
        "share": share[ids], "seen": seen[ids], "mask": mask,
        "verdict": torch.tensor([1.0, 0.0]), "sender": torch.tensor([0, 1]),
        "gap_days": torch.tensor([1.0, 3.0]),
    })
    report = mailbox_report(
        logit.unsqueeze(0), torch.ones(1, 2), torch.tensor([9.0]),
        torch.tensor([[True, False]]), torch.ones(1, 2, dtype=torch.bool),
    )
    print(filter_objective(report))
