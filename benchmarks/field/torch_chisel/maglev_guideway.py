"""Electromagnetic suspension on an elevated guideway.

Three coupled pieces of an attractive-levitation vehicle model (the kind with
magnets wrapped under the guideway and a long-stator drive):

``PoleGapForce``
    lift, stiffness and inductance of every levitation magnet,
``girder_height``
    height of the stator packs under each magnet, from a surveyed table,
``SectionThrust``
    thrust from the stator sections that the vehicle stands over.

The pieces are used by :class:`VehicleModel` to identify pole areas, the as-built
table of girder heights, and section currents from commissioning runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Optional, Tuple

import torch
import torch.nn as nn
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

VACUUM_PERMEABILITY = 1.25663706212e-6
GRAVITY = 9.80665
NOMINAL_GAP = 0.010
MINIMUM_GAP = 0.002


@dataclass(frozen=True)
class MagnetSpec:
    turns: int = 270
    pole_area: float = 0.034
    nominal_current: float = 25.0

    @property
    def linkage(self) -> float:
        """mu0 N^2, the constant shared by force and inductance."""
        return VACUUM_PERMEABILITY * self.turns**2


def _fold_to(value: Tensor, shape: torch.Size) -> Tensor:
    """Reduce a broadcast gradient to the shape of its operand."""
    extra = value.dim() - len(shape)
    if extra > 0:
        value = value.sum(tuple(range(extra)))
    stretched = tuple(
        axis for axis, size in enumerate(shape) if size == 1 and value.shape[axis] != 1
    )
    if stretched:
        value = value.sum(stretched, keepdim=True)
    return value


def _plus(left: Optional[Tensor], right: Tensor) -> Tensor:
    return right if left is None else left + right


class PoleGapForce(Function):
    """Lift F = c A (i/g)^2 of a U-core magnet, dF/d(-g), and coil inductance.

    ``current``, ``gap`` and ``area`` broadcast against each other; usually
    current and gap are (batch, magnets) and area is (magnets,).  ``turns`` is a
    plain integer.  Outputs are not materialised in backward: any of them may be
    left out of the loss.
    """

    @staticmethod
    def forward(ctx, current, gap, area, turns):
        linkage = VACUUM_PERMEABILITY * turns**2
        lift = 0.25 * linkage * area * (current / gap).square()
        stiffness = 2.0 * lift / gap
        inductance = (0.5 * linkage * area / gap).expand(lift.shape).clone()
        ctx.save_for_backward(current, gap, area)
        ctx.linkage = linkage
        ctx.set_materialize_grads(False)
        return lift, stiffness, inductance

    @staticmethod
    def backward(ctx, grad_lift, grad_stiffness, grad_inductance):
        current, gap, area = ctx.saved_tensors
        c = 0.25 * ctx.linkage
        d_current = d_gap = d_area = None

        if grad_lift is not None:
            ratio = current / gap
            d_current = _plus(d_current, grad_lift * 2.0 * c * area * ratio / gap)
            d_gap = _plus(d_gap, -grad_lift * 2.0 * c * area * ratio.square() / gap)
            d_area = _plus(d_area, grad_lift * c * ratio.square())
        if grad_stiffness is not None:
            ratio = current / gap
            g = grad_stiffness
            d_current = _plus(d_current, g * 4.0 * c * area * ratio / gap.square())
            d_gap = _plus(d_gap, -g * 6.0 * c * area * ratio.square() / gap.square())
            d_area = _plus(d_area, g * 2.0 * c * ratio.square() / gap)
        if grad_inductance is not None:
            g = grad_inductance
            d_gap = _plus(d_gap, -g * 2.0 * c * area / gap.square())
            d_area = _plus(d_area, g * 2.0 * c / gap)

        if d_current is not None:
            d_current = _fold_to(d_current, current.shape)
        if d_gap is not None:
            d_gap = _fold_to(d_gap, gap.shape)
            d_area = _fold_to(d_area, area.shape)
        return d_current, d_gap, d_area, None


class GirderLine:
    """Surveyed line of evenly spaced stations.

    Args:
        spacing: metres between two stations.
        origin: chainage of the first station.
    """

    def __init__(self, spacing: float, origin: float = 0.0):
        if spacing <= 0:
            raise ValueError("spacing must be positive")
        self.spacing = spacing
        self.origin = origin

    def stations(self, count: int, dtype=torch.float64) -> Tensor:
        return self.origin + self.spacing * torch.arange(count, dtype=dtype)

    def make_lookup(self) -> Callable[[Tensor, Tensor], Tuple[Tensor, Tensor]]:
        """Build the table read for this line: (table, chainage) -> (height, grade)."""
        spacing, origin = self.spacing, self.origin

        class GirderHeight(Function):
            """Linear interpolation of ``table`` (P,) at ``chainage`` (any shape).

            Chainages before the first or after the last station read the end
            value and have zero grade.
            """

            @staticmethod
            def forward(table, chainage):
                low, weight, inside = _locate(chainage, table.shape[0])
                rise = table[low + 1] - table[low]
                height = table[low] + weight * rise
                return height, inside * rise / spacing

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            @once_differentiable
            def backward(ctx, grad_height, grad_grade):
                table, chainage = ctx.saved_tensors
                low, weight, inside = _locate(chainage, table.shape[0])
                grad_table = grad_chainage = None
                if ctx.needs_input_grad[0]:
                    per_rise = inside * grad_grade / spacing
                    grad_table = torch.zeros_like(table)
                    grad_table[low] += (1.0 - weight) * grad_height - per_rise
                    grad_table[low + 1] += weight * grad_height + per_rise
                if ctx.needs_input_grad[1]:
                    rise = table[low + 1] - table[low]
                    grad_chainage = grad_height * inside * rise / spacing
                return grad_table, grad_chainage

        def _locate(chainage: Tensor, count: int):
            place = (chainage - origin) / spacing
            inside = ((place > 0) & (place < count - 1)).to(chainage.dtype)
            place = place.clamp(0.0, float(count - 1))
            low = place.floor().long().clamp(max=count - 2)
            return low, place - low.to(place.dtype), inside

        return GirderHeight.apply


class SectionThrust(Function):
    """Thrust of the energised stator sections under the vehicle.

    Parameters
    ----------
    tail : (B,)
        Chainage of the rear end of each vehicle.
    currents : (S,)
        RMS current in each section.
    edges : (S + 1,)
        Section boundaries, increasing.  A survey constant, gets no gradient.
    length : float
        Vehicle length.
    constant : float
        Thrust per ampere and metre of covered stator.

    Returns
    -------
    thrust (B,) and covered length (B, S).
    """

    @staticmethod
    def forward(ctx, tail, currents, edges, length, constant):
        begin, end = edges[:-1], edges[1:]
        rear = torch.maximum(tail[:, None], begin)
        front = torch.minimum(tail[:, None] + length, end)
        covered = (front - rear).clamp_min(0.0)
        thrust = constant * (covered @ currents)
        ctx.save_for_backward(tail, currents, edges, covered)
        ctx.length = length
        ctx.constant = constant
        return thrust, covered

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_thrust, grad_covered):
        tail, currents, edges, covered = ctx.saved_tensors
        begin, end = edges[:-1], edges[1:]
        grad_tail = grad_currents = None
        if ctx.needs_input_grad[0]:
            per_length = ctx.constant * grad_thrust[:, None] * currents + grad_covered
            front_moves = (tail[:, None] + ctx.length < end).to(tail.dtype)
            rear_moves = (tail[:, None] > begin).to(tail.dtype)
            grad_tail = (per_length * (front_moves - rear_moves)).sum(1)
        if ctx.needs_input_grad[1]:
            grad_currents = ctx.constant * (grad_thrust @ covered)
        return grad_tail, grad_currents, None, None, None


def magnet_chainage(tail: Tensor, magnets: int, length: float) -> Tensor:
    """Centres of the magnets, evenly spread over the vehicle: (B, magnets)."""
    pitch = length / magnets
    centre = pitch * (torch.arange(magnets, dtype=tail.dtype, device=tail.device) + 0.5)
    return tail[:, None] + centre


def equilibrium_current(mass: float, magnets: int, spec: MagnetSpec) -> float:
    """Current which carries the vehicle at the nominal gap."""
    share = mass * GRAVITY / magnets
    return NOMINAL_GAP * (4.0 * share / (spec.linkage * spec.pole_area)) ** 0.5


class VehicleModel(nn.Module):
    def __init__(
        self,
        line: GirderLine,
        station_count: int,
        edges: Tensor,
        magnets: int = 8,
        length: float = 24.8,
        spec: MagnetSpec = MagnetSpec(),
    ):
        super().__init__()
        dtype = edges.dtype
        self.spec = spec
        self.magnets = magnets
        self.length = length
        self.girder_height = line.make_lookup()
        self.register_buffer("edges", edges)
        self.table = nn.Parameter(torch.zeros(station_count, dtype=dtype))
        self.area = nn.Parameter(torch.full((magnets,), spec.pole_area, dtype=dtype))
        self.section_current = nn.Parameter(
            torch.full((edges.shape[0] - 1,), 400.0, dtype=dtype)
        )
        self.thrust_constant = 1.9

    def gaps(self, tail: Tensor, ride_height: Tensor) -> Tensor:
        height, _ = self.girder_height(
            self.table, magnet_chainage(tail, self.magnets, self.length)
        )
        return (ride_height[:, None] + height).clamp_min(MINIMUM_GAP)

    def forward(self, tail: Tensor, ride_height: Tensor, current: Tensor):
        """tail (B,), ride_height (B,), current (B, magnets)."""
        gap = self.gaps(tail, ride_height)
        lift, stiffness, inductance = PoleGapForce.apply(
            current, gap, self.area, self.spec.turns
        )
        thrust, _ = SectionThrust.apply(
            tail, self.section_current, self.edges, self.length, self.thrust_constant
        )
        return {
            "lift": lift.sum(1),
            "stiffness": stiffness.sum(1),
            "inductance": inductance,
            "thrust": thrust,
        }


def commissioning_loss(model: VehicleModel, run: dict, mass: float) -> Tensor:
    """Squared misfit of heave acceleration and of drive acceleration."""
    state = model(run["tail"], run["ride_height"], run["current"])
    heave = state["lift"] / mass - GRAVITY - run["heave"]
    drive = state["thrust"] / mass - run["drive"]
    return heave.square().mean() + drive.square().mean()


if __name__ == "__main__":
    torch.manual_seed(11)
    edges = torch.tensor([0.0, 30.0, 55.0, 90.0, 140.0], dtype=torch.float64)
    vehicle = VehicleModel(GirderLine(6.2), 26, edges)
    mass = 53_000.0
    amp = equilibrium_current(mass, vehicle.magnets, vehicle.spec)
    batch = 5
    run = {
        "tail": torch.rand(batch, dtype=torch.float64) * 100.0,
        "ride_height": NOMINAL_GAP + 1e-3 * torch.randn(batch, dtype=torch.float64),
        "current": amp * (1 + 0.02 * torch.randn(batch, 8, dtype=torch.float64)),
        "heave": torch.zeros(batch, dtype=torch.float64),
        "drive": torch.full((batch,), 0.3, dtype=torch.float64),
    }
    loss = commissioning_loss(vehicle, run, mass)
    loss.backward()
    print(loss.item(), vehicle.table.grad.norm(), vehicle.section_current.grad)
