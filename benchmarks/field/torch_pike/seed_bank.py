"""Seed-bank forecasting: longevity in storage and germination on the bench.
After Ellis and Roberts (1980) and Alvarado and Bradford (2002).
"""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.autograd.function import once_differentiable

LN10 = math.log(10.0)
BASE_TEMPERATURE = 2.0  # degrees C, below it nothing germinates
LOW_MOISTURE_LIMIT = 2.0  # % fresh weight; drier seed keeps no longer

#: K_E, C_W, C_H, C_Q for barley, onion, lettuce and soya
SPECIES_TABLE = (
    (9.983, 5.896, 0.0400, 0.000428),
    (6.975, 3.470, 0.0400, 0.000428),
    (8.218, 4.797, 0.0489, 0.000365),
    (7.748, 3.979, 0.0530, 0.000228),
)


def _ndtr(z):
    return 0.5 * torch.erfc(-z / math.sqrt(2.0))


def _npdf(z):
    return torch.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


class SeedViability(torch.autograd.Function):
    """Viability of accessions after storage.

    Parameters
    ----------
    initial : (N,) tensor
        Initial viability of each accession, in probits.
    moisture : (N,) tensor
        Seed moisture, % fresh weight, positive.
    temperature : (N,) tensor
        Store temperature, degrees C.
    days : (N,) tensor
        Time in store.
    table : (S, 4) tensor
        K_E, C_W, C_H and C_Q of each species.
    species : (N,) long tensor
        Row of `table` for each accession; accessions share species.
    scale : {"probit", "fraction"}

    Returns
    -------
    (N,) tensor
    """

    @staticmethod
    def forward(ctx, initial, moisture, temperature, days, table, species, scale):
        if scale not in ("probit", "fraction"):
            raise ValueError(f"unknown scale {scale!r}")
        m = moisture.clamp(min=LOW_MOISTURE_LIMIT)
        ke, cw, ch, cq = table[species].unbind(-1)
        log_sigma = ke - cw * torch.log10(m) - ch * temperature - cq * temperature**2
        loss_rate = torch.exp(-LN10 * log_sigma)
        probit = initial - days * loss_rate
        ctx.scale = scale
        ctx.save_for_backward(moisture, temperature, days, table, species, loss_rate, probit)
        return probit if scale == "probit" else _ndtr(probit)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        moisture, temperature, days, table, species, loss_rate, probit = ctx.saved_tensors
        if ctx.scale == "fraction":
            grad = grad * _npdf(probit)
        m = moisture.clamp(min=LOW_MOISTURE_LIMIT)
        _, cw, ch, cq = table[species].unbind(-1)
        g_log = grad * days * loss_rate * LN10
        g_moist = torch.where(moisture > LOW_MOISTURE_LIMIT, -g_log * cw / (m * LN10), 0.0)
        g_temp = -g_log * (ch + 2.0 * cq * temperature)
        cols = torch.stack(
            [torch.ones_like(m), -torch.log10(m), -temperature, -(temperature**2)], dim=-1
        )
        g_table = torch.zeros_like(table).index_add(0, species, g_log[:, None] * cols)
        return grad, g_moist, g_temp, -grad * loss_rate, g_table, None, None


class HydrothermalGermination(torch.autograd.Function):
    """Germinated fraction against time, temperature and water potential.

    Parameters
    ----------
    potential : (B, 1) tensor
        Water potential of the medium, MPa.
    temperature : (B, 1) tensor
        Bench temperature, degrees C, above BASE_TEMPERATURE; it may lie on
        either side of `optimum`.
    hours : (D,) tensor
        Inspection times, positive.
    theta, median, spread, slope, optimum : 0-d tensors
        Hydrothermal time constant, base potential of the median seed, its
        standard deviation, the rise of the base potential per degree above
        the optimum, and the optimum temperature.

    Returns
    -------
    (B, D) tensor
    """

    @staticmethod
    def forward(ctx, potential, temperature, hours, theta, median, spread, slope, optimum):
        heat = torch.minimum(temperature, optimum) - BASE_TEMPERATURE
        over = (temperature - optimum).clamp(min=0.0)
        demand = theta / (heat * hours)
        z = (potential - demand - median - slope * over) / spread
        ctx.save_for_backward(temperature, heat, over, demand, z, theta, spread, slope, optimum)
        return _ndtr(z)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        temperature, heat, over, demand, z, theta, spread, slope, optimum = ctx.saved_tensors
        gz = grad * _npdf(z) / spread
        warm = temperature > optimum
        g_potential = gz.sum(1, keepdim=True)
        per_row = torch.where(warm, -slope * gz, gz * demand / heat)
        g_temperature = per_row.sum(1, keepdim=True)
        g_theta = -(gz * demand).sum() / theta
        g_spread = -(gz * z).sum()
        g_slope = -(gz * over).sum()
        g_optimum = slope * (gz * warm).sum()
        return (g_potential, g_temperature, None, g_theta, -gz.sum(), g_spread, g_slope, g_optimum)


class MedianGermination(torch.autograd.Function):
    """Day at which a share of the seeds that finally germinate has done so.

    Parameters
    ----------
    counts : (B, D) tensor
        Cumulative germination of each dish, zero on the day of sowing
        (first column) and rising strictly; the last column is the final count.
    days : (D,) tensor
        Days of inspection.
    share : float
        0.5 gives T50.

    Returns
    -------
    (B,) tensor
    """

    @staticmethod
    def forward(ctx, counts, days, share=0.5):
        level = share * counts[:, -1:]
        upper = (counts < level).sum(1, keepdim=True).clamp(min=1)
        lo, hi = counts.gather(1, upper - 1), counts.gather(1, upper)
        step = (days[upper] - days[upper - 1]).to(counts.dtype)
        ctx.share = share
        ctx.save_for_backward(counts, upper, lo, hi, level, step)
        return (days[upper - 1] + step * (level - lo) / (hi - lo)).squeeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        counts, upper, lo, hi, level, step = ctx.saved_tensors
        rise = hi - lo
        g = grad[:, None] * step / rise
        out = torch.zeros_like(counts)
        out.scatter_(1, upper - 1, g * (level - hi) / rise)
        out.scatter_(1, upper, -g * (level - lo) / rise)
        out[:, -1:] = ctx.share * g
        return out, None, None


@dataclass
class Store:
    temperature: float = -18.0
    moisture: float = 5.0


class LongevityModel(nn.Module):
    def __init__(self, table=SPECIES_TABLE):
        super().__init__()
        self.table = nn.Parameter(torch.tensor(table))

    def forward(self, initial, store: Store, days, species, scale="fraction"):
        moisture = torch.full_like(initial, store.moisture)
        temperature = torch.full_like(initial, store.temperature)
        return SeedViability.apply(initial, moisture, temperature, days, self.table, species, scale)


def bench_loss(observed, potential, temperature, hours, params):
    """Mean squared misfit of germination curves and of their T50."""
    fitted = HydrothermalGermination.apply(
        potential,
        temperature,
        hours,
        params["theta"],
        params["median"],
        params["spread"],
        params["slope"],
        params["optimum"],
    )
    curve = (fitted - observed).square().mean()
    t50 = MedianGermination.apply(fitted, hours)
    return curve + 1e-4 * (t50 - MedianGermination.apply(observed, hours)).square().mean()
