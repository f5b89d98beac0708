"""Planning the galley of a passenger ship.

Two questions: how much of each raw good do the ordered menus need, and where should the
stations (cold, grill, pastry, wash-up ...) stand so that the runners walk little?
The galley has one-way lanes: from the pass to the wash-up is not as far as back.
"""
from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor


def relaxed_assignment(scores: Tensor, rounds: int = 20) -> Tensor:
    """A doubly stochastic matrix by alternating normalisation of exp(scores)."""
    log_x = scores
    for _ in range(rounds):
        log_x = log_x - torch.logsumexp(log_x, 1, keepdim=True)
        log_x = log_x - torch.logsumexp(log_x, 0, keepdim=True)
    return log_x.exp()


class RunnerDistance(torch.autograd.Function):
    """Metres walked an hour.

    place: [stations, spots], how much station i stands on spot k
    trips: [stations, stations], trips an hour from station i to station j
    metres: [spots, spots], from spot k to spot l along the lanes
    """

    @staticmethod
    def forward(ctx, place: Tensor, trips: Tensor, metres: Tensor) -> Tensor:
        reach = trips @ place
        ctx.save_for_backward(place, trips, metres, reach)
        return (place * (reach @ metres.T)).sum()

    @staticmethod
    def backward(ctx, grad):
        place, trips, metres, reach = ctx.saved_tensors
        g_place = 2 * reach @ metres.T
        g_trips = place @ metres @ place.T
        g_metres = place.T @ reach
        return grad * g_place, grad * g_trips, grad * g_metres


class GalleyBook:
    """The recipe book: pairs (product, part), parts later in the order than products.

    A pair may occur twice (butter in the dough and butter on the tin).

    >>> book = GalleyBook(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    """

    def __init__(self, n_items: int, pairs: Sequence[tuple[int, int]]):
        for product, part in pairs:
            if not 0 <= product < part < n_items:
                raise ValueError(f"pair {(product, part)} is not in order")
        self.n_items = n_items
        self.pairs = sorted((int(a), int(b)) for a, b in pairs)

    def needs(self, orders: Tensor, quantity: Tensor, yields: Tensor) -> Tensor:
        """orders [meals, n_items]; quantity [len(pairs)] in the sorted order of the pairs;
        yields [n_items], the usable share of each item in (0, 1]."""
        return GrossNeeds.apply(orders, quantity, yields, self.pairs)


class GrossNeeds(torch.autograd.Function):
    """Gross amount of each item: (orders + what the products ask for) / yield."""

    @staticmethod
    def forward(ctx, orders, quantity, yields, pairs):
        n = orders.shape[1]
        by_part = [[] for _ in range(n)]
        for e, (product, part) in enumerate(pairs):
            by_part[part].append((e, product))
        gross = []
        for item in range(n):
            net = orders[:, item]
            for e, product in by_part[item]:
                net = net + quantity[e] * gross[product]
            gross.append(net / yields[item])
        gross = torch.stack(gross, 1)
        ctx.save_for_backward(gross, quantity, yields)
        ctx.by_part = by_part
        return gross

    @staticmethod
    def backward(ctx, grad):
        gross, quantity, yields = ctx.saved_tensors
        adj = grad.clone()
        g_orders = torch.empty_like(grad)
        g_quantity = torch.zeros_like(quantity)
        for item in reversed(range(grad.shape[1])):
            net_adj = adj[:, item] / yields[item]
            g_orders[:, item] = net_adj
            for e, product in ctx.by_part[item]:
                g_quantity[e] = (net_adj * gross[:, product]).sum()
                adj[:, product] += quantity[e] * net_adj
        g_yields = -(adj * gross).sum(0) / yields
        return g_orders, g_quantity, g_yields, None


def plan(scores: Tensor, trips: Tensor, metres: Tensor, steps: int = 50, lr: float = 0.1) -> Tensor:
    scores = scores.clone().requires_grad_(True)
    opt = torch.optim.Adam([scores], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        RunnerDistance.apply(relaxed_assignment(scores), trips, metres).backward()
        opt.step()
    return relaxed_assignment(scores.detach())


if __name__ == "__main__":
    torch.manual_seed(0)
    book = GalleyBook(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    print(book.needs(torch.eye(4)[:2], torch.tensor([2.0, 1.0, 0.5, 0.25]), torch.ones(4)))
