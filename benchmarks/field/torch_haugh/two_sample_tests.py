import math

import torch
from torch import nn
from torch.special import log_ndtr


def _pair_terms(a, b):
    diff = a.unsqueeze(-2) - b.unsqueeze(-3)
    return diff, diff.norm(dim=-1)


def _unit(diff, dist):
    safe = torch.where(dist > 0, dist, torch.ones_like(dist))
    return diff / safe.unsqueeze(-1)


class EnergyDistanceStat(torch.autograd.Function):
    """Energy distance 2 E|X-Y| - E|X-X'| - E|Y-Y'| between two samples.

    x: (..., n, d), y: (..., m, d), the same leading dims. ``unbiased`` leaves the diagonal out of the within-sample
    means (U-statistic, n, m >= 2). Coinciding points contribute the zero subgradient.
    """

    @staticmethod
    def forward(ctx, x, y, unbiased=False):
        n, m = x.shape[-2], y.shape[-2]
        nn_, mm = (n * (n - 1), m * (m - 1)) if unbiased else (n * n, m * m)
        _, xy = _pair_terms(x, y)
        _, xx = _pair_terms(x, x)
        _, yy = _pair_terms(y, y)
        ctx.save_for_backward(x, y)
        return 2.0 * xy.mean((-2, -1)) - xx.sum((-2, -1)) / nn_ - yy.sum((-2, -1)) / mm

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        n, m = x.shape[-2], y.shape[-2]
        xy = _unit(*_pair_terms(x, y))
        xx = _unit(*_pair_terms(x, x))
        yy = _unit(*_pair_terms(y, y))
        gx = 2.0 * xy.sum(-2) / (n * m) - 2.0 * xx.sum(-2) / (n * n)
        gy = -2.0 * xy.sum(-3) / (n * m) - 2.0 * yy.sum(-2) / (m * m)
        g = grad[..., None, None]
        return g * gx, g * gy, None


class AndersonDarlingStat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, loc, scale, dim=-1):
        z = (x - loc) / scale
        z, order = z.sort(dim=dim)
        n = z.shape[dim]
        shape = [1] * z.dim()
        shape[dim] = n
        rank = (2.0 * torch.arange(1, n + 1, dtype=z.dtype, device=z.device) - 1.0).view(shape)
        low, high = log_ndtr(z), log_ndtr(-z)
        back = rank.flip(dim)
        ctx.save_for_backward(z, order, scale, low, high, rank, back)
        ctx.dim, ctx.shapes = dim, (x.shape, loc.shape)
        return -n - (rank * low + back * high).sum(dim) / n

    @staticmethod
    def backward(ctx, grad):
        z, order, scale, low, high, rank, back = ctx.saved_tensors
        dim = ctx.dim
        n = z.shape[dim]
        log_pdf = -0.5 * z * z - 0.5 * math.log(2.0 * math.pi)
        slope = rank * torch.exp(log_pdf - low) - back * torch.exp(log_pdf - high)
        gz_sorted = -grad.unsqueeze(dim) * slope / n
        gz = torch.empty_like(gz_sorted).scatter_(dim, order, gz_sorted)
        z_in = torch.empty_like(z).scatter_(dim, order, z)
        gx = gz / scale
        x_shape, loc_shape = ctx.shapes
        return (
            gx.sum_to_size(x_shape),
            (-gx).sum_to_size(loc_shape),
            (-gx * z_in).sum_to_size(scale.shape),
            None,
        )


class NormalityPenalty(nn.Module):
    """Penalty that pushes latent channels to N(loc, scale); latents (batch, channels)."""

    def __init__(self, channels, weight=1e-2):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(channels))
        self.log_scale = nn.Parameter(torch.zeros(channels))
        self.weight = weight

    def forward(self, latents):
        stat = AndersonDarlingStat.apply(latents, self.loc, self.log_scale.exp(), 0)
        return self.weight * stat.mean()
