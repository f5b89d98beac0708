"""Signal blocks for a differentiable room-acoustics simulator (PyTorch)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


# --------------------------------------------------------------------------
# envelope follower
# --------------------------------------------------------------------------

class OnePole(Function):
    r"""First-order smoother :math:`y_t = a\,y_{t-1} + (1 - a)\,x_t`.

    Shapes:
        x: ``(batch, channel, time)``
        coef: ``(channel,)`` with values in ``(0, 1)``
        state: ``(batch, channel)``, the value of ``y`` before the first sample
        returns: ``(batch, channel, time)``
    """

    @staticmethod
    def forward(ctx, x: Tensor, coef: Tensor, state: Tensor) -> Tensor:
        y = torch.empty_like(x)
        prev = state
        for t in range(x.shape[-1]):
            prev = coef * prev + (1.0 - coef) * x[..., t]
            y[..., t] = prev
        ctx.save_for_backward(x, coef, state, y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y):
        x, coef, state, y = ctx.saved_tensors
        lam = torch.zeros_like(state)
        grad_x = torch.empty_like(x)
        grad_coef = torch.zeros_like(coef)
        for t in range(x.shape[-1] - 1, -1, -1):
            lam = grad_y[..., t] + coef * lam
            grad_x[..., t] = (1.0 - coef) * lam
            before = y[..., t - 1] if t > 0 else state
            grad_coef += (lam * (before - x[..., t])).sum(0)
        return grad_x, grad_coef, coef * lam


class EnvelopeFollower(nn.Module):
    """Smoothed rectified signal; one learnable time constant per channel."""

    def __init__(self, channels: int, sample_rate: float, seconds: float = 0.02):
        super().__init__()
        self.sample_rate = sample_rate
        self.log_tau = nn.Parameter(torch.full((channels,), math.log(seconds)))

    def forward(self, x: Tensor, state: Optional[Tensor] = None) -> Tensor:
        coef = torch.exp(-1.0 / (self.sample_rate * self.log_tau.exp()))
        if state is None:
            state = x.new_zeros(x.shape[:2])
        return OnePole.apply(x.abs(), coef, state)


# --------------------------------------------------------------------------
# framing
# --------------------------------------------------------------------------

def _frame_index(n_samples: int, size: int, hop: int, device) -> Tensor:
    n_frames = 1 + (n_samples - size) // hop
    starts = torch.arange(n_frames, device=device) * hop
    return starts[:, None] + torch.arange(size, device=device)


class WindowedFrames(Function):
    """Cut a signal into frames and apply a (learnable) analysis window.

    signal ``(batch, samples)``, window ``(size,)``, hop in samples;
    result ``(batch, frames, size)``.  Samples past the last full frame are
    not used.
    """

    @staticmethod
    def forward(ctx, signal, window, hop):
        index = _frame_index(signal.shape[-1], window.shape[0], hop, signal.device)
        frames = signal[:, index]
        ctx.save_for_backward(frames, window, index)
        ctx.n_samples = signal.shape[-1]
        return frames * window

    @staticmethod
    def backward(ctx, grad):
        frames, window, index = ctx.saved_tensors
        grad_signal = grad_window = None
        if ctx.needs_input_grad[0]:
            grad_signal = grad.new_zeros(grad.shape[0], ctx.n_samples)
            grad_signal[:, index] = grad * window
        if ctx.needs_input_grad[1]:
            grad_window = (grad * frames).sum(dim=(0, 1))
        return grad_signal, grad_window, None


@dataclass
class FrameConfig:
    size: int = 32
    hop: Optional[int] = None       # None: frames back to back

    @property
    def step(self) -> int:
        return self.size if self.hop is None else self.hop


class Framer(nn.Module):
    def __init__(self, cfg: FrameConfig = FrameConfig()):
        super().__init__()
        self.cfg = cfg
        self.window = nn.Parameter(torch.hann_window(cfg.size, periodic=True) + 0.01)

    def forward(self, signal: Tensor) -> Tensor:
        return WindowedFrames.apply(signal, self.window, self.cfg.step)


# --------------------------------------------------------------------------
# propagation delay
# --------------------------------------------------------------------------

class SpectralDelay(Function):
    """Circular delay by a fractional number of samples, by the FFT.

    ``x`` is ``(..., channel, time)`` and ``delay`` is ``(channel,)``.
    """

    @staticmethod
    def _phase(n: int, delay: Tensor) -> tuple[Tensor, Tensor]:
        omega = 2.0 * math.pi * torch.arange(n // 2 + 1, dtype=delay.dtype, device=delay.device) / n
        return omega, torch.polar(torch.ones_like(delay)[:, None] * torch.ones_like(omega),
                                  -delay[:, None] * omega)

    @staticmethod
    def forward(x, delay):
        _, phase = SpectralDelay._phase(x.shape[-1], delay)
        return torch.fft.irfft(torch.fft.rfft(x) * phase, n=x.shape[-1])

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, delay = ctx.saved_tensors
        n = x.shape[-1]
        omega, phase = SpectralDelay._phase(n, delay)
        grad_x = torch.fft.irfft(torch.fft.rfft(grad) * phase.conj(), n=n)
        moved = torch.fft.irfft(torch.fft.rfft(x) * phase * (-1j * omega), n=n)
        per_channel = (grad * moved).sum(-1)
        grad_delay = per_channel.reshape(-1, delay.shape[0]).sum(0)
        return grad_x, grad_delay


class MicrophoneArray(nn.Module):
    """Delays a plane wave to every microphone of a line array."""

    def __init__(self, spacing: Tensor, sample_rate: float, speed: float = 343.0):
        super().__init__()
        self.register_buffer("offset", spacing * sample_rate / speed)
        self.angle = nn.Parameter(torch.tensor(0.3))

    def forward(self, wave: Tensor) -> Tensor:
        rep = wave.unsqueeze(-2).expand(*wave.shape[:-1], self.offset.numel(), wave.shape[-1])
        return SpectralDelay.apply(rep.contiguous(), self.offset * torch.sin(self.angle))


# --------------------------------------------------------------------------
# band levels
# --------------------------------------------------------------------------

class BandLevels(Function):
    """Level of a block in a set of bands, in nepers.

    ``level[b, m] = 0.5 * log(floor + sum_k bank[m, k] * |X[b, k]|^2)`` where
    ``X`` is the one-sided spectrum of ``x[b]``.

    Args:
        x: real signal ``(batch, n)``.
        bank: non-negative weights ``(bands, n // 2 + 1)``.
        floor: positive constant under the logarithm.
    """

    @staticmethod
    def forward(ctx, x: Tensor, bank: Tensor, floor: float = 1e-6) -> Tensor:
        spec = torch.fft.rfft(x)
        power = spec.real.square() + spec.imag.square()
        energy = power @ bank.T + floor
        ctx.save_for_backward(spec, power, bank, energy)
        ctx.n = x.shape[-1]
        return 0.5 * energy.log()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        spec, power, bank, energy = ctx.saved_tensors
        grad_energy = 0.5 * grad / energy
        grad_bank = grad_energy.T @ power
        grad_power = grad_energy @ bank
        # irfft counts the inner bins twice (they stand for a conjugate pair),
        # the two ends of the spectrum once
        ends = torch.ones_like(grad_power)
        ends[:, 0] = 2.0
        ends[:, -1] = 2.0
        grad_x = ctx.n * torch.fft.irfft(ends * grad_power * spec, n=ctx.n)
        return grad_x, grad_bank, None


def octave_bank(n: int, sample_rate: float, centres: Tensor, width: float = 0.7) -> Tensor:
    """Smooth band weights ``(len(centres), n // 2 + 1)`` on a log axis."""
    freq = torch.fft.rfftfreq(n, d=1.0 / sample_rate).to(centres.dtype).clamp_min(1e-3)
    return torch.exp(-0.5 * ((freq.log2()[None] - centres.log2()[:, None]) / width) ** 2)


def band_levels(x: Tensor, sample_rate: float, centres: Tensor) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])
    bank = octave_bank(x.shape[-1], sample_rate, centres.to(x.dtype))
    return BandLevels.apply(flat, bank).reshape(*x.shape[:-1], -1)
