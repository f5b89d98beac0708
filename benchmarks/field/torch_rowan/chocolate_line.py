"""Chocolate moulding line: flow of the melt, fat crystals, cooling tunnel.

Three pieces of process physics that we fit to plant data together:

- flow curve of the tempered mass at the depositor (Windhab's four constants),
- solid fat content as a sum of melting steps of the cocoa-butter polymorphs,
- temperature of the filled moulds on the belt through a tunnel with zones.

Units: degC, seconds, Pa, 1/s.  A *recipe* is a row; a *mould* is a row too, but of
another axis, so watch the names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function

# Melting points of forms II..VI of cocoa butter (Wille and Lutton), degC.
POLYMORPHS = ("II", "III", "IV", "V", "VI")
POLYMORPH_MELTING = (23.3, 25.5, 27.5, 33.8, 36.3)
POLYMORPH_WIDTH = (0.9, 0.8, 0.8, 0.7, 0.6)

DEFAULT_AREAL_CAPACITY = 14.0  # kJ / (m2 K), 10 mm bar with mould


def _fold(grad: Tensor, like: torch.Size) -> Tensor:
    """Sum ``grad`` back to a shape that was broadcast to it."""
    return grad.sum_to_size(like) if grad.shape != like else grad


# ----------------------------------------------------------------------- flow


class WindhabStress(Function):
    """tau = tau0 + eta*rate + (tau1 - tau0) * (1 - exp(-rate/rate_star))

    All arguments broadcast against each other; shear rates are magnitudes (>= 0).
    """

    @staticmethod
    def forward(ctx, rate: Tensor, tau0: Tensor, tau1: Tensor, eta: Tensor,
                rate_star: Tensor) -> Tensor:
        fading = torch.exp(-rate / rate_star)
        ctx.save_for_backward(rate, tau0, tau1, eta, rate_star, fading)
        return tau0 + eta * rate + (tau1 - tau0) * (1.0 - fading)

    @staticmethod
    def backward(ctx, grad):
        rate, tau0, tau1, eta, rate_star, fading = ctx.saved_tensors
        need = ctx.needs_input_grad
        structured = (tau1 - tau0) * fading
        out = [None] * 5
        if need[0]:
            out[0] = _fold(grad * (eta + structured / rate_star), rate.shape)
        if need[1]:
            out[1] = _fold(grad * fading, tau0.shape)
        if need[2]:
            out[2] = _fold(grad * (1.0 - fading), tau1.shape)
        if need[3]:
            out[3] = _fold(grad * rate, eta.shape)
        if need[4]:
            out[4] = _fold(-grad * structured * rate / rate_star.square(), rate_star.shape)
        return tuple(out)


class FlowCurve(nn.Module):
    """Windhab constants of several recipes, kept positive through logs.

    Args:
        recipes: number of recipes measured on the rheometer.
    """

    def __init__(self, recipes: int, dtype=torch.float64):
        super().__init__()
        self.log_tau0 = nn.Parameter(torch.full((recipes, 1), 1.5, dtype=dtype))
        self.log_gap = nn.Parameter(torch.full((recipes, 1), 2.0, dtype=dtype))
        self.log_eta = nn.Parameter(torch.full((recipes, 1), 0.8, dtype=dtype))
        # one transition rate for the house, the geometry decides it
        self.log_star = nn.Parameter(torch.tensor(1.6, dtype=dtype))

    def forward(self, rate: Tensor) -> Tensor:
        """rate (R,) -> stress (recipes, R)"""
        tau0 = self.log_tau0.exp()
        return WindhabStress.apply(rate, tau0, tau0 + self.log_gap.exp(),
                                   self.log_eta.exp(), self.log_star.exp())


# ------------------------------------------------------------------- crystals


class MeltSteps(Function):
    """Solid fat content at the given temperatures.

    Parameters
    ----------
    temperature : Tensor
        Any shape.
    share : Tensor
        (P,) share of each polymorph; need not add up to one, the rest is liquid.
    melting, width : Tensor
        (P,) centre and width of each melting step.

    Returns
    -------
    Tensor
        Same shape as `temperature`.
    """

    @staticmethod
    def forward(temperature, share, melting, width):
        scaled = (temperature.unsqueeze(-1) - melting) / width
        return (share * torch.sigmoid(-scaled)).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        temperature, share, melting, width = ctx.saved_tensors
        scaled = (temperature.unsqueeze(-1) - melting) / width
        solid = torch.sigmoid(-scaled)
        slope = solid * torch.sigmoid(scaled)       # -d solid / d scaled
        lead = tuple(range(temperature.dim()))
        grad = grad.unsqueeze(-1)

        per_step = grad * share * slope / width
        grad_temperature = -per_step.sum(-1)
        grad_share = grad * solid
        grad_melting = per_step
        grad_width = per_step * scaled
        if lead:
            grad_share = grad_share.sum(lead)
            grad_melting = grad_melting.sum(lead)
            grad_width = grad_width.sum(lead)
        return grad_temperature, grad_share, grad_melting, grad_width


class CrystalMix(nn.Module):
    """Shares of the polymorphs in one temper, with tabulated melting steps."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor([-2.0, -1.5, 0.0, 2.0, -1.0], dtype=dtype))
        self.shift = nn.Parameter(torch.zeros((), dtype=dtype))
        self.register_buffer("melting", torch.tensor(POLYMORPH_MELTING, dtype=dtype))
        self.register_buffer("width", torch.tensor(POLYMORPH_WIDTH, dtype=dtype))

    def forward(self, temperature: Tensor) -> Tensor:
        share = 0.82 * torch.softmax(self.logits, dim=0)
        return MeltSteps.apply(temperature, share, self.melting + self.shift, self.width)


# --------------------------------------------------------------------- tunnel


@dataclass(frozen=True)
class TunnelPlan:
    """Belt schedule: how long a mould stays in every step and in which zone it is.

    ``zone_of_step`` gives the index of the zone of each time step.
    """

    zone_of_step: Sequence[int]
    seconds: Sequence[float]
    zone_names: Sequence[str] = field(default=("pre-cool", "radiant", "convective"))

    def __post_init__(self):
        if len(self.zone_of_step) != len(self.seconds):
            raise ValueError("zone_of_step and seconds must have the same length")
        if max(self.zone_of_step) >= len(self.zone_names):
            raise ValueError("a step points to an unknown zone")

    @property
    def zones(self) -> int:
        return len(self.zone_names)


class CoolingBelt(nn.Module):
    """Moulds through a zoned tunnel.

    The rule that marches the moulds is built once per plan, as the plan's tables
    are constants of the line.
    """

    def __init__(self, plan: TunnelPlan, dtype=torch.float64):
        super().__init__()
        self.plan = plan
        self.air = nn.Parameter(torch.linspace(16.0, 9.0, plan.zones, dtype=dtype))
        self.log_transfer = nn.Parameter(torch.full((plan.zones,), -3.9, dtype=dtype))
        self._march = self._make_march(plan)

    @staticmethod
    def _make_march(plan: TunnelPlan):
        zone = list(plan.zone_of_step)
        seconds = list(plan.seconds)
        steps = len(zone)

        class TunnelMarch(Function):
            """entry (B,), air (Z,), transfer (Z,), capacity (B,)
            -> temperature (B, steps + 1), heat taken up by each zone (B, Z)"""

            @staticmethod
            def forward(ctx, entry, air, transfer, capacity):
                temps = [entry]
                heat = entry.new_zeros(entry.shape[0], air.shape[0])
                for k in range(steps):
                    z = zone[k]
                    keep = torch.exp(-transfer[z] * seconds[k] / capacity)
                    temps.append(air[z] + (temps[-1] - air[z]) * keep)
                    heat[:, z] += capacity * (temps[-2] - temps[-1])
                temps = torch.stack(temps, dim=1)
                ctx.save_for_backward(temps, air, transfer, capacity, heat)
                return temps, heat

            @staticmethod
            def backward(ctx, g_temps, g_heat):
                temps, air, transfer, capacity, heat = ctx.saved_tensors
                node = g_temps.clone()
                node[:, 0] += capacity * g_heat[:, zone[0]]
                node[:, steps] -= capacity * g_heat[:, zone[-1]]

                g_air = torch.zeros_like(air)
                g_transfer = torch.zeros_like(transfer)
                g_capacity = (g_heat * heat).sum(1) / capacity
                bar = node[:, steps]
                for k in range(steps - 1, -1, -1):
                    z = zone[k]
                    keep = torch.exp(-transfer[z] * seconds[k] / capacity)
                    excess = temps[:, k] - air[z]
                    g_air[z] += (bar * (1.0 - keep)).sum()
                    pull = bar * excess * keep * seconds[k] / capacity
                    g_transfer[z] -= pull.sum()
                    g_capacity = g_capacity + pull * transfer[z] / capacity
                    bar = node[:, k] + bar * keep
                return bar, g_air, g_transfer, g_capacity

        return TunnelMarch

    def forward(self, entry: Tensor, capacity: Tensor) -> tuple[Tensor, Tensor]:
        return self._march.apply(entry, self.air, self.log_transfer.exp(), capacity)


# ----------------------------------------------------------------------- line


class MouldingLine(nn.Module):
    def __init__(self, plan: TunnelPlan, recipes: int):
        super().__init__()
        self.flow = FlowCurve(recipes)
        self.crystals = CrystalMix()
        self.belt = CoolingBelt(plan)

    def forward(self, entry: Tensor, capacity: Tensor, rate: Tensor) -> dict[str, Tensor]:
        temps, heat = self.belt(entry, capacity)
        return {
            "stress": self.flow(rate),
            "temperature": temps,
            "solid": self.crystals(temps),
            "heat": heat,
        }


def line_cost(state: dict[str, Tensor], measured_stress: Tensor,
              compressor_price: Tensor, demould_solid: float = 0.75) -> Tensor:
    """Fit of the flow curve, price of the cold in each zone, and demoulding target."""
    fit = (state["stress"] / measured_stress).log().square().mean()
    cold = (state["heat"] * compressor_price).sum(1).mean()
    short = torch.relu(demould_solid - state["solid"][:, -1]).square().mean()
    return fit + 1e-3 * cold + 50.0 * short


def standard_plan(minutes: float = 12.0, per_zone: int = 4) -> TunnelPlan:
    zones = [z for z in range(3) for _ in range(per_zone)]
    base = 60.0 * minutes / len(zones)
    seconds = [base * (0.8 if z == 1 else 1.1) for z in zones]
    return TunnelPlan(zones, seconds)


def main() -> None:
    torch.manual_seed(1)
    line = MouldingLine(standard_plan(), recipes=2)
    entry = 30.5 + torch.randn(6, dtype=torch.float64)
    capacity = DEFAULT_AREAL_CAPACITY * (1 + 0.1 * torch.randn(6, dtype=torch.float64))
    rate = torch.logspace(-0.5, 1.7, 12, dtype=torch.float64)
    measured = torch.stack([6 + 2.4 * rate, 9 + 1.9 * rate]) + 8 * (1 - torch.exp(-rate / 4))
    price = torch.tensor([0.7, 1.3, 1.0], dtype=torch.float64)
    optimiser = torch.optim.Adam(line.parameters(), lr=0.02)
    for step in range(40):
        optimiser.zero_grad()
        cost = line_cost(line(entry, capacity, rate), measured, price)
        cost.backward()
        optimiser.step()
        if step % 10 == 0:
            print(step, cost.item())


if __name__ == "__main__":
    main()
