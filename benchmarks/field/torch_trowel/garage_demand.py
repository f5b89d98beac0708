"""Demand model for a group of parking garages.

A city wants tariffs which keep a few bays free in each garage.  The model has
three parts, each a function with its own derivative because they sit in the
inner loop of a calibration against gate counts:

    BayChoice          which bay a driver takes, given walk and tariff zone
    OccupancyRollout   cars in each garage through the day, full ones turn away
    CruiseDelay        minutes lost while looking for a bay, given occupancy

All rates are per time step (a quarter of an hour unless said otherwise).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import nn
from torch.autograd import Function

STEP_MINUTES = 15
CRUISE_KNEE = 0.95
BASE_SEARCH_MINUTES = 0.8


class DayTrace(NamedTuple):
    occupancy: torch.Tensor
    turned_away: torch.Tensor
    search_minutes: torch.Tensor


class BayChoice(Function):
    """Choice among bays, with driving on as the alternative.

    The utility of bay ``b`` for driver ``n`` is

        -walk[n, b] - beta * tariff[zone[b]]

    and that of driving on is 0.  Bays not in ``is_open`` cannot be chosen; a
    driver who finds none open drives on for certain.

    Parameters
    ----------
    walk : torch.Tensor
        Walking cost, drivers by bays.
    tariff : torch.Tensor
        Price of each tariff zone.
    beta : torch.Tensor
        Price sensitivity, a scalar.
    zone : torch.LongTensor
        Tariff zone of each bay.
    is_open : torch.BoolTensor
        Drivers by bays.

    Returns
    -------
    share : torch.Tensor
        Probability of each bay (rows sum to less than one).
    surplus : torch.Tensor
        Expected maximum utility of each driver.
    """

    @staticmethod
    def forward(ctx, walk, tariff, beta, zone, is_open):
        price = tariff[zone]
        utility = -walk - beta * price
        utility = utility.masked_fill(~is_open, -torch.inf)
        with_outside = torch.cat([utility, torch.zeros_like(utility[:, :1])], dim=1)
        surplus = torch.logsumexp(with_outside, dim=1)
        share = torch.exp(utility - surplus[:, None])
        ctx.save_for_backward(share, price, beta, zone)
        ctx.zones = tariff.shape[0]
        return share, surplus

    @staticmethod
    def backward(ctx, grad_share, grad_surplus):
        share, price, beta, zone = ctx.saved_tensors
        expected = (grad_share * share).sum(dim=1, keepdim=True)
        grad_utility = share * (grad_share - expected + grad_surplus[:, None])

        grad_walk = grad_tariff = grad_beta = None
        if ctx.needs_input_grad[0]:
            grad_walk = -grad_utility
        by_bay = grad_utility.sum(dim=0)
        if ctx.needs_input_grad[1]:
            grad_tariff = price.new_zeros(ctx.zones)
            grad_tariff[zone] += -beta * by_bay
        if ctx.needs_input_grad[2]:
            grad_beta = -(by_bay * price).sum()
        return grad_walk, grad_tariff, grad_beta, None, None


class OccupancyRollout(Function):
    """Cars in each garage, step by step.

    Args:
        arrivals: cars that want in, (steps, garages).
        leaving: share of the parked cars that leaves, (steps, garages).
        start: cars at opening time, (garages,).
        capacity: bays, (garages,).

    Returns:
        occupancy: cars after each step, (steps, garages).
        turned_away: cars that found the garage full, (steps, garages).
    """

    @staticmethod
    def forward(ctx, arrivals, leaving, start, capacity):
        cars = start
        before, occupancy, turned_away = [], [], []
        for a, leave in zip(arrivals, leaving):
            before.append(cars)
            wanted = cars * (1.0 - leave) + a
            cars = torch.minimum(wanted, capacity)
            occupancy.append(cars)
            turned_away.append((wanted - capacity).clamp(min=0.0))
        before = torch.stack(before)
        turned_away = torch.stack(turned_away)
        ctx.save_for_backward(before, leaving, turned_away > 0)
        return torch.stack(occupancy), turned_away

    @staticmethod
    def backward(ctx, grad_occupancy, grad_away):
        before, leaving, full = ctx.saved_tensors
        grad_arrivals = torch.zeros_like(before)
        grad_leaving = torch.zeros_like(before)
        grad_capacity = torch.zeros_like(before[0])
        carry = torch.zeros_like(before[0])
        for t in reversed(range(before.shape[0])):
            total = grad_occupancy[t] + carry
            kept = torch.where(full[t], torch.zeros_like(total), total)
            spilled = torch.where(full[t], grad_away[t], torch.zeros_like(total))
            grad_arrivals[t] = kept + spilled
            grad_leaving[t] = -(kept + spilled) * before[t]
            grad_capacity += torch.where(full[t], total - grad_away[t], torch.zeros_like(total))
            carry = kept * (1.0 - leaving[t])
        return grad_arrivals, grad_leaving, carry, grad_capacity


def make_cruise_delay(knee: float = CRUISE_KNEE):
    """Search time as a function of occupancy.

    ``base / (1 - occ**power)`` up to the knee.  The formula has a pole at one,
    so above the knee its tangent there is used instead; counts above the
    nominal capacity (double-parked cars) then still give a finite time.
    ``base`` and ``power`` may be scalars or anything that broadcasts against
    the occupancy.
    """
    if not 0.0 < knee < 1.0:
        raise ValueError("knee must lie within (0, 1)")

    class CruiseDelay(Function):
        @staticmethod
        def forward(occ, base, power):
            at = occ.clamp(max=knee)
            room = 1.0 - at**power
            slope = power * at ** (power - 1.0) / room.square()
            return base * (1.0 / room + slope * (occ - knee).clamp(min=0.0))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            occ, base, power = ctx.saved_tensors
            at = occ.clamp(max=knee)
            beyond = (occ - knee).clamp(min=0.0)
            filled = at**power
            room = 1.0 - filled
            slope = power * at ** (power - 1.0) / room.square()

            g_occ = g_base = g_power = None
            if ctx.needs_input_grad[0]:
                g_occ = (grad * base * slope).sum_to_size(occ.shape)
            if ctx.needs_input_grad[1]:
                g_base = (grad * (1.0 / room + slope * beyond)).sum_to_size(base.shape)
            if ctx.needs_input_grad[2]:
                log_filled = torch.xlogy(filled, at)
                d_value = log_filled / room.square()
                log_at = torch.log(at.clamp(min=torch.finfo(at.dtype).tiny))
                d_slope = at ** (power - 1.0) / room.square() * (
                    1.0 + power * log_at + 2.0 * power * log_filled / room
                )
                d_slope = torch.where(beyond > 0, d_slope * beyond, 0.0)
                g_power = (grad * base * (d_value + d_slope)).sum_to_size(power.shape)
            return g_occ, g_base, g_power

    def cruise_delay(occ, base, power):
        return CruiseDelay.apply(occ, base, power)

    return cruise_delay


@dataclass
class GarageSite:
    """One garage: its bays are lumped by floor."""

    name: str
    capacity: float
    floor_walk: list[float]
    floor_zone: list[int]
    leaving: float = 0.08


@dataclass
class City:
    sites: list[GarageSite] = field(default_factory=list)

    def zones(self) -> torch.Tensor:
        return torch.tensor([z for s in self.sites for z in s.floor_zone])

    def walks(self) -> torch.Tensor:
        return torch.tensor([w for s in self.sites for w in s.floor_walk])

    def owner(self) -> torch.Tensor:
        """Garage index of each bay group."""
        return torch.tensor([i for i, s in enumerate(self.sites) for _ in s.floor_zone])

    def capacity(self) -> torch.Tensor:
        return torch.tensor([s.capacity for s in self.sites])


class GarageDemand(nn.Module):
    """Tariffs in, a day of occupancy out."""

    def __init__(self, city: City, zones: int, drivers: int = 8):
        super().__init__()
        self.city = city
        self.tariff = nn.Parameter(torch.full((zones,), 2.0))
        self.log_beta = nn.Parameter(torch.tensor(-0.7))
        self.base = nn.Parameter(torch.tensor(BASE_SEARCH_MINUTES))
        self.power = nn.Parameter(torch.full((len(city.sites),), 6.0))
        self.taste = nn.Parameter(0.2 * torch.randn(drivers, len(city.walks())))
        self.register_buffer("zone", city.zones())
        self.register_buffer("owner", city.owner())
        self.register_buffer("capacity", city.capacity())
        self.cruise = make_cruise_delay()

    def forward(self, demand: torch.Tensor, is_open: torch.Tensor) -> DayTrace:
        """``demand`` (steps, drivers): cars of each kind of driver."""
        walk = self.city.walks().to(self.taste) + self.taste
        share, _ = BayChoice.apply(walk, self.tariff, self.log_beta.exp(), self.zone, is_open)
        by_bay = demand @ share
        arrivals = by_bay.new_zeros(len(demand), len(self.capacity))
        arrivals = arrivals.index_add(1, self.owner, by_bay)
        leaving = arrivals.new_tensor([s.leaving for s in self.city.sites]).expand_as(arrivals)
        occupancy, away = OccupancyRollout.apply(
            arrivals, leaving, 0.3 * self.capacity, self.capacity
        )
        minutes = self.cruise(occupancy / self.capacity, self.base, self.power)
        return DayTrace(occupancy, away, minutes)


def tariff_loss(trace: DayTrace, capacity: torch.Tensor, target: float = 0.85) -> torch.Tensor:
    fill = trace.occupancy / capacity
    return (fill - target).square().mean() + 0.05 * trace.turned_away.mean() / capacity.mean()


def demo_city() -> City:
    return City([
        GarageSite("market", 120.0, [0.3, 0.5, 0.8], [0, 0, 1]),
        GarageSite("station", 300.0, [0.9, 1.1], [1, 2], leaving=0.05),
        GarageSite("opera", 80.0, [0.6], [2], leaving=0.12),
    ])


if __name__ == "__main__":
    torch.manual_seed(1)
    city = demo_city()
    model = GarageDemand(city, zones=3)
    steps = 10 * 60 // STEP_MINUTES
    wave = torch.sin(torch.linspace(0, 3.14, steps))[:, None]
    demand = 14.0 * wave * (0.5 + torch.rand(1, 8))
    open_bays = torch.ones(8, len(city.walks()), dtype=torch.bool)
    open_bays[0, :3] = False
    optimiser = torch.optim.Adam([model.tariff], lr=0.05)
    for _ in range(20):
        optimiser.zero_grad()
        day = model(demand, open_bays)
        loss = tariff_loss(day, model.capacity)
        loss.backward()
        optimiser.step()
    print("tariffs", model.tariff.tolist(), "loss", loss.item())
