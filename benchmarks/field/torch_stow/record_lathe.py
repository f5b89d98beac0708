"""Mastering helpers for cutting vinyl records.

Cutting a side is a packing problem: louder grooves swing further sideways and
need more pitch, while the inner turns pass the stylus slower and lose treble.
The lathe computer sets the pitch a turn ahead of the cutter from the preview
head.  Here the decisions are made differentiable, so a level/pitch automation
for a whole side can be tuned against a loss (land left between turns, playing
time, high-frequency loss at the run-out, limiter activity).

Conventions: lengths in micrometres unless noted, radii in millimetres, one
entry per revolution ("turn"), outermost first.
"""

from __future__ import annotations

import math
from typing import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

RPM_LP = 100.0 / 3.0
RPM_SINGLE = 45.0
OUTER_RADIUS_MM = 146.0
INNER_RADIUS_MM = 60.3
STYLUS_ANGLE_WIDTH = 2.0          # groove width over depth for a 90 degree tip
MINIMUM_LAND_UM = 8.0
DB = 20.0 / math.log(10.0)


def groove_width(depth: Tensor) -> Tensor:
    """Width of the groove at the surface of the lacquer."""
    return STYLUS_ANGLE_WIDTH * depth


def playing_time(turns: int, rpm: float = RPM_LP) -> float:
    """Seconds."""
    return 60.0 * turns / rpm


def turn_radii(pitch_um: Tensor, outer_mm: float = OUTER_RADIUS_MM) -> Tensor:
    """Radius of every turn, given the advance before each of them."""
    return outer_mm - 1e-3 * torch.cumsum(pitch_um, dim=-1)


class GrooveLand(Function):
    r"""Uncut lacquer between a turn and the one ``lookback`` turns before it.

    .. math::
        land_i = P_{i+b} - P_i - (w_{i+b} + w_i) / 2,\qquad P = cumsum(pitch)

    ``pitch`` and ``width`` are ``(..., turns)``, the result
    ``(..., turns - lookback)``.  ``lookback=1`` is the wall to the neighbour;
    with larger values the clearance to turns further out is obtained (deep
    excursions are felt as pre-echo two turns away).
    """

    @staticmethod
    def forward(ctx, pitch: Tensor, width: Tensor, lookback: int = 1) -> Tensor:
        where = torch.cumsum(pitch, dim=-1)
        ctx.lookback = lookback
        ctx.turns = pitch.shape[-1]
        spacing = where[..., lookback:] - where[..., :-lookback]
        return spacing - 0.5 * (width[..., lookback:] + width[..., :-lookback])

    @staticmethod
    def backward(ctx, grad: Tensor):
        b = ctx.lookback
        to_where = F.pad(grad, (b, 0)) - F.pad(grad, (0, b))
        grad_pitch = to_where.flip(-1).cumsum(-1).flip(-1)
        grad_width = -0.5 * (F.pad(grad, (1, b - 1)) + F.pad(grad, (0, b)))
        return grad_pitch, grad_width, None


class TracingLoss(Function):
    """High-frequency level lost by a spherical tip, in dB, per turn and frequency.

    loss = -20 log10(1 + q^2), with q the ratio of tip radius to reduced
    wavelength, q = 2 pi f tip / v and v = 2 pi radius rpm / 60.

    Args:
        radius: groove radius [mm], shape (turns,).
        freq: frequency [Hz], shape (bands,).
        tip: effective tip radius [um], zero-dimensional.
        rpm: speed of the turntable.

    Returns:
        (turns, bands), never positive.
    """

    @staticmethod
    def forward(radius, freq, tip, rpm):
        q = _reduced_wavenumber(radius, freq, tip, rpm)
        return -DB * torch.log1p(q * q)

    @staticmethod
    def setup_context(ctx, inputs, output):
        radius, freq, tip, rpm = inputs
        ctx.save_for_backward(radius, freq, tip)
        ctx.rpm = rpm

    @staticmethod
    def backward(ctx, grad):
        radius, freq, tip = ctx.saved_tensors
        q = _reduced_wavenumber(radius, freq, tip, ctx.rpm)
        bar_q = -DB * grad * 2.0 * q / (1.0 + q * q)
        g_radius = -(bar_q * q).sum(1) / radius
        per_hz = _reduced_wavenumber(radius, torch.ones_like(freq), tip, ctx.rpm)
        g_freq = (bar_q * per_hz).sum(0)
        g_tip = (bar_q * _reduced_wavenumber(radius, freq, torch.ones_like(tip), ctx.rpm)).sum()
        return g_radius, g_freq, g_tip, None


def _reduced_wavenumber(radius, freq, tip, rpm):
    velocity_um = 1e3 * 2.0 * math.pi * radius * rpm / 60.0
    return 2.0 * math.pi * tip * freq[None, :] / velocity_um[:, None]


class CutterLimiter(Function):
    """Acceleration limiter in front of the cutter head.

    ``drive * accel`` passes unchanged up to ``knee``, bends over
    quadratically, and is flat at ``ceiling`` from ``2 * ceiling - knee``
    onwards; both polarities alike.  ``accel`` (samples, channels), ``drive``
    (channels,).
    """

    @staticmethod
    def forward(ctx, accel, drive, knee, ceiling):
        x = accel * drive
        size = x.abs()
        room = ceiling - knee
        bent = size - (size - knee) ** 2 / (4.0 * room)
        out = torch.where(size <= knee, size, bent)
        out = torch.where(size >= knee + 2.0 * room, torch.full_like(size, ceiling), out)
        ctx.save_for_backward(accel, drive)
        ctx.knee, ctx.room = knee, room
        return torch.sign(x) * out

    @staticmethod
    def backward(ctx, grad):
        accel, drive = ctx.saved_tensors
        knee, room = ctx.knee, ctx.room
        x = accel * drive
        size = x.abs()
        slope = torch.where(size <= knee, torch.ones_like(x), 1.0 - (x - knee) / (2.0 * room))
        slope = torch.where(size >= knee + 2.0 * room, torch.zeros_like(x), slope)
        through = grad * slope
        return through * drive, (through * accel).sum(0), None, None


class RiaaPreemphasis(nn.Module):
    """Recording characteristic as gains on a frequency grid (dB)."""

    TAUS = (3180e-6, 318e-6, 75e-6)

    def forward(self, freq: Tensor) -> Tensor:
        w = 2.0 * math.pi * freq
        t1, t2, t3 = self.TAUS
        gain = 0.5 * (torch.log1p((w * t1) ** 2) + torch.log1p((w * t3) ** 2) - torch.log1p((w * t2) ** 2))
        return DB * (gain - gain.new_tensor(self._reference()))

    def _reference(self) -> float:
        w = 2.0 * math.pi * 1000.0
        t1, t2, t3 = self.TAUS
        return 0.5 * (math.log1p((w * t1) ** 2) + math.log1p((w * t3) ** 2) - math.log1p((w * t2) ** 2))


class PitchAutomation(nn.Module):
    """Pitch of every turn as basic advance plus a response to the preview levels."""

    def __init__(self, base_um: float = 110.0, lookbacks: Sequence[int] = (1,)):
        super().__init__()
        self.base = nn.Parameter(torch.tensor(base_um))
        self.reach = nn.Parameter(torch.tensor(0.8))
        self.lookbacks = tuple(lookbacks)

    def pitch(self, swing: Tensor) -> Tensor:
        return self.base + self.reach * swing

    def forward(self, swing: Tensor, depth: Tensor) -> Tensor:
        """Penalty on missing land; swing and depth are (sides, turns)."""
        pitch = self.pitch(swing)
        width = groove_width(depth) + swing
        penalty = pitch.new_zeros(())
        for lookback in self.lookbacks:
            land = GrooveLand.apply(pitch, width, lookback)
            penalty = penalty + F.softplus(MINIMUM_LAND_UM - land).mean()
        return penalty


class TrebleCheck(nn.Module):
    """Worst-case treble loss of a side, and the tip the complaint would need."""

    def __init__(self, freq=(5e3, 10e3, 15e3), tip_um: float = 7.0, rpm: float = RPM_LP):
        super().__init__()
        self.register_buffer("freq", torch.tensor(freq))
        self.tip = nn.Parameter(torch.tensor(tip_um))
        self.rpm = rpm

    def forward(self, radius_mm: Tensor) -> Tensor:
        return TracingLoss.apply(radius_mm, self.freq, self.tip, self.rpm)


class HeadAmplifier(nn.Module):
    """Stereo drive with protection."""

    def __init__(self, channels: int = 2, knee: float = 0.6, ceiling: float = 1.0):
        super().__init__()
        if not 0.0 < knee < ceiling:
            raise ValueError("knee must lie below the ceiling")
        self.drive_db = nn.Parameter(torch.zeros(channels))
        self.knee = knee
        self.ceiling = ceiling

    def forward(self, accel: Tensor) -> Tensor:
        drive = torch.exp(self.drive_db / DB)
        return CutterLimiter.apply(accel, drive, self.knee, self.ceiling)


def side_loss(automation: PitchAutomation, check: TrebleCheck, swing: Tensor, depth: Tensor) -> Tensor:
    """Scalar cost of one side."""
    pitch = automation.pitch(swing)
    radius = turn_radii(pitch[0])
    used = torch.relu(INNER_RADIUS_MM - radius[-1])
    return automation(swing, depth) + used - 0.05 * check(radius).mean()


if __name__ == "__main__":
    torch.manual_seed(1)
    automation = PitchAutomation(lookbacks=(1, 2))
    check = TrebleCheck()
    swing = 40.0 * torch.rand(1, 400)
    depth = 25.0 + 5.0 * torch.rand(1, 400)
    cost = side_loss(automation, check, swing, depth)
    cost.backward()
    print("cost", cost.item(), "base grad", automation.base.grad.item(), "tip grad", check.tip.grad.item())
    amp = HeadAmplifier()
    out = amp(1.4 * torch.randn(2048, 2))
    out.pow(2).mean().backward()
    print("peak", out.abs().max().item(), "drive grad", amp.drive_db.grad.tolist())
    print("riaa", RiaaPreemphasis()(torch.tensor([20.0, 1e3, 2e4])).tolist(), playing_time(400))
