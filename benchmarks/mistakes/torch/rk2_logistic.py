"""Explicit midpoint step of the logistic equation y' = r y (1 - y)."""
import torch


class MidpointLogistic(torch.autograd.Function):
    """y: (n,), r: scalar tensor, dt: float -> (n,)"""

    @staticmethod
    def forward(ctx, y, r, dt):
        ym = y + 0.5 * dt * r * y * (1 - y)
        ctx.save_for_backward(y, r, ym)
        ctx.dt = dt
        return y + dt * r * ym * (1 - ym)

    @staticmethod
    def backward(ctx, g):
        y, r, ym = ctx.saved_tensors
        dt = ctx.dt
        g_ym = g * dt * r * (1 - 2 * ym)
        g_y = g + g_ym * (1 + dt * r * (1 - 2 * y))
        g_r = (g * dt * ym * (1 - ym) + g_ym * 0.5 * dt * y * (1 - y)).sum()
        return g_y, g_r, None


def rk2_logistic(y, r, dt):
    return MidpointLogistic.apply(y, r, dt)
