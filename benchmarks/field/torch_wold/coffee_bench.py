"""Roast curves, extraction from sieved grounds and cupping panels."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Brew:
    tau: float = 60.0  # seconds, for reference size and temperature
    size: float = 0.5  # mm
    kelvin: float = 366.0
    activation: float = 3000.0  # kelvin
    power: float = (
        2.0  # how the time constant grows with size; 2 is diffusion, 1 is surface limited
    )


def _time_constants(diameter, celsius, brew):
    warmth = torch.exp(brew.activation * (1.0 / (celsius + 273.15) - 1.0 / brew.kelvin))
    return brew.tau * (diameter / brew.size) ** brew.power * warmth[:, None]


class SieveExtraction(torch.autograd.Function):
    """Extraction yield of a brew from the masses on a stack of sieves, each fraction rising to `ceiling` at its pace."""

    @staticmethod
    def forward(
        ctx,
        masses,  # (B, K) grams held on each sieve
        diameter,  # (K,) mm
        seconds,  # (B,)
        celsius,  # (B,)
        ceiling,  # () largest yield
        brew,  # Brew
    ):
        tau = _time_constants(diameter, celsius, brew)
        left = torch.exp(-seconds[:, None] / tau)
        total = masses.sum(-1, keepdim=True)
        done = (masses * (1 - left)).sum(-1, keepdim=True) / total
        ctx.brew = brew
        ctx.save_for_backward(masses, diameter, seconds, celsius, ceiling, tau, left, done)
        return ceiling * done[:, 0]

    @staticmethod
    def backward(ctx, grad):
        masses, diameter, seconds, celsius, ceiling, tau, left, done = ctx.saved_tensors
        brew = ctx.brew
        total = masses.sum(-1, keepdim=True)
        g = (grad * ceiling)[:, None]
        g_masses = g * ((1 - left) - done) / total
        # exponent z = seconds / tau
        g_z = g * masses / total * left
        g_seconds = (g_z / tau).sum(-1)
        g_log_tau = -g_z * seconds[:, None] / tau
        g_diameter = (2.0 * g_log_tau / diameter).sum(0)
        g_celsius = -brew.activation * g_log_tau.sum(-1) / (celsius + 273.15) ** 2
        return g_masses, g_diameter, g_seconds, g_celsius, (grad * done[:, 0]).sum(), None


class RateOfRise(torch.autograd.Function):
    """Slope of bean temperature by a moving least-squares line.

    `trace` is (..., T). The window spans `half` samples on both sides. `ends="hold"` repeats the first and last sample
    so that the result has T samples, `ends="drop"` gives T - 2 * half of them. `lag` of the probe in seconds, a tensor
    of shape (...), adds `lag` times the central difference of the slope (zero for the outermost samples). `half` >= 1.
    """

    @staticmethod
    def forward(ctx, trace, lag, half, spacing, ends):
        n = trace.shape[-1]
        taps = torch.arange(-half, half + 1, dtype=trace.dtype, device=trace.device)
        taps = taps / (spacing * (taps**2).sum())
        x = trace
        if ends == "hold":
            first = x[..., :1].expand(*x.shape[:-1], half)
            last = x[..., -1:].expand(*x.shape[:-1], half)
            x = torch.cat([first, x, last], -1)
        slope = (x.unfold(-1, 2 * half + 1, 1) * taps).sum(-1)
        bend = torch.zeros_like(slope)
        bend[..., 1:-1] = (slope[..., 2:] - slope[..., :-2]) / (2 * spacing)
        ctx.half, ctx.spacing, ctx.ends, ctx.n = half, spacing, ends, n
        ctx.save_for_backward(taps, bend, lag)
        return slope + lag[..., None] * bend

    @staticmethod
    def backward(ctx, grad):
        taps, bend, lag = ctx.saved_tensors
        half, n = ctx.half, ctx.n
        inner = lag[..., None] * grad[..., 1:-1] / (2 * ctx.spacing)
        g_slope = grad.clone()
        g_slope[..., 2:] += inner
        g_slope[..., :-2] -= inner
        m = g_slope.shape[-1]
        g_x = g_slope.new_zeros(*g_slope.shape[:-1], m + 2 * half)
        for j in range(2 * half + 1):
            g_x[..., j : j + m] += taps[j] * g_slope
        if ctx.ends == "hold":
            g = g_x[..., half : half + n].clone()
            g[..., 0] += g_x[..., :half].sum(-1)
            g[..., -1] += g_x[..., half + n :].sum(-1)
        else:
            g = g_x
        return g, (grad * bend).sum(-1), None, None, None


class CuppingPanel(torch.autograd.Function):
    """Panel score of coffees, from sheets that are partly filled.

    sheets   (C, S, A) what cupper c gave to attribute a of coffee s
    filled   (C, S, A) bool; cells that are not filled hold any finite number
    leniency (C,) taken off the marks of each cupper
    weights  (A,) importance of the attributes
    result   (S,); an attribute nobody marked counts as zero
    """

    @staticmethod
    def forward(ctx, sheets, filled, leniency, weights):
        m = filled.to(sheets.dtype)
        count = m.sum(0).clamp(min=1)
        raw = (sheets * m).sum(0) / count
        given = (leniency[:, None, None] * m).sum(0) / count
        ctx.save_for_backward(raw, m, count, weights)
        return ((raw - given) * weights).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        raw, m, count, weights = ctx.saved_tensors
        g_marks = grad[:, None] * weights / count
        g_sheets = g_marks * m
        return g_sheets, None, -g_sheets.sum((1, 2)), (grad[:, None] * raw).sum(0)


def sieve_extraction(masses, diameter, seconds, celsius, ceiling, brew: Brew = Brew()) -> Tensor:
    return SieveExtraction.apply(masses, diameter, seconds, celsius, ceiling, brew)


def rate_of_rise(
    trace: Tensor, lag: Tensor, half: int = 2, spacing: float = 1.0, ends: str = "hold"
) -> Tensor:
    return RateOfRise.apply(trace, lag, half, spacing, ends)


def cupping_panel(sheets, filled, leniency, weights) -> Tensor:
    return CuppingPanel.apply(sheets, filled, leniency, weights)


class Panel(nn.Module):
    """Learns how lenient each cupper is, and what the attributes are worth."""

    def __init__(self, cuppers, attributes):
        super().__init__()
        self.leniency = nn.Parameter(torch.zeros(cuppers))
        self.weights = nn.Parameter(torch.ones(attributes))

    def forward(self, sheets, filled):
        return cupping_panel(sheets, filled, self.leniency, self.weights)


class GrinderModel(nn.Module):
    def __init__(self, diameters, ceiling=0.28, brew=Brew()):
        super().__init__()
        self.diameter = nn.Parameter(torch.as_tensor(diameters))
        self.ceiling = nn.Parameter(torch.tensor(ceiling))
        self.brew = brew

    def forward(self, masses, seconds, celsius):
        return sieve_extraction(masses, self.diameter, seconds, celsius, self.ceiling, self.brew)
