"""Ride-dynamics pre-check for gravity roller coasters.

The layout team hands over a centre line sampled at *nodes* (arc length, height,
heading, bank).  From that we want, fast enough to sit in an optimiser loop:

* the specific kinetic energy of every train of the fleet along the centre line,
* the accelerations felt in the seat, in units of g,
* the speeds read by the proximity triggers that the block system looks at.

Everything is written per unit of train mass, so energies are in J/kg and twice
an energy is a squared speed.  Rows are trains (empty, half full, full, with worn
wheels, ...), columns are nodes.

The optimiser moves heights, bank angles and trigger positions, and identifies
drag and rolling resistance from recorded trigger speeds.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

STANDARD_GRAVITY = 9.80665

#: Acceleration envelope used for the comfort cost (simplified from EN 13814).
VERTICAL_LIMITS = (-1.0, 4.5)
LATERAL_LIMIT = 1.6
LONGITUDINAL_LIMIT = 2.0

#: Lowest squared speed at which a trigger still gives a pulse, in m^2/s^2.
TRIGGER_FLOOR = 1e-4


class CentreLine(NamedTuple):
    """Geometry shared by all trains; every field has one entry per node."""

    arc: torch.Tensor        # m, strictly increasing
    height: torch.Tensor     # m above the station
    heading: torch.Tensor    # rad, plan view
    bank: torch.Tensor       # rad, positive leans into a left turn


class FleetParams(NamedTuple):
    launch: torch.Tensor     # J/kg at node 0, one per train
    drag: torch.Tensor       # 1/m, rho*cd*A/(2m)
    rolling: torch.Tensor    # -, rolling resistance coefficient


# ---------------------------------------------------------------------------
# geometry helpers
# ---------------------------------------------------------------------------

def node_spacing(line: CentreLine) -> torch.Tensor:
    """Arc length between neighbouring nodes, (N - 1,)."""
    return line.arc[1:] - line.arc[:-1]


def _central_slope(values: torch.Tensor, arc: torch.Tensor) -> torch.Tensor:
    inner = (values[2:] - values[:-2]) / (arc[2:] - arc[:-2])
    first = (values[1:2] - values[:1]) / (arc[1:2] - arc[:1])
    last = (values[-1:] - values[-2:-1]) / (arc[-1:] - arc[-2:-1])
    return torch.cat([first, inner, last])


def pitch_angle(line: CentreLine) -> torch.Tensor:
    slope = _central_slope(line.height, line.arc)
    return torch.asin(slope.clamp(-0.999, 0.999))


def curvatures(line: CentreLine) -> tuple[torch.Tensor, torch.Tensor]:
    """Vertical and horizontal curvature (1/m) of the centre line at the nodes."""
    pitch = pitch_angle(line)
    vertical = _central_slope(pitch, line.arc)
    horizontal = _central_slope(line.heading, line.arc) * torch.cos(pitch)
    return vertical, horizontal


def camelback_layout(nodes: int = 161, length: float = 480.0,
                     dtype: torch.dtype = torch.float64) -> CentreLine:
    """A first drop, two camelbacks and a banked turn-around."""
    arc = torch.linspace(0.0, length, nodes, dtype=dtype)
    x = arc / length
    height = (34.0 * torch.exp(-((x - 0.0) / 0.11) ** 2)
              + 19.0 * torch.exp(-((x - 0.33) / 0.07) ** 2)
              + 13.0 * torch.exp(-((x - 0.72) / 0.06) ** 2))
    turn = torch.sigmoid((x - 0.52) * 40.0)
    heading = math.pi * turn
    bank = 1.05 * 4.0 * turn * (1.0 - turn)
    return CentreLine(arc, height, heading, bank)


# ---------------------------------------------------------------------------
# energy along the line
# ---------------------------------------------------------------------------

class TrainEnergy(Function):
    """Specific kinetic energy at every node.

    ``e[k+1] = e[k] * exp(-2 * drag * ds[k]) - g * (h[k+1] - h[k]) - rolling * g * ds[k]``

    Parameters
    ----------
    launch : Tensor, (B,)
    height : Tensor, (N,)
    spacing : Tensor, (N - 1,)
    drag, rolling : Tensor, (B,)

    Returns
    -------
    Tensor, (B, N).  Negative values tell that the train would roll back.
    """

    @staticmethod
    def forward(launch, height, spacing, drag, rolling):
        keep = torch.exp(-2.0 * drag[:, None] * spacing)
        rise = STANDARD_GRAVITY * (height[1:] - height[:-1])
        loss = rise + STANDARD_GRAVITY * rolling[:, None] * spacing
        energy = [launch]
        for k in range(spacing.shape[0]):
            energy.append(energy[-1] * keep[:, k] - loss[:, k])
        return torch.stack(energy, dim=1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, spacing, drag, rolling = inputs
        ctx.save_for_backward(spacing, drag, rolling, output)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        spacing, drag, rolling, energy = ctx.saved_tensors
        keep = torch.exp(-2.0 * drag[:, None] * spacing)
        steps = spacing.shape[0]

        adjoint = torch.empty_like(energy)
        adjoint[:, steps] = grad[:, steps]
        for k in range(steps - 1, -1, -1):
            adjoint[:, k] = grad[:, k] + keep[:, k] * adjoint[:, k + 1]

        later = adjoint[:, 1:]
        through_keep = later * energy[:, :-1] * keep
        grad_spacing = (-2.0 * drag[:, None] * through_keep
                        - STANDARD_GRAVITY * rolling[:, None] * later).sum(0)
        grad_drag = -2.0 * (through_keep * spacing).sum(1)
        grad_rolling = -STANDARD_GRAVITY * (later * spacing).sum(1)

        column = STANDARD_GRAVITY * later.sum(0)
        grad_height = torch.zeros(steps + 1, dtype=energy.dtype, device=energy.device)
        grad_height[:-1] += column
        grad_height[1:] -= column
        return adjoint[:, 0], grad_height, grad_spacing, grad_drag, grad_rolling


# ---------------------------------------------------------------------------
# seat accelerations
# ---------------------------------------------------------------------------

class SeatLoads(Function):
    """Accelerations in the seat frame: ``(vertical, lateral, longitudinal)``, in g.

    energy: [trains, nodes]; curve_v, curve_h, pitch, bank: [nodes]; drag: [trains].
    The frame is first pitched with the rail and then rolled by the bank angle.
    """

    @staticmethod
    def forward(ctx, energy, curve_v, curve_h, pitch, bank, drag):
        push = 2.0 * energy / STANDARD_GRAVITY
        floor = push * curve_v + torch.cos(pitch)
        side = push * curve_h
        cb, sb = torch.cos(bank), torch.sin(bank)
        vertical = cb * floor + sb * side
        lateral = cb * side - sb * floor
        longitudinal = torch.sin(pitch) - drag[:, None] * push
        ctx.save_for_backward(energy, curve_v, curve_h, pitch, bank, drag)
        return vertical, lateral, longitudinal

    @staticmethod
    def backward(ctx, g_vert, g_lat, g_long):
        energy, curve_v, curve_h, pitch, bank, drag = ctx.saved_tensors
        push = 2.0 * energy / STANDARD_GRAVITY
        floor = push * curve_v + torch.cos(pitch)
        side = push * curve_h
        cb, sb = torch.cos(bank), torch.sin(bank)

        g_floor = cb * g_vert - sb * g_lat
        g_side = sb * g_vert + cb * g_lat
        g_push = g_floor * curve_v + g_side * curve_h - drag[:, None] * g_long

        grad_energy = g_push * 2.0 / STANDARD_GRAVITY
        grad_curve_v = (g_floor * push).sum(0)
        grad_curve_h = (g_side * push).sum(0)
        grad_pitch = (g_long * torch.cos(pitch) - g_vert * cb * torch.sin(pitch)).sum(0)
        grad_bank = (g_vert * (cb * side - sb * floor)
                     - g_lat * (sb * side + cb * floor)).sum(0)
        grad_drag = -(g_long * push).sum(1)
        return grad_energy, grad_curve_v, grad_curve_h, grad_pitch, grad_bank, grad_drag


# ---------------------------------------------------------------------------
# what the block system sees
# ---------------------------------------------------------------------------

class TriggerSpeeds(Function):
    """Speed of each train when its nose passes each proximity trigger.

    The energy is interpolated linearly between the two nodes around a trigger.
    Triggers may sit anywhere between the first and the last node, in any order.

    Args:
        energy: (trains, nodes) specific kinetic energy.
        arc: (nodes,) node positions; not differentiated.
        position: (triggers,) trigger positions along the arc.

    Returns:
        (trains, triggers) speeds in m/s.
    """

    @staticmethod
    def forward(ctx, energy, arc, position):
        cell = torch.searchsorted(arc, position.contiguous(), right=True) - 1
        cell = cell.clamp(0, arc.shape[0] - 2)
        width = arc[cell + 1] - arc[cell]
        share = (position - arc[cell]) / width
        left, right = energy[:, cell], energy[:, cell + 1]
        square = 2.0 * (left + share * (right - left))
        speed = torch.sqrt(square.clamp_min(TRIGGER_FLOOR))
        ctx.save_for_backward(cell, share, width, right - left, square, speed)
        ctx.energy_shape = energy.shape
        return speed

    @staticmethod
    def backward(ctx, grad_speed):
        cell, share, width, step, square, speed = ctx.saved_tensors
        alive = (square > TRIGGER_FLOOR).to(speed.dtype)
        pull = alive * grad_speed / speed
        grad_energy = grad_position = None
        if ctx.needs_input_grad[0]:
            grad_energy = pull.new_zeros(ctx.energy_shape)
            grad_energy[:, cell] += pull * (1.0 - share)
            grad_energy[:, cell + 1] += pull * share
        if ctx.needs_input_grad[2]:
            grad_position = (pull * step / width).sum(0)
        return grad_energy, None, grad_position


# ---------------------------------------------------------------------------
# modules
# ---------------------------------------------------------------------------

class RideModel(nn.Module):
    """Fleet on a fixed plan; heights, banks and fleet parameters are trainable."""

    def __init__(self, line: CentreLine, trains: int = 3,
                 trigger_at: Optional[torch.Tensor] = None):
        super().__init__()
        dtype = line.arc.dtype
        self.register_buffer("arc", line.arc)
        self.register_buffer("heading", line.heading)
        self.height = nn.Parameter(line.height.clone())
        self.bank = nn.Parameter(line.bank.clone())
        self.log_drag = nn.Parameter(torch.linspace(-8.0, -7.2, trains, dtype=dtype))
        self.log_rolling = nn.Parameter(torch.linspace(-4.4, -4.0, trains, dtype=dtype))
        self.launch = nn.Parameter(torch.full((trains,), 12.0, dtype=dtype))
        if trigger_at is None:
            # entry and exit of each block are doubled for redundancy, 0.4 m apart
            base = torch.tensor([60.0, 130.0, 215.0, 300.0, 390.0], dtype=dtype)
            trigger_at = torch.stack([base, base + 0.4], dim=1).reshape(-1)
        self.trigger_at = nn.Parameter(trigger_at)

    def line(self) -> CentreLine:
        return CentreLine(self.arc, self.height, self.heading, self.bank)

    def fleet(self) -> FleetParams:
        return FleetParams(self.launch, self.log_drag.exp(), self.log_rolling.exp())

    def forward(self) -> dict[str, torch.Tensor]:
        line, fleet = self.line(), self.fleet()
        spacing = node_spacing(line)
        energy = TrainEnergy.apply(fleet.launch, line.height, spacing,
                                   fleet.drag, fleet.rolling)
        curve_v, curve_h = curvatures(line)
        loads = SeatLoads.apply(energy, curve_v, curve_h, pitch_angle(line),
                                line.bank, fleet.drag)
        speeds = TriggerSpeeds.apply(energy, line.arc, self.trigger_at)
        return {"energy": energy, "vertical": loads[0], "lateral": loads[1],
                "longitudinal": loads[2], "triggers": speeds}


def comfort_cost(state: dict[str, torch.Tensor]) -> torch.Tensor:
    """Quadratic cost of leaving the acceleration envelope."""
    low, high = VERTICAL_LIMITS
    vertical = state["vertical"]
    cost = torch.relu(vertical - high) ** 2 + torch.relu(low - vertical) ** 2
    cost = cost + torch.relu(state["lateral"].abs() - LATERAL_LIMIT) ** 2
    cost = cost + torch.relu(state["longitudinal"].abs() - LONGITUDINAL_LIMIT) ** 2
    return cost.mean()


def trigger_misfit(speeds: torch.Tensor, recorded: torch.Tensor) -> torch.Tensor:
    return ((speeds - recorded) ** 2).mean()


def main() -> None:
    torch.manual_seed(5)
    ride = RideModel(camelback_layout())
    with torch.no_grad():
        recorded = ride()["triggers"] + 0.2 * torch.randn(3, 10, dtype=torch.float64)
    optimiser = torch.optim.Adam([ride.log_drag, ride.log_rolling, ride.bank], lr=2e-3)
    for step in range(20):
        optimiser.zero_grad()
        state = ride()
        cost = trigger_misfit(state["triggers"], recorded) + 0.3 * comfort_cost(state)
        cost.backward()
        optimiser.step()
        if step % 5 == 0:
            print(f"{step:3d}  cost {cost.item():.5f}")


if __name__ == "__main__":
    main()
