"""Maple sugaring: from the tapped tree to the kettle.

Units: degrees Celsius, litres per hour, sugar as a mass fraction, kilograms.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Evaporator:
    """`areas` of the pans in m2, `rate` of pure water in L/h per m2, and by which share of
    the sugar fraction boiling slows down."""

    areas: tuple = (1.2, 0.8, 0.5)
    rate: float = 18.0
    slowdown: float = 0.6


class FreezeThawDrip(torch.autograd.Function):
    """Mean drip index of each tree over the days on which its bucket was logged.

    high, low: [days], the day's extremes; sap runs when the night freezes and the day thaws.
    vigour: [trees].
    logged: bool [trees, days].  A tree that was never logged has index zero.
    """

    @staticmethod
    def forward(ctx, high, low, vigour, logged):
        day = F.softplus(high) * torch.sigmoid(-low)
        m = logged.to(day.dtype)
        days = m.sum(1).clamp(min=1)
        mean = (m * day).sum(1) / days
        ctx.save_for_backward(high, low, vigour, m, mean)
        return vigour * mean

    @staticmethod
    def backward(ctx, g):
        high, low, vigour, m, mean = ctx.saved_tensors
        per_day = (g * vigour / m.shape[1]) @ m
        freeze = torch.sigmoid(-low)
        g_high = per_day * torch.sigmoid(high) * freeze
        g_low = -per_day * F.softplus(high) * freeze * (1 - freeze)
        return g_high, g_low, g * mean, None


class PanCascade(torch.autograd.Function):
    """Sap passes the pans one after the other and loses water in each.

    flow_in, sugar_in: [batch]; areas: [pans]; rate, slowdown: 0-d tensors.
    Pan i boils off areas[i] * rate * (1 - slowdown * sugar), with the sugar fraction at its inlet.
    Returns the flow and the sugar fraction at the outlet, both [batch].
    """

    @staticmethod
    def forward(ctx, flow_in, sugar_in, areas, rate, slowdown):
        flow, sugar = flow_in, sugar_in
        flows, sugars = [flow], [sugar]
        for i in range(areas.shape[0]):
            left = flow - areas[i] * rate * (1 - slowdown * sugar)
            sugar = sugar * flow / left
            flow = left
            flows.append(flow)
            sugars.append(sugar)
        ctx.save_for_backward(torch.stack(flows), torch.stack(sugars), areas, rate, slowdown)
        return flow, sugar

    @staticmethod
    def backward(ctx, g_flow, g_sugar):
        flows, sugars, areas, rate, slowdown = ctx.saved_tensors
        g_areas = torch.zeros_like(areas)
        g_rate = torch.zeros_like(rate)
        g_slow = torch.zeros_like(slowdown)
        for i in reversed(range(areas.shape[0])):
            f, s, left = flows[i], sugars[i], flows[i + 1]
            # sugar' = s f / left ; left = f - boiled
            g_left = g_flow - g_sugar * s * f / left**2
            brake = 1 - slowdown * s
            g_areas[i] = -(g_left * rate * brake).sum()
            g_rate = g_rate - (g_left * areas[i] * brake).sum()
            g_slow = g_slow + (g_left * areas[i] * rate * s).sum()
            g_flow, g_sugar = (
                g_left + g_sugar * s / left,
                g_sugar * f / left + g_left * areas[i] * rate * slowdown,
            )
        return g_flow, g_sugar, g_areas, g_rate, g_slow


# specific heat of syrup, kJ/(kg K): HEAT_0 + HEAT_1 * T
HEAT_0 = 2.6
HEAT_1 = 0.0125


class KettleMix(torch.autograd.Function):
    """Temperature estimate after pouring batches together, last axis = batches.

    Every batch counts with its mass times its specific heat at its own temperature.
    """

    @staticmethod
    def forward(ctx, mass, temp):
        capacity = mass * (HEAT_0 + HEAT_1 * temp)
        total = capacity.sum(-1, keepdim=True)
        mixed = (capacity * temp).sum(-1, keepdim=True) / total
        ctx.save_for_backward(mass, temp, capacity, total, mixed)
        return mixed.squeeze(-1)

    @staticmethod
    def backward(ctx, g):
        mass, temp, capacity, total, mixed = ctx.saved_tensors
        g = g.unsqueeze(-1)
        g_mass = g * (HEAT_0 + HEAT_1 * temp) * (temp - mixed) / total
        g_temp = g * capacity / total
        return g_mass, g_temp


def run_evaporator(spec: Evaporator, flow, sugar):
    areas = torch.tensor(spec.areas, dtype=flow.dtype)
    rate = torch.tensor(spec.rate, dtype=flow.dtype)
    slow = torch.tensor(spec.slowdown, dtype=flow.dtype)
    return PanCascade.apply(flow, sugar, areas, rate, slow)
