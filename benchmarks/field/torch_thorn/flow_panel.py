"""Multicolour flow cytometry: compensation, scaling and titration figures of merit.

Events are rows, detectors are columns.  Everything here runs inside the panel optimiser, which pushes
gradients into the spillover matrix, the cofactors and the gate memberships.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

DEFAULT_COFACTOR = 150.0


class StainGates(NamedTuple):
    """Soft memberships of the bright and of the dim gate, one pair of columns for each tube."""

    bright: Tensor
    dim: Tensor


class SpilloverUnmix(Function):
    """Compensate raw detector signals for fluorochrome spillover.

    raw        (..., events, D)   what the detectors saw
    spillover  (D, D)             row i: how dye i shows up in each of the D detectors; invertible
    background (D,) or None       autofluorescence, subtracted before unmixing

    Returns (..., events, D): the dye abundances x with  x @ spillover = raw - background.
    """

    @staticmethod
    def forward(ctx, raw, spillover, background=None):
        signal = raw if background is None else raw - background
        flat = signal.reshape(-1, signal.shape[-1])
        dyes = torch.linalg.solve(spillover.T, flat.T).T
        ctx.has_background = background is not None
        ctx.save_for_backward(spillover, dyes)
        return dyes.reshape(signal.shape)

    @staticmethod
    def backward(ctx, g):
        spillover, dyes = ctx.saved_tensors
        flat_g = g.reshape(-1, g.shape[-1])
        back = torch.linalg.solve(spillover, flat_g.T).T
        g_raw = back.reshape(g.shape) if ctx.needs_input_grad[0] else None
        g_spill = -(back.T @ dyes) if ctx.needs_input_grad[1] else None
        g_background = -back.sum(0) if ctx.has_background else None
        return g_raw, g_spill, g_background


class InverseSineScale(Function):
    # asinh(x / cofactor) with one cofactor for each channel, channels on `axis`
    @staticmethod
    def forward(ctx, x, cofactor, axis=-1):
        shape = [1] * x.dim()
        shape[axis] = -1
        c = cofactor.reshape(shape)
        ctx.save_for_backward(x, c)
        ctx.axis = axis % x.dim()
        return torch.asinh(x / c)

    @staticmethod
    def backward(ctx, g):
        x, c = ctx.saved_tensors
        core = g / torch.hypot(x, c)
        others = [d for d in range(x.dim()) if d != ctx.axis]
        g_c = -(core * x / c)
        if others:
            g_c = g_c.sum(others)
        return core * c.sign(), (g_c * c.sign().reshape(-1)), None


class StainIndex(Function):
    """(mean of bright - mean of dim) / (2 sd of dim), for each tube, from soft gates.

    signal: (events, tubes).  bright, dim: memberships >= 0 of the same shape.  With ``unbiased`` the dim
    variance is divided by (sum of memberships - 1), so it must exceed one, otherwise by the sum.
    """

    @staticmethod
    def forward(ctx, signal, bright, dim, unbiased=False):
        nb, nd = bright.sum(0), dim.sum(0)
        mb = (bright * signal).sum(0) / nb
        md = (dim * signal).sum(0) / nd
        dof = nd - 1 if unbiased else nd
        sd = ((dim * (signal - md) ** 2).sum(0) / dof).sqrt()
        ctx.save_for_backward(signal, bright, dim, mb, md, sd)
        return (mb - md) / (2 * sd)

    @staticmethod
    def backward(ctx, g):
        signal, bright, dim, mb, md, sd = ctx.saved_tensors
        nb, nd = bright.sum(0), dim.sum(0)
        g_mean = g / (2 * sd)
        g_var = -g * (mb - md) / (4 * sd**3)
        dev = signal - md
        g_signal = g_mean * (bright / nb - dim / nd) + g_var * 2 * dim * dev / nd
        g_bright = g_mean * (signal - mb) / nb
        g_dim = -g_mean * dev / nd + g_var * (dev**2 - sd**2) / nd
        return g_signal, g_bright, g_dim, None


class PanelScaler(nn.Module):
    def __init__(self, channels: int, cofactor: float = DEFAULT_COFACTOR):
        super().__init__()
        self.spillover = nn.Parameter(torch.eye(channels))
        self.log_cofactor = nn.Parameter(torch.full((channels,), cofactor).log())

    def forward(self, raw: Tensor, background: Tensor | None = None) -> Tensor:
        dyes = SpilloverUnmix.apply(raw, self.spillover, background)
        return InverseSineScale.apply(dyes, self.log_cofactor.exp())


def titration_score(signal: Tensor, gates: StainGates, unbiased: bool = True) -> Tensor:
    return StainIndex.apply(signal, gates.bright, gates.dim, unbiased).mean()
