import itertools
import math

import torch
from torch import nn
from torch.autograd import Function

LN10 = math.log(10.0)


def neugebauer_bits(inks: int, device=None) -> torch.Tensor:
    """(2**inks, inks) table of on/off states, last ink fastest."""
    return torch.tensor(list(itertools.product((0, 1), repeat=inks)), dtype=torch.bool, device=device)


def demichel(coverage):
    bits = neugebauer_bits(coverage.shape[-1], coverage.device)
    c = coverage.unsqueeze(-2)
    return torch.where(bits, c, 1 - c)


class YuleNielsenNeugebauer(Function):
    """Reflectance of a halftone, coverage (..., inks) and primaries (2**inks, bands) > 0.

    ``n`` is the Yule-Nielsen factor: 1.0 gives the plain Neugebauer average, offset
    papers are around 1.7 to 2.
    """

    @staticmethod
    def forward(ctx, coverage, primaries, n=1.0):
        factors = demichel(coverage)
        weights = factors.prod(-1)
        powered = primaries.pow(1.0 / n)
        mixed = weights @ powered
        ctx.save_for_backward(factors, powered, weights, mixed)
        ctx.n = n
        return mixed.pow(n)

    @staticmethod
    def backward(ctx, grad_out):
        factors, powered, weights, mixed = ctx.saved_tensors
        n = ctx.n
        grad_mixed = grad_out * n * mixed.pow(n - 1)
        grad_coverage = grad_primaries = None
        if ctx.needs_input_grad[0]:
            grad_w = grad_mixed @ powered.t()
            inks = factors.shape[-1]
            sign = neugebauer_bits(inks, factors.device).to(factors.dtype) * 2 - 1
            cols = []
            for i in range(inks):
                others = [j for j in range(inks) if j != i]
                cols.append((grad_w * sign[:, i] * factors[..., others].prod(-1)).sum(-1))
            grad_coverage = torch.stack(cols, -1)
        if ctx.needs_input_grad[1]:
            bands = mixed.shape[-1]
            grad_primaries = weights.reshape(-1, weights.shape[-1]).t() @ grad_mixed.reshape(-1, bands)
        return grad_coverage, grad_primaries, None


class DyeStackReadout(Function):
    """Densitometer readings of a film: amounts (..., dyes), spectra (dyes, bands), response (channels, bands) >= 0,
    each channel's response with a positive sum that need not be one."""

    @staticmethod
    def forward(ctx, amounts, spectra, response):
        optical = LN10 * (amounts @ spectra)
        clear = optical.amin(-1, keepdim=True)
        seen = torch.exp(clear - optical)
        light = seen @ response.t()
        total = response.sum(-1)
        ctx.save_for_backward(amounts, spectra, response, seen, light, total)
        return (clear - torch.log(light / total)) / LN10

    @staticmethod
    def backward(ctx, g):
        amounts, spectra, response, seen, light, total = ctx.saved_tensors
        ratio = g / light
        g_optical = (ratio @ response) * seen
        g_spectra = amounts.reshape(-1, amounts.shape[-1]).t() @ g_optical.reshape(-1, spectra.shape[-1])
        channels = g.shape[-1]
        g_response = -ratio.reshape(-1, channels).t() @ seen.reshape(-1, spectra.shape[-1])
        g_response = g_response + (g.reshape(-1, channels).sum(0) / total)[:, None]
        return g_optical @ spectra.t(), g_spectra, g_response / LN10


class PrinterModel(nn.Module):
    def __init__(self, inks=4, bands=31, n=1.8):
        super().__init__()
        self.n = n
        self.logit = nn.Parameter(torch.zeros(2**inks, bands))

    def forward(self, coverage):
        return YuleNielsenNeugebauer.apply(coverage, self.logit.sigmoid(), self.n)


class FilmScan(nn.Module):
    def __init__(self, spectra, response):
        super().__init__()
        self.log_spectra = nn.Parameter(spectra.log())
        self.register_buffer("response", response)

    def forward(self, amounts):
        return DyeStackReadout.apply(amounts, self.log_spectra.exp(), self.response)
