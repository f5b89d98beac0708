"""Pipeline and hopper of a trailing suction hopper dredger.

Three models that the voyage planner calibrates together against logged
trips: the hydraulic gradient of the mixture in the discharge line, the
hindered settling of the grain fractions in the hopper, and the loading
curve with its overflow losses. SI units.
"""

import math
from collections import namedtuple
from functools import partial

import torch
from torch import nn
from torch.autograd import Function

G = 9.81
DURAND_K = 81.0
QUARTZ = 2.65
FROUDE_LIMIT = 1.34

Trip = namedtuple("Trip", "discharge concentration initial")
LoadCurve = namedtuple("LoadCurve", "load spilled")


def deposit_velocity(diameter, solids_density=QUARTZ, froude=FROUDE_LIMIT):
    """Limit deposit velocity; below it a bed forms on the pipe's bottom."""
    return froude * torch.sqrt(2.0 * G * diameter * (solids_density - 1.0))


class DurandGradient(Function):
    """Hydraulic gradient of a settling slurry after Durand and Condolios.

        i = f v^2 / (2 g D) * (1 + 81 C psi^-1.5)
        psi = v^2 sqrt(Cd) / (g D (S - 1))

    When the mean velocity is below the limit deposit velocity the bed
    narrows the pipe until the flow above it moves with that velocity, so
    ``v`` is never taken smaller than ``deposit_velocity(D)``.

    All of velocity, concentration, diameter and drag have one shape. The
    Darcy factor ``f`` and the relative density of the solids are floats.
    """

    @staticmethod
    def forward(ctx, velocity, concentration, diameter, drag, darcy=0.012, solids=QUARTZ):
        limit = deposit_velocity(diameter, solids)
        moving = velocity > limit
        v = torch.where(moving, velocity, limit)
        psi = v.square() * drag.sqrt() / (G * diameter * (solids - 1.0))
        per_concentration = DURAND_K * psi.pow(-1.5)
        water = darcy * v.square() / (2.0 * G * diameter)
        ctx.save_for_backward(v, concentration, diameter, drag, moving, water, per_concentration)
        return water * (1.0 + concentration * per_concentration)

    @staticmethod
    def backward(ctx, grad):
        v, conc, diameter, drag, moving, water, per_conc = ctx.saved_tensors
        excess = conc * per_conc
        base = grad * water
        d_v = base * (2.0 - excess) / v
        d_velocity = torch.where(moving, d_v, torch.zeros_like(d_v))
        d_conc = base * per_conc
        d_diameter = base * (0.5 * excess - 1.0) / diameter
        d_drag = -0.75 * base * excess / drag
        return d_velocity, d_conc, d_diameter, d_drag, None, None


class FractionSettling(Function):
    """Settling velocities and the total flux of grain fractions.

    Richardson and Zaki: every fraction is slowed by all the solids around
    it, ``w_k = w0_k (1 - sum_j c_j) ** n_k``; the voids do not go below
    ``1 - packed``.

    Returns (velocities of shape (cells, fractions), flux of shape (cells,)).
    """

    @staticmethod
    def forward(ctx, conc, terminal, exponent, packed):
        solids = conc.sum(-1, keepdim=True)
        free = solids < packed
        void = 1.0 - solids.clamp_max(packed)
        hindrance = void.pow(exponent)
        velocity = terminal * hindrance
        ctx.save_for_backward(conc, exponent, void, hindrance, velocity, free)
        return velocity, (conc * velocity).sum(-1)

    @staticmethod
    def backward(ctx, g_velocity, g_flux):
        conc, exponent, void, hindrance, velocity, free = ctx.saved_tensors
        g_flux = g_flux.unsqueeze(-1)
        g = g_velocity + g_flux * conc
        d_void = (g * velocity * exponent).sum(-1, keepdim=True) / void
        d_conc = g_flux * velocity - d_void * free.to(d_void.dtype)
        d_terminal = (g * hindrance).sum(0)
        d_exponent = (g * velocity * void.log()).sum(0)
        return d_conc, d_terminal, d_exponent, None


class HopperLoading(Function):
    """Solids in the hopper after each interval and what went overboard.

    Parameters
    ----------
    discharge, concentration : (trips, intervals)
        Pumped flow and its volumetric concentration.
    initial : (trips,)
        Solids left from before.
    capacity : (trips,)
    loss : 0-d
        Share of the inflow lost when the hopper is full.
    onset : float
        Fill at which the overflow starts to take solids along.
    dt : float
        Length of an interval.
    """

    @staticmethod
    def forward(ctx, discharge, concentration, initial, capacity, loss, onset, dt):
        load = initial
        before, after = [], []
        spilled = torch.zeros_like(initial)
        for k in range(discharge.shape[1]):
            inflow = discharge[:, k] * concentration[:, k] * dt
            ramp = ((load / capacity - onset) / (1.0 - onset)).clamp(0.0, 1.0)
            before.append(load)
            spilled = spilled + inflow * loss * ramp
            load = load + inflow * (1.0 - loss * ramp)
            after.append(load)
        ctx.onset, ctx.dt = onset, dt
        ctx.save_for_backward(
            discharge, concentration, capacity, loss, torch.stack(before, dim=1)
        )
        return torch.stack(after, dim=1), spilled

    @staticmethod
    def backward(ctx, g_load, g_spilled):
        discharge, conc, capacity, loss, before = ctx.saved_tensors
        onset, dt = ctx.onset, ctx.dt
        cap = capacity.unsqueeze(-1)
        raw = (before / cap - onset) / (1.0 - onset)
        ramp = raw.clamp(0.0, 1.0)
        inside = ((raw > 0.0) & (raw < 1.0)).to(before.dtype) / (1.0 - onset)
        inflow = discharge * conc * dt

        carry = torch.zeros_like(capacity)
        d_inflow = torch.zeros_like(inflow)
        d_capacity = torch.zeros_like(capacity)
        d_loss = torch.zeros_like(loss)
        for k in range(before.shape[1] - 1, -1, -1):
            carry = carry + g_load[:, k]
            taken = loss * ramp[:, k]
            d_inflow[:, k] = carry * (1.0 - taken) + g_spilled * taken
            d_taken = inflow[:, k] * (g_spilled - carry)
            d_loss = d_loss + (d_taken * ramp[:, k]).sum()
            d_fill = d_taken * loss * inside[:, k]
            d_capacity = d_capacity - d_fill * before[:, k] / capacity.square()
            carry = carry + d_fill / capacity
        d_discharge = d_inflow * conc * dt
        d_conc = d_inflow * discharge * dt
        return d_discharge, d_conc, carry, d_capacity, d_loss, None, None


class DischargeLine(nn.Module):
    """Pump pressure needed to push a mixture ashore.

    ``segments`` is a list of (length, diameter); diameters are fitted,
    because the pipes wear.
    """

    def __init__(self, segments, drag=0.6, darcy=0.012):
        super().__init__()
        length, diameter = zip(*segments)
        self.register_buffer("length", torch.tensor(length))
        self.diameter = nn.Parameter(torch.tensor(diameter))
        self.log_drag = nn.Parameter(torch.tensor(math.log(drag)))
        self.gradient = partial(self._gradient, darcy=darcy)

    @staticmethod
    def _gradient(velocity, concentration, diameter, drag, darcy):
        return DurandGradient.apply(velocity, concentration, diameter, drag, darcy)

    def forward(self, flow, concentration):
        """flow (trips,), concentration (trips,) -> head (trips,)"""
        area = 0.25 * math.pi * self.diameter.square()
        velocity = flow.unsqueeze(-1) / area
        diameter = self.diameter.expand_as(velocity).contiguous()
        conc = concentration.unsqueeze(-1).expand_as(velocity).contiguous()
        drag = self.log_drag.exp().expand_as(velocity).contiguous()
        return (self.gradient(velocity, conc, diameter, drag) * self.length).sum(-1)


class HopperModel(nn.Module):
    def __init__(self, fractions, packed=0.6, onset=0.5, dt=60.0):
        super().__init__()
        self.terminal = nn.Parameter(torch.logspace(-3.0, -1.0, fractions))
        self.exponent = nn.Parameter(torch.linspace(4.6, 2.6, fractions))
        self.loss = nn.Parameter(torch.tensor(0.3))
        self.packed, self.onset, self.dt = packed, onset, dt

    def settle(self, conc):
        return FractionSettling.apply(conc, self.terminal, self.exponent, self.packed)

    def load(self, trip, capacity):
        curve = HopperLoading.apply(
            trip.discharge, trip.concentration, trip.initial, capacity,
            self.loss, self.onset, self.dt,
        )
        return LoadCurve(*curve)

    def forward(self, trip, capacity, logged):
        curve = self.load(trip, capacity)
        misfit = ((curve.load - logged) / capacity.unsqueeze(-1)).square().mean()
        return misfit + 1e-3 * (curve.spilled / capacity).mean()


def economic_stop(curve, dt, sailing_time):
    """Interval after which the mean production of the cycle is largest."""
    elapsed = dt * torch.arange(1, curve.load.shape[1] + 1) + sailing_time
    return (curve.load / elapsed).argmax(dim=1)


def overflow_fraction(curve, trip, dt):
    pumped = (trip.discharge * trip.concentration).sum(1) * dt
    return curve.spilled / pumped.clamp_min(1e-9)


if __name__ == "__main__":
    torch.manual_seed(3)
    line = DischargeLine([(800.0, 0.9), (1200.0, 0.8), (400.0, 0.7)])
    print(line(torch.tensor([2.4, 4.2]), torch.tensor([0.15, 0.22])))

    hopper = HopperModel(fractions=4)
    print(hopper.settle(torch.rand(5, 4) * 0.12))
    trip = Trip(torch.full((2, 40), 9.0), torch.full((2, 40), 0.2), torch.zeros(2))
    capacity = torch.tensor([3000.0, 4200.0])
    curve = hopper.load(trip, capacity)
    print(economic_stop(curve, hopper.dt, 5400.0), overflow_fraction(curve, trip, hopper.dt))
    hopper(trip, capacity, curve.load.detach() * 0.97).backward()
    print(hopper.loss.grad)
