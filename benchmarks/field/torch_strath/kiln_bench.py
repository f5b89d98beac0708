# Glaze chemistry and firing curves for the studio's recipe optimiser.
from typing import NamedTuple

import torch
from torch.autograd import Function

R_GAS = 8.31446261815324

OXIDES = ("SiO2", "Al2O3", "B2O3", "Na2O", "K2O", "CaO", "MgO")
MOLAR_MASS = (60.084, 101.961, 69.62, 61.979, 94.196, 56.077, 40.304)
FLUXES = (False, False, False, True, True, True, True)


class Schedule(NamedTuple):
    """Time (s) and kelvin temperatures of one or more firings, [..., T]."""

    time: torch.Tensor
    kelvin: torch.Tensor


class SegerFormula(Function):
    """Unity molecular formula of glaze recipes.

    amounts      [B, L]  parts by weight of each recipe line (0 for padding)
    material_id  [B, L]  row of the analysis table; a material may stand in many recipes
    analysis     [M, O]  weight fractions of the oxides
    molar_mass   [O]     constants
    is_flux      [O]     bool, the oxides whose moles are scaled to a sum of 1

    Returns moles [B, O] with ``moles[:, is_flux].sum(1) == 1``.
    """

    @staticmethod
    def forward(ctx, amounts, material_id, analysis, molar_mass, is_flux):
        rows = analysis[material_id]
        moles = torch.einsum("bl,blo->bo", amounts, rows) / molar_mass
        flux = is_flux.to(moles.dtype)
        total = (moles * flux).sum(1, keepdim=True)
        unity = moles / total
        ctx.save_for_backward(amounts, material_id, analysis, molar_mass, flux, total, unity)
        return unity

    @staticmethod
    def backward(ctx, grad):
        amounts, material_id, analysis, molar_mass, flux, total, unity = ctx.saved_tensors
        inner = (grad * unity).sum(1, keepdim=True)
        g_moles = (grad - inner * flux) / total / molar_mass
        g_amounts = torch.einsum("bo,blo->bl", g_moles, analysis[material_id])
        g_rows = amounts.unsqueeze(-1) * g_moles.unsqueeze(1)
        g_analysis = torch.zeros_like(analysis)
        g_analysis[material_id.reshape(-1)] += g_rows.reshape(-1, analysis.shape[1])
        return g_amounts, None, g_analysis, None, None


class GlazeExpansion(Function):
    """Thermal expansion with oxide interactions: a.x + x.B.x for mole fractions x [..., O], a [O], B [O, O]."""

    @staticmethod
    def forward(x, linear, pair):
        return x @ linear + ((x @ pair) * x).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, linear, pair = ctx.saved_tensors
        g = grad.unsqueeze(-1)
        g_x = g * (linear + 2.0 * (x @ pair))
        flat = (g * x).reshape(-1, x.shape[-1])
        return g_x, flat.sum(0), flat.t() @ x.reshape(-1, x.shape[-1])


class HeatWork(Function):
    @staticmethod
    def forward(ctx, time, kelvin, activation):
        rate = torch.exp(-activation.unsqueeze(-1) / (R_GAS * kelvin)) / kelvin
        dt = time[..., 1:] - time[..., :-1]
        mean = 0.5 * (rate[..., 1:] + rate[..., :-1])
        work = torch.cumsum(dt * mean, dim=-1)
        ctx.save_for_backward(kelvin, activation, rate, dt, mean)
        ctx.time_shape = time.shape
        return torch.cat([torch.zeros_like(work[..., :1]), work], dim=-1)

    @staticmethod
    def backward(ctx, grad):
        kelvin, activation, rate, dt, mean = ctx.saved_tensors
        tail = grad[..., 1:].flip(-1).cumsum(-1).flip(-1)
        g_dt = tail * mean
        half = 0.5 * tail * dt
        zero = torch.zeros_like(half[..., :1])
        g_time = torch.cat([zero, g_dt], -1) - torch.cat([g_dt, zero], -1)
        g_rate = torch.cat([zero, half], -1) + torch.cat([half, zero], -1)
        scaled = activation.unsqueeze(-1) / (R_GAS * kelvin)
        g_kelvin = g_rate * rate * (scaled - 1.0) / kelvin
        g_activation = -(g_rate * rate / (R_GAS * kelvin)).sum(-1)
        return (
            g_time.sum_to_size(ctx.time_shape),
            g_kelvin.sum_to_size(kelvin.shape),
            g_activation.sum_to_size(activation.shape),
        )


def unity_formula(amounts, material_id, analysis):
    mass = torch.tensor(MOLAR_MASS, dtype=amounts.dtype, device=amounts.device)
    flux = torch.tensor(FLUXES, device=amounts.device)
    return SegerFormula.apply(amounts, material_id, analysis, mass, flux)


def heat_work(schedule: Schedule, activation):
    """Work of firing along the schedule; activation [...] in J/mol, one for each firing."""
    return HeatWork.apply(schedule.time, schedule.kelvin, activation)


class ExpansionModel(torch.nn.Module):
    def __init__(self, oxides=len(OXIDES)):
        super().__init__()
        self.linear = torch.nn.Parameter(torch.zeros(oxides))
        self.pair = torch.nn.Parameter(torch.zeros(oxides, oxides))

    def forward(self, unity):
        fractions = unity / unity.sum(-1, keepdim=True)
        return GlazeExpansion.apply(fractions, self.linear, self.pair)
