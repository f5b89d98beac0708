"""Choreography of aerial firework displays.

A display designer places mortars, chooses lift charges and star compositions
and wants the bursts to come at the beat, at the wished height and colour, and
without deafening the front rows.  The operators here map a plan to heights,
light and sound; they are called for thousands of shells per optimiser step,
so forward passes are fused and gradients written out.

SI units; light in kilocandela; sound levels in dB.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Dict, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

GRAVITY = 9.81
AIR_DENSITY = 1.2
DRAG_COEFFICIENT = 0.47
LN10 = math.log(10.0)

Lift = namedtuple("Lift", ["apex", "fuse", "drift"])

# RGB of usual star compositions
STAR_COLOURS: Dict[str, Tuple[float, float, float]] = {
    "strontium": (1.0, 0.12, 0.05),
    "barium": (0.15, 1.0, 0.25),
    "copper": (0.10, 0.25, 0.90),
    "titanium": (1.0, 0.97, 0.90),
    "charcoal": (1.0, 0.62, 0.18),
}


def sphere_area(diameter: Tensor) -> Tensor:
    return 0.25 * math.pi * diameter.square()


def _sum_to(grad: Tensor, like: Tensor) -> Tensor:
    return grad.sum_to_size(like.shape) if grad.shape != like.shape else grad


class ShellLift(Function):
    """Apex height, fuse time and drift of a shell shot straight up.

    Quadratic drag on the way up, so with the terminal speed vt

        apex = vt^2 / (2 g) * log(1 + v0^2 / vt^2)
        fuse = vt / g * atan(v0 / vt)

    and drift = wind * fuse.

    v0, diameter, mass, wind broadcast against each other; a wind of shape ()
    blows for the whole display.
    """

    @staticmethod
    def forward(ctx, v0: Tensor, diameter: Tensor, mass: Tensor, wind: Tensor):
        drag = 0.5 * AIR_DENSITY * DRAG_COEFFICIENT * sphere_area(diameter)
        vt = torch.sqrt(mass * GRAVITY / drag)
        ratio = v0 / vt
        apex = vt.square() / (2 * GRAVITY) * torch.log1p(ratio.square())
        fuse = vt / GRAVITY * torch.atan(ratio)
        ctx.save_for_backward(v0, diameter, mass, wind, vt)
        return apex, fuse, wind * fuse

    @staticmethod
    def backward(ctx, g_apex, g_fuse, g_drift):
        v0, diameter, mass, wind, vt = ctx.saved_tensors
        ratio = v0 / vt
        square = ratio.square()
        fuse = vt / GRAVITY * torch.atan(ratio)

        g_time = g_fuse + g_drift * wind
        g_wind = g_drift * fuse

        g_v0 = (g_apex * v0 + g_time) / (GRAVITY * (1.0 + square))
        # by vt at fixed v0
        d_apex = vt / GRAVITY * (torch.log1p(square) - square / (1.0 + square))
        d_fuse = (torch.atan(ratio) - ratio / (1.0 + square)) / GRAVITY
        g_vt = g_apex * d_apex + g_time * d_fuse
        # vt ~ sqrt(mass) / diameter
        g_mass = 0.5 * g_vt * vt / mass
        g_diameter = -g_vt * vt / diameter
        return (
            _sum_to(g_v0, v0),
            _sum_to(g_diameter, diameter),
            _sum_to(g_mass, mass),
            _sum_to(g_wind, wind),
        )


class StarBurn(Function):
    """Light of all the stars of a shell, per frame and colour channel.

    A star lit at ``t0`` which burns for ``tau`` shines like s^rise (1-s)^fade,
    s = (t - t0) / tau, scaled to a peak of 1, and is dark for s outside (0, 1).

    Args:
        t0: (shells, stars) ignition times.
        tau: (shells, stars) burn times, positive.
        power: (shells, stars) peak intensity.
        colour: (stars, 3) colour of the star positions of the shell pattern.
        frames: (frames,) times at which the display is rendered.
        rise, fade: exponents, at least 1.

    Returns:
        (shells, frames, 3)
    """

    @staticmethod
    def forward(t0, tau, power, colour, frames, rise=2.0, fade=1.5):
        if rise < 1.0 or fade < 1.0:
            raise ValueError("rise and fade have to be at least 1")
        s = ((frames - t0[..., None]) / tau[..., None]).clamp(0.0, 1.0)
        profile = _peak_scale(rise, fade) * s.pow(rise) * (1.0 - s).pow(fade)
        return torch.einsum("bkt,bk,kc->btc", profile, power, colour)

    @staticmethod
    def setup_context(ctx, inputs, output):
        t0, tau, power, colour, frames, rise, fade = inputs
        ctx.save_for_backward(t0, tau, power, colour, frames)
        ctx.shape_exponents = (rise, fade)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        t0, tau, power, colour, frames = ctx.saved_tensors
        rise, fade = ctx.shape_exponents
        raw = (frames - t0[..., None]) / tau[..., None]
        lit = (raw > 0.0) & (raw < 1.0)
        s = raw.clamp(0.0, 1.0)
        scale = _peak_scale(rise, fade)
        profile = scale * s.pow(rise) * (1.0 - s).pow(fade)
        slope = scale * (
            rise * s.pow(rise - 1.0) * (1.0 - s).pow(fade)
            - fade * s.pow(rise) * (1.0 - s).pow(fade - 1.0)
        )
        slope = torch.where(lit, slope, torch.zeros_like(slope))

        seen = torch.einsum("btc,kc->bkt", grad, colour)
        g_power = (seen * profile).sum(-1)
        g_colour = torch.einsum("btc,bkt,bk->kc", grad, profile, power)
        g_s = seen * slope * power[..., None]
        g_t0 = -(g_s.sum(-1) / tau)
        g_tau = -((g_s * s).sum(-1) / tau)
        g_frames = (g_s / tau[..., None]).sum(dim=(0, 1))
        return g_t0, g_tau, g_power, g_colour, g_frames, None, None


def _peak_scale(rise: float, fade: float) -> float:
    """Inverse of the maximum of s^rise (1-s)^fade."""
    top = rise / (rise + fade)
    return 1.0 / (top**rise * (1.0 - top) ** fade)


class CrowdLoudness(Function):

    @staticmethod
    def forward(ctx, seats, bursts, source, absorption, fired, ambient=45.0):
        # seats (n, 3), bursts (m, 3), source (m,) dB at one metre,
        # absorption () in dB per metre, fired (m,) bool
        gap = seats[:, None, :] - bursts[None, :, :]
        distance = gap.norm(dim=-1)
        level = source - 20.0 * torch.log10(distance) - absorption * distance
        level = level.masked_fill(~fired, -math.inf)

        floor = level.new_full((seats.shape[0], 1), ambient)
        both = torch.cat([level, floor], dim=1) * (LN10 / 10.0)
        total = torch.logsumexp(both, dim=1)
        part = torch.exp(both[:, :-1] - total[:, None])
        ctx.save_for_backward(gap, distance, part)
        return total * (10.0 / LN10)

    @staticmethod
    def backward(ctx, grad):
        gap, distance, part = ctx.saved_tensors
        g_level = grad[:, None] * part
        g_source = g_level.sum(dim=0)
        g_absorption = -(g_level * distance).sum()

        # spherical spreading
        g_distance = -g_level * 20.0 / (LN10 * distance)
        pull = (g_distance / distance)[..., None] * gap
        return pull.sum(dim=1), -pull.sum(dim=0), g_source, g_absorption, None, None


class DisplayPlan(nn.Module):
    """A display: where, how hard and when every shell is shot."""

    def __init__(self, n_shells: int, n_stars: int, frame_rate: float = 24.0, seconds: float = 6.0):
        super().__init__()
        self.ground = nn.Parameter(torch.randn(n_shells, 2) * 20.0)
        self.log_v0 = nn.Parameter(torch.full((n_shells,), math.log(65.0)))
        self.launch = nn.Parameter(torch.linspace(-4.0, -1.0, n_shells))
        self.burn = nn.Parameter(torch.zeros(n_shells, n_stars))
        self.log_power = nn.Parameter(torch.zeros(n_shells, n_stars))
        self.absorption = nn.Parameter(torch.tensor(0.0))
        names = list(STAR_COLOURS)
        colours = [STAR_COLOURS[names[i % len(names)]] for i in range(n_stars)]
        self.colour = nn.Parameter(torch.tensor(colours))
        self.register_buffer("diameter", torch.full((n_shells,), 0.1))
        self.register_buffer("mass", torch.full((n_shells,), 0.6))
        self.register_buffer("fired", torch.ones(n_shells, dtype=torch.bool))
        self.register_buffer("frames", torch.arange(0.0, seconds, 1.0 / frame_rate))

    def lift(self, wind: Optional[Tensor] = None) -> Lift:
        wind = self.mass.new_zeros(()) if wind is None else wind
        return Lift(*ShellLift.apply(self.log_v0.exp(), self.diameter, self.mass, wind))

    def bursts(self, lift: Lift) -> Tensor:
        east = self.ground[:, 0] + lift.drift
        return torch.stack([east, self.ground[:, 1], lift.apex], dim=1)

    def light(self, lift: Lift) -> Tensor:
        t0 = (self.launch + lift.fuse)[:, None].expand_as(self.burn)
        tau = 0.8 + 2.0 * torch.sigmoid(self.burn)
        power = self.log_power.exp() * self.fired[:, None]
        return StarBurn.apply(t0, tau, power, self.colour, self.frames, 2.0, 1.5)

    def loudness(self, lift: Lift, seats: Tensor) -> Tensor:
        source = 165.0 + 20.0 * torch.log10(self.diameter / 0.1)
        return CrowdLoudness.apply(
            seats, self.bursts(lift), source, self.absorption, self.fired
        )

    def forward(self, seats: Tensor, wind: Optional[Tensor] = None):
        lift = self.lift(wind)
        return lift, self.light(lift), self.loudness(lift, seats)


def seat_rows(rows: int, per_row: int, first: float = 80.0, pitch: float = 5.0) -> Tensor:
    """Seats in straight rows south of the firing line."""
    y = -(first + pitch * torch.arange(float(rows)))
    x = 4.0 * (torch.arange(float(per_row)) - 0.5 * (per_row - 1))
    yy, xx = torch.meshgrid(y, x, indexing="ij")
    return torch.stack([xx.flatten(), yy.flatten(), torch.full_like(xx.flatten(), 1.2)], dim=1)


def beat_loss(light: Tensor, envelope: Tensor) -> Tensor:
    """Mismatch of the brightness with the envelope of the music."""
    brightness = light.sum(dim=(0, 2))
    brightness = brightness / brightness.amax().clamp_min(1e-6).detach()
    return (brightness - envelope).square().mean()


if __name__ == "__main__":
    torch.manual_seed(3)
    plan = DisplayPlan(n_shells=6, n_stars=10)
    with torch.no_grad():
        plan.absorption.fill_(0.006)
        plan.fired[4] = False
    seats = seat_rows(3, 5)
    envelope = 0.5 + 0.5 * torch.sin(plan.frames * 2.0)
    opt = torch.optim.Adam(plan.parameters(), lr=1e-2)
    for step in range(10):
        opt.zero_grad()
        lift, light, loud = plan(seats, wind=torch.tensor(3.0))
        loss = beat_loss(light, envelope) + 1e-3 * torch.relu(loud - 110.0).square().mean()
        loss.backward()
        opt.step()
    print("loss", loss.item(), "apex", lift.apex.mean().item(), "loudest", loud.max().item())
