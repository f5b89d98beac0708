"""Offline reinforcement learning for dimming street lamps.

The logs come from 14 cabinets that ran a fixed timetable.  A decision (dim level)
is held for a number of minutes that varies, so the process is semi-Markov.

Pieces: a conservative penalty on the Q values, a KL term for the Gamma
posterior of the traffic rates, and the returns for lamps with varying dwell.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclasses.dataclass(frozen=True)
class OfflineConfig:
    penalty: float = 1.0
    temperature: float = 1.0
    kl_weight: float = 0.01


class ConservativeGap(torch.autograd.Function):
    r"""Weighted mean of ``T * logsumexp(q / T over legal levels) - q[taken]``.

    Parameters
    ----------
    q : Tensor, (steps, levels)
    taken : LongTensor, (steps,)
        Logged dim level, always a legal one.
    legal : BoolTensor, (steps, levels)
        Levels that the lamp standard allows at that hour.
    weight : Tensor, (steps,)
        Importance of each logged step, positive.
    temperature : float
        Small values approach the maximum.
    """

    @staticmethod
    def forward(ctx, q: Tensor, taken: Tensor, legal: Tensor, weight: Tensor, temperature: float = 1.0) -> Tensor:
        scaled = (q / temperature).masked_fill(~legal, float("-inf"))
        soft_max = temperature * torch.logsumexp(scaled, dim=1)
        gap = soft_max - q.gather(1, taken[:, None]).squeeze(1)
        total = weight.sum()
        loss = (weight * gap).sum() / total
        ctx.save_for_backward(scaled, taken, weight, gap, total, loss)
        ctx.temperature = temperature
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        scaled, taken, weight, gap, total, loss = ctx.saved_tensors
        push = torch.softmax(scaled, dim=1) / ctx.temperature
        push = push.scatter_add(1, taken[:, None], -torch.ones_like(gap)[:, None])
        grad_q = grad * push * (weight / total)[:, None]
        grad_w = grad * (gap - loss) / total
        return grad_q, None, None, grad_w, None


class GammaKL(torch.autograd.Function):
    """KL( Gamma(a, b) || Gamma(a0, b0) ), shape-rate, elementwise.

    The four arguments broadcast against each other (typically a posterior of
    shape (cabinets, hours) and a prior of shape (hours,) or a single number as tensor).
    """

    @staticmethod
    def forward(ctx, a, b, a0, b0):
        ctx.save_for_backward(a, b, a0, b0)
        return (
            (a - a0) * torch.digamma(a) - torch.lgamma(a) + torch.lgamma(a0)
            + a0 * (torch.log(b) - torch.log(b0)) + a * (b0 - b) / b
        )

    @staticmethod
    def backward(ctx, g):
        a, b, a0, b0 = ctx.saved_tensors
        ga = gb = ga0 = gb0 = None
        if ctx.needs_input_grad[0]:
            ga = (g * ((a - a0) * torch.polygamma(1, a) + b0 / b - 1)).sum_to_size(a.shape)
        if ctx.needs_input_grad[1]:
            gb = (g * (a0 - a * b0 / b) / b).sum_to_size(b.shape)
        if ctx.needs_input_grad[2]:
            ga0 = (g * (torch.digamma(a0) - torch.digamma(a) + torch.log(b / b0))).sum_to_size(a0.shape)
        if ctx.needs_input_grad[3]:
            gb0 = (g * (a / b - a0 / b0)).sum_to_size(b0.shape)
        return ga, gb, ga0, gb0


class DwellReturn(torch.autograd.Function):
    """Returns of a semi-Markov log.

    G[t] = reward[t] + discount ** minutes[t] * (not done[t]) * G[t + 1],  G[T] = bootstrap

    reward (lamps, T); discount: scalar tensor, per minute; minutes: int64 (lamps, T), at
    least 1; done: bool (lamps, T), the lamp was serviced after step t; bootstrap (lamps,).
    """

    @staticmethod
    def forward(ctx, reward, discount, minutes, done, bootstrap):
        alive = (~done).to(reward.dtype)
        carry = alive * discount ** minutes
        ahead = bootstrap
        out, following = [], []
        for t in reversed(range(reward.shape[1])):
            following.append(ahead)
            ahead = reward[:, t] + carry[:, t] * ahead
            out.append(ahead)
        following = torch.stack(following[::-1], 1)
        ctx.save_for_backward(discount, minutes, alive, carry, following)
        return torch.stack(out[::-1], 1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        discount, minutes, alive, carry, following = ctx.saved_tensors
        run = torch.zeros_like(grad[:, 0])
        adj = []
        for t in range(grad.shape[1]):
            run = grad[:, t] + carry[:, t] * run
            adj.append(run)
        adj = torch.stack(adj, 1)
        per_step = alive * minutes * discount ** (minutes - 1) * following
        g_discount = (adj * per_step).sum().reshape(discount.shape)
        return adj, g_discount, None, None, carry[:, -1] * run


def training_loss(q, taken, legal, weight, posterior, prior, config: OfflineConfig):
    """posterior and prior are (shape, rate) pairs."""
    gap = ConservativeGap.apply(q, taken, legal, weight, config.temperature)
    kl = GammaKL.apply(*posterior, *prior).mean()
    return config.penalty * gap + config.kl_weight * kl


def main():
    torch.manual_seed(0)
    reward = torch.randn(3, 6)
    minutes = torch.randint(1, 20, (3, 6))
    done = torch.zeros(3, 6, dtype=torch.bool)
    print(DwellReturn.apply(reward, torch.tensor(0.995), minutes, done, torch.zeros(3)))


if __name__ == "__main__":
    main()
