"""Differentiable front end for small microphone arrays."""
from __future__ import annotations

from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function


def _shifted(x: Tensor, delays: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Gather ``x[b, m, t + delays[m, k]]``; samples off the record read as zero."""
    t_len = x.shape[-1]
    pos = torch.arange(t_len, device=x.device) + delays[..., None]  # (M, K, T)
    inside = (pos >= 0) & (pos < t_len)
    pos = pos.clamp(0, t_len - 1)
    m = torch.arange(x.shape[1], device=x.device)[:, None, None]
    return x[:, m, pos] * inside.to(x.dtype), pos, inside


class DelayAndSumPower(Function):
    """Mean output power of a delay-and-sum beamformer on a grid of look directions.

    Parameters
    ----------
    x : Tensor, shape (B, M, T)
        Microphone signals.
    weights : Tensor, shape (M,)
        Shading of the sensors, not all zero.
    delays : LongTensor, shape (M, K)
        Steering advance of each sensor in samples for each of the ``K`` look
        directions.  Any sign; samples outside of the record count as zero.
    normalize : bool
        Divide by ``sum(weights ** 2)`` (white noise gain).

    Returns
    -------
    Tensor, shape (B, K)

    Notes
    -----
    The beams are formed again in the backward pass, since ``(B, M, K, T)`` is
    the largest array around and keeping it is what makes this run out of memory.
    """

    @staticmethod
    def forward(ctx, x, weights, delays, normalize):
        seg, _, _ = _shifted(x, delays)
        beam = torch.einsum("m,bmkt->bkt", weights, seg)
        power = beam.square().mean(-1)
        if normalize:
            power = power / weights.square().sum()
        ctx.save_for_backward(x, weights, delays, power)
        ctx.normalize = normalize
        return power

    @staticmethod
    def backward(ctx, grad):
        x, weights, delays, power = ctx.saved_tensors
        seg, pos, inside = _shifted(x, delays)
        beam = torch.einsum("m,bmkt->bkt", weights, seg)
        scale = 2.0 / x.shape[-1]
        if ctx.normalize:
            energy = weights.square().sum()
            scale = scale / energy
        g_beam = grad[..., None] * beam * scale
        g_x = g_w = None
        if ctx.needs_input_grad[0]:
            contrib = torch.einsum("m,bkt->bmkt", weights, g_beam) * inside.to(x.dtype)
            index = pos.expand_as(contrib).flatten(2)
            g_x = torch.zeros_like(x).scatter_add_(2, index, contrib.flatten(2))
        if ctx.needs_input_grad[1]:
            g_w = torch.einsum("bkt,bmkt->m", g_beam, seg)
            if ctx.normalize:
                g_w = g_w - 2.0 * weights * (grad * power).sum() / energy
        return g_x, g_w, None, None


class SpectralCentroid(Function):
    r"""Centre of gravity of a spectrum.

    .. math:: c = \frac{\sum_k f_k \, m_k^p}{\sum_k m_k^p + \epsilon}

    Args:
        mag: magnitudes ``(..., F)``, strictly positive.
        freqs: bin centres ``(F,)`` in Hz or Bark; may be trained.
        power: exponent ``p`` on the magnitudes. 1 weighs by magnitude,
            2 by energy; any positive number is accepted.
        eps: added to the denominator.

    Returns:
        centroids, shape ``mag.shape[:-1]``.
    """

    @staticmethod
    def forward(ctx, mag: Tensor, freqs: Tensor, power: float = 1.0, eps: float = 1e-8) -> Tensor:
        w = mag.pow(power)
        total = w.sum(-1) + eps
        c = (w * freqs).sum(-1) / total
        ctx.save_for_backward(mag, freqs, total, c)
        ctx.power = power
        return c

    @staticmethod
    def backward(ctx, grad_c: Tensor):
        mag, freqs, total, c = ctx.saved_tensors
        p = ctx.power
        coef = (grad_c / total)[..., None]
        grad_mag = coef * (freqs - c[..., None]) * mag.pow(p - 1)
        grad_freqs = (coef * mag.pow(p)).reshape(-1, freqs.numel()).sum(0)
        return grad_mag, grad_freqs, None, None


class EdgeHoldSmooth(Function):
    """Correlate (B, C, T) with one odd-length kernel, holding the first and last sample past the ends."""

    @staticmethod
    def forward(ctx, x, kernel):
        b, c, t = x.shape
        r = kernel.numel() // 2
        xp = F.pad(x, (r, r), mode="replicate").reshape(b * c, 1, -1)
        ctx.save_for_backward(xp, kernel)
        ctx.shape = (b, c, t)
        return F.conv1d(xp, kernel.view(1, 1, -1)).view(b, c, t)

    @staticmethod
    def backward(ctx, g):
        xp, kernel = ctx.saved_tensors
        b, c, t = ctx.shape
        r = kernel.numel() // 2
        g = g.reshape(b * c, 1, t)
        gp = F.conv_transpose1d(g, kernel.view(1, 1, -1)).view(b, c, -1)
        gx = gp.narrow(-1, r, t).clone()
        if r > 0:
            gx[..., 0] += gp[..., 0]
            gx[..., -1] += gp[..., -1]
        win = xp.unfold(-1, kernel.numel(), 1)
        gk = (win * g[..., None]).sum((0, 1, 2))
        return gx, gk


class ContourSmoother(nn.Module):
    """Learned smoothing of per-channel brightness contours."""

    def __init__(self, width: int = 3, freqs: Optional[Tensor] = None, power: float = 1.0):
        super().__init__()
        if width % 2 == 0:
            raise ValueError("width must be odd")
        self.kernel = nn.Parameter(torch.full((width,), 1.0 / width))
        self.power = power
        self.register_buffer("freqs", freqs if freqs is not None else torch.linspace(0.0, 1.0, 65))

    def forward(self, mag: Tensor) -> Tensor:
        c = SpectralCentroid.apply(mag, self.freqs, self.power, 1e-8)  # (B, C, T)
        return EdgeHoldSmooth.apply(c, self.kernel)


def steered_power(x: Tensor, weights: Tensor, delays: Tensor, normalize: bool = True) -> Tensor:
    return DelayAndSumPower.apply(x, weights, delays, normalize)
