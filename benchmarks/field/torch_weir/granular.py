"""Differentiable pieces of the granular voice: grain cloud, ladder-free filter, crusher, and the delay estimator that
is used to align the two microphones before the loss."""
import math

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _grain_index(onsets, size):
    return onsets[:, None] + torch.arange(size, device=onsets.device)


class GrainCloud(Function):
    """Mix grains into one buffer.

    Args:
        grains: [G, L] windowed grains.
        onsets: [G] int64, first sample of each grain, ``0 <= onset < length``. Grains may overlap or share an onset;
            what runs over the end of the buffer is cut off.
        gains: [G] linear gains.
        length: samples in the buffer.

    Returns:
        [length] mix.
    """

    @staticmethod
    def forward(ctx, grains, onsets, gains, length):
        size = grains.shape[1]
        index = _grain_index(onsets, size)
        mix = grains.new_zeros(length + size)
        mix.index_add_(0, index.reshape(-1), (grains * gains[:, None]).reshape(-1))
        ctx.save_for_backward(grains, onsets, gains)
        ctx.length = length
        return mix[:length].clone()

    @staticmethod
    def backward(ctx, grad_mix):
        grains, onsets, gains = ctx.saved_tensors
        index = _grain_index(onsets, grains.shape[1]).clamp_(max=ctx.length - 1)
        frames = grad_mix[index]
        grad_grains = frames * gains[:, None]
        grad_gains = (frames * grains).sum(dim=1)
        return grad_grains, None, grad_gains, None


class StateVariableFilter(Function):
    """Trapezoidal state variable filter (Zavalishin), three outputs at once.

    x: [B, T]; g: [B] prewarped cutoff ``tan(pi fc / fs)``; k: [B] damping ``1 / Q``.
    Returns ``(low, band, high)``, each [B, T].  The filter starts at rest.
    """

    @staticmethod
    def forward(ctx, x, g, k):
        a1 = 1.0 / (1.0 + g * (g + k))
        a2 = g * a1
        a3 = g * a2
        s1 = torch.zeros_like(g)
        s2 = torch.zeros_like(g)
        low, band, first, second = [], [], [], []
        for t in range(x.shape[1]):
            first.append(s1)
            second.append(s2)
            v3 = x[:, t] - s2
            v1 = a1 * s1 + a2 * v3
            v2 = s2 + a2 * s1 + a3 * v3
            s1 = 2.0 * v1 - s1
            s2 = 2.0 * v2 - s2
            low.append(v2)
            band.append(v1)
        low = torch.stack(low, 1)
        band = torch.stack(band, 1)
        high = x - k[:, None] * band - low
        ctx.save_for_backward(x, g, k, torch.stack(first, 1), torch.stack(second, 1))
        return low, band, high

    @staticmethod
    @once_differentiable
    def backward(ctx, d_low, d_band, d_high):
        x, g, k, first, second = ctx.saved_tensors
        a1 = 1.0 / (1.0 + g * (g + k))
        a2 = g * a1
        a3 = g * a2
        d_x = d_high.clone()
        l1 = torch.zeros_like(g)
        l2 = torch.zeros_like(g)
        d_a1, d_a2, d_a3, d_k = (torch.zeros_like(g) for _ in range(4))
        for t in range(x.shape[1] - 1, -1, -1):
            s1, s2 = first[:, t], second[:, t]
            v3 = x[:, t] - s2
            d_v1 = d_band[:, t] - k * d_high[:, t] + 2.0 * l1
            d_v2 = d_low[:, t] - d_high[:, t] + 2.0 * l2
            d_k = d_k - d_high[:, t] * (a1 * s1 + a2 * v3)
            d_a1 = d_a1 + d_v1 * s1
            d_a2 = d_a2 + d_v1 * v3 + d_v2 * s1
            d_a3 = d_a3 + d_v2 * v3
            d_v3 = a2 * d_v1 + a3 * d_v2
            d_x[:, t] += d_v3
            l1 = -l1 + a1 * d_v1 + a2 * d_v2
            l2 = -l2 + d_v2 - d_v3
        # a2 = g a1, a3 = g^2 a1
        total = d_a1 + g * d_a2 + g * g * d_a3
        d_g = -total * (2.0 * g + k) * a1 ** 2 + a1 * d_a2 + 2.0 * g * a1 * d_a3
        d_k = d_k - total * g * a1 ** 2
        return d_x, d_g, d_k


class BitCrush(Function):
    """Sample-and-hold and bit reduction of a signal in [-1, 1].

    The last axis is held in blocks of ``hold`` samples (the last block may be short), clipped to [-1, 1] and rounded
    to ``2 ** (bits - 1) - 1`` positive steps.

    Rounding has no useful derivative, so the backward is a straight-through one on purpose: it is that of hold and
    clip with the rounding left out.  Clipped samples get nothing.
    """

    @staticmethod
    def forward(ctx, x, bits=8, hold=1):
        steps = 2 ** (bits - 1) - 1
        t = torch.arange(x.shape[-1], device=x.device)
        source = t - t % hold
        held = x[..., source]
        ctx.save_for_backward(x, source)
        return torch.round(held.clamp(-1.0, 1.0) * steps) / steps

    @staticmethod
    def backward(ctx, grad):
        x, source = ctx.saved_tensors
        out = torch.zeros_like(x).index_add_(x.dim() - 1, source, grad)
        return out * (x.abs() <= 1.0).to(out.dtype), None, None


class GccPhat(Function):
    """Generalised cross-correlation with phase transform.

    Args:
        x, y: [..., T] real signals, zero padded to ``n``.
        n: FFT length, at least T.
        max_lag: largest lag returned, at most ``n // 2`` (which is the default).
        eps: added to the magnitude of the cross spectrum.

    Returns:
        [..., 2 * max_lag + 1] correlation at lags ``-max_lag .. max_lag``.
    """

    @staticmethod
    def forward(ctx, x, y, n, max_lag=None, eps=1e-3):
        max_lag = n // 2 if max_lag is None else max_lag
        fx, fy = torch.fft.rfft(x, n), torch.fft.rfft(y, n)
        cross = fx * fy.conj()
        cc = torch.fft.irfft(cross / (cross.abs() + eps), n)
        ctx.save_for_backward(fx, fy)
        ctx.sizes = (x.shape[-1], n, max_lag, eps)
        return torch.cat([cc[..., n - max_lag:], cc[..., : max_lag + 1]], dim=-1)

    @staticmethod
    def backward(ctx, grad):
        fx, fy = ctx.saved_tensors
        size, n, max_lag, eps = ctx.sizes
        full = grad.new_zeros(grad.shape[:-1] + (n,))
        full[..., n - max_lag:] = grad[..., :max_lag]
        full[..., : max_lag + 1] = grad[..., max_lag:]

        # per-bin weights of the one-sided spectrum appear once in irfft and once, inverted, in the adjoint of rfft
        spec = torch.fft.rfft(full, n)
        cross = fx * fy.conj()
        mag = cross.abs()
        den = mag + eps
        radial = (spec.conj() * cross).real / (mag.clamp_min(1e-30) * den * den)
        d_cross = spec / den - cross * radial
        d_x = torch.fft.irfft(d_cross * fy, n)[..., :size]
        d_y = torch.fft.irfft(d_cross.conj() * fx, n)[..., :size]
        return d_x, d_y, None, None, None


class GranularVoice(nn.Module):
    """Learned grains through a learned band-pass, optionally crushed."""

    def __init__(self, n_grains, grain_size, rate=16000, crush_bits=None):
        super().__init__()
        window = torch.hann_window(grain_size, periodic=True)
        self.register_buffer("window", window)
        self.grains = nn.Parameter(0.1 * torch.randn(n_grains, grain_size))
        self.gains = nn.Parameter(torch.ones(n_grains))
        self.log_cutoff = nn.Parameter(torch.tensor([math.log(1200.0)]))
        self.log_q = nn.Parameter(torch.zeros(1))
        self.rate = rate
        self.crush_bits = crush_bits

    def forward(self, onsets, length):
        mix = GrainCloud.apply(self.grains * self.window, onsets, self.gains, length)
        g = torch.tan(math.pi * self.log_cutoff.exp() / self.rate)
        _, band, _ = StateVariableFilter.apply(mix[None], g, torch.exp(-self.log_q))
        out = band[0]
        return out if self.crush_bits is None else BitCrush.apply(out, self.crush_bits)


def soft_delay(x, y, n=None, sharpness=20.0):
    """Differentiable delay of ``x`` behind ``y`` in samples."""
    n = n or 2 * x.shape[-1]
    cc = GccPhat.apply(x, y, n)
    lags = torch.arange(-(n // 2), n // 2 + 1, dtype=cc.dtype, device=cc.device)
    return (torch.softmax(sharpness * cc, dim=-1) * lags).sum(-1)
