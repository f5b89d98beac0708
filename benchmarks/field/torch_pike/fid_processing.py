"""Time-domain NMR: model free induction decays, transform and phase them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

TWO_PI = 2.0 * math.pi
NORMS = {"backward": 0.0, "ortho": -0.5, "forward": -1.0}


@dataclass(frozen=True)
class Acquisition:
    dwell: float = 2.5e-4  # s
    points: int = 512
    zero_fill: int = 1024
    norm: str = "backward"
    offset_hz: float = 0.0
    labels: tuple[str, ...] = field(default=("NAA", "Cr", "Cho"))

    @property
    def times(self) -> torch.Tensor:
        return self.dwell * torch.arange(self.points, dtype=torch.get_default_dtype())


class FreeInduction(torch.autograd.Function):
    """Sum of damped complex exponentials.

    amplitude (V, K); phase, freq (Hz) and rate (1/s) are (V, K) or (K,),
    the latter when the voxels share them; times (T,). Result (V, T), complex.
    """

    @staticmethod
    def forward(amplitude, phase, freq, rate, times):
        angle = phase[..., None] + TWO_PI * freq[..., None] * times
        decay = torch.exp(-rate[..., None] * times)
        unit = torch.complex(decay * angle.cos(), decay * angle.sin())
        return (amplitude[..., None] * unit).sum(-2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        amplitude, phase, freq, rate, times = ctx.saved_tensors
        angle = phase[..., None] + TWO_PI * freq[..., None] * times
        decay = torch.exp(-rate[..., None] * times)
        gr, gi = g.real[:, None, :], g.imag[:, None, :]
        radial = decay * (gr * angle.cos() + gi * angle.sin())
        turning = decay * (gi * angle.cos() - gr * angle.sin())
        d_amp = radial.sum(-1)
        d_phase = amplitude * turning.sum(-1)
        d_freq = TWO_PI * amplitude * (turning * times).sum(-1)
        d_rate = -amplitude * (radial * times).sum(-1)
        return (
            d_amp,
            d_phase.sum_to_size(phase.shape),
            d_freq.sum_to_size(freq.shape),
            d_rate.sum_to_size(rate.shape),
            None,
        )


class ApodizedSpectrum(torch.autograd.Function):
    """Line-broadened, zero-filled (or truncated) and centred spectrum.

    fid (B, T) complex; broadening (B, 1), Hz; times (T,); n, points of the
    spectrum, on either side of T; norm as in torch.fft. The first point is
    halved, as usual for a causal signal.
    """

    @staticmethod
    def forward(ctx, fid, broadening, times, n, norm):
        window = torch.exp(-math.pi * broadening * times)
        window[:, 0] = window[:, 0] * 0.5
        spectrum = torch.fft.fft(fid * window, n=n, dim=-1, norm=norm)
        ctx.save_for_backward(fid, window, times)
        ctx.n, ctx.scale = n, float(n) ** NORMS[norm]
        return torch.fft.fftshift(spectrum, dim=-1)

    @staticmethod
    def backward(ctx, g):
        fid, window, times = ctx.saved_tensors
        n, length = ctx.n, fid.shape[-1]
        g = torch.fft.ifftshift(g, dim=-1)
        back = torch.fft.ifft(g, dim=-1, norm="forward") * ctx.scale
        if n < length:
            back = torch.cat([back, back.new_zeros(*back.shape[:-1], length - n)], dim=-1)
        back = back[..., :length]
        d_fid = back * window
        lost = (d_fid * fid.conj()).real
        d_broad = -math.pi * (lost * times).sum(-1, keepdim=True)
        return d_fid, d_broad, None, None, None


class PhaseRamp(torch.autograd.Function):
    """Zero- and first-order phase correction of complex spectra.

    spectrum (B, N) complex, zero and first (B, 1) in radians, the first-order
    phase growing from zero at the pivot by `first` over the whole width.
    The corrected spectrum is complex: its real part is the absorption mode,
    its imaginary part the dispersion mode.
    """

    @staticmethod
    def forward(ctx, spectrum, zero, first, pivot: int):
        n = spectrum.shape[-1]
        ramp = (torch.arange(n, dtype=zero.dtype, device=zero.device) - pivot) / n
        turn = torch.exp(1j * (zero + first * ramp))
        out = spectrum * turn
        ctx.save_for_backward(out, turn, ramp)
        return out

    @staticmethod
    def backward(ctx, g):
        out, turn, ramp = ctx.saved_tensors
        swing = (g * 1j * out).real
        d_zero = swing.sum(-1, keepdim=True)
        d_first = (swing * ramp).sum(-1, keepdim=True)
        return g * turn.conj(), d_zero, d_first, None


class SpectrumModel(torch.nn.Module):
    """Fits V voxels with K resonances; frequencies are common to all voxels."""

    def __init__(self, voxels: int, freqs: torch.Tensor, acq: Acquisition | None = None):
        super().__init__()
        self.acq = acq or Acquisition()
        k = freqs.numel()
        self.freq = torch.nn.Parameter(freqs - self.acq.offset_hz)
        self.amplitude = torch.nn.Parameter(torch.ones(voxels, k))
        self.phase = torch.nn.Parameter(torch.zeros(k))
        self.rate = torch.nn.Parameter(torch.full((voxels, k), 12.0))
        self.broadening = torch.nn.Parameter(torch.full((voxels, 1), 1.0))
        self.p0 = torch.nn.Parameter(torch.zeros(voxels, 1))
        self.p1 = torch.nn.Parameter(torch.zeros(voxels, 1))

    def forward(self):
        acq, t = self.acq, self.acq.times
        fid = FreeInduction.apply(self.amplitude, self.phase, self.freq, self.rate, t)
        spectrum = ApodizedSpectrum.apply(fid, self.broadening, t, acq.zero_fill, acq.norm)
        return PhaseRamp.apply(spectrum, self.p0, self.p1, acq.zero_fill // 2)


def fit_absorption(model: SpectrumModel, observed: torch.Tensor, steps: int = 300) -> float:
    """Least squares on the absorption mode; returns the last loss."""
    opt = torch.optim.LBFGS(model.parameters(), max_iter=steps)

    def closure():
        opt.zero_grad()
        loss = (model().real - observed).square().mean()
        loss.backward()
        return loss

    return opt.step(closure).item()
