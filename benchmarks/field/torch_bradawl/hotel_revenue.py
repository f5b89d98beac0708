"""Revenue-management pieces for a small hotel group.

Three quantities the nightly pricing job differentiates through:

* how many rooms a date will finally sell, given what is on the books,
* what a chosen overbooking level is expected to cost,
* what is left of a requested stay's rate after paying for the nights it occupies.

Everything works on float tensors; ids, days and nights are int64.
"""
from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch.autograd import Function

SQRT_2PI = math.sqrt(2.0 * math.pi)


class HouseCosts(NamedTuple):
    """Cost of sending a guest elsewhere and of a room that stays empty."""

    walk: torch.Tensor
    empty: torch.Tensor


def _normal_pdf(z):
    return torch.exp(-0.5 * z * z) / SQRT_2PI


def _normal_cdf(z):
    return 0.5 * torch.erfc(-z / math.sqrt(2.0))


class PickupForecast(Function):
    """Final rooms from rooms on the books.

    ``rates[k]`` is the fraction by which the books grow between ``k + 1`` and ``k`` days out. It may be
    negative when cancellations outweigh bookings, down to -1 (a date that is released completely).

    on_hand  : (dates,)
    rates    : (horizon,)
    days_out : (dates,) int64, 0 .. horizon; 0 means the date is today and nothing more will happen
    returns  : final rooms (dates,), and the rooms still to come (dates,)
    """

    @staticmethod
    def forward(ctx, on_hand, rates, days_out):
        live = torch.arange(rates.numel(), device=rates.device)[None, :] < days_out[:, None]
        steps = torch.where(live, 1.0 + rates, torch.ones_like(rates))      # (dates, horizon)
        growth = steps.prod(dim=1)
        final = on_hand * growth
        ctx.save_for_backward(on_hand, steps, live)
        return final, final - on_hand

    @staticmethod
    def backward(ctx, g_final, g_coming):
        on_hand, steps, live = ctx.saved_tensors
        g = g_final + g_coming
        one = torch.ones_like(steps[:, :1])
        before = torch.cat([one, torch.cumprod(steps, 1)], 1)[:, :-1]
        after = torch.cat([torch.cumprod(steps.flip(1), 1).flip(1), one], 1)[:, 1:]
        others = before * after
        g_rates = ((g * on_hand)[:, None] * others * live).sum(0)
        g_hand = g * steps.prod(dim=1) - g_coming
        return g_hand, g_rates, None


class OverbookingCost(Function):
    """Expected cost of accepting ``booked`` reservations for ``rooms`` rooms.

    Arrivals are taken as normal with mean ``booked * show`` and variance
    ``booked * show * (1 - show) + spread**2``; ``spread`` (in rooms) stands for groups that come or stay away
    together. The four tensors broadcast against each other.
    """

    @staticmethod
    def forward(ctx, booked, show, walk, empty, rooms, spread):
        mean = booked * show
        sigma = torch.sqrt(booked * show * (1.0 - show) + spread**2)
        z = (rooms - mean) / sigma
        over = sigma * (_normal_pdf(z) - z * _normal_cdf(-z))
        vacant = over + (rooms - mean)
        ctx.save_for_backward(booked, show, walk, empty, sigma, z, over, vacant)
        return walk * over + empty * vacant

    @staticmethod
    def backward(ctx, g):
        booked, show, walk, empty, sigma, z, over, vacant = ctx.saved_tensors
        tail = _normal_cdf(-z)
        d_mean = walk * tail + empty * (tail - 1.0)
        d_sigma = (walk + empty) * _normal_pdf(z)
        per_booked = d_mean * show + d_sigma * show * (1.0 - show) / (2.0 * sigma)
        per_show = d_mean * booked + d_sigma * booked * (1.0 - 2.0 * show) / (2.0 * sigma)
        return (
            (g * per_booked).sum_to_size(booked.shape),
            (g * per_show).sum_to_size(show.shape),
            (g * over).sum_to_size(walk.shape),
            (g * vacant).sum_to_size(empty.shape),
            None,
            None,
        )


class StayDisplacement(Function):
    """What a requested stay leaves over once its nights are paid at bid price.

    rate      (stays,)          offered rate
    bids      (types, nights)   bid price of a room type on a night of the planning window
    room_type (stays,)          row of ``bids``
    arrival   (stays,)          first night, inside the window
    length    (stays,)          nights asked for, at least one

    Nights beyond the end of the window have no bid price and are not charged. With ``per_night`` the rate is
    a nightly one and is compared with the average bid of the charged nights; otherwise the rate is
    for the whole stay.
    """

    @staticmethod
    def forward(ctx, rate, bids, room_type, arrival, length, per_night=False):
        window = bids.shape[1]
        leave = torch.clamp(arrival + length, max=window)
        padded = torch.cat([torch.zeros_like(bids[:, :1]), torch.cumsum(bids, 1)], 1)
        charge = padded[room_type, leave] - padded[room_type, arrival]
        if per_night:
            charge = charge / (leave - arrival).to(bids.dtype)
        ctx.save_for_backward(room_type, arrival, length, leave)
        ctx.shape = tuple(bids.shape)
        ctx.per_night = per_night
        return rate - charge

    @staticmethod
    def backward(ctx, g):
        room_type, arrival, length, leave = ctx.saved_tensors
        types, window = ctx.shape
        share = -g
        if ctx.per_night:
            share = share / length.to(g.dtype)
        edge = g.new_zeros(types, window + 1)
        edge.index_put_((room_type, arrival), share, accumulate=True)
        edge.index_put_((room_type, leave), -share, accumulate=True)
        g_bids = torch.cumsum(edge, dim=1)[:, :window]
        return g, g_bids, None, None, None, None


def overbooking_cost(booked, show, costs: HouseCosts, rooms, spread=1.0):
    return OverbookingCost.apply(booked, show, costs.walk, costs.empty, float(rooms), float(spread))


def accept_value(rate, bids, stays, per_night=False):
    """``stays`` is an int64 tensor (stays, 3) of room type, arrival, length."""
    kind, arrival, length = stays.unbind(1)
    return StayDisplacement.apply(rate, bids, kind, arrival, length, per_night)


def main():
    books = torch.tensor([12.0, 30.0, 41.0], requires_grad=True)
    rates = torch.tensor([0.02, 0.05, 0.11, 0.2], requires_grad=True)
    final, coming = PickupForecast.apply(books, rates, torch.tensor([4, 2, 0]))
    costs = HouseCosts(torch.tensor(240.0), torch.tensor(95.0))
    total = overbooking_cost(final, torch.tensor(0.93), costs, rooms=44).sum()
    total.backward()
    print(final.tolist(), coming.tolist(), rates.grad.tolist())


if __name__ == "__main__":
    main()
