"""Rope statics of aerial cableways.

Used by the line designer to place towers: sag of a track rope under the
cabins, the tension the haul rope collects on its way over the towers, and
what each tower has to stand. Lengths in metre, forces in kilonewton, angles
in radian.

Conventions
-----------
* Spans are numbered from the valley station. ``rise`` is positive uphill.
* A support tower deflects the rope downwards (positive deflection angle), a
  hold-down tower deflects it upwards (negative deflection angle). Both rub.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function

GRAVITY = 9.81
DEFAULT_FRICTION = 0.03
MAX_SHEAVE_LOAD_KN = 6.0

#: number of sheaves of the catalogue's trains, by type number
SHEAVE_COUNT = torch.tensor([1, 2, 4, 6, 8, 12, 16])


class SpanGeometry(NamedTuple):
    length: Tensor  # (spans,) horizontal
    rise: Tensor    # (spans,)


class LineCase(NamedTuple):
    """One loading case of the line: which cabins hang where."""

    position: Tensor  # (spans, cabins), from the lower support
    payload: Tensor   # (spans, cabins) or (spans, 1)


def _match(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Sum ``x`` down to a shape that broadcast to it."""
    return x.sum_to_size(tuple(shape))


def chord_secant(length: Tensor, rise: Tensor) -> Tensor:
    return torch.sqrt(1.0 + (rise / length) ** 2)


class TrackRopeSag(Function):
    """Sag below the chord at the cabin, parabola approximation.

    ``x (L - x) / H * (w sec(beta) / 2 + P / L)`` where ``H`` is the
    horizontal tension and ``beta`` the inclination of the chord.

    position (spans, cabins); length, rise, tension (spans,); rope weight per
    metre a 0-d tensor; payload broadcastable to position.
    """

    @staticmethod
    def forward(position, length, rise, tension, weight, payload):
        L, h, H = (v.unsqueeze(-1) for v in (length, rise, tension))
        secant = chord_secant(L, h)
        return position * (L - position) / H * (0.5 * weight * secant + payload / L)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad):
        position, length, rise, tension, weight, payload, sag = ctx.saved_tensors
        L, h, H = (v.unsqueeze(-1) for v in (length, rise, tension))
        secant = chord_secant(L, h)
        load = 0.5 * weight * secant + payload / L
        arm = position * (L - position) / H

        d_position = grad * (L - 2.0 * position) / H * load
        d_load = grad * arm
        d_secant = d_load * 0.5 * weight
        d_length = (
            grad * position / H * load
            - d_secant * h**2 / (L**3 * secant)
            - d_load * payload / L**2
        ).sum(-1)
        d_rise = (d_secant * h / (L**2 * secant)).sum(-1)
        d_tension = -(grad * sag / H).sum(-1)
        d_weight = (d_load * 0.5 * secant).sum()
        d_payload = _match(d_load / L, payload.shape)
        return d_position, d_length, d_rise, d_tension, d_weight, d_payload


class HaulRopeTension(Function):
    """Tension of the moving rope before the first and after each tower.

    Between towers the rope gains its own weight times the rise; at a tower
    it gains friction times the radial force ``2 T sin(|deflection| / 2)``::

        T[k+1] = T[k] * (1 + mu * 2 sin(|deflection[k]| / 2)) + w * rise[k]

    Args:
        start: (lines,) tension the counterweight gives.
        rise: (lines, towers)
        deflection: (lines, towers), signed as in the module's conventions.
        weight: (lines,) rope weight per metre.
        friction: 0-d tensor.

    Returns:
        (lines, towers + 1)
    """

    @staticmethod
    def forward(ctx, start, rise, deflection, weight, friction):
        bend = 2.0 * torch.sin(0.5 * deflection.abs())
        tension: List[Tensor] = [start]
        for k in range(rise.shape[1]):
            tension.append(tension[-1] * (1.0 + friction * bend[:, k]) + weight * rise[:, k])
        stacked = torch.stack(tension, dim=1)
        ctx.save_for_backward(stacked, rise, deflection, weight, friction, bend)
        return stacked

    @staticmethod
    def backward(ctx, grad):
        tension, rise, deflection, weight, friction, bend = ctx.saved_tensors
        towers = rise.shape[1]
        carry = grad[:, towers]
        d_rise = torch.zeros_like(rise)
        d_bend = torch.zeros_like(bend)
        d_weight = torch.zeros_like(weight)
        d_friction = torch.zeros_like(friction)
        for k in reversed(range(towers)):
            d_rise[:, k] = carry * weight
            d_weight = d_weight + carry * rise[:, k]
            d_bend[:, k] = carry * tension[:, k] * friction
            d_friction = d_friction + (carry * tension[:, k] * bend[:, k]).sum()
            carry = grad[:, k] + carry * (1.0 + friction * bend[:, k])
        d_deflection = d_bend * torch.cos(0.5 * deflection)
        return carry, d_rise, d_deflection, d_weight, d_friction


class TowerReaction(Function):
    """Resultant, lean and sheave load of a tower head.

    The rope comes in with ``tension_in`` at ``dip_in`` below the horizontal
    and leaves with ``tension_out`` at ``dip_out``. Returns the resultant
    force, the angle by which it leans downline from the vertical, and the
    load of each of the ``sheaves`` of the train (an integer tensor).
    """

    @staticmethod
    def forward(ctx, tension_in, tension_out, dip_in, dip_out, sheaves):
        down = tension_in * dip_in.sin() + tension_out * dip_out.sin()
        along = tension_out * dip_out.cos() - tension_in * dip_in.cos()
        resultant = torch.hypot(down, along)
        lean = torch.atan2(along, down)
        per_sheave = resultant / sheaves
        ctx.save_for_backward(
            tension_in, tension_out, dip_in, dip_out, down, along, resultant
        )
        return resultant, lean, per_sheave

    @staticmethod
    def backward(ctx, g_resultant, g_lean, g_sheave):
        t_in, t_out, dip_in, dip_out, down, along, resultant = ctx.saved_tensors
        g_force = (g_resultant + g_sheave) / resultant
        g_turn = g_lean / resultant**2
        g_down = g_force * down - g_turn * along
        g_along = g_force * along + g_turn * down
        sin_i, cos_i = dip_in.sin(), dip_in.cos()
        sin_o, cos_o = dip_out.sin(), dip_out.cos()
        return (
            g_down * sin_i - g_along * cos_i,
            g_down * sin_o + g_along * cos_o,
            t_in * (g_down * cos_i + g_along * sin_i),
            t_out * (g_down * cos_o - g_along * sin_o),
            None,
        )


def chord_angles(geometry: SpanGeometry) -> Tensor:
    return torch.atan2(geometry.rise, geometry.length)


def tower_deflections(geometry: SpanGeometry) -> Tensor:
    """Deflection at the towers between the spans; positive where the chord
    gets flatter uphill, negative in a hollow (hold-down tower)."""
    slope = chord_angles(geometry)
    return slope[:-1] - slope[1:]


class CablewayLine(nn.Module):
    """A line whose tower heights are free.

    The heights of the towers are the parameters; the terrain and the
    horizontal positions are given.
    """

    def __init__(
        self,
        stations: Sequence[float],
        terrain: Sequence[float],
        rope_weight: float = 0.12,
        counterweight: float = 300.0,
    ):
        super().__init__()
        self.register_buffer("stations", torch.tensor(stations))
        self.register_buffer("terrain", torch.tensor(terrain))
        self.height = nn.Parameter(torch.full((len(stations),), 12.0))
        self.weight = nn.Parameter(torch.tensor(rope_weight))
        self.tension = nn.Parameter(torch.tensor(counterweight))
        self.friction = nn.Parameter(torch.tensor(DEFAULT_FRICTION))

    def geometry(self) -> SpanGeometry:
        head = self.terrain + self.height
        return SpanGeometry(self.stations.diff(), head.diff())

    def sag(self, case: LineCase) -> Tensor:
        g = self.geometry()
        tension = self.tension.expand(g.length.shape[0])
        return TrackRopeSag.apply(
            case.position, g.length, g.rise, tension, self.weight, case.payload
        )

    def haul_tension(self) -> Tensor:
        g = self.geometry()
        bends = tower_deflections(g)
        return HaulRopeTension.apply(
            self.tension.reshape(1),
            g.rise[:-1].unsqueeze(0),
            bends.unsqueeze(0),
            self.weight.reshape(1),
            self.friction,
        ).squeeze(0)

    def towers(self, train_types: Tensor) -> Dict[str, Tensor]:
        """Head forces of the inner towers, ``train_types`` index into
        :data:`SHEAVE_COUNT`."""
        slope = chord_angles(self.geometry())
        tension = self.haul_tension()
        resultant, lean, sheave = TowerReaction.apply(
            tension[:-1], tension[1:], slope[:-1], -slope[1:], SHEAVE_COUNT[train_types]
        )
        return {"resultant": resultant, "lean": lean, "sheave": sheave}

    def forward(self, case: LineCase, train_types: Tensor) -> Tensor:
        """Design penalty: clearance, overloaded sheaves and steel."""
        clearance = self.height[:-1].unsqueeze(-1) - self.sag(case)
        low = (8.0 - clearance).clamp_min(0.0).square().sum()
        over = (self.towers(train_types)["sheave"] - MAX_SHEAVE_LOAD_KN).clamp_min(0.0)
        return low + over.square().sum() + 0.01 * self.height.square().sum()


if __name__ == "__main__":
    line = CablewayLine(
        stations=[0.0, 180.0, 420.0, 700.0, 900.0],
        terrain=[900.0, 960.0, 1010.0, 1120.0, 1230.0],
    )
    case = LineCase(
        position=torch.tensor([[60.0, 120.0], [80.0, 160.0], [90.0, 200.0], [70.0, 140.0]]),
        payload=torch.full((4, 1), 8.0),
    )
    penalty = line(case, torch.tensor([3, 4, 4]))
    penalty.backward()
    print(penalty.item(), line.height.grad)
