"""Wave run-up, overtopping and longshore transport for beach and seawall design."""
import math
from dataclasses import dataclass

import torch
from torch.autograd import Function

GRAVITY = 9.81
DISSIPATIVE_IRIBARREN = 0.3


@dataclass(frozen=True)
class Seawall:
    freeboard: torch.Tensor
    roughness: torch.Tensor


class WaveRunup(Function):
    """Two-percent run-up exceedance level on a natural beach (Stockdon et al., 2006).

    Args:
        height: offshore significant wave height, metres, > 0.
        length: deep-water wave length, metres, > 0.
        slope: foreshore slope tan(beta), > 0.

    The three broadcast against one another, e.g. ``(T, 1)``, ``(T, 1)`` and ``(S,)`` for T sea states on S profiles.
    Beaches with an Iribarren number below 0.3 are dissipative and follow ``0.043 * sqrt(H * L)`` whatever their slope;
    all others follow the setup-plus-swash formula.
    """

    @staticmethod
    def forward(height, length, slope):
        scale = torch.sqrt(height * length)
        swash = torch.sqrt(0.563 * slope**2 + 0.004)
        reflective = 1.1 * scale * (0.35 * slope + 0.5 * swash)
        iribarren = slope * torch.sqrt(length / height)
        return torch.where(iribarren < DISSIPATIVE_IRIBARREN, 0.043 * scale, reflective)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_out):
        height, length, slope = ctx.saved_tensors
        scale = torch.sqrt(height * length)
        swash = torch.sqrt(0.563 * slope**2 + 0.004)
        dissipative = slope * torch.sqrt(length / height) < DISSIPATIVE_IRIBARREN
        factor = torch.where(dissipative, torch.full_like(slope, 0.043), 1.1 * (0.35 * slope + 0.5 * swash))
        d_scale = grad_out * factor
        d_slope = grad_out * 1.1 * scale * (0.35 + 0.5 * 0.563 * slope / swash)
        d_slope = d_slope.masked_fill(dissipative, 0.0)
        return (
            (d_scale * scale / (2 * height)).sum_to_size(height.shape),
            (d_scale * scale / (2 * length)).sum_to_size(length.shape),
            d_slope.sum_to_size(slope.shape),
        )


class OvertoppingRate(Function):
    """Mean overtopping discharge (m3/s per m) of a sloping wall; a negative freeboard adds weir overflow."""

    @staticmethod
    def forward(ctx, height, freeboard, roughness):
        head = 0.09 * torch.sqrt(GRAVITY * height**3)
        dry = freeboard.clamp(min=0.0)
        ratio = 1.5 * dry / (height * roughness)
        splash = head * torch.exp(-ratio**1.3)
        weir = 0.54 * torch.sqrt(GRAVITY * (-freeboard).clamp(min=0.0) ** 3)
        ctx.save_for_backward(height, freeboard, roughness, ratio, splash)
        return splash + weir

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_out):
        height, freeboard, roughness, ratio, splash = ctx.saved_tensors
        hang = 1.3 * ratio**1.3
        d_height = grad_out * splash * (1.5 + hang) / height
        d_rough = grad_out * splash * hang / roughness
        slope_dry = -1.3 * ratio**0.3 * 1.5 / (height * roughness) * splash
        depth = (-freeboard).clamp(min=0.0)
        slope_wet = 0.81 * torch.sqrt(GRAVITY * depth)
        d_free = grad_out * torch.where(freeboard > 0, slope_dry, slope_wet)
        return (
            d_height.sum_to_size(height.shape),
            d_free.sum_to_size(freeboard.shape),
            d_rough.sum_to_size(roughness.shape),
        )


class LongshoreTransport(Function):
    @staticmethod
    def forward(ctx, height, direction, normals, cell, coefficient):
        off = direction - normals[cell]
        incoming = off.abs() < math.pi / 2
        power = coefficient * height**2.5
        ctx.coefficient = coefficient
        ctx.save_for_backward(height, off, incoming, cell, normals)
        return torch.where(incoming, power * torch.sin(2 * off), torch.zeros_like(power))

    @staticmethod
    def backward(ctx, grad_out):
        height, off, incoming, cell, normals = ctx.saved_tensors
        g = grad_out * incoming
        k = ctx.coefficient
        d_height = g * 2.5 * k * height**1.5 * torch.sin(2 * off)
        d_off = g * 2 * k * height**2.5 * torch.cos(2 * off)
        d_normals = torch.zeros_like(normals)
        d_normals[cell] = -d_off
        return d_height, d_off, d_normals, None, None


def overtopping(wall: Seawall, height):
    return OvertoppingRate.apply(height, wall.freeboard, wall.roughness)


def longshore_transport(height, direction, normals, cell, coefficient=0.39):
    """Signed drift of each breaker event (E,) at the cell it strikes; angles in radians, normals (C,), cell (E,) int64."""
    return LongshoreTransport.apply(height, direction, normals, cell, coefficient)
