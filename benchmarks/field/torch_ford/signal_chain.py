"""Channel-strip pieces with hand-written backward passes (all on (batch, time) or (batch, channel, time))."""
from typing import Tuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class StructureFunction(torch.autograd.Function):
    """D[b, l] = mean over t of (x[b, t + lags[l]] - x[b, t])^2 where both samples are valid (0 if none are), 0 <= lag <= T."""

    @staticmethod
    def forward(ctx, x: Tensor, valid: Tensor, lags: Tuple[int, ...]) -> Tensor:
        cols, counts = [], []
        n = x.shape[-1]
        for lag in lags:
            both = valid[:, lag:] & valid[:, : n - lag]
            diff = (x[:, lag:] - x[:, : n - lag]).masked_fill(~both, 0.0)
            cnt = both.sum(-1).clamp(min=1).to(x.dtype)
            cols.append(diff.square().sum(-1) / cnt)
            counts.append(cnt)
        ctx.lags = tuple(lags)
        ctx.save_for_backward(x, valid, torch.stack(counts, -1))
        return torch.stack(cols, -1)

    @staticmethod
    def backward(ctx, g):
        x, valid, counts = ctx.saved_tensors
        n = x.shape[-1]
        scale = 2.0 * g / counts
        out = torch.zeros_like(x)
        for k, lag in enumerate(ctx.lags):
            both = valid[:, lag:] & valid[:, : n - lag]
            diff = (x[:, lag:] - x[:, : n - lag]).masked_fill(~both, 0.0)
            push = scale[:, k : k + 1] * diff
            out[:, lag:] += push
            out[:, : n - lag] -= push
        return out, None, None


class KneeLimiter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, knee):
        room = 1.0 - knee
        mag = x.abs()
        over = mag > knee
        t = torch.tanh((mag - knee) / room)
        ctx.save_for_backward(x, knee, over, t)
        return torch.where(over, x.sign() * (knee + room * t), x)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, knee, over, t = ctx.saved_tensors
        sech2 = 1.0 - t * t
        gx = torch.where(over, g * sech2, g)
        gk = torch.where(over, g * (1.0 - t + sech2 * (x.abs() - 1.0) / (1.0 - knee)), torch.zeros_like(g))
        return gx, gk.sum_to_size(knee.shape)


class SpectralGain(torch.autograd.Function):
    # x: (batch, time), gain: (time // 2 + 1,)
    @staticmethod
    def forward(ctx, x, gain):
        n = x.shape[-1]
        spec = torch.fft.rfft(x)
        ctx.save_for_backward(spec, gain)
        ctx.n = n
        return torch.fft.irfft(spec * gain, n=n)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        spec, gain = ctx.saved_tensors
        gspec = torch.fft.rfft(g)
        gx = torch.fft.irfft(gspec * gain, n=ctx.n)
        ggain = (gspec * spec.conj()).real.sum(0) / ctx.n
        ggain[1:-1] *= 2.0  # mirrored bins
        return gx, ggain


class PeakNormalize(torch.autograd.Function):
    """Scales each clip to full scale and tells the peak that it was divided by.

    All the channels of a clip share one peak so that the stereo image stays.

    Args:
        x: ``(batch, channel, time)`` audio.
        eps: floor of the peak; quieter clips are divided by ``eps`` and their
            scale is then a constant.

    Returns:
        A tuple ``(y, peak)``: ``y = x / peak`` with the shape of ``x``, and
        ``peak = max(max|x|, eps)`` with shape ``(batch, 1, 1)``, which the decoder
        multiplies back in, or a headroom penalty may use.
    """

    @staticmethod
    def forward(ctx, x: Tensor, eps: float = 1e-4) -> Tuple[Tensor, Tensor]:
        flat = x.flatten(1).abs()
        top, where = flat.max(1)
        peak = top.clamp(min=eps).view(-1, 1, 1)
        y = x / peak
        ctx.save_for_backward(y, peak, where, top > eps)
        return y, peak

    @staticmethod
    def backward(ctx, grad_y, grad_peak):
        y, peak, where, loud = ctx.saved_tensors
        gx = grad_y / peak
        along = -(grad_y * y).flatten(1).sum(1) / peak.flatten()
        along = torch.where(loud, along, torch.zeros_like(along))
        sign = y.flatten(1).gather(1, where.unsqueeze(1)).sign()
        flat = gx.flatten(1).scatter_add(1, where.unsqueeze(1), along.unsqueeze(1) * sign)
        return flat.view_as(y), None


class MasterBus(nn.Module):
    def __init__(self, frame: int, knee: float = 0.7):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(frame // 2 + 1))
        self.knee = nn.Parameter(torch.tensor(knee))
        self.frame = frame

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        b, c, t = x.shape
        blocks = x.reshape(-1, self.frame)
        shaped = SpectralGain.apply(blocks, self.gain).view(b, c, t)
        y, peak = PeakNormalize.apply(shaped)
        return KneeLimiter.apply(y, self.knee), peak


def roughness(x: Tensor, valid: Tensor, max_lag: int = 8) -> Tensor:
    return StructureFunction.apply(x, valid, tuple(range(1, max_lag + 1))).mean(0)
