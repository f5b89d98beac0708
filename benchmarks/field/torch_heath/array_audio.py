"""Microphone-array and perceptual front end used by the transcription model."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


def _taps(x, delays):
    """Neighbouring samples of x (B, M, T) around t - delay, zeros outside of the recording."""
    steps = x.shape[-1]
    t = torch.arange(steps, device=x.device, dtype=delays.dtype)
    pos = t - delays[..., None]
    base = pos.floor()
    frac = pos - base
    low = base.long()
    idx0, idx1 = low.clamp(0, steps - 1), (low + 1).clamp(0, steps - 1)
    ok0 = ((low >= 0) & (low < steps)).to(x.dtype)
    ok1 = ((low + 1 >= 0) & (low + 1 < steps)).to(x.dtype)
    idx0, idx1, frac, ok0, ok1 = (a.expand(x.shape) for a in (idx0, idx1, frac, ok0, ok1))
    return idx0, idx1, frac.to(x.dtype), ok0, ok1


class FractionalDelaySum(torch.autograd.Function):
    """Delay-and-sum beamformer with linear interpolation.

    ``y[b, t] = sum_m weights[m] * x[b, m](t - delays[m])``. Delays are in samples, of any sign, shape (M,) or
    (B, M); samples before the start and after the end of the recording are zero.
    """

    @staticmethod
    def forward(ctx, x: Float[Tensor, "B M T"], delays: Float[Tensor, "*B M"], weights: Float[Tensor, "M"]):
        idx0, idx1, frac, ok0, ok1 = _taps(x, delays)
        moved = (1 - frac) * ok0 * x.gather(-1, idx0) + frac * ok1 * x.gather(-1, idx1)
        ctx.save_for_backward(x, delays, weights)
        return torch.einsum("m,bmt->bt", weights, moved)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad: Float[Tensor, "B T"]):
        x, delays, weights = ctx.saved_tensors
        idx0, idx1, frac, ok0, ok1 = _taps(x, delays)
        gx = gd = gw = None
        g = grad[:, None, :] * weights[:, None]
        if ctx.needs_input_grad[0]:
            gx = torch.zeros_like(x)
            gx.scatter_add_(-1, idx0, g * (1 - frac) * ok0)
            gx.scatter_add_(-1, idx1, g * frac * ok1)
        left, right = ok0 * x.gather(-1, idx0), ok1 * x.gather(-1, idx1)
        if ctx.needs_input_grad[1]:
            gd = (g * (left - right)).sum(-1).sum_to_size(delays.shape)
        if ctx.needs_input_grad[2]:
            gw = torch.einsum("bt,bmt->m", grad, (1 - frac) * left + frac * right)
        return gx, gd, gw


class LogSpectralFlux(torch.autograd.Function):
    """Onset strength: rectified increase of the log-compressed spectrum, averaged over the bins.

    Args:
        spec: non-negative magnitude spectrogram (B, F, T).
        gamma: compression, ``log1p(gamma * spec)``.
        lag: distance in frames of the difference, ``1 <= lag < T``. SuperFlux-like detectors use 2 or 3
            for small hops.

    Returns:
        (B, T), zero in the first ``lag`` frames.
    """

    @staticmethod
    def forward(spec, gamma, lag):
        comp = torch.log1p(gamma * spec)
        diff = comp[..., lag:] - comp[..., :-lag]
        return F.pad(diff.clamp(min=0).mean(dim=1), (lag, 0))

    @staticmethod
    def setup_context(ctx, inputs, output):
        spec, ctx.gamma, ctx.lag = inputs
        ctx.save_for_backward(spec)

    @staticmethod
    def backward(ctx, grad):
        (spec,) = ctx.saved_tensors
        lag = ctx.lag
        comp = torch.log1p(ctx.gamma * spec)
        rising = (comp[..., lag:] > comp[..., :-lag]).to(spec.dtype)
        d = rising * grad[:, None, lag:] / spec.shape[1]
        d = F.pad(d, (lag, 0)) - F.pad(d, (lag - 1, 1))
        return d * ctx.gamma / (1 + ctx.gamma * spec), None, None


def spreading_matrix(centres: Sequence[float], below: float = 27.0, above: float = 10.0) -> torch.Tensor:
    """Power leaked into band i (rows) by a masker in band j (columns).

    Slopes are in dB per Bark: steep towards lower bands, shallow towards higher ones.
    """
    z = np.asarray(centres, dtype=np.float64)
    dz = z[:, None] - z[None, :]
    db = np.where(dz >= 0, -above * dz, below * dz)
    return torch.from_numpy(10.0 ** (db / 10.0))


class BarkSpread(torch.autograd.Function):
    """Excitation pattern with power-law addition of masking.

    ``E_i = (sum_j S_ij P_j ** alpha) ** (1 / alpha)`` for band powers P > 0 of shape (..., bands).
    ``spread`` (bands, bands) is a fixed table and gets no gradient.
    """

    @staticmethod
    def forward(ctx, power, spread, alpha):
        spread = spread.to(power)
        total = power.pow(alpha) @ spread.T
        excitation = total.pow(1.0 / alpha)
        ctx.alpha = alpha
        ctx.save_for_backward(power, spread, excitation)
        return excitation

    @staticmethod
    def backward(ctx, grad):
        power, spread, excitation = ctx.saved_tensors
        alpha = ctx.alpha
        inner = (grad * excitation.pow(1 - alpha)) @ spread.T
        return inner * power.pow(alpha - 1), None, None


class PitchSnap(torch.autograd.Function):
    """Snap a pitch track (Hz) to the nearest degree of a scale.

    Snapping is piecewise constant, so the true derivative vanishes almost everywhere. As a surrogate the
    backward pass is straight-through: the incoming gradient is handed to voiced frames unchanged, as though
    this op were the identity there, and unvoiced frames (f0 == 0, passed on as 0) get zero.
    """

    @staticmethod
    def forward(ctx, f0, degrees, tuning):
        voiced = f0 > 0
        semis = 12 * torch.log2(torch.where(voiced, f0, torch.full_like(f0, tuning)) / tuning)
        grid = torch.tensor([d + 12 * o for o in range(-6, 7) for d in degrees], dtype=f0.dtype, device=f0.device)
        near = grid[(semis[..., None] - grid).abs().argmin(dim=-1)]
        ctx.save_for_backward(voiced)
        return torch.where(voiced, tuning * torch.exp2(near / 12), torch.zeros_like(f0))

    @staticmethod
    def backward(ctx, grad):
        (voiced,) = ctx.saved_tensors
        return grad * voiced, None, None


def snap_pitch(f0, degrees: Sequence[int] = (0, 2, 4, 5, 7, 9, 11), tuning: float = 261.6255653):
    return PitchSnap.apply(f0, tuple(degrees), tuning)


class ExcitationFrontEnd(nn.Module):
    def __init__(self, bands: int = 24, alpha: float = 0.6, gamma: float = 10.0, lag: int = 1):
        super().__init__()
        self.alpha, self.gamma, self.lag = alpha, gamma, lag
        self.register_buffer("spread", spreading_matrix([0.5 + k for k in range(bands)]))
        self.tilt = nn.Parameter(torch.zeros(bands))

    def forward(self, power):
        """power (B, T, bands) -> excitation (B, T, bands), onset strength (B, T)."""
        power = power * torch.exp(self.tilt * math.log(10) / 10)
        exc = BarkSpread.apply(power, self.spread, self.alpha)
        return exc, LogSpectralFlux.apply(exc.transpose(1, 2), self.gamma, self.lag)
