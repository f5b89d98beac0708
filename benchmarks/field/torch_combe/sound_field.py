"""Audio effects with hand-written gradients (mix-matching and style transfer of effects)."""
import math
from typing import Tuple

import torch
from torch import nn
from torch.autograd import Function


def _taps(delay: torch.Tensor, n: int) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    pos = torch.arange(n, dtype=delay.dtype, device=delay.device) - delay
    base = pos.floor()
    return base.long(), base.long() + 1, pos - base


def _read(x: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
    """x[b, idx[b, n]], zero outside of the recording."""
    ok = (idx >= 0) & (idx < x.shape[-1])
    return x.gather(-1, idx.clamp(0, x.shape[-1] - 1)) * ok


class VibratoLine(Function):
    """Modulated delay line with linear interpolation.

    ``y[b, n] = (1 - mix) * x[b, n] + mix * x[b, n - delay[n]]`` where fractional
    positions are read by linear interpolation and anything outside of the
    recording is silence.

    Args:
        x (Tensor): audio, ``(batch, n)``.
        delay (Tensor): non-negative delay in samples; either one curve ``(n,)``
            shared by all items of the batch or one per item, ``(batch, n)``.
        mix (Tensor): wet/dry balance, scalar.

    Returns:
        Tensor: ``(batch, n)``. Gradients flow to ``x``, ``delay`` and ``mix``
        (for whole-sample delays the right-hand segment is used).
    """

    @staticmethod
    def forward(ctx, x, delay, mix):
        full = delay.expand(x.shape)
        i0, i1, frac = _taps(full, x.shape[-1])
        wet = (1.0 - frac) * _read(x, i0) + frac * _read(x, i1)
        ctx.save_for_backward(x, delay, mix, wet)
        return (1.0 - mix) * x + mix * wet

    @staticmethod
    def backward(ctx, grad):
        x, delay, mix, wet = ctx.saved_tensors
        n = x.shape[-1]
        i0, i1, frac = _taps(delay.expand(x.shape), n)
        g = mix * grad
        gx = (1.0 - mix) * grad
        for idx, w in ((i0, 1.0 - frac), (i1, frac)):
            ok = (idx >= 0) & (idx < n)
            gx = gx.scatter_add(-1, idx.clamp(0, n - 1), g * w * ok)
        g_delay = g * (_read(x, i0) - _read(x, i1))
        if delay.dim() == 1:
            g_delay = g_delay.mean(0)
        g_mix = (grad * (wet - x)).sum()
        return gx, g_delay, g_mix


class Vibrato(nn.Module):
    def __init__(self, rate_hz: float, depth: float, sample_rate: int = 44100, centre: float = 80.0):
        super().__init__()
        self.depth = nn.Parameter(torch.tensor(depth))
        self.mix = nn.Parameter(torch.tensor(1.0))
        self.rate_hz, self.sample_rate, self.centre = rate_hz, sample_rate, centre

    def forward(self, x):
        t = torch.arange(x.shape[-1], dtype=x.dtype, device=x.device) / self.sample_rate
        delay = self.centre + self.depth * torch.sin(2 * math.pi * self.rate_hz * t)
        return VibratoLine.apply(x, delay, self.mix)


_DB = 10.0 / math.log(10.0)


class PeakingEqDb(Function):
    """Summed dB response of RBJ peaking bands (last axis: f0, gain_db, q) at fixed `freqs`, all strictly below Nyquist."""

    @staticmethod
    def forward(ctx, f0, gain_db, q, freqs, sample_rate):
        w = 2.0 * math.pi * freqs / sample_rate
        w0 = (2.0 * math.pi / sample_rate) * f0[..., None]
        amp = 10.0 ** (gain_db[..., None] / 40.0)
        alpha = torch.sin(w0) / (2.0 * q[..., None])
        off = (w.cos() - w0.cos()) ** 2
        side = (alpha * w.sin()) ** 2
        num = off + side * amp**2
        den = off + side / amp**2
        ctx.save_for_backward(f0, q, w, w0, amp, off, side, num, den)
        ctx.sample_rate = sample_rate
        return (_DB * torch.log(num / den)).sum(-2)

    @staticmethod
    def backward(ctx, grad):
        f0, q, w, w0, amp, off, side, num, den = ctx.saved_tensors
        g = _DB * grad[..., None, :]
        a2 = amp**2
        d_off = 1.0 / num - 1.0 / den
        d_side = a2 / num - 1.0 / (a2 * den)
        d_lna = 2.0 * side * (a2 / num + 1.0 / (a2 * den))
        d_w0 = d_off * 2.0 * (w.cos() - w0.cos()) * w0.sin() + d_side * 2.0 * side / torch.tan(w0)
        g_f0 = (g * d_w0).sum(-1) * (2.0 * math.pi / ctx.sample_rate)
        g_gain = (g * d_lna).sum(-1) * (math.log(10.0) / 40.0)
        g_q = (g * d_side * -2.0 * side).sum(-1) / q
        return g_f0, g_gain, g_q, None, None


class OnsetGridSTE(Function):
    """Pull note onsets towards the nearest grid line (the "quantize" knob of a sequencer).

    ``out = onsets + strength * (nearest_grid_line - onsets)``.

    The derivative of this function is ``1 - strength`` almost everywhere, which
    kills the training signal at full strength. We therefore use a
    straight-through gradient on purpose: backward hands the incoming gradient to
    ``onsets`` unchanged, whatever the strength, and treats the grid (``step``,
    ``origin``) and ``strength`` as constants.
    """

    @staticmethod
    def forward(onsets, step, origin=0.0, strength=1.0):
        line = torch.round((onsets - origin) / step) * step + origin
        return onsets + strength * (line - onsets)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None, None
