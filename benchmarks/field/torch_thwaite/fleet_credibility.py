"""Experience rating of vehicle fleets."""
import torch
from torch.autograd import Function


class CredibilityPremium(Function):
    """Buhlmann-Straub premium of each fleet with the credibility weighted collective mean.

    loss_ratio (G, Y), exposure (G, Y) not negative, k () positive, seen (G, Y) bool.
    A fleet without exposure gets the collective mean; at least one fleet must have some.
    """

    @staticmethod
    def forward(ctx, loss_ratio, exposure, k, seen):
        zero = torch.zeros_like(exposure)
        w = torch.where(seen, exposure, zero)
        x = torch.where(seen, loss_ratio, zero)
        reach = w.sum(1) + k
        own = (w * x).sum(1) / reach
        z = w.sum(1) / reach
        collective = own.sum() / z.sum()
        ctx.save_for_backward(x, w, k, seen, reach, own, z, collective)
        return own + (1 - z) * collective

    @staticmethod
    def backward(ctx, grad):
        x, w, k, seen, reach, own, z, collective = ctx.saved_tensors
        g_collective = (grad * (1 - z)).sum()
        g_own = grad + g_collective / z.sum()
        g_z = -collective * g_own
        rest = (g_own * own + g_z * z) / reach
        g_x = g_own[:, None] * w / reach[:, None]
        g_w = (g_own[:, None] * x + g_z[:, None]) / reach[:, None] - rest[:, None]
        zero = torch.zeros_like(w)
        return torch.where(seen, g_x, zero), torch.where(seen, g_w, zero), -rest.sum(), None


def fleet_premiums(losses, premium_base, k, first_year=None):
    seen = premium_base > 0
    if first_year is not None:
        years = torch.arange(losses.shape[1], device=losses.device)
        seen = seen & (years >= first_year[:, None])
    ratio = losses / torch.where(premium_base > 0, premium_base, torch.ones_like(premium_base))
    return CredibilityPremium.apply(ratio, premium_base, k, seen)
