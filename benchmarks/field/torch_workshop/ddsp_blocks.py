"""Differentiable synthesiser blocks.

Audio-rate recursions are far too long for autograd's tape (one node per
sample), so each block below brings its own adjoint. Time is always the last
axis; signals are (batch, time) unless said otherwise.
"""
from typing import Callable, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

TWO_PI = 6.283185307179586


def reverse_cumsum(x: Tensor, dim: int = -1) -> Tensor:
    return x.flip(dim).cumsum(dim).flip(dim)


class HarmonicBank(Function):
    """Sum of K harmonics of a time-varying fundamental.

    ``f0`` (B, T) in Hz, ``amps`` (B, K, T) linear amplitudes. Harmonics above
    Nyquist are muted. Returns (B, T) audio and the (B,) phase, in radians, after the last
    sample, to be handed to the next block when streaming.
    """

    @staticmethod
    def forward(ctx, f0: Tensor, amps: Tensor, sample_rate: float) -> Tuple[Tensor, Tensor]:
        k = torch.arange(1, amps.shape[1] + 1, dtype=f0.dtype, device=f0.device)
        phase = (TWO_PI / sample_rate) * f0.cumsum(-1)
        audible = (k[:, None] * f0[:, None, :]) < sample_rate / 2
        angles = k[:, None] * phase[:, None, :]
        ctx.save_for_backward(amps, angles, audible)
        ctx.sample_rate = sample_rate
        audio = (amps * audible * torch.sin(angles)).sum(1)
        return audio, phase[:, -1]

    @staticmethod
    @once_differentiable
    def backward(ctx, g_audio, g_last):
        amps, angles, audible = ctx.saved_tensors
        g_amps = g_audio[:, None, :] * audible * torch.sin(angles)
        g_phase = (g_audio[:, None, :] * amps * audible * torch.cos(angles)).sum(1)
        g_phase[:, -1] += g_last
        g_f0 = reverse_cumsum(g_phase) * (TWO_PI / ctx.sample_rate)
        return g_f0, g_amps, None


class OnePole(Function):
    """Leaky smoother ``y[t] = (1 - a) x[t] + a y[t-1]``.

    Parameters: ``x`` (B, C, T), ``a`` (C,) pole per channel, ``y0`` (B, C) state before
    the first sample. Returns the (B, C, T) output; its last column is the next state.
    """

    @staticmethod
    def forward(ctx, x, a, y0):
        y, state = [], y0
        for t in range(x.shape[-1]):
            state = (1 - a) * x[..., t] + a * state
            y.append(state)
        y = torch.stack(y, -1)
        ctx.save_for_backward(x, a, y0, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, a, y0, y = ctx.saved_tensors
        lam = torch.zeros_like(y0)
        adj = torch.empty_like(g)
        for t in range(g.shape[-1] - 1, -1, -1):
            lam = g[..., t] + a * lam
            adj[..., t] = lam
        before = torch.cat([y0.unsqueeze(-1), y[..., :-1]], -1)
        gx = (1 - a)[:, None] * adj
        ga = (adj * (before - x)).sum((0, 2))
        return gx, ga, a * lam


def _biquad(x: Tensor, b: Tensor, a: Tensor) -> Tensor:
    """Transposed direct form II; b (3,), a (2,) with a0 = 1."""
    s1 = s2 = torch.zeros_like(x[..., 0])
    out = []
    for t in range(x.shape[-1]):
        xt = x[..., t]
        yt = b[0] * xt + s1
        s1 = b[1] * xt - a[0] * yt + s2
        s2 = b[2] * xt - a[1] * yt
        out.append(yt)
    return torch.stack(out, -1)


def _delayed(x: Tensor, n: int) -> Tensor:
    if n == 0:
        return x
    return torch.cat([torch.zeros_like(x[..., :n]), x[..., :-n]], -1)


class Biquad(Function):
    """Second-order section from rest. The adjoint filters the reversed cotangent."""

    @staticmethod
    def forward(x: Tensor, b: Tensor, a: Tensor) -> Tensor:
        return _biquad(x, b, a)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, b, a = inputs
        ctx.save_for_backward(x, b, a, output)

    @staticmethod
    def backward(ctx, g):
        x, b, a, y = ctx.saved_tensors
        allpole = torch.zeros_like(b)
        allpole[0] = 1.0
        lam = _biquad(g.flip(-1), allpole, a).flip(-1)
        gx = gb = ga = None
        if ctx.needs_input_grad[0]:
            gx = _biquad(g.flip(-1), b, a).flip(-1)
        if ctx.needs_input_grad[1]:
            gb = torch.stack([(lam * _delayed(x, i)).sum() for i in range(3)])
        if ctx.needs_input_grad[2]:
            ga = torch.stack([-(lam * _delayed(y, i)).sum() for i in (1, 2)])
        return gx, gb, ga


class FeedbackComb(Function):
    """``y[t] = x[t] + gain * y[t - delay]``, one gain per batch row.

    x (B, T), gain (B,), ``delay`` in samples.
    """

    @staticmethod
    def forward(ctx, x, gain, delay):
        y = x.clone()
        for start in range(delay, x.shape[-1], delay):
            stop = min(start + delay, x.shape[-1])
            y[:, start:stop] += gain[:, None] * y[:, start - delay:stop - delay]
        ctx.save_for_backward(x, gain)
        ctx.delay = delay
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, gain = ctx.saved_tensors
        d, n = ctx.delay, x.shape[-1]
        lam = g.clone()
        for stop in range(n - d, 0, -d):
            start = max(stop - d, 0)
            lam[:, start:stop] += gain[:, None] * lam[:, start + d:stop + d]
        g_gain = (lam[:, d:] * x[:, :-d]).sum(-1)
        return lam, g_gain, None


def make_waveshaper(curve: Callable[[Tensor], Tensor], slope_from_output: Callable[[Tensor], Tensor]):
    """Build a level-compensated distortion ``curve(drive * x) / curve(drive)``.

    ``slope_from_output`` gives the curve's derivative in terms of its value. The
    resulting op takes x (B, T) and a positive drive per row (B,).
    """

    class Waveshaper(Function):
        @staticmethod
        def forward(ctx, x, drive):
            top = curve(drive[:, None] * x)
            level = curve(drive)[:, None]
            ctx.save_for_backward(x, drive, top, level)
            return top / level

        @staticmethod
        def backward(ctx, g):
            x, drive, top, level = ctx.saved_tensors
            inner = g * slope_from_output(top) / level
            return inner * drive[:, None], (inner * x).sum(-1)

    return Waveshaper


TanhDrive = make_waveshaper(torch.tanh, lambda v: 1 - v * v)


class PluckedVoice(nn.Module):
    """Harmonic source, smoothed envelope, overdrive, a resonant filter, an echo."""

    def __init__(self, harmonics: int = 16, sample_rate: float = 16000.0, echo_ms: float = 30.0):
        super().__init__()
        self.sample_rate = sample_rate
        self.delay = int(sample_rate * echo_ms / 1000)
        self.mix = nn.Parameter(torch.linspace(0, -4, harmonics))
        self.pole = nn.Parameter(torch.full((harmonics,), 2.0))
        self.drive = nn.Parameter(torch.tensor(0.5))
        self.echo = nn.Parameter(torch.tensor(-1.0))
        self.b = nn.Parameter(torch.tensor([0.2, 0.4, 0.2]))
        self.a = nn.Parameter(torch.tensor([-0.5, 0.3]))

    def forward(self, f0: Tensor, loudness: Tensor) -> Tensor:
        rows = f0.shape[0]
        amps = self.mix.softmax(0)[None, :, None] * loudness[:, None, :]
        amps = OnePole.apply(amps, torch.sigmoid(self.pole), torch.zeros_like(amps[..., 0]))
        audio, _ = HarmonicBank.apply(f0, amps, self.sample_rate)
        audio = TanhDrive.apply(audio, self.drive.exp().expand(rows))
        audio = Biquad.apply(audio, self.b, self.a)
        return FeedbackComb.apply(audio, torch.sigmoid(self.echo).expand(rows), self.delay)
