import math

import torch
from torch import nn
from torch.autograd import Function

FEDDES_APPLE = (-10.0, -25.0, -500.0, -8000.0)


def _sine_area(mid, amp, level):
    """Mean excess of a sine day over `level`, with the three partials."""
    below, above = mid - amp >= level, mid + amp <= level
    inside = ~(below | above)
    s = torch.where(inside, (level - mid) / torch.where(inside, amp, torch.ones_like(amp)), torch.zeros_like(mid))
    theta = torch.asin(s)
    warm = torch.where(below, torch.ones_like(mid), 0.5 - theta / math.pi)
    warm = torch.where(above & ~below, torch.zeros_like(mid), warm)
    d_amp = torch.where(inside, torch.cos(theta) / math.pi, torch.zeros_like(mid))
    return (mid - level) * warm + amp * d_amp, warm, d_amp


class SineDegreeDays(Function):
    """Degree days of days with known minimum and maximum, single sine, horizontal cutoff.

    tmin, tmax: (..., days), tmin <= tmax.  lower, upper: thresholds that broadcast against them,
    lower < upper.  running=True sums along the days.
    """

    @staticmethod
    def forward(ctx, tmin, tmax, lower, upper, running=False):
        mid, amp = (tmin + tmax) / 2, (tmax - tmin) / 2
        mid, amp, lo, up = torch.broadcast_tensors(mid, amp, lower, upper)
        heat, warm, d_amp = _sine_area(mid, amp, lo)
        excess, warm_up, d_amp_up = _sine_area(mid, amp, up)
        ctx.save_for_backward(warm, d_amp, warm_up, d_amp_up)
        ctx.shapes = tuple(x.shape for x in (tmin, tmax, lower, upper))
        ctx.running = running
        heat = heat - excess
        return heat.cumsum(-1) if running else heat

    @staticmethod
    def backward(ctx, grad):
        warm, d_amp, warm_up, d_amp_up = ctx.saved_tensors
        if ctx.running:
            grad = grad.flip(-1).cumsum(-1).flip(-1)
        g_mid, g_amp = grad * (warm - warm_up), grad * (d_amp - d_amp_up)
        full = ((g_mid - g_amp) / 2, (g_mid + g_amp) / 2, -grad * warm, grad * warm_up)
        return tuple(f.sum_to_size(s) for f, s in zip(full, ctx.shapes)) + (None,)


def _feddes(head, points):
    h1, h2, h3, h4 = points
    wet, dry = (h1 - head) / (h1 - h2), (head - h4) / (h3 - h4)
    alpha = torch.minimum(wet, dry).clamp(0.0, 1.0)
    slope = torch.where((head < h1) & (head > h2), torch.full_like(head, -1 / (h1 - h2)), torch.zeros_like(head))
    slope = torch.where((head < h3) & (head > h4), torch.full_like(head, 1 / (h3 - h4)), slope)
    return alpha, slope


class RootWaterUptake(Function):
    """Uptake of each soil layer (Feddes).  head (B, L), roots (B, L) or (L,), thickness (L,), demand (B,)."""

    @staticmethod
    def forward(ctx, head, roots, thickness, demand, points=FEDDES_APPLE):
        alpha, slope = _feddes(head, points)
        norm = (roots * thickness).sum(-1, keepdim=True)
        density = roots / norm
        uptake = alpha * density * demand.unsqueeze(-1)
        ctx.save_for_backward(alpha, slope, roots, thickness, demand, norm, uptake)
        return uptake

    @staticmethod
    def backward(ctx, grad):
        alpha, slope, roots, thickness, demand, norm, uptake = ctx.saved_tensors
        density = roots / norm
        need = demand.unsqueeze(-1)
        g_head = grad * slope * density * need
        g_demand = (grad * alpha * density).sum(-1)
        pull = (grad * uptake).sum() / norm
        g_roots = grad * alpha * need / norm - pull * thickness
        g_thick = (-pull * roots).expand_as(grad)
        return g_head, g_roots.sum_to_size(roots.shape), g_thick.sum(0), g_demand, None


class FruitShare(Function):

    @staticmethod
    def forward(ctx, demand, supply, tree):
        total = torch.zeros_like(supply).index_add(0, tree, demand)
        short = total > supply
        ratio = torch.where(short, supply / torch.where(short, total, torch.ones_like(total)), torch.ones_like(total))
        ctx.save_for_backward(demand, tree, total, short, ratio)
        return demand * ratio[tree]

    @staticmethod
    def backward(ctx, grad):
        demand, tree, total, short, ratio = ctx.saved_tensors
        got = _per_tree(grad * demand, tree, total)
        g_supply = torch.where(short, got / total.clamp_min(1e-30), torch.zeros_like(total))
        g_demand = (grad - g_supply[tree]) * ratio[tree]
        g_demand = torch.where(short[tree], g_demand, grad)
        return g_demand, g_supply, None


def _per_tree(values, tree, like):
    fruits = torch.bincount(tree, minlength=like.shape[0]).clamp_min(1)
    return torch.zeros_like(like).index_add(0, tree, values) / fruits


class GrowthModel(nn.Module):
    def __init__(self, base=4.5, cutoff=28.0, vigour=0.02):
        super().__init__()
        self.base = nn.Parameter(torch.tensor(base))
        self.cutoff = nn.Parameter(torch.tensor(cutoff))
        self.vigour = nn.Parameter(torch.tensor(vigour))

    def forward(self, tmin, tmax, size, supply, tree):
        heat = SineDegreeDays.apply(tmin, tmax, self.base, self.cutoff, False)
        for day in range(heat.shape[-1]):
            size = size + FruitShare.apply(self.vigour * size * heat[day], supply[day], tree)
        return size


if __name__ == "__main__":
    head = -torch.logspace(0.5, 4, 6).expand(1, 6)
    print(RootWaterUptake.apply(head, torch.ones(6), torch.full((6,), 0.1), torch.tensor([5.0])))
