"""Network terms of a mine-ventilation solver (Hardy Cross style, gradient-based calibration)."""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

STANDARD_DENSITY = 1.2  # kg/m3, the density at which friction factors are tabulated


class Airways(NamedTuple):
    """Geometry of the branches; every tensor is of shape ``(branches,)``."""

    length: torch.Tensor
    perimeter: torch.Tensor
    area: torch.Tensor
    lining: torch.Tensor  # int64 index into the friction table


class AirwayPressureDrop(Function):
    r"""Atkinson's square law with lining classes.

    .. math:: p_e = k_{c(e)} \frac{L_e P_e}{A_e^3} \frac{\rho}{1.2} Q_e |Q_e|

    Args:
        flow: ``(..., branches)`` volume flow, m3/s; the sign is the direction.
        friction: ``(classes,)`` Atkinson friction factors, kg/m3. Several branches may share a class.
        length, perimeter, area: ``(branches,)``; area > 0.
        density: anything that broadcasts against ``flow`` without enlarging it, e.g. ``()``,
            ``(times, 1)`` or ``(branches,)``.
        lining: ``(branches,)`` int64 class of each branch.

    Returns:
        ``(..., branches)`` pressure drop, Pa.
    """

    @staticmethod
    def forward(ctx, flow, friction, length, perimeter, area, density, lining):
        geometry = length * perimeter / area**3
        resistance = friction[lining] * geometry
        ctx.save_for_backward(flow, friction, length, perimeter, area, density, lining)
        return resistance * (density / STANDARD_DENSITY) * flow * flow.abs()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        flow, friction, length, perimeter, area, density, lining = ctx.saved_tensors
        rho = density / STANDARD_DENSITY
        k = friction[lining]
        geometry = length * perimeter / area**3
        square = flow * flow.abs()

        grad_flow = grad_out * k * geometry * rho * 2.0 * flow.abs()
        # everything that stands per branch sees the sum over the leading (time, scenario) dims
        per_branch = (grad_out * rho * square).sum_to_size(length.shape)
        grad_friction = torch.zeros_like(friction).index_add(0, lining, per_branch * geometry)
        per_geometry = per_branch * k
        grad_length = per_geometry * perimeter / area**3
        grad_perimeter = per_geometry * length / area**3
        grad_area = -3.0 * per_geometry * geometry / area
        grad_density = (grad_out * k * geometry * square / STANDARD_DENSITY).sum_to_size(density.shape)
        return grad_flow, grad_friction, grad_length, grad_perimeter, grad_area, grad_density, None


class MeshImbalance(Function):
    """Signed pressure drops summed around each mesh, less the fan head in it; entries are (mesh, branch, sign)."""

    @staticmethod
    def forward(ctx, drops, fan_head, branch, mesh, sign):
        terms = drops[..., branch] * sign
        total = drops.new_zeros(*drops.shape[:-1], fan_head.shape[-1])
        total = total.index_add(-1, mesh, terms)
        ctx.save_for_backward(branch, mesh, sign)
        ctx.drops_shape = drops.shape
        ctx.head_shape = fan_head.shape
        return total - fan_head

    @staticmethod
    def backward(ctx, grad_out):
        branch, mesh, sign = ctx.saved_tensors
        grad_drops = grad_out.new_zeros(ctx.drops_shape)
        grad_drops[..., branch] = grad_out[..., mesh] * sign
        return grad_drops, -grad_out.sum_to_size(ctx.head_shape), None, None, None


class FanDuty(Function):

    @staticmethod
    def forward(flow, curve, speed, efficiency):
        a, b, c = curve.unbind(-1)
        pressure = a * speed**2 + b * speed * flow + c * flow**2
        power = pressure * flow / efficiency
        return pressure, power

    @staticmethod
    def setup_context(ctx, inputs, output):
        flow, curve, speed, efficiency = inputs
        pressure, _ = output
        ctx.save_for_backward(flow, curve, speed, efficiency, pressure)

    @staticmethod
    def backward(ctx, grad_pressure, grad_power):
        flow, curve, speed, efficiency, pressure = ctx.saved_tensors
        a, b, c = curve.unbind(-1)
        slope = b * speed + 2.0 * c * flow
        grad_flow = grad_pressure * slope
        grad_flow = grad_flow + grad_power * (pressure + flow * slope) / efficiency
        grad_curve = torch.stack(
            [
                (grad_pressure * speed**2).sum_to_size(a.shape),
                (grad_pressure * speed * flow).sum_to_size(b.shape),
                (grad_pressure * flow**2).sum_to_size(c.shape),
            ],
            dim=-1,
        )
        grad_speed = grad_pressure * (2.0 * a * speed + b * flow)
        grad_eff = -grad_power * pressure * flow / efficiency**2
        return (
            grad_flow,
            grad_curve,
            grad_speed.sum_to_size(speed.shape),
            grad_eff.sum_to_size(efficiency.shape),
        )


class VentilationNetwork(torch.nn.Module):
    def __init__(self, airways: Airways, friction, entries, n_meshes: int):
        super().__init__()
        self.airways = airways
        self.friction = torch.nn.Parameter(torch.as_tensor(friction))
        branch, mesh, sign = entries
        self.register_buffer("branch", branch)
        self.register_buffer("mesh", mesh)
        self.register_buffer("sign", sign)
        self.n_meshes = n_meshes

    def forward(self, flow, density, fan_head=None):
        way = self.airways
        drops = AirwayPressureDrop.apply(
            flow, self.friction, way.length, way.perimeter, way.area, density, way.lining
        )
        if fan_head is None:
            fan_head = drops.new_zeros(self.n_meshes)
        return MeshImbalance.apply(drops, fan_head, self.branch, self.mesh, self.sign)
