"""Shared e-scooters: where they drift, what the riders pay, and a demand model's loss."""
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.autograd import Function


@dataclass
class Tariff:
    unlock: float = 1.0
    per_minute: float = 0.22
    day_cap: float = 12.0
    grace: float = 2.0      # minutes for adjusting the helmet, free

    def tensors(self, dtype=torch.float64):
        make = lambda v: torch.tensor(v, dtype=dtype, requires_grad=True)
        return make(self.unlock), make(self.per_minute), make(self.day_cap)


class DriftWithRacks(Function):
    """Stock of each zone over the day, with racks that can only hold so much.

    ``stock`` (days, zones) at opening; ``moves`` (zones, zones), row i says
    where the scooters of zone i are an hour later; ``trucks`` (hours, zones)
    or (days, hours, zones), brought or taken; ``racks`` (zones,), infinite
    where the pavement is wide.

    Returns the stock after each hour and the scooters turned away from full
    racks, both (days, hours, zones).
    """

    @staticmethod
    def forward(ctx, stock, moves, trucks, racks):
        plan = trucks if trucks.dim() == 3 else trucks.unsqueeze(0)
        plan = plan.expand(stock.shape[0], -1, -1)
        level, levels, turned = stock, [stock], []
        for hour in range(plan.shape[1]):
            wanted = level @ moves + plan[:, hour]
            full = wanted > racks
            level = torch.where(full, racks.expand_as(wanted), wanted)
            turned.append(torch.where(full, wanted - racks, torch.zeros_like(wanted)))
            levels.append(level)
        before = torch.stack(levels[:-1], 1)
        path, away = torch.stack(levels[1:], 1), torch.stack(turned, 1)
        ctx.save_for_backward(before, moves, away > 0)
        ctx.truck_shape = trucks.shape
        return path, away

    @staticmethod
    def backward(ctx, g_path, g_away):
        before, moves, full = ctx.saved_tensors
        carry = torch.zeros_like(before[:, 0])
        g_moves = torch.zeros_like(moves)
        g_racks = torch.zeros_like(moves[0])
        g_plan = []
        for hour in range(before.shape[1] - 1, -1, -1):
            at = full[:, hour]
            g_level = g_path[:, hour] + carry
            g_wanted = torch.where(at, g_away[:, hour], g_level)
            g_racks = g_racks + torch.where(at, g_level - g_away[:, hour], torch.zeros_like(g_level)).sum(0)
            g_moves = g_moves + before[:, hour].t() @ g_wanted
            carry = g_wanted @ moves.t()
            g_plan.append(g_wanted)
        g_trucks = torch.stack(g_plan[::-1], 1)
        if len(ctx.truck_shape) == 2:
            g_trucks = g_trucks.sum(0)
        return carry, g_moves, g_trucks, g_racks


class DayPassBill(Function):
    """What each rider pays for a day, and what the day pass has saved them.

    :param minutes: (riders, slots) length of each ride
    :param taken: (riders, slots) bool, False in slots that hold no ride
    :param unlock: scalar price of a start
    :param rate: price per minute, scalar or (riders,)
    :param cap: most that a day may cost, scalar or (riders,)
    :param grace: minutes of each ride that are free
    :return: ``bill`` and ``saved``, both (riders,); their sum is the uncapped price
    """

    @staticmethod
    def forward(ctx, minutes, taken, unlock, rate, cap, grace=0.0):
        used = taken.to(minutes.dtype)
        paid = torch.relu(minutes - grace) * used
        total = unlock * used.sum(-1) + rate * paid.sum(-1)
        over = total > cap
        bill = torch.where(over, cap.expand_as(total), total)
        saved = torch.where(over, total - cap, torch.zeros_like(total))
        ctx.save_for_backward(paid, used, rate, over)
        ctx.cap_shape = cap.shape
        return bill, saved

    @staticmethod
    def backward(ctx, g_bill, g_saved):
        paid, used, rate, over = ctx.saved_tensors
        nothing = torch.zeros_like(g_bill)
        g_total = torch.where(over, g_saved, g_bill)
        g_cap = torch.where(over, g_bill, nothing).sum_to_size(ctx.cap_shape)
        g_minutes = (g_total * rate)[:, None] * (paid > 0)
        g_unlock = (g_total * used.sum(-1)).sum()
        g_rate = (g_total * paid.sum(-1)).sum_to_size(rate.shape)
        return g_minutes, None, g_unlock, g_rate, g_cap, None


class HourTransportLoss(Function):
    """Squared transport distance between two histograms over ordered bins.

    predicted, observed: (batch, bins), every row with the same total.
    wrap=True is for the clock (23 h is next to 0 h): the flow past midnight is
    free and is chosen at its best value. wrap=False is for bins on a line, such as
    the battery level at return. Mean over the batch.
    """

    @staticmethod
    def forward(ctx, predicted, observed, wrap=True):
        flow = torch.cumsum(predicted - observed, dim=-1)
        ring = flow - flow.mean(dim=-1, keepdim=True)
        ctx.save_for_backward(ring)
        cost = (ring if wrap else flow).square().sum(dim=-1)
        return cost.mean()

    @staticmethod
    def backward(ctx, grad):
        (ring,) = ctx.saved_tensors
        pull = 2.0 * ring / ring.shape[0]
        up = pull.flip(-1).cumsum(-1).flip(-1)
        return grad * up, -grad * up, None


class DemandNet(torch.nn.Module):
    """Histogram of departures over the clock from weather and weekday features."""

    def __init__(self, features: int, bins: int = 24):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(features, 32), torch.nn.SiLU(), torch.nn.Linear(32, bins))

    def forward(self, features):
        return self.body(features).softmax(-1)

    def loss(self, features, observed):
        return HourTransportLoss.apply(self(features), observed)


def revenue(minutes, taken, tariff: Tariff):
    bill, _ = DayPassBill.apply(minutes, taken, *tariff.tensors(minutes.dtype), tariff.grace)
    return bill.sum()
