"""Steady hydraulics of a water distribution network.

Links are pipes with a ``tail`` and a ``head`` junction; flow is positive from tail to head.  Units are SI throughout
(m, m3/s, m of water column).  The pieces here are the residuals that a global-gradient solver, or a calibration of
roughness against logged pressures, differentiates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor, nn

HW_EXPONENT = 1.852
HW_DIAMETER_EXPONENT = 4.8704
HW_COEFFICIENT = 10.667
GRAVITY = 9.80665


def _reduce_to(grad: Tensor, shape: torch.Size) -> Tensor:
    """Sum ``grad`` over the axes along which an operand of ``shape`` was broadcast."""
    return grad if grad.shape == shape else grad.sum_to_size(shape)


@dataclass(frozen=True)
class HydraulicSettings:
    """Numerical knobs of the network model.

    laminar_flow: flow below which friction is replaced by its secant line through the origin [m3/s]
    exponent: exponent of the pressure-demand relation
    """

    laminar_flow: float = 1e-4
    exponent: float = 0.5


class HazenWilliamsLoss(torch.autograd.Function):
    """Head loss of pipes: Hazen-Williams friction plus local losses ``k v |v| / 2g``.

    Below ``laminar_flow`` the friction term is linear in the flow, so that its slope does not vanish at rest.

    Shapes: flow ``(..., P)``; length, roughness, diameter and local anything that broadcasts against it.
    """

    @staticmethod
    def forward(ctx, flow, length, roughness, diameter, local, laminar_flow):
        q = flow.abs()
        linear = q < laminar_flow
        powered = torch.where(linear, q.new_tensor(laminar_flow), q) ** (HW_EXPONENT - 1.0)
        unit = HW_COEFFICIENT * roughness ** (-HW_EXPONENT) * diameter ** (-HW_DIAMETER_EXPONENT)
        minor = 8.0 / (math.pi**2 * GRAVITY) * diameter**-4.0
        friction = unit * length * powered * flow
        singular = minor * local * q * flow
        ctx.save_for_backward(flow, length, roughness, diameter, local, linear, powered, unit, minor)
        return friction + singular

    @staticmethod
    def backward(ctx, grad):
        flow, length, roughness, diameter, local, linear, powered, unit, minor = ctx.saved_tensors
        slope = torch.where(linear, torch.ones_like(powered), torch.full_like(powered, HW_EXPONENT)) * powered
        base = powered * flow
        friction = unit * length * base
        singular = minor * local * flow.abs() * flow
        g_flow = grad * (unit * length * slope + 2.0 * minor * local * flow.abs())
        g_length = grad * unit * base
        g_rough = -HW_EXPONENT * grad * friction / roughness
        g_diam = -grad * (HW_DIAMETER_EXPONENT * friction + 4.0 * singular) / diameter
        g_local = grad * minor * flow.abs() * flow
        return (
            _reduce_to(g_flow, flow.shape),
            _reduce_to(g_length, length.shape),
            _reduce_to(g_rough, roughness.shape),
            _reduce_to(g_diam, diameter.shape),
            _reduce_to(g_local, local.shape),
            None,
        )


class JunctionImbalance(torch.autograd.Function):
    """Inflow minus outflow minus consumption at every junction, for a series of time steps.

    ``flow`` is ``(T, P)``, ``opening`` ``(P,)`` throttles a link, ``pattern`` ``(T,)`` multiplies ``base`` ``(N,)``.
    Links flagged in ``check_valve`` let no water run from head to tail.
    """

    @staticmethod
    def forward(ctx, flow, opening, base, pattern, tail, head, check_valve):
        passed = flow
        if check_valve is not None:
            passed = torch.where(check_valve & (flow < 0), torch.zeros_like(flow), flow)
        carried = passed * opening
        out = -pattern[:, None] * base[None, :]
        out = out.index_add(1, head, carried).index_add(1, tail, -carried)
        ctx.save_for_backward(passed, opening, base, pattern, tail, head)
        return out

    @staticmethod
    def backward(ctx, grad):
        passed, opening, base, pattern, tail, head = ctx.saved_tensors
        across = grad.index_select(1, head) - grad.index_select(1, tail)
        g_flow = across * opening
        g_opening = (across * passed).sum(0)
        g_base = -(grad * pattern[:, None]).sum(0)
        g_pattern = -(grad * base[None, :]).sum(1)
        return g_flow, g_opening, g_base, g_pattern, None, None, None


class PressureDrivenDemand(torch.autograd.Function):
    """Wagner's pressure-demand relation.

    Delivered flow is ``demand * ((p - minimum) / (required - minimum)) ** exponent`` between the two pressures, nothing
    below ``minimum`` and the full demand above ``required``.  ``pressure`` is ``(B, N)``, ``demand`` and ``required``
    are ``(N,)`` or ``(B, N)``; ``minimum`` is one number for the zone.
    """

    @staticmethod
    def forward(ctx, pressure, demand, required, minimum, exponent):
        span = required - minimum
        fraction = ((pressure - minimum) / span).clamp(0.0, 1.0)
        served = fraction**exponent
        ctx.save_for_backward(pressure, demand, required, span, fraction, served)
        ctx.exponent = exponent
        return demand * served

    @staticmethod
    def backward(ctx, grad):
        pressure, demand, required, span, fraction, served = ctx.saved_tensors
        partial = (fraction > 0) & (fraction < 1)
        safe = torch.where(partial, fraction, torch.ones_like(fraction))
        slope = torch.where(partial, ctx.exponent * safe ** (ctx.exponent - 1.0), torch.zeros_like(fraction))
        pull = grad * demand * slope
        g_pressure = pull / required
        g_required = -pull * fraction / span
        return (
            _reduce_to(g_pressure, pressure.shape),
            _reduce_to(grad * served, demand.shape),
            _reduce_to(g_required, required.shape),
            None,
            None,
        )


def head_loss(flow: Tensor, length: Tensor, roughness: Tensor, diameter: Tensor, local: Optional[Tensor] = None,
              settings: HydraulicSettings = HydraulicSettings()) -> Tensor:
    """Head lost along each pipe; ``local`` defaults to no fittings."""
    if local is None:
        local = torch.zeros_like(length)
    return HazenWilliamsLoss.apply(flow, length, roughness, diameter, local, settings.laminar_flow)


def junction_imbalance(flow, opening, base, pattern, tail, head, check_valve=None):
    """Mass residual; see :class:`JunctionImbalance`."""
    return JunctionImbalance.apply(flow, opening, base, pattern, tail, head, check_valve)


def delivered(pressure, demand, required, minimum: float = 0.0, exponent: float = 0.5):
    """Delivered flow at given pressures; see :class:`PressureDrivenDemand`."""
    return PressureDrivenDemand.apply(pressure, demand, required, minimum, exponent)


class DistrictModel(nn.Module):
    """A metered district: calibrates roughness and base demands against the residuals of both laws."""

    def __init__(self, tail, head, length, diameter, n_junctions, check_valve=None, settings=HydraulicSettings()):
        super().__init__()
        self.settings = settings
        self.register_buffer("tail", tail)
        self.register_buffer("head", head)
        self.register_buffer("length", length)
        self.register_buffer("diameter", diameter)
        self.register_buffer("check_valve", check_valve)
        self.log_roughness = nn.Parameter(torch.full_like(length, math.log(110.0)))
        self.base = nn.Parameter(torch.full((n_junctions,), 1e-3, dtype=length.dtype))
        self.opening = nn.Parameter(torch.ones_like(length))

    def forward(self, flow, heads, pattern):
        drop = heads[:, self.tail] - heads[:, self.head]
        energy = drop - head_loss(flow, self.length, self.log_roughness.exp(), self.diameter, settings=self.settings)
        mass = junction_imbalance(flow, self.opening, self.base, pattern, self.tail, self.head, self.check_valve)
        return energy, mass
