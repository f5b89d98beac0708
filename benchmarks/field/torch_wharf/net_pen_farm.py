"""Daily production model of a salmon farm (net pens fed from shared barges)."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Sequence

import torch
from torch import Tensor
from torch.autograd import Function


class GrowthLimits(NamedTuple):
    t_zero: float = 0.0  # no growth at or below, deg C
    t_best: float = 15.0  # no further gain above, deg C


class Respiration(NamedTuple):
    scale: float = 0.42  # mg O2 / min at 1 kg, 0 deg C, holding station
    mass_power: float = 0.8
    per_degree: float = 0.065
    per_length: float = 0.35  # exponent per body length / s
    condition: float = 11.0  # kg / m**3, mass over length cubed


class ThermalGrowth(Function):
    """Thermal-unit growth: cube-root weight rises by ``tgc`` / 1000 per degree-day.

    ``weight`` (pens,) in grams, ``tgc`` (pens,), ``temps`` (pens, days),
    ``fed`` (pens, days) bool: on fasting days nothing is gained.
    Gives the weight at the end of each day, (pens, days).
    """

    @staticmethod
    def forward(
        ctx, weight: Tensor, tgc: Tensor, temps: Tensor, fed: Tensor, limits: GrowthLimits
    ) -> Tensor:
        useful = (temps.clamp(limits.t_zero, limits.t_best) - limits.t_zero) * fed
        units = useful.cumsum(-1)
        root = weight.pow(1 / 3).unsqueeze(-1) + 1e-3 * tgc.unsqueeze(-1) * units
        ctx.save_for_backward(weight, tgc, temps, fed, units, root)
        ctx.limits = limits
        return root**3

    @staticmethod
    def backward(ctx, grad: Tensor):
        weight, tgc, temps, fed, units, root = ctx.saved_tensors
        to_root = 3 * root.square() * grad
        active = fed & (temps > ctx.limits.t_zero) & (temps < ctx.limits.t_best)
        later = to_root.sum(-1, keepdim=True) - to_root.cumsum(-1) + to_root
        grad_weight = to_root.sum(-1) * weight.pow(-2 / 3) / 3
        grad_tgc = 1e-3 * (to_root * units).sum(-1)
        grad_temps = 1e-3 * tgc.unsqueeze(-1) * later * active
        return grad_weight, grad_tgc, grad_temps, None, None


class FeedAllocation(Function):
    """Feed delivered to each pen when the barges may run short.

    A barge whose pens ask for more than it can blow in a day serves all of
    them in proportion; otherwise every pen gets what it asks for.
    ``demand`` (days, pens) positive, ``capacity`` (barges,) positive,
    ``barge`` (pens,) long.
    """

    @staticmethod
    def forward(ctx, demand: Tensor, capacity: Tensor, barge: Tensor) -> Tensor:
        asked = demand.new_zeros(demand.shape[0], capacity.shape[0]).index_add_(1, barge, demand)
        short = asked > capacity
        rate = torch.where(short, capacity / asked.clamp(min=1e-12), torch.ones_like(asked))
        ctx.save_for_backward(demand, barge, asked, short, rate)
        return demand * rate[:, barge]

    @staticmethod
    def backward(ctx, grad: Tensor):
        demand, barge, asked, short, rate = ctx.saved_tensors
        asked = asked.clamp(min=1e-12)
        mean_grad = torch.zeros_like(asked).index_add_(1, barge, grad * demand) / asked
        mean_grad = mean_grad * short
        grad_demand = rate[:, barge] * (grad - mean_grad[:, barge])
        return grad_demand, mean_grad.sum(0), None


def make_oxygen_demand(resp: Respiration = Respiration(), reduction: str = "sum") -> Callable:
    """Returns ``f(weight, temp, current, alive)`` for one farm's respiration constants.

    ``weight`` (pens, fish) kg, ``temp`` (pens,) deg C, ``current`` (pens,) m/s,
    ``alive`` (pens, fish) bool.  The fish hold station against the current.
    ``reduction`` is "none", "sum" or "mean" (over the living fish of a pen).
    """
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(reduction)

    class OxygenDemand(Function):
        @staticmethod
        def forward(ctx, weight, temp, current, alive):
            length = (weight / resp.condition).pow(1 / 3)
            speed = current.unsqueeze(-1) / length
            uptake = (
                resp.scale
                * weight.pow(resp.mass_power)
                * torch.exp(resp.per_degree * temp.unsqueeze(-1) + resp.per_length * speed)
            )
            uptake = torch.where(alive, uptake, torch.zeros_like(uptake))
            head = alive.sum(-1).clamp(min=1).to(weight.dtype)
            ctx.save_for_backward(weight, length, uptake, head)
            if reduction == "none":
                return uptake
            return uptake.sum(-1) if reduction == "sum" else uptake.sum(-1) / head

        @staticmethod
        def backward(ctx, grad):
            weight, length, uptake, head = ctx.saved_tensors
            if reduction == "mean":
                grad = grad / head
            if reduction != "none":
                grad = grad.unsqueeze(-1)
            flow = grad * uptake
            grad_weight = resp.mass_power * flow / weight
            grad_temp = resp.per_degree * flow.sum(-1)
            grad_current = resp.per_length * (flow / length).sum(-1)
            return grad_weight, grad_temp, grad_current, None

    return OxygenDemand.apply


def simulate_season(
    start: Tensor,
    tgc: Tensor,
    temps: Tensor,
    capacity: Tensor,
    barge: Tensor,
    fed: Optional[Tensor] = None,
    limits: GrowthLimits = GrowthLimits(),
    stock: int = 50_000,
) -> tuple[Tensor, Tensor]:
    fed = torch.ones_like(temps, dtype=torch.bool) if fed is None else fed
    weights = ThermalGrowth.apply(start, tgc, temps, fed, limits)
    gain = weights - torch.cat([start.unsqueeze(-1), weights[:, :-1]], -1)
    demand = 1.15e-3 * stock * gain.T + 1.0
    return weights, FeedAllocation.apply(demand, capacity, barge)


def aeration_hours(
    weight: Tensor, temp: Tensor, current: Sequence[float], alive: Tensor, supply: float = 900.0
) -> Tensor:
    demand = make_oxygen_demand()(weight, temp, torch.as_tensor(current, dtype=weight.dtype), alive)
    return 24.0 * (demand / supply - 1.0).relu()
