"""Glued laminated members: transformed section, column stability, duration of load."""

from dataclasses import dataclass

import torch
from torch.autograd import Function


@dataclass(frozen=True)
class LoadModel:
    a: float = 11.0
    b: float = 12.0
    threshold: float = 0.0


class TransformedSection(Function):
    """Neutral axis and bending stiffness of a member of K glued boards of common width.

    Args:
        modulus: (..., K) elastic modulus of the boards, bottom board first.
        thickness: (..., K) board thicknesses, the same shape.
        width: float.

    Returns:
        (axis, stiffness), each (...): height of the neutral axis above the soffit, and EI about it.
    """

    @staticmethod
    def forward(ctx, modulus, thickness, width=1.0):
        mid = thickness.cumsum(-1) - thickness / 2
        area = modulus * thickness
        axial = area.sum(-1, keepdim=True)
        axis = (area * mid).sum(-1, keepdim=True) / axial
        arm = mid - axis
        stiffness = width * (area * (thickness.square() / 12 + arm.square())).sum(-1)
        ctx.width = width
        ctx.save_for_backward(modulus, thickness, arm, axial)
        return axis.squeeze(-1), stiffness

    @staticmethod
    def backward(ctx, g_axis, g_stiffness):
        modulus, thickness, arm, axial = ctx.saved_tensors
        ga = g_axis.unsqueeze(-1)
        gs = ctx.width * g_stiffness.unsqueeze(-1)
        area = modulus * thickness
        # EI is stationary in the neutral axis, so its motion adds nothing to the stiffness
        g_area = ga * arm / axial + gs * (thickness.square() / 12 + arm.square())
        g_mid = ga * area / axial + gs * 2 * area * arm
        g_thick = g_area * modulus + gs * area * thickness / 6
        # a thicker board lifts its own middle by half, and the boards above it entirely
        g_thick = g_thick + g_mid.cumsum(-1) - g_mid / 2
        return g_area * thickness, g_thick, None


class ColumnStabilityFactor(Function):
    """Ylinen's factor of a column from ratio = F_E / F_c* > 0; c in (0, 1) (0.8 sawn, 0.9 glulam)."""

    @staticmethod
    def forward(ctx, ratio, c=0.9):
        h = (1 + ratio) / (2 * c)
        root = torch.sqrt((1 - ratio).square() + 4 * ratio * (1 - c)) / (2 * c)
        factor = (ratio / c) / (h + root)
        ctx.c = c
        ctx.save_for_backward(factor, root)
        return factor

    @staticmethod
    def backward(ctx, g):
        factor, root = ctx.saved_tensors
        # c k^2 - (1 + r) k + r = 0
        return g * (1 - factor) / (2 * ctx.c * root), None


class GerhardsDamage(Function):
    @staticmethod
    def forward(ctx, stress, strength, dt, model=LoadModel()):
        level = stress / strength.unsqueeze(-1)
        rate = torch.exp(model.b * level - model.a)
        acting = level > model.threshold
        ctx.model = model
        ctx.save_for_backward(level, strength, rate, dt, acting)
        return (torch.where(acting, rate, torch.zeros_like(rate)) * dt).sum(-1)

    @staticmethod
    def backward(ctx, g):
        level, strength, rate, dt, acting = ctx.saved_tensors
        g = g.unsqueeze(-1)
        g_level = torch.where(acting, g * dt * rate * ctx.model.b, torch.zeros_like(rate))
        g_stress = g_level / strength.unsqueeze(-1)
        g_strength = -(g_level * level).sum(-1) / strength
        g_dt = g * rate
        if dt.dim() == 1:
            g_dt = g_dt.reshape(-1, dt.shape[0]).sum(0)
        return g_stress, g_strength, g_dt, None


def allowable(fc, ratio, glued=True):
    return fc * ColumnStabilityFactor.apply(ratio, 0.9 if glued else 0.8)
