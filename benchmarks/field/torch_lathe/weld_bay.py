"""Differentiable pieces of the weld-procedure planner.

The planner tunes travel speed, arc power, preheat and pauses between passes so
that the cooling time from 800 to 500 degC lands inside the window given by the
steel supplier, and so that the interpass temperature stays under its ceiling.

Units used throughout:

* power in W, travel speed in mm/s, heat input in kJ/mm;
* positions and thickness in mm, conductivity in W/(mm K),
  diffusivity in mm^2/s;
* temperatures in degC, times in s.

The cooling-time expressions are those of EN 1011-2 annex D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

STEEL_CONDUCTIVITY = 0.041
STEEL_DIFFUSIVITY = 9.1

# (F3, F2): three- and two-dimensional joint shape factors
JOINT_FACTORS = {
    "bead": (1.0, 1.0),
    "butt": (0.9, 0.9),
    "corner_fillet": (0.67, 0.9),
    "tee_fillet": (0.67, 0.45),
}

ELEMENTS = ("C", "Mn", "Si", "Cr", "Mo", "V", "Ni", "Cu", "B")
IIW_WEIGHTS = (1.0, 1 / 6, 0.0, 1 / 5, 1 / 5, 1 / 5, 1 / 15, 1 / 15, 0.0)
PCM_WEIGHTS = (1.0, 1 / 20, 1 / 30, 1 / 20, 1 / 15, 1 / 10, 1 / 60, 1 / 20, 5.0)
PROCESS_EFFICIENCY = {"saw": 1.0, "smaw": 0.85, "gmaw": 0.85, "gtaw": 0.6}


def element_codes(names: list[list[str]], width: int | None = None) -> torch.Tensor:
    """Turn ragged lists of element symbols into codes padded with -1."""
    width = width or max(len(row) for row in names)
    out = torch.full((len(names), width), -1, dtype=torch.long)
    for i, row in enumerate(names):
        for j, symbol in enumerate(row):
            out[i, j] = ELEMENTS.index(symbol)
    return out


class RosenthalRise(Function):
    """Quasi-steady point source on a thick plate.

    Parameters
    ----------
    power : (P,) net arc power of every pass
    speed : (P,) travel speed of every pass
    ahead : (P, S) distance of each thermocouple ahead of the arc (negative
        when the arc has gone by)
    lateral : (P, S) sideways distance from the seam
    depth : float, depth of the thermocouples below the surface, > 0
    conductivity, diffusivity : float

    Returns
    -------
    (P, S) rise above the plate temperature
    """

    @staticmethod
    def forward(power, speed, ahead, lateral, depth, conductivity, diffusivity):
        radius = torch.sqrt(ahead**2 + lateral**2 + depth**2)
        lag = torch.exp(-speed[:, None] * (ahead + radius) / (2.0 * diffusivity))
        return power[:, None] * lag / (2.0 * math.pi * conductivity * radius)

    @staticmethod
    def setup_context(ctx, inputs, output):
        power, speed, ahead, lateral, depth, conductivity, diffusivity = inputs
        ctx.save_for_backward(power, speed, ahead, lateral, output)
        ctx.depth = depth
        ctx.conductivity = conductivity
        ctx.diffusivity = diffusivity

    @staticmethod
    def backward(ctx, grad):
        power, speed, ahead, lateral, rise = ctx.saved_tensors
        radius = torch.sqrt(ahead**2 + lateral**2 + ctx.depth**2)
        half = speed[:, None] / (2.0 * ctx.diffusivity)
        g_rise = grad * rise

        g_power = g_speed = g_ahead = g_lateral = None
        if ctx.needs_input_grad[0]:
            unit = torch.exp(-half * (ahead + radius))
            unit = unit / (2.0 * math.pi * ctx.conductivity * radius)
            g_power = (grad * unit).sum(1)
        if ctx.needs_input_grad[1]:
            g_speed = -(g_rise * (ahead + radius)).sum(1) / (2.0 * ctx.diffusivity)
        radial = -g_rise * (1.0 / radius + half)
        if ctx.needs_input_grad[2]:
            g_ahead = radial * ahead / radius - g_rise * half
        if ctx.needs_input_grad[3]:
            g_lateral = radial * lateral / radius
        return g_power, g_speed, g_ahead, g_lateral, None, None, None


class PlateCoolingTime(Function):
    """t8/5 of each weld, the longer of the thick- and thin-plate values.

    heat_input, preheat and thickness are 1-d tensors of equal length; ``joint``
    is a key of ``JOINT_FACTORS``.  Preheat must stay under 500 degC.
    """

    @staticmethod
    def forward(ctx, heat_input, preheat, thickness, joint="bead"):
        f3, f2 = JOINT_FACTORS[joint]
        cold, hot = 1.0 / (500.0 - preheat), 1.0 / (800.0 - preheat)
        thick = (6700.0 - 5.0 * preheat) * heat_input * (cold - hot) * f3
        spread = 1.0e5 * (heat_input / thickness) ** 2
        thin = (4300.0 - 4.3 * preheat) * spread * (cold**2 - hot**2) * f2
        two_dim = thin > thick
        ctx.save_for_backward(heat_input, preheat, thickness, thick, thin, two_dim)
        ctx.f3 = f3
        return torch.where(two_dim, thin, thick)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        heat_input, preheat, thickness, thick, thin, two_dim = ctx.saved_tensors
        cold, hot = 1.0 / (500.0 - preheat), 1.0 / (800.0 - preheat)

        d_heat = torch.where(two_dim, 2.0 * thin, thick) / heat_input
        d_thickness = torch.where(two_dim, -2.0 * thin / thickness, torch.zeros_like(thin))

        by_preheat_thick = ctx.f3 * heat_input * (
            -5.0 * (cold - hot) + (6700.0 - 5.0 * preheat) * (cold**2 - hot**2)
        )
        spread = 1.0e5 * (heat_input / thickness) ** 2
        by_preheat_thin = spread * (
            -4.3 * (cold**2 - hot**2)
            + 2.0 * (4300.0 - 4.3 * preheat) * (cold**3 - hot**3)
        )
        d_preheat = torch.where(two_dim, by_preheat_thin, by_preheat_thick)
        return grad * d_heat, grad * d_preheat, grad * d_thickness, None


class AlloyEquivalent(Function):
    """Carbon equivalent of heats given as (element code, mass percent) lists.

    ``codes`` (heats, slots) indexes ``weights``; -1 marks an empty slot.  The
    same element may be listed twice in a heat (base plus addition).
    """

    @staticmethod
    def forward(ctx, percent, codes, weights):
        used = codes >= 0
        safe = codes.clamp(min=0)
        picked = weights[safe] * used
        ctx.save_for_backward(percent, safe, used, picked)
        ctx.n_elements = weights.numel()
        return (picked * percent).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        percent, safe, used, picked = ctx.saved_tensors
        g_percent = g_weights = None
        if ctx.needs_input_grad[0]:
            g_percent = grad[..., None] * picked
        if ctx.needs_input_grad[2]:
            share = (grad[..., None] * percent * used).reshape(-1)
            g_weights = percent.new_zeros(ctx.n_elements)
            g_weights.index_add_(0, safe.reshape(-1), share)
        return g_percent, None, g_weights


class InterpassTrace(Function):
    """Temperature of the joint at the start of each following pass.

    Args:
        start: plate temperature before the first pass, ``[J]``.
        rise: smeared temperature rise left by each pass, ``[J, P]``.
        pause: waiting time after each pass, ``[J, P]``.
        tau: cooling time constant of each joint, ``[J]``.
        ambient: shop temperature, a float.

    Returns:
        ``trace [J, P]``, the temperature after every pause, and
        ``peak [J]``, the highest entry of the trace.
    """

    @staticmethod
    def forward(ctx, start, rise, pause, tau, ambient):
        decay = torch.exp(-pause / tau[:, None])
        level = start
        after_pass, trace = [], []
        for p in range(rise.shape[1]):
            hot = level + rise[:, p]
            level = ambient + (hot - ambient) * decay[:, p]
            after_pass.append(hot)
            trace.append(level)
        after_pass = torch.stack(after_pass, 1)
        trace = torch.stack(trace, 1)
        hottest = after_pass.argmax(1)
        ctx.save_for_backward(after_pass, decay, pause, tau, hottest)
        ctx.ambient = ambient
        return trace, trace.amax(1)

    @staticmethod
    def backward(ctx, g_trace, g_peak):
        after_pass, decay, pause, tau, hottest = ctx.saved_tensors
        g_trace = g_trace.scatter_add(1, hottest[:, None], g_peak[:, None])
        excess = after_pass - ctx.ambient

        g_rise = torch.zeros_like(decay)
        g_decay = torch.zeros_like(decay)
        carry = torch.zeros_like(tau)
        for p in reversed(range(decay.shape[1])):
            carry = carry + g_trace[:, p]
            g_decay[:, p] = carry * excess[:, p]
            carry = carry * decay[:, p]
            g_rise[:, p] = carry
        g_pause = -g_decay * decay / tau[:, None]
        g_tau = (g_decay * decay * pause).sum(1) / tau**2
        return carry, g_rise, g_pause, g_tau, None


class PassPlan(NamedTuple):
    """Unconstrained decision variables of one joint batch."""

    power: torch.Tensor
    speed: torch.Tensor
    pause: torch.Tensor
    preheat: torch.Tensor


@dataclass
class Window:
    shortest: float = 6.0
    longest: float = 20.0
    interpass_ceiling: float = 250.0


class HardnessModel(nn.Module):
    """Vickers hardness of the heat-affected zone from CE and cooling time."""

    def __init__(self, weights=IIW_WEIGHTS):
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(weights))
        self.base = nn.Parameter(torch.tensor(90.0))
        self.gain = nn.Parameter(torch.tensor(750.0))
        self.slope = nn.Parameter(torch.tensor(-35.0))

    def forward(self, percent, codes, cooling):
        equivalent = AlloyEquivalent.apply(percent, codes, self.weights)
        return self.base + self.gain * equivalent + self.slope * torch.log(cooling)


class ProcedurePlanner(nn.Module):
    def __init__(self, thickness, joint="bead", process="gmaw", ambient=20.0, window=None):
        super().__init__()
        self.register_buffer("thickness", thickness)
        self.joint = joint
        self.efficiency = PROCESS_EFFICIENCY[process]
        self.ambient = ambient
        self.window = window or Window()
        self.log_tau = nn.Parameter(torch.full_like(thickness, math.log(300.0)))

    def forward(self, plan: PassPlan):
        net = plan.power * self.efficiency
        heat_input = (net / plan.speed / 1000.0).mean(1)
        cooling = PlateCoolingTime.apply(
            heat_input, plan.preheat, self.thickness, self.joint
        )
        rise = net / plan.speed / self.thickness[:, None]
        trace, peak = InterpassTrace.apply(
            plan.preheat, rise, plan.pause, self.log_tau.exp(), self.ambient
        )
        return cooling, trace, peak

    def penalty(self, plan: PassPlan):
        cooling, _, peak = self(plan)
        low = torch.relu(self.window.shortest - cooling)
        high = torch.relu(cooling - self.window.longest)
        warm = torch.relu(peak - self.window.interpass_ceiling)
        return (low**2 + high**2 + 1e-2 * warm**2).mean()


def fit_arc_power(measured, speed, ahead, lateral, depth=3.0, steps=50):
    """Fit net arc power of the passes to thermocouple rises."""
    power = torch.full_like(speed, 3000.0).requires_grad_()
    opt = torch.optim.Adam([power], lr=50.0)
    for _ in range(steps):
        opt.zero_grad()
        model = RosenthalRise.apply(
            power, speed, ahead, lateral, depth, STEEL_CONDUCTIVITY, STEEL_DIFFUSIVITY
        )
        loss = ((model - measured) ** 2).mean()
        loss.backward()
        opt.step()
    return power.detach()


if __name__ == "__main__":
    torch.manual_seed(0)
    joints, passes = 3, 4
    plan = PassPlan(
        power=(4500 + 500 * torch.rand(joints, passes)).requires_grad_(),
        speed=(4 + 2 * torch.rand(joints, passes)).requires_grad_(),
        pause=(60 + 60 * torch.rand(joints, passes)).requires_grad_(),
        preheat=torch.tensor([20.0, 80.0, 120.0], requires_grad=True),
    )
    planner = ProcedurePlanner(torch.tensor([8.0, 15.0, 40.0]), joint="bead")
    planner.penalty(plan).backward()
    print("d penalty / d preheat", plan.preheat.grad)
    codes = element_codes([["C", "Mn", "Cr"], ["C", "Mn"], ["C", "Ni", "Cu", "Mo"]])
    percent = torch.rand(codes.shape) * 0.3
    print("HV", HardnessModel()(percent, codes, torch.tensor([8.0, 11.0, 7.0])))
