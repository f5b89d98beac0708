"""Pacing of road and mountain races: cost of slopes, running in a pack, and a pace network with one
modulation per runner."""
from typing import Callable

import torch
import torch.nn as nn

# cost of running, J / (kg m), against the slope; highest power first
RUNNING = (155.4, -30.4, -43.3, 46.3, 19.5, 3.6)
WALKING = (280.5, -58.7, -76.8, 51.9, 19.6, 2.5)


def horner(coefficients, x):
    y = torch.zeros_like(x) + coefficients[0]
    for c in coefficients[1:]:
        y = y * x + c
    return y


def derivative(coefficients):
    top = len(coefficients) - 1
    return tuple(c * (top - i) for i, c in enumerate(coefficients[:-1]))


def make_slope_cost(coefficients=RUNNING, limit: float = 0.45) -> Callable:
    """Energy of a course, per kilogram.

    The returned function takes `rise` and `run`, both (..., S): metres up (negative: down) and metres along of
    every section, and gives joules per kilogram, (...).  The polynomial was measured for slopes up to `limit`, up
    and down; steeper sections cost per metre what those at the limit cost.
    """
    slope_of = derivative(coefficients)

    class SlopeCost(torch.autograd.Function):
        @staticmethod
        def forward(ctx, rise, run):
            slope = rise / run
            per_metre = horner(coefficients, slope.clamp(-limit, limit))
            ctx.save_for_backward(slope, run, per_metre)
            return (per_metre * run).sum(-1)

        @staticmethod
        def backward(ctx, grad):
            slope, run, per_metre = ctx.saved_tensors
            bent = horner(slope_of, slope.clamp(-limit, limit))
            bent = torch.where(slope < limit, bent, torch.zeros_like(bent))
            grad = grad[..., None]
            return grad * bent, grad * (per_metre - bent * slope)

    return SlopeCost.apply


class PackShelter(torch.autograd.Function):
    """Share of the air drag left to each runner: 1 - strength * exp(-gap / reach), gap to the next runner ahead.

    position: (R,) metres from the start, in any order, no two the same. Whoever leads has no shelter (1).
    strength, reach: 0-d tensors, or (R,) by runner (how well one hides).
    """

    @staticmethod
    def forward(ctx, position, strength, reach):
        order = torch.argsort(position)
        ahead = torch.empty_like(order)
        ahead[order[:-1]] = order[1:]
        ahead[order[-1]] = order[-1]
        leads = ahead == torch.arange(len(position), device=position.device)
        gap = position[ahead] - position
        hidden = torch.where(leads, torch.zeros_like(gap), torch.exp(-gap / reach))
        ctx.save_for_backward(gap, hidden, strength, reach, ahead)
        return 1 - strength * hidden

    @staticmethod
    def backward(ctx, grad):
        gap, hidden, strength, reach, ahead = ctx.saved_tensors
        g_gap = grad * strength * hidden / reach
        g_position = (-g_gap).index_add(0, ahead, g_gap)
        g_strength = -grad * hidden
        g_reach = -grad * strength * hidden * gap / reach**2
        if strength.dim() == 0:
            g_strength = g_strength.sum()
        if reach.dim() == 0:
            g_reach = g_reach.sum()
        return g_position, g_strength, g_reach


class RunnerFiLM(torch.autograd.Function):
    """Features modulated by runner: (1 + gamma[runner]) * x + beta[runner].

    x (B, T, D) with B training runs; runner (B,) whose run it is; gamma, beta (P, D)
    """

    @staticmethod
    def forward(ctx, x, runner, gamma, beta):
        ctx.save_for_backward(x, runner, gamma)
        return (1 + gamma[runner])[:, None] * x + beta[runner][:, None]

    @staticmethod
    def backward(ctx, grad):
        x, runner, gamma = ctx.saved_tensors
        g_gamma = torch.zeros_like(gamma)
        g_beta = torch.zeros_like(gamma)
        g_gamma[runner] = (grad * x).sum(dim=1)
        g_beta[runner] = grad.sum(dim=1)
        return grad * (1 + gamma[runner])[:, None], None, g_gamma, g_beta


class PaceNet(nn.Module):
    def __init__(self, runners: int, inputs: int = 3, width: int = 16):
        super().__init__()
        self.encode = nn.GRU(inputs, width, batch_first=True)
        self.gamma = nn.Parameter(torch.zeros(runners, width))
        self.beta = nn.Parameter(torch.zeros(runners, width))
        self.out = nn.Linear(width, 1)

    def forward(self, sections, runner):
        h, _ = self.encode(sections)
        h = RunnerFiLM.apply(h, runner, self.gamma, self.beta)
        return self.out(torch.tanh(h)).squeeze(-1)   # min / km over the runner's mean
