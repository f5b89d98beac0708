"""Post-processing for the wave flume: paddle trains, individual waves, and the volume stored behind the model dike."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class PaddleWaveTrain(Function):
    """Surface elevation at the gauges for a paddle signal and its partial reflection from the beach.

    ``eta[b, g, t] = sum_k a[b, k] * (cos(kx - wt + phi) + R * cos(kx + wt - phi))``

    amplitude, phase: (B, K); wavenumber, omega: (K,); x: (G,); t: (T,); reflection: (B, 1) in [0, 1).
    Gradients for amplitude, phase and reflection only: the dispersion and the layout are fixed.
    """

    @staticmethod
    def forward(amplitude, phase, reflection, wavenumber, omega, x, t):
        kx = (wavenumber[:, None] * x)[None, :, :, None]
        wt = (omega[:, None] * t)[None, :, None, :] - phase[:, :, None, None]
        a = amplitude[:, :, None, None]
        return (a * (torch.cos(kx - wt) + reflection[:, :, None, None] * torch.cos(kx + wt))).sum(1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        amplitude, phase, reflection, wavenumber, omega, x, t = ctx.saved_tensors
        kx = (wavenumber[:, None] * x)[None, :, :, None]
        wt = (omega[:, None] * t)[None, :, None, :] - phase[:, :, None, None]
        a = amplitude[:, :, None, None]
        r = reflection[:, :, None, None]
        g = g[:, None]
        incident, reflected = torch.cos(kx - wt), torch.cos(kx + wt)
        g_amp = (g * (incident + r * reflected)).sum((2, 3))
        g_phase = -(g * a * (torch.sin(kx - wt) + r * torch.sin(kx + wt))).sum((2, 3))
        g_refl = (g * a * reflected).sum((2, 3)).sum(1, keepdim=True)
        return g_amp, g_phase, g_refl, None, None, None, None


class CrestToTrough(Function):
    # eta (B, T), wave_id (T,) in [-1, n_waves), -1 = before the first up-crossing; -> heights (B, n_waves)

    @staticmethod
    def forward(ctx, eta, wave_id, n_waves):
        b = eta.shape[0]
        heights = eta.new_zeros(b, n_waves)
        crest = torch.zeros(b, n_waves, dtype=torch.long, device=eta.device)
        trough = torch.zeros_like(crest)
        for w in range(n_waves):
            where = torch.nonzero(wave_id == w).flatten()
            if where.numel() == 0:
                continue
            part = eta[:, where]
            hi, lo = part.argmax(1), part.argmin(1)
            crest[:, w], trough[:, w] = where[hi], where[lo]
            heights[:, w] = part.gather(1, hi[:, None])[:, 0] - part.gather(1, lo[:, None])[:, 0]
        ctx.save_for_backward(crest, trough)
        ctx.shape = eta.shape
        return heights

    @staticmethod
    def backward(ctx, g):
        crest, trough = ctx.saved_tensors
        g_eta = g.new_zeros(ctx.shape)
        # an empty wave has crest == trough == 0, so its two terms cancel
        g_eta.scatter_add_(1, crest, g)
        g_eta.scatter_add_(1, trough, -g)
        return g_eta, None, None


class BasinFill(Function):
    """Water stored over the cells (B, C) of a basin for levels (B, T); wetting is smoothed over `smear` metres."""

    @staticmethod
    def forward(ctx, level, bed, area, smear, wet_mask=None):
        depth = (level[:, :, None] - bed[:, None, :]) / smear
        plan = area if wet_mask is None else area * wet_mask
        ctx.save_for_backward(depth, plan, wet_mask)
        ctx.smear = smear
        return torch.einsum("btc,bc->bt", F.softplus(depth) * smear, plan)

    @staticmethod
    def backward(ctx, g):
        depth, plan, wet_mask = ctx.saved_tensors
        wet = torch.sigmoid(depth)
        g_level = g * torch.einsum("btc,bc->bt", wet, plan)
        g_bed = -torch.einsum("bt,btc->bc", g, wet) * plan
        g_area = torch.einsum("bt,btc->bc", g, F.softplus(depth) * ctx.smear)
        if wet_mask is not None:
            g_area = g_area * wet_mask
        return g_level, g_bed, g_area, None, None


class DikeBasin(nn.Module):
    def __init__(self, bed, area, smear=0.02):
        super().__init__()
        self.bed = nn.Parameter(bed)
        self.register_buffer("area", area)
        self.smear = smear

    def forward(self, level, wet_mask=None):
        n = level.shape[0]
        return BasinFill.apply(
            level, self.bed.expand(n, -1), self.area.expand(n, -1), self.smear, wet_mask
        )
