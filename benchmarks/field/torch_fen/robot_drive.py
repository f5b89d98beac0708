"""Drive-train and path-tracking blocks for the differentiable mobile base."""
from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class PlayOperator(torch.autograd.Function):
    """Mechanical backlash (the *play* operator) along the last axis.

    The output only moves while one of the two flanks of the gap pushes it::

        y[t] = max(x[t] - w, min(x[t] + w, y[t-1]))

    Args:
        x: motor side position, ``(..., T)``.
        half_gap: half of the gap, positive, broadcastable to ``x.shape[:-1]``
            (a 0-d tensor for one gap shared by all joints).
        start: load side position before the first sample, same rules of
            broadcasting as ``half_gap``.

    Returns:
        Load side position, shape of ``x``.
    """

    @staticmethod
    def forward(ctx, x: Tensor, half_gap: Tensor, start: Tensor) -> Tensor:
        lead = x.shape[:-1]
        gap = half_gap.expand(lead)
        y = start.expand(lead)
        out = torch.empty_like(x)
        flank = torch.zeros(x.shape, dtype=torch.int8, device=x.device)
        for t in range(x.shape[-1]):
            low, high = x[..., t] - gap, x[..., t] + gap
            flank[..., t] = (y < low).to(torch.int8) - (y > high).to(torch.int8)
            y = torch.maximum(low, torch.minimum(high, y))
            out[..., t] = y
        ctx.save_for_backward(flank)
        ctx.shapes = (half_gap.shape, start.shape)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        (flank,) = ctx.saved_tensors
        gap_shape, start_shape = ctx.shapes
        gx = torch.zeros_like(grad)
        carry = torch.zeros_like(grad[..., 0]) if grad.shape[-1] else grad.sum(-1)
        ggap = torch.zeros_like(carry)
        for t in reversed(range(grad.shape[-1])):
            carry = carry + grad[..., t]
            side = flank[..., t]
            pushed = torch.where(side != 0, carry, torch.zeros_like(carry))
            gx[..., t] = pushed
            ggap = ggap - side.to(grad.dtype) * pushed
            carry = carry - pushed
        return gx, ggap.sum_to_size(gap_shape), carry.sum_to_size(start_shape)


class RegulatedPursuit(torch.autograd.Function):
    """Pure pursuit steering towards a look-ahead point.

    curvature = 2 y / max(x^2 + y^2, min_lookahead^2)
    yaw_rate  = speed * curvature

    The floor on the squared distance keeps the command bounded when the point
    is (almost) under the robot.

    Parameters
    ----------
    point : Tensor, (..., 2)
        Look-ahead point in the base frame, any place in the plane.
    speed : Tensor, (...)
        Forward speed, one per point.
    min_lookahead : float
        Metres, > 0.

    Returns
    -------
    curvature, yaw_rate : Tensor, (...)
    """

    @staticmethod
    def forward(ctx, point, speed, min_lookahead=0.3):
        x, y = point.unbind(-1)
        dist_sq = (x * x + y * y).clamp_min(min_lookahead ** 2)
        curvature = 2.0 * y / dist_sq
        ctx.save_for_backward(point, speed, dist_sq, curvature)
        return curvature, speed * curvature

    @staticmethod
    @once_differentiable
    def backward(ctx, g_curvature, g_yaw):
        point, speed, dist_sq, curvature = ctx.saved_tensors
        x, y = point.unbind(-1)
        g = g_curvature + g_yaw * speed
        g_dist = -g * curvature / dist_sq
        g_x = 2.0 * x * g_dist
        g_y = 2.0 * g / dist_sq + 2.0 * y * g_dist
        return torch.stack((g_x, g_y), dim=-1), g_yaw * curvature, None


def regulated_pursuit(point: Tensor, speed: Tensor, min_lookahead: float = 0.3) -> Tuple[Tensor, Tensor]:
    return RegulatedPursuit.apply(point, speed, float(min_lookahead))


class BacklashJoint(nn.Module):
    """Joint with a trainable gap, one for every joint (axis -2)."""

    def __init__(self, joints: int, init_gap: float = 0.02):
        super().__init__()
        self.raw = nn.Parameter(torch.full((joints,), math.log(math.expm1(init_gap))))

    def forward(self, angle: Tensor, start: Optional[Tensor] = None) -> Tensor:
        if start is None:
            start = angle[..., 0].detach()
        return PlayOperator.apply(angle, nn.functional.softplus(self.raw), start)


def tracking_loss(points: Tensor, speed: Tensor, measured_yaw: Tensor, smooth: float = 1e-2) -> Tensor:
    """Squared yaw rate error plus a small price on curvature."""
    curvature, yaw = regulated_pursuit(points, speed)
    return (yaw - measured_yaw).square().mean() + smooth * curvature.square().mean()
