# X-ray fluorescence: from net line areas to assays, and back to spectra for the fit.
import math

import torch
import torch.nn.functional as F
from torch import nn

ELEMENTS = ["Fe", "Cu", "Zn", "Pb"]

# element, keV, share of the element's counts
LINES = [
    (0, 6.404, 0.88),
    (0, 7.058, 0.12),
    (1, 8.048, 0.87),
    (1, 8.905, 0.13),
    (2, 8.639, 0.86),
    (2, 9.572, 0.14),
    (3, 10.552, 0.45),
    (3, 12.614, 0.42),
    (3, 14.765, 0.13),
]

SI_ESCAPE_KEV = 1.742


def line_table(dtype=torch.float64):
    el, kev, share = zip(*LINES)
    return torch.tensor(el), torch.tensor(kev, dtype=dtype), torch.tensor(share, dtype=dtype)


class LachanceTraill(torch.autograd.Function):
    """Matrix correction C_i = R_i (1 + sum_{j != i} alpha_ij C_j), solved exactly."""

    @staticmethod
    def forward(
        ctx,
        ratio,  # (specimens, n)  intensity relative to the pure element
        alpha,  # (n, n)          influence of column on row; the diagonal is not used
        closed,  # bool            scale the assay so that it sums to one
    ):
        n = alpha.shape[0]
        eye = torch.eye(n, dtype=alpha.dtype, device=alpha.device)
        off = alpha * (1 - eye)
        system = eye - ratio.unsqueeze(-1) * off
        conc = torch.linalg.solve(system, ratio.unsqueeze(-1)).squeeze(-1)
        total = conc.sum(-1, keepdim=True)
        ctx.save_for_backward(ratio, off, system, conc, total)
        ctx.closed = closed
        return conc / total if closed else conc

    @staticmethod
    def backward(ctx, grad):
        ratio, off, system, conc, total = ctx.saved_tensors
        if ctx.closed:
            grad = (grad - (grad * conc).sum(-1, keepdim=True) / total) / total
        adj = torch.linalg.solve(system.mT, grad.unsqueeze(-1)).squeeze(-1)
        grad_ratio = adj * (1 + conc @ off.T)
        grad_alpha = torch.einsum("bi,bj->ij", adj * ratio, conc).fill_diagonal_(0)
        return grad_ratio, grad_alpha, None


class LineTemplates(torch.autograd.Function):
    """Counts per channel from net element areas."""

    @staticmethod
    def forward(
        ctx,
        areas,  # (specimens, elements)  total counts of every element
        gain,  # ()  keV per channel
        zero,  # ()  keV of channel 0
        noise,  # ()  electronic noise, keV sigma
        fano,  # ()  keV of variance per keV of energy
        table,  # (element, keV, share), one entry per line
        channels,  # int
    ):
        el, kev, share = table
        ch = torch.arange(channels, dtype=areas.dtype, device=areas.device)
        var = (noise * noise + fano * kev).unsqueeze(-1)
        off = zero + gain * ch - kev.unsqueeze(-1)
        shape = gain * torch.exp(-0.5 * off * off / var) / torch.sqrt(2 * math.pi * var)
        counts = (areas[:, el] * share) @ shape
        ctx.save_for_backward(areas, gain, noise, el, kev, share, ch, var, off, shape)
        return counts

    @staticmethod
    def backward(ctx, grad):
        areas, gain, noise, el, kev, share, ch, var, off, shape = ctx.saved_tensors
        grad_areas = None
        if ctx.needs_input_grad[0]:
            grad_areas = torch.zeros_like(areas)
            grad_areas[:, el] += (grad @ shape.T) * share
        weight = (areas[:, el] * share).T @ grad * shape
        to_energy = -weight * off / var
        to_var = (weight * (off * off / var - 1) / (2 * var)).sum(-1)
        grad_gain = weight.sum() / gain + (to_energy * ch).sum()
        grad_noise = 2 * noise * to_var.sum()
        grad_fano = (to_var * kev).sum()
        return grad_areas, grad_gain, to_energy.sum(), grad_noise, grad_fano, None, None


class EscapeLoss(torch.autograd.Function):
    """Silicon escape and counting losses of the detector."""

    @staticmethod
    def forward(
        ctx,
        counts,  # (specimens, channels)  what arrives
        prob,  # (channels,) or ()      chance that the Si photon escapes
        tau,  # ()                     dead time per count
        shift,  # int                    escape distance in channels
    ):
        moved = prob * counts
        seen = counts - moved + F.pad(moved[..., shift:], (0, shift))
        total = counts.sum(-1, keepdim=True)
        live = 1 / (1 + tau * total)
        ctx.save_for_backward(counts, prob, tau, total, live, seen)
        ctx.shift = shift
        return seen * live

    @staticmethod
    def backward(ctx, grad):
        counts, prob, tau, total, live, seen = ctx.saved_tensors
        g_seen = grad * live
        g_moved = torch.roll(g_seen, ctx.shift, dims=-1) - g_seen
        g_busy = -(grad * seen).sum(-1, keepdim=True) * live * live
        g_counts = g_seen + prob * g_moved + tau * g_busy
        g_prob = (g_moved * counts).sum_to_size(prob.shape)
        g_tau = (g_busy * total).sum()
        return g_counts, g_prob, g_tau, None


class SpectrumModel(nn.Module):
    def __init__(self, channels=400, kev_per_channel=0.04):
        super().__init__()
        self.channels = channels
        self.gain = nn.Parameter(torch.tensor(kev_per_channel, dtype=torch.float64))
        self.zero = nn.Parameter(torch.tensor(0.0, dtype=torch.float64))
        self.noise = nn.Parameter(torch.tensor(0.05, dtype=torch.float64))
        self.fano = nn.Parameter(torch.tensor(4.5e-4, dtype=torch.float64))
        self.escape = nn.Parameter(torch.tensor(0.01, dtype=torch.float64))
        self.tau = nn.Parameter(torch.tensor(1e-7, dtype=torch.float64))
        self.shift = round(SI_ESCAPE_KEV / kev_per_channel)

    def forward(self, areas):
        arriving = LineTemplates.apply(
            areas, self.gain, self.zero, self.noise, self.fano, line_table(), self.channels
        )
        return EscapeLoss.apply(arriving, self.escape, self.tau, self.shift)


def assay(areas, pure, alpha, closed=True):
    return LachanceTraill.apply(areas / pure, alpha, closed)


def poisson_misfit(model, areas, measured):
    expected = model(areas) + 1e-6
    return (expected - measured * expected.log()).sum(-1).mean()
