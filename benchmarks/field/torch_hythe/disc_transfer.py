"""Restoration of transfers from lacquer and vinyl discs.

A transfer chain has three mechanical stages that a restorer can fit:

1. the pivoted arm, which holds the stylus at an angle to the groove,
2. the turntable, whose speed wanders around its nominal value,
3. the stylus tip, which rides over the groove wall with a finite radius.

Geometry is in millimetres.  Audio blocks are laid out ``(channels, samples)``
after decoding of the 45/45 walls and ``(grooves, samples)`` before it.
"""

import math
from typing import NamedTuple, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

INNER_GROOVE_MM = 60.3
OUTER_GROOVE_MM = 146.1
ERROR_FLOOR_RAD = 1.0e-3
STANDARD_RPM = 100.0 / 3.0
DEFAULT_TIP_MM = 0.018


class ArmGeometry(NamedTuple):
    effective_length: torch.Tensor
    mounting_distance: torch.Tensor
    offset_angle: torch.Tensor


def baerwald_arm(dtype=torch.float32):
    """The textbook nine-inch arm with nulls near 66 mm and 121 mm."""
    return ArmGeometry(
        torch.tensor(229.0, dtype=dtype),
        torch.tensor(211.2, dtype=dtype),
        torch.tensor(math.radians(23.98), dtype=dtype),
    )


def groove_step_mm(radius_mm, sample_rate, rpm=STANDARD_RPM):
    """Arc length covered by one sample at the given radius."""
    return 2.0 * math.pi * radius_mm * rpm / 60.0 / sample_rate


def _match(grad, like):
    return grad.sum_to_size(like.shape)


class LateralTrackingDistortion(Function):
    """Tracking error of a pivoted arm and the distortion index it causes.

    ``radius``, ``length``, ``distance`` and ``offset`` broadcast, so that a
    bank of arms ``(arms, 1)`` can be swept over grooves ``(grooves,)``.

    Returns ``(index, error)``: the signed error in radians, and the smoothed
    magnitude of the error over the radius, in rad/mm.
    """

    @staticmethod
    def forward(ctx, radius, length, distance, offset):
        sine = (radius ** 2 + length ** 2 - distance ** 2) / (2.0 * radius * length)
        error = torch.asin(sine) - offset
        magnitude = torch.sqrt(error ** 2 + ERROR_FLOOR_RAD ** 2)
        ctx.save_for_backward(radius, length, distance, offset, sine, magnitude)
        return magnitude / radius, error

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_index, grad_error):
        radius, length, distance, offset, sine, magnitude = ctx.saved_tensors
        # slope of the smoothed magnitude
        slope = torch.sqrt((magnitude ** 2 - ERROR_FLOOR_RAD ** 2).clamp(min=0.0)) / magnitude
        grad_total = grad_error + grad_index * slope / radius
        grad_sine = grad_total / torch.sqrt(1.0 - sine ** 2)

        span = length ** 2 - distance ** 2
        d_radius = (1.0 - span / radius ** 2) / (2.0 * length)
        d_length = (1.0 - (radius ** 2 - distance ** 2) / length ** 2) / (2.0 * radius)
        d_distance = -distance / (radius * length)

        grad_radius = grad_sine * d_radius - grad_index * magnitude / radius ** 2
        return (
            _match(grad_radius, radius),
            _match(grad_sine * d_length, length),
            _match(grad_sine * d_distance, distance),
            _match(-grad_total, offset),
        )


class SpeedCurveResample(Function):
    """Read a recording along a wandering speed curve.

    Output sample ``k`` is read, with linear interpolation, at the position
    ``start + speed[0] + ... + speed[k - 1]``.  Positions outside the recording
    hold its first or last sample.

    signal: (channels, samples)
    speed:  (frames,) recording samples advanced per output sample; about one
            for a transfer at the right speed, 0.74 for a 33 1/3 side that was
            transferred on a deck left at 45
    start:  scalar tensor
    """

    @staticmethod
    def forward(ctx, signal, speed, start):
        last = signal.shape[-1] - 1
        raw = start + torch.cumsum(speed, 0) - speed
        inside = (raw >= 0) & (raw <= last)
        position = raw.clamp(0, last)
        left = position.detach().floor().long().clamp(max=last - 1)
        frac = position - left.to(position.dtype)
        low, high = signal[:, left], signal[:, left + 1]
        ctx.save_for_backward(left, frac, high - low, inside)
        ctx.samples = signal.shape[-1]
        return low + (high - low) * frac

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        left, frac, slope, inside = ctx.saved_tensors

        grad_signal = grad_out.new_zeros(grad_out.shape[0], ctx.samples)
        grad_signal[:, left] += grad_out * (1.0 - frac)
        grad_signal[:, left + 1] += grad_out * frac

        grad_position = (grad_out * slope).sum(0) * inside.to(grad_out.dtype)
        total = grad_position.sum()
        # everything read strictly after frame j moves with speed[j]
        grad_speed = total - torch.cumsum(grad_position, 0)
        return grad_signal, grad_speed, total


class TipTracing(Function):
    """Path of a rounded stylus tip over a groove wall.

    The tip touches the wall wherever the wall, lowered by the parabolic cap
    ``x^2 / (2 radius)``, is highest; the contact is softened over
    ``softness``.  The wall is continued flat past both ends.

    Shapes: ``wall (grooves, samples)``, ``radius`` a scalar or ``(grooves,)``,
    ``step (grooves,)`` the arc length between samples.
    """

    @staticmethod
    def _contact(wall, radius, step, taps, softness):
        offsets = torch.arange(-taps, taps + 1, device=wall.device)
        where = torch.arange(wall.shape[-1], device=wall.device)[:, None] + offsets
        where = where.clamp(0, wall.shape[-1] - 1)
        reach = step[:, None] * offsets.to(wall.dtype)
        cap = reach ** 2 / (2.0 * radius.reshape(-1, 1))
        lowered = wall[:, where] - cap[:, None, :]
        return where, reach, lowered / softness

    @staticmethod
    def forward(wall, radius, step, taps, softness):
        _, _, logits = TipTracing._contact(wall, radius, step, taps, softness)
        return softness * torch.logsumexp(logits, -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        wall, radius, step, taps, softness = inputs
        ctx.save_for_backward(wall, radius, step)
        ctx.taps, ctx.softness = taps, softness

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_path):
        wall, radius, step = ctx.saved_tensors
        where, reach, logits = TipTracing._contact(wall, radius, step, ctx.taps, ctx.softness)
        touch = torch.softmax(logits, -1) * grad_path.unsqueeze(-1)

        grad_wall = torch.zeros_like(wall)
        grad_wall.index_add_(1, where.reshape(-1), touch.reshape(wall.shape[0], -1))

        per_tap = touch.sum(1)
        tip = radius.reshape(-1, 1)
        grad_radius = (per_tap * reach ** 2 / (2.0 * tip ** 2)).sum(-1)
        if radius.numel() == 1:
            grad_radius = grad_radius.sum()
        grad_radius = grad_radius.reshape(radius.shape)
        taps = torch.arange(-ctx.taps, ctx.taps + 1, device=wall.device).to(wall.dtype)
        grad_step = -(per_tap * reach * taps / tip).sum(-1)
        return grad_wall, grad_radius, grad_step, None, None


class ArmAlignment(nn.Module):
    """Learns mounting distance and offset for one or several arms."""

    def __init__(self, arms: int = 1, geometry: Union[ArmGeometry, None] = None):
        super().__init__()
        geometry = geometry or baerwald_arm()
        self.register_buffer("length", geometry.effective_length.expand(arms, 1).clone())
        self.distance = nn.Parameter(geometry.mounting_distance.expand(arms, 1).clone())
        self.offset = nn.Parameter(geometry.offset_angle.expand(arms, 1).clone())

    def forward(self, radius):
        return LateralTrackingDistortion.apply(radius, self.length, self.distance, self.offset)

    def worst_index(self, grooves: int = 64):
        radius = torch.linspace(INNER_GROOVE_MM, OUTER_GROOVE_MM, grooves,
                                dtype=self.distance.dtype)
        index, _ = self(radius)
        return index.amax(-1)


class WowCorrector(nn.Module):
    """Speed curve built from a coarse set of knots, in parts per unit."""

    def __init__(self, frames: int, knots: int = 8, nominal: float = 1.0):
        super().__init__()
        self.frames = frames
        self.nominal = nominal
        self.knots = nn.Parameter(torch.zeros(knots))
        self.start = nn.Parameter(torch.zeros(()))

    def speed(self):
        curve = F.interpolate(self.knots[None, None], size=self.frames,
                              mode="linear", align_corners=True)[0, 0]
        return self.nominal * (1.0 + 0.01 * torch.tanh(curve))

    def forward(self, recording):
        return SpeedCurveResample.apply(recording, self.speed(), self.start)


class StylusModel(nn.Module):
    """Tip of learnable radius tracing walls of known radius on the disc."""

    def __init__(self, sample_rate: float, taps: int = 3, softness: float = 2e-4):
        super().__init__()
        self.sample_rate = sample_rate
        self.taps = taps
        self.softness = softness
        self.log_tip = nn.Parameter(torch.tensor(math.log(DEFAULT_TIP_MM)))

    def forward(self, wall, groove_radius):
        step = groove_step_mm(groove_radius, self.sample_rate)
        return TipTracing.apply(wall, self.log_tip.exp(), step, self.taps, self.softness)


if __name__ == "__main__":
    torch.manual_seed(0)
    arm = ArmAlignment(arms=2)
    arm.worst_index().sum().backward()
    print("offset gradient", arm.offset.grad.squeeze(-1).tolist())

    tone = torch.sin(torch.arange(400) * 0.2).repeat(2, 1)
    corrector = WowCorrector(frames=300, nominal=STANDARD_RPM / 45.0)
    corrector(tone).square().mean().backward()
    print("speed knots", corrector.knots.grad.tolist())

    stylus = StylusModel(96_000.0)
    path = stylus(0.005 * torch.randn(3, 64), torch.tensor([65.0, 100.0, 140.0]))
    path.mean().backward()
    print("tip", stylus.log_tip.grad.item())
