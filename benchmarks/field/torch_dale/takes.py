"""Audio takes: resampling reads, smoothing, levelling."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def _taps(t):
    """Catmull-Rom weights of the four neighbours and their derivative in t."""
    t2, t3 = t * t, t * t * t
    w = torch.stack([
        0.5 * (-t + 2 * t2 - t3),
        0.5 * (2 - 5 * t2 + 3 * t3),
        0.5 * (t + 4 * t2 - 3 * t3),
        0.5 * (-t2 + t3),
    ], -1)
    dw = torch.stack([
        0.5 * (-1 + 4 * t - 3 * t2),
        0.5 * (-10 * t + 9 * t2),
        0.5 * (1 + 8 * t - 9 * t2),
        0.5 * (-2 * t + 3 * t2),
    ], -1)
    return w, dw


def _neighbours(pos, length):
    p = pos.clamp(0, length - 1)
    base = p.floor().clamp(max=length - 2).long()
    idx = (base[..., None] + torch.arange(-1, 3, device=pos.device)).clamp(0, length - 1)
    return p - base.to(p.dtype), idx


class HermiteReader(Function):
    """Reads a recording at fractional sample positions with Catmull-Rom interpolation.

    Args:
        wave: recordings, shape ``(batch, time)`` with ``time >= 2``.
        pos: read positions in samples, shape ``(batch, reads)``. They need not be sorted and may
            repeat. Positions outside ``[0, time - 1]`` read the first or the last sample, and the
            gradient with respect to such a position is zero. The neighbours beyond the ends repeat the
            end sample.

    Returns:
        The samples read, shape ``(batch, reads)``; differentiable in both arguments.
    """

    @staticmethod
    def forward(wave: Float[torch.Tensor, "b t"], pos: Float[torch.Tensor, "b m"]) -> Float[torch.Tensor, "b m"]:
        t, idx = _neighbours(pos, wave.shape[1])
        w, _ = _taps(t)
        vals = wave.gather(1, idx.flatten(1)).view_as(w)
        return (w * vals).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        wave, pos = inputs
        ctx.save_for_backward(wave, pos)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        wave, pos = ctx.saved_tensors
        n = wave.shape[1]
        t, idx = _neighbours(pos, n)
        w, dw = _taps(t)
        grad_wave = grad_pos = None
        if ctx.needs_input_grad[0]:
            grad_wave = torch.zeros_like(wave)
            grad_wave.scatter_add_(1, idx.flatten(1), (g[..., None] * w).flatten(1))
        if ctx.needs_input_grad[1]:
            vals = wave.gather(1, idx.flatten(1)).view_as(dw)
            inside = (pos >= 0) & (pos <= n - 1)
            grad_pos = g * (dw * vals).sum(-1) * inside
        return grad_wave, grad_pos


def savgol_taps(half: int, order: int = 2) -> torch.Tensor:
    x = np.arange(-half, half + 1, dtype=np.float64)
    v = np.vander(x, order + 1, increasing=True)
    return torch.from_numpy(np.linalg.pinv(v)[0].copy())


class SavitzkyGolayFunction(Function):
    """Same-length smoothing of (channels, time) with odd-length taps; `edge` is "constant" (zeros) or "nearest"."""

    @staticmethod
    def forward(ctx, x, taps, edge="constant"):
        half = taps.numel() // 2
        mode = "replicate" if edge == "nearest" else "constant"
        xp = F.pad(x[:, None], (half, half), mode=mode)
        ctx.save_for_backward(xp, taps)
        return F.conv1d(xp, taps[None, None])[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        xp, taps = ctx.saved_tensors
        half = taps.numel() // 2
        gx = F.conv1d(g[:, None], taps.flip(0)[None, None], padding=half)[:, 0]
        windows = xp[:, 0].unfold(-1, taps.numel(), 1)  # (C, T, K)
        gt = torch.einsum("ct,ctk->k", g, windows)
        return gx, gt, None


class RmsLeveler(Function):
    @staticmethod
    def forward(ctx, x, lengths, target=0.1, eps=1e-8):
        keep = (torch.arange(x.shape[-1], device=x.device) < lengths[:, None]).to(x.dtype)
        n = lengths.clamp(min=1).to(x.dtype)[:, None]
        ms = (x * x * keep).sum(-1, keepdim=True) / n
        gain = target * torch.rsqrt(ms + eps)
        ctx.save_for_backward(x, keep, n, gain)
        ctx.target = target
        return x * gain * keep, gain.squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, gy, _):
        x, keep, n, gain = ctx.saved_tensors
        gy = gy * keep
        dot = (gy * x).sum(-1, keepdim=True)
        # d gain / d x = -gain^3 / target^2 * x / n
        gx = gy * gain - dot * gain**3 / ctx.target**2 * x * keep / n
        return gx, None, None, None


def level_takes(takes, lengths, max_gain: Optional[float] = 30.0, penalty=1e-2):
    """Levelled takes and a penalty on gains beyond `max_gain`."""
    out, gain = RmsLeveler.apply(takes, lengths)
    excess = F.relu(gain - max_gain) if max_gain is not None else gain
    return out, penalty * excess.square().mean()
