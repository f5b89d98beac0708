"""Impact-pattern reconstruction for bloodstain analysis.

The package this file belongs to fits the source of an impact pattern to the
elliptical stains measured on a target surface.  Three pieces of physics enter:

* the impact angle of a drop from the axes of its stain,
* the area of convergence, where the long axes of the stains meet when they are
  extended backwards on the target plane,
* the size of the stain that a drop of a given size and speed leaves.

Lengths are millimetres in the measuring protocol and metres in the fluid
mechanics; :func:`mm_to_m` is applied at the boundary.  Angles are radians
unless the protocol asks for degrees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

BLOOD_DENSITY = 1060.0            # kg / m^3
BLOOD_VISCOSITY = 4.4e-3          # Pa s, at high shear
BLOOD_TENSION = 0.056             # N / m
SPREAD_COEFFICIENT = 0.61
SPREAD_EXPONENT = 0.166
#: width/length readings above this count as a round stain
ROUND_STAIN_RATIO = 0.995


class StainTable(NamedTuple):
    """Measurements of one scene, padded to the same number of stains."""

    centre: Tensor      # (scenes, stains, 2)
    heading: Tensor     # (scenes, stains), direction of the long axis
    width: Tensor       # (scenes, stains)
    length: Tensor      # (scenes, stains)
    weight: Tensor      # (scenes, stains), zero for padding


@dataclass(frozen=True)
class Protocol:
    degrees: bool = False
    prior_weight: float = 0.0
    spread_exponent: float = SPREAD_EXPONENT


def mm_to_m(x: Tensor) -> Tensor:
    return x * 1e-3


def _unit_normals(heading: Tensor) -> Tensor:
    return torch.stack((-torch.sin(heading), torch.cos(heading)), dim=-1)


def _normal_equations(centre: Tensor, normal: Tensor, weight: Tensor,
                      anchor: Tensor, prior_weight: float) -> Tuple[Tensor, Tensor]:
    weighted = weight.unsqueeze(-1) * normal
    matrix = torch.einsum("...si,...sj->...ij", weighted, normal)
    eye = torch.eye(2, dtype=matrix.dtype, device=matrix.device)
    matrix = matrix + prior_weight * eye
    offset = (normal * centre).sum(-1, keepdim=True)
    rhs = (weighted * offset).sum(-2) + prior_weight * anchor
    return matrix, rhs


class EllipseImpactAngle(Function):
    """Impact angle ``asin(width / length)`` of elliptical stains.

    Ratios are limited to ``ROUND_STAIN_RATIO``; a stain at or above the limit
    is treated as perpendicular for good and passes nothing back.

    Args:
        width: minor axis, any shape.
        length: major axis, same shape as ``width``.
        degrees: report in degrees rather than radians.
    """

    @staticmethod
    def forward(ctx, width: Tensor, length: Tensor, degrees: bool = False) -> Tensor:
        ratio = width / length
        limited = ratio.clamp(max=ROUND_STAIN_RATIO)
        angle = torch.asin(limited)
        ctx.save_for_backward(width, length)
        ctx.unit = 180.0 / math.pi if degrees else 1.0
        return angle * ctx.unit

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_angle):
        width, length = ctx.saved_tensors
        ratio = width / length
        free = ratio < ROUND_STAIN_RATIO
        cosine = torch.sqrt((1.0 - ratio * ratio).clamp(min=1.0 - ROUND_STAIN_RATIO ** 2))
        slope = torch.where(free, ctx.unit / cosine, torch.zeros_like(ratio))
        grad_ratio = grad_angle * slope
        grad_width = grad_ratio / length
        grad_length = -grad_ratio * ratio / length
        return grad_width, grad_length, None


class ConvergencePoint(Function):
    """Weighted least-squares meeting point of the stains' long axes.

    Parameters
    ----------
    centre : (scenes, stains, 2)
        Stain centres on the target plane.
    heading : (scenes, stains)
        Direction of the long axis, radians.
    weight : (scenes, stains)
        Non-negative confidence of each stain.
    anchor : (scenes, 2)
        Where the investigator expects the source to project.
    prior_weight : float
        Pull towards ``anchor``.  Zero fits the stains alone; sparse patterns
        use values between 0.05 and 2.

    Returns
    -------
    point : (scenes, 2)
    miss : (scenes,)
        Weighted mean of the squared distances between ``point`` and the axes.
    """

    @staticmethod
    def forward(centre, heading, weight, anchor, prior_weight):
        normal = _unit_normals(heading)
        matrix, rhs = _normal_equations(centre, normal, weight, anchor, prior_weight)
        point = torch.linalg.solve(matrix, rhs.unsqueeze(-1)).squeeze(-1)
        distance = (normal * (centre - point.unsqueeze(-2))).sum(-1)
        miss = (weight * distance.square()).sum(-1) / weight.sum(-1)
        return point, miss

    @staticmethod
    def setup_context(ctx, inputs, output):
        centre, heading, weight, anchor, prior_weight = inputs
        point, miss = output
        ctx.save_for_backward(centre, heading, weight, anchor, point, miss)
        ctx.prior_weight = prior_weight

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_point, grad_miss):
        centre, heading, weight, anchor, point, miss = ctx.saved_tensors
        normal = _unit_normals(heading)
        matrix, _ = _normal_equations(centre, normal, weight, anchor, ctx.prior_weight)
        lever = centre - point.unsqueeze(-2)
        distance = (normal * lever).sum(-1)

        # the fitted point
        adjoint = torch.linalg.solve(matrix, grad_point.unsqueeze(-1)).squeeze(-1)
        along = (normal * adjoint.unsqueeze(-2)).sum(-1)
        grad_weight = along * distance
        grad_centre = (weight * along).unsqueeze(-1) * normal
        grad_normal = weight.unsqueeze(-1) * (
            distance.unsqueeze(-1) * adjoint.unsqueeze(-2) + along.unsqueeze(-1) * lever
        )
        grad_anchor = ctx.prior_weight * adjoint

        # the mean squared miss
        total = weight.sum(-1, keepdim=True)
        share = grad_miss.unsqueeze(-1) / total
        grad_weight = grad_weight + share * (distance.square() - miss.unsqueeze(-1))
        pull = (2.0 * share * weight * distance).unsqueeze(-1)
        grad_centre = grad_centre + pull * normal
        grad_normal = grad_normal + pull * lever

        grad_heading = -(
            grad_normal[..., 0] * torch.cos(heading)
            + grad_normal[..., 1] * torch.sin(heading)
        )
        return grad_centre, grad_heading, grad_weight, grad_anchor, None


class StainDiameter(Function):
    """Stain width left by a drop, from the Re^2 Oh spreading law.

    ``diameter`` (m), ``speed`` (m/s), ``angle`` (rad, in (0, pi/2]),
    ``viscosity`` (Pa s) and ``tension`` (N/m) broadcast against one another.
    Only the normal part of the velocity spreads the drop.  A stain is never
    narrower than its drop.
    """

    @staticmethod
    def forward(diameter, speed, angle, viscosity, tension, exponent):
        spread = StainDiameter._spread(diameter, speed, angle, viscosity, tension, exponent)
        return diameter * spread.clamp(min=1.0)

    @staticmethod
    def _spread(diameter, speed, angle, viscosity, tension, exponent):
        normal_speed = speed * torch.sin(angle)
        group = (BLOOD_DENSITY * diameter) ** 1.5 * normal_speed.square()
        group = group / (viscosity * tension.sqrt())
        return SPREAD_COEFFICIENT * group ** exponent

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, exponent = inputs
        ctx.save_for_backward(*tensors, output)
        ctx.exponent = exponent

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_stain):
        diameter, speed, angle, viscosity, tension, stain = ctx.saved_tensors
        n = ctx.exponent
        spread = StainDiameter._spread(diameter, speed, angle, viscosity, tension, n)
        open_ = (spread > 1.0).to(stain.dtype)
        scaled = grad_stain * stain
        wetted = scaled * open_
        grads = (
            (scaled + 1.5 * n * wetted) / diameter,
            2.0 * n * wetted / speed,
            2.0 * n * wetted / torch.tan(angle),
            -n * wetted / viscosity,
            -0.5 * n * wetted / tension,
        )
        shapes = (diameter, speed, angle, viscosity, tension)
        return tuple(g.sum_to_size(t.shape) for g, t in zip(grads, shapes)) + (None,)


class PatternModel(nn.Module):
    """Source of an impact pattern: plan position and height above the target."""

    def __init__(self, scenes: int, protocol: Optional[Protocol] = None):
        super().__init__()
        self.protocol = protocol or Protocol()
        self.anchor = nn.Parameter(torch.zeros(scenes, 2))
        self.log_viscosity = nn.Parameter(torch.full((scenes, 1), math.log(BLOOD_VISCOSITY)))
        self.register_buffer("tension", torch.full((1, 1), BLOOD_TENSION))

    def converge(self, table: StainTable) -> Tuple[Tensor, Tensor]:
        return ConvergencePoint.apply(
            table.centre, table.heading, table.weight, self.anchor,
            self.protocol.prior_weight,
        )

    def origin_height(self, table: StainTable) -> Tensor:
        """Median-free height estimate, weighted over the stains of a scene."""
        point, _ = self.converge(table)
        angle = EllipseImpactAngle.apply(table.width, table.length, False)
        reach = (table.centre - point.unsqueeze(-2)).norm(dim=-1)
        height = reach * torch.tan(angle)
        return (table.weight * height).sum(-1) / table.weight.sum(-1)

    def predicted_width(self, drop_mm: Tensor, speed: Tensor, table: StainTable) -> Tensor:
        angle = EllipseImpactAngle.apply(table.width, table.length, False)
        stain = StainDiameter.apply(
            mm_to_m(drop_mm), speed, angle, self.log_viscosity.exp(), self.tension,
            self.protocol.spread_exponent,
        )
        return stain * 1e3

    def forward(self, table: StainTable, drop_mm: Tensor, speed: Tensor) -> Tensor:
        _, miss = self.converge(table)
        width = self.predicted_width(drop_mm, speed, table)
        relative = (width - table.width) / table.width
        fit = (table.weight * relative.square()).sum(-1) / table.weight.sum(-1)
        return fit + 1e-4 * miss


def simulated_table(scenes: int, stains: int, seed: int = 0) -> StainTable:
    gen = torch.Generator().manual_seed(seed)
    source = torch.randn(scenes, 1, 2, generator=gen) * 50.0
    bearing = torch.rand(scenes, stains, generator=gen) * 2.0 * math.pi
    radius = 100.0 + 200.0 * torch.rand(scenes, stains, generator=gen)
    ray = torch.stack((torch.cos(bearing), torch.sin(bearing)), -1)
    centre = source + radius.unsqueeze(-1) * ray
    heading = bearing + 0.03 * torch.randn(scenes, stains, generator=gen)
    length = 4.0 + 4.0 * torch.rand(scenes, stains, generator=gen)
    width = length * (0.3 + 0.5 * torch.rand(scenes, stains, generator=gen))
    weight = 0.5 + torch.rand(scenes, stains, generator=gen)
    return StainTable(centre, heading, width, length, weight)


if __name__ == "__main__":
    data = simulated_table(3, 12)
    model = PatternModel(3, Protocol(prior_weight=0.1))
    drops = torch.full((3, 12), 2.5)
    speeds = torch.full((3, 12), 6.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(5):
        optimiser.zero_grad()
        loss = model(data, drops, speeds).mean()
        loss.backward()
        optimiser.step()
        print(step, loss.item(), model.origin_height(data).tolist())
