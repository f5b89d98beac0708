import math

import torch
import torch.nn as nn
from torch.autograd import Function


def fault_orders(n_balls, ball_d, pitch_d, angle=0.0):
    r = ball_d / pitch_d * math.cos(angle)
    return {
        "bpfo": 0.5 * n_balls * (1 - r),
        "bpfi": 0.5 * n_balls * (1 + r),
        "bsf": 0.5 * pitch_d / ball_d * (1 - r * r),
        "ftf": 0.5 * (1 - r),
    }


def band_window(n, fs, lo, hi, soft=20.0):
    f = torch.fft.fftfreq(n, 1 / fs, dtype=torch.float64)
    return 2 * torch.sigmoid((f - lo) / soft) * torch.sigmoid((hi - f) / soft)


def mount_response(n, fs, f0, zeta):
    """complex response of a stud-mounted accelerometer"""
    f = torch.fft.fftfreq(n, 1 / fs, dtype=torch.float64)
    return f0 ** 2 / torch.complex(f0 ** 2 - f ** 2, 2 * zeta * f0 * f)


class SquaredBandEnvelope(Function):
    @staticmethod
    def forward(ctx, x, h):
        X = torch.fft.fft(x)
        z = torch.fft.ifft(X * h)
        ctx.save_for_backward(X, h, z)
        return z.real ** 2 + z.imag ** 2

    @staticmethod
    def backward(ctx, g):
        X, h, z = ctx.saved_tensors
        G = torch.fft.fft(2 * g * z)
        gx = gh = None
        if ctx.needs_input_grad[0]:
            gx = torch.fft.ifft(G * h).real
        if ctx.needs_input_grad[1]:
            gh = (X.conj() * G).reshape(-1, G.shape[-1]).sum(0) / G.shape[-1]
            if not h.is_complex():
                gh = gh.real
        return gx, gh


class SyncAverage(Function):
    # x (B, T), slot (B, T) shaft-angle bin of each sample, length (B,)
    @staticmethod
    def forward(x, slot, length, n_slots, detrend):
        live = torch.arange(x.shape[1], device=x.device) < length[:, None]
        total = x.new_zeros(x.shape[0], n_slots).scatter_add(1, slot, x * live)
        count = x.new_zeros(x.shape[0], n_slots).scatter_add(1, slot, live.to(x.dtype))
        avg = total / count.clamp(min=1)
        if detrend:
            avg = avg - avg.mean(1, keepdim=True)
        return avg

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, slot, length, ctx.n_slots, ctx.detrend = inputs
        ctx.save_for_backward(slot, length)

    @staticmethod
    def backward(ctx, g):
        slot, length = ctx.saved_tensors
        live = (torch.arange(slot.shape[1], device=g.device) < length[:, None]).to(g.dtype)
        count = torch.zeros_like(g).scatter_add(1, slot, live).clamp(min=1)
        g = g / count
        if ctx.detrend:
            g = g - g.mean(1, keepdim=True)
        return g.gather(1, slot) * live, None, None, None, None


class SpectralKurtosis(Function):
    @staticmethod
    def forward(ctx, spec, dim=-1, keepdim=False):
        p = spec.abs() ** 2
        m2 = p.mean(dim, keepdim=True)
        ratio = (p * p).mean(dim, keepdim=True) / m2 ** 2
        ctx.save_for_backward(spec, p, m2, ratio)
        ctx.dim, ctx.keepdim = dim, keepdim
        out = ratio - 2
        return out if keepdim else out.squeeze(dim)

    @staticmethod
    def backward(ctx, g):
        spec, p, m2, ratio = ctx.saved_tensors
        if not ctx.keepdim:
            g = g.unsqueeze(ctx.dim)
        n = spec.shape[ctx.dim]
        return 4 * g * (p / m2 - ratio) / (n * m2) * spec, None, None


class EnvelopeFrontEnd(nn.Module):
    def __init__(self, n, fs, lo, hi, mount=None, trainable=False):
        super().__init__()
        h = band_window(n, fs, lo, hi)
        if mount is not None:
            h = h / mount_response(n, fs, *mount)
        self.h = nn.Parameter(h, requires_grad=trainable)
        self.n = n

    def forward(self, x):
        env = SquaredBandEnvelope.apply(x.double(), self.h)
        return env - env.mean(-1, keepdim=True)


class OrderMap(nn.Module):
    def __init__(self, n_slots=64, detrend=True):
        super().__init__()
        self.n_slots, self.detrend = n_slots, detrend

    def forward(self, env, shaft_angle, length):
        turn = torch.remainder(shaft_angle / (2 * math.pi), 1.0)
        slot = (turn * self.n_slots).long().clamp_(max=self.n_slots - 1)
        return SyncAverage.apply(env, slot, length, self.n_slots, self.detrend)


def frame_kurtosis(x, win=256, hop=64):
    s = torch.stft(x, win, hop, window=torch.hann_window(win, dtype=x.dtype), return_complex=True)
    return SpectralKurtosis.apply(s, -1, False)   # (B, F, frames) -> (B, F)


def tune_band(signals, fs, mount=(28e3, 0.05), steps=30):
    front = EnvelopeFrontEnd(signals.shape[-1], fs, 2e3, 6e3, mount=mount, trainable=True)
    gain = torch.ones(signals.shape[0], 1, dtype=torch.float64, requires_grad=True)
    opt = torch.optim.SGD([gain, front.h], lr=1e-3)
    for _ in range(steps):
        opt.zero_grad()
        env = front(signals.double() * gain)
        spec = torch.fft.rfft(env)
        loss = -SpectralKurtosis.apply(spec, 1, True).mean()
        loss.backward()
        opt.step()
    return front, gain.detach()
