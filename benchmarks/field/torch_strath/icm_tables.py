"""Tournament poker pieces: independent chip model, self-play policies, side pots."""
import itertools
from dataclasses import dataclass

import torch
from torch.autograd import Function


@dataclass(frozen=True)
class Structure:
    seats: int
    payouts: tuple = (0.5, 0.3, 0.2)

    @property
    def paid(self):
        return min(self.seats, len(self.payouts))


def _finishing_orders(seats, paid):
    return list(itertools.permutations(range(seats), paid))


class IcmEquity(Function):
    """Malmuth-Harville equity.

    The chance of seat ``i`` to finish first is its share of the chips; the next
    places are drawn the same way among the seats that are left.

    Args:
        stacks: chips ``[B, N]``, all positive.
        payouts: prizes ``[K]`` of the first ``K <= N`` places.

    Returns:
        expected prize of each seat ``[B, N]``.
    """

    @staticmethod
    def forward(ctx, stacks, payouts):
        seats = stacks.shape[1]
        equity = torch.zeros_like(stacks)
        for order in _finishing_orders(seats, payouts.shape[0]):
            remaining = list(range(seats))
            prob = torch.ones_like(stacks[:, 0])
            for seat in order:
                prob = prob * stacks[:, seat] / stacks[:, remaining].sum(1)
                remaining.remove(seat)
            for place, seat in enumerate(order):
                equity[:, seat] += prob * payouts[place]
        ctx.save_for_backward(stacks, payouts)
        return equity

    @staticmethod
    def backward(ctx, grad):
        stacks, payouts = ctx.saved_tensors
        seats, paid = stacks.shape[1], payouts.shape[0]
        g_stacks = torch.zeros_like(stacks)
        g_payouts = torch.zeros_like(payouts)
        for order in _finishing_orders(seats, paid):
            remaining = list(range(seats))
            prob = torch.ones_like(stacks[:, 0])
            score = torch.zeros_like(stacks)          # d log prob / d stacks
            worth = torch.zeros_like(prob)
            for place, seat in enumerate(order):
                left = stacks[:, remaining].sum(1)
                prob = prob * stacks[:, seat] / left
                score[:, remaining] -= (1.0 / left)[:, None]
                score[:, seat] += 1.0 / stacks[:, seat]
                worth = worth + grad[:, seat] * payouts[place]
                remaining.remove(seat)
            g_stacks += (prob * worth)[:, None] * score
            for place, seat in enumerate(order):
                g_payouts[place] += (grad[:, seat] * prob).sum()
        return g_stacks, g_payouts


class RegretPolicy(Function):
    """Regret matching over the legal actions; uniform over them where no regret is positive."""

    @staticmethod
    def forward(ctx, regret, legal):
        positive = regret.clamp(min=0)
        positive = positive.masked_fill(~legal, 0.0)
        total = positive.sum(-1, keepdim=True)
        idle = total <= 0
        uniform = legal.to(regret.dtype)
        uniform = uniform / uniform.sum(-1, keepdim=True).clamp(min=1)
        policy = torch.where(idle, uniform, positive / total.masked_fill(idle, 1.0))
        ctx.save_for_backward(regret, policy, total, idle)
        return policy

    @staticmethod
    def backward(ctx, grad):
        regret, policy, total, idle = ctx.saved_tensors
        centred = grad - (grad * policy).sum(-1, keepdim=True)
        g_regret = centred / total.masked_fill(idle, 1.0)
        g_regret = g_regret * (regret > 0).to(grad.dtype)
        return g_regret.masked_fill(idle, 0.0), None


class SidePotShare(Function):
    # contributed [B, N] float, strength [B, N] int (high wins, ties split), folded [B, N] bool
    @staticmethod
    def forward(ctx, contributed, strength, folded):
        ranked, order = torch.sort(contributed, dim=1)
        seats = contributed.shape[1]
        step = torch.diff(ranked, dim=1, prepend=torch.zeros_like(ranked[:, :1]))
        hand = torch.where(folded, torch.full_like(strength, -1), strength).gather(1, order)
        live = torch.ones(seats, seats, dtype=torch.bool, device=order.device).triu()
        level_hand = torch.where(live, hand[:, None, :], torch.full_like(hand[:, None, :], -2))
        best = level_hand.max(-1, keepdim=True).values
        # a level that only folded players reached goes back to them in equal parts
        win = (level_hand == best).to(contributed.dtype)
        count = live.sum(1).to(contributed.dtype)
        share = count[:, None] * win / win.sum(-1, keepdim=True)      # [B, level, rank]
        paid = torch.einsum("bk,bkr->br", step, share)
        ctx.save_for_backward(order, share)
        return torch.zeros_like(paid).scatter(1, order, paid)

    @staticmethod
    def backward(ctx, grad):
        order, share = ctx.saved_tensors
        g_step = torch.einsum("br,bkr->bk", grad.gather(1, order), share)
        g_ranked = g_step.clone()
        g_ranked[:, :-1] -= g_step[:, 1:]
        return g_ranked.gather(1, order), None, None


def prize_loss(stacks, target, structure: Structure):
    payouts = stacks.new_tensor(structure.payouts[: structure.paid])
    return (IcmEquity.apply(stacks, payouts) - target).square().mean()


if __name__ == "__main__":
    chips = torch.tensor([[5000.0, 3000.0, 1500.0, 500.0]])
    print(IcmEquity.apply(chips, torch.tensor([50.0, 30.0, 20.0])))
