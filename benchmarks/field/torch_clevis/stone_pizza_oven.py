"""Heat in a wood-fired pizza oven: the stone floor, the first touch of the dough, and the colour of the rim.

Temperatures are in kelvin throughout.  The parameters are fitted to evenings logged in the garden, so everything here
has to be differentiable, and the time stepping should not keep its whole graph.
"""
import math
from typing import NamedTuple

import torch

STEFAN_BOLTZMANN = 5.670374e-8
GAS_CONSTANT = 8.314462
BROWNING_REFERENCE = 430.0
DOUGH_CONDUCTANCE = 120.0  # W/m2/K below a pizza


class Evening(NamedTuple):
    flame: torch.Tensor       # (steps, tiles) radiating temperature above each tile
    cover: torch.Tensor       # (steps, tiles) share of the tile under a pizza, 0..1
    dough: float = 295.0
    step_s: float = 10.0


def _sum_to(grad, shape):
    """Fold a gradient of the broadcast result back on an operand."""
    while grad.dim() > len(shape):
        grad = grad.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.sum(axis, keepdim=True)
    return grad


class FloorHistory(torch.autograd.Function):
    """Explicit steps of the floor temperature; returns (steps + 1, tiles) with the start as first row.

    start (tiles,), flame (steps, tiles), cover (steps, tiles), film (tiles,) in W/m2/K, capacity (tiles,) in J/m2/K.
    """

    @staticmethod
    def forward(ctx, start, flame, cover, film, capacity, dough, step_s, emissivity=0.9):
        black = emissivity * STEFAN_BOLTZMANN
        rows = [start]
        for hot, share in zip(flame, cover):
            now = rows[-1]
            open_part = (1 - share) * (film * (hot - now) + black * (hot ** 4 - now ** 4))
            under = share * DOUGH_CONDUCTANCE * (now - dough)
            rows.append(now + step_s / capacity * (open_part - under))
        floor = torch.stack(rows)
        ctx.save_for_backward(floor, flame, cover, film, capacity)
        ctx.numbers = (dough, step_s, black)
        return floor

    @staticmethod
    def backward(ctx, grad):
        floor, flame, cover, film, capacity = ctx.saved_tensors
        dough, step_s, black = ctx.numbers
        g_flame, g_cover = torch.zeros_like(flame), torch.zeros_like(cover)
        g_film, g_capacity = torch.zeros_like(film), torch.zeros_like(capacity)
        adjoint = grad[-1]
        for n in reversed(range(flame.shape[0])):
            now, hot, share = floor[n], flame[n], cover[n]
            rate = adjoint * step_s / capacity
            gain = film * (hot - now) + black * (hot ** 4 - now ** 4)
            loss = DOUGH_CONDUCTANCE * (now - dough)
            g_flame[n] = rate * (1 - share) * (film + 4 * black * hot ** 3)
            g_cover[n] = -rate * (gain + loss)
            g_film += rate * (1 - share) * (hot - now)
            g_capacity -= adjoint * (floor[n + 1] - now) / capacity
            slope = -(1 - share) * (film + 4 * black * now ** 3) - share * DOUGH_CONDUCTANCE
            adjoint = grad[n] + adjoint + rate * slope
        return adjoint, g_flame, g_cover, g_film, g_capacity, None, None, None


class ContactTemperature(torch.autograd.Function):
    """Temperature of the face where dough first meets the floor (two half-spaces).

    All arguments broadcast: floor and dough temperatures, conductivity and volumetric heat of the floor, and the
    effusivity of the dough.
    """

    @staticmethod
    def forward(ctx, floor, dough, conductivity, heat, dough_effusivity):
        stone = (conductivity * heat).sqrt()
        face = (stone * floor + dough_effusivity * dough) / (stone + dough_effusivity)
        ctx.save_for_backward(floor, dough, conductivity, heat, dough_effusivity)
        return face

    @staticmethod
    def backward(ctx, grad):
        floor, dough, conductivity, heat, wet = ctx.saved_tensors
        stone = (conductivity * heat).sqrt()
        both = stone + wet
        g_stone = grad * wet * (floor - dough) / both ** 2
        g_wet = -grad * stone * (floor - dough) / both ** 2
        return (
            _sum_to(grad * stone / both, floor.shape),
            _sum_to(grad * wet / both, dough.shape),
            _sum_to(g_stone * 0.5 * stone / conductivity, conductivity.shape),
            _sum_to(g_stone * 0.5 * stone / heat, heat.shape),
            _sum_to(g_wet, wet.shape),
        )


class RimColour(torch.autograd.Function):
    """Browning of the rim, 0 (pale) to 1 (black), from the temperatures of a hand-held pyrometer.

    Readings are taken whenever a hand is free, so `times` (readings,) rises unevenly; `temps` is (readings, pizzas).
    The dose is the trapezoid integral of an Arrhenius rate.  `log_rate` (at the reference temperature, per second) and
    `activation` (J/mol) are scalars.
    """

    @staticmethod
    def forward(ctx, temps, times, log_rate, activation):
        arg = 1.0 / temps - 1.0 / BROWNING_REFERENCE
        rate = torch.exp(log_rate - activation / GAS_CONSTANT * arg)
        dose = torch.trapezoid(rate, times, dim=0)
        ctx.save_for_backward(temps, times, activation, rate, dose)
        return -torch.expm1(-dose)

    @staticmethod
    def backward(ctx, grad):
        temps, times, activation, rate, dose = ctx.saved_tensors
        g_dose = grad * torch.exp(-dose)
        gap = times[1:] - times[:-1]
        weight = torch.cat([gap[:1] / 2, gap[1:], gap[-1:] / 2])
        g_rate = g_dose * weight[:, None] * rate
        g_temps = g_rate * activation / GAS_CONSTANT / temps ** 2
        g_activation = -(g_rate * (1 / temps - 1 / BROWNING_REFERENCE)).sum() / GAS_CONSTANT
        area = ((rate[1:] + rate[:-1]) / 2 * g_dose).sum(1)
        g_times = torch.zeros_like(times)
        g_times[1:] += area
        g_times[:-1] -= area
        return g_temps, g_times, (g_dose * dose).sum(), g_activation


def bake(evening: Evening, start, film, capacity):
    floor = FloorHistory.apply(start, evening.flame, evening.cover, film, capacity, evening.dough, evening.step_s)
    as_tensor = floor.new_tensor
    face = ContactTemperature.apply(floor, as_tensor(evening.dough), as_tensor(1.1), as_tensor(1.9e6), as_tensor(900.0))
    return floor, face


if __name__ == "__main__":
    steps = 60
    wave = 650 + 40 * torch.sin(torch.arange(steps) / 60 * 2 * math.pi)
    evening = Evening(wave[:, None].expand(steps, 3), torch.zeros(steps, 3))
    print(bake(evening, torch.full((3,), 500.0), torch.full((3,), 15.0), torch.full((3,), 4.0e4))[0][-1])
