"""Routine analysis for the trampoline hall.

The hall records two streams for each athlete: the depression of the bed during
contact (draw-wire sensor under the frame) and the apex and landing position of
every skill (two cameras).  This module turns them into

* the vertical force of the suspended bed, for fitting spring settings,
* the time-of-flight mark of a routine,
* the horizontal-displacement deduction.

All lengths are metres, all forces newtons, all times seconds.  The regulation
bed is 4.28 x 2.14 m and hangs in 118 springs: two families, the long ones at
the ends and the short ones along the sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

GRAVITY = 9.81
BED_LENGTH = 4.28
BED_WIDTH = 2.14
FRAME_CLEARANCE = 0.95
PAD_STIFFNESS = 5.0e4
MAX_SKILLS = 10

# Deduction rings, in units of the jump zone: (radius, tenths taken off).
RING_RADII = (0.50, 1.00, 1.60)
RING_TENTHS = (0.10, 0.10, 0.10)


class SpringFamily(NamedTuple):
    """Geometry of one family of springs (count and horizontal run)."""

    count: float
    run: float


REGULATION_FAMILIES = (SpringFamily(46.0, 2.49), SpringFamily(72.0, 1.45))


@dataclass
class HallConfig:
    zone_half_length: float = 1.08
    zone_half_width: float = 0.54
    roundness: float = 4.0
    ring_width: float = 0.08
    families: tuple = REGULATION_FAMILIES


def family_tensors(families, like: Tensor) -> tuple[Tensor, Tensor]:
    """Columns ``count`` and ``run`` of a spring table, in the dtype of ``like``."""
    counts = like.new_tensor([f.count for f in families])
    runs = like.new_tensor([f.run for f in families])
    return counts, runs


def valid_skill_mask(counts: Tensor, width: int = MAX_SKILLS) -> Tensor:
    steps = torch.arange(width, device=counts.device)
    return steps[None, :] < counts[:, None]


# --------------------------------------------------------------------------
# Bed
# --------------------------------------------------------------------------


class BedReaction(torch.autograd.Function):
    """Vertical reaction of the bed to a depression at its centre.

    Every spring of family ``f`` runs a horizontal distance ``run_f`` and is
    mounted with a pre-stretch; pushing the bed down by ``z`` lengthens it to
    ``sqrt(run_f**2 + z**2)``.  Above its rest plane the bed does not pull, and
    below the clearance the floor pad joins in with a quadratic reaction.

    Parameters
    ----------
    depression : Tensor, shape (..., )
        Positive downwards.
    stiffness : Tensor, shape (F,)
    prestretch : Tensor, shape (F,)
    families : tuple of SpringFamily
    clearance : float
    """

    @staticmethod
    def forward(ctx, depression, stiffness, prestretch, families, clearance):
        counts, runs = family_tensors(families, depression)
        z = depression.clamp_min(0.0).unsqueeze(-1)
        length = torch.sqrt(runs**2 + z**2)
        stretch = length - runs + prestretch
        slope = z / length
        pull = (counts * stiffness * stretch * slope).sum(-1)
        into_pad = (depression - clearance).clamp_min(0.0)
        ctx.save_for_backward(depression, stiffness, stretch, slope, length, into_pad)
        ctx.table = (counts, runs)
        return pull + PAD_STIFFNESS * into_pad**2

    @staticmethod
    def backward(ctx, grad):
        depression, stiffness, stretch, slope, length, into_pad = ctx.saved_tensors
        counts, runs = ctx.table
        down = (depression > 0).to(grad.dtype)
        # d(stretch)/dz = slope, d(slope)/dz = run^2 / length^3
        per_family = slope * slope + stretch * runs**2 / length**3
        dz = (counts * stiffness * per_family).sum(-1) * down
        dz = dz + 2.0 * PAD_STIFFNESS * into_pad
        lead = grad.unsqueeze(-1)
        axes = tuple(range(grad.dim()))
        d_stiff = lead * counts * stretch * slope
        d_pre = lead * counts * stiffness * slope
        if axes:
            d_stiff = d_stiff.sum(axes)
            d_pre = d_pre.sum(axes)
        return grad * dz, d_stiff, d_pre, None, None


class SuspendedBed(nn.Module):
    """Spring settings of one trampoline, fitted to force-plate jumps."""

    def __init__(self, config: HallConfig | None = None):
        super().__init__()
        self.config = config or HallConfig()
        n = len(self.config.families)
        self.log_stiffness = nn.Parameter(torch.full((n,), 4.2))
        self.log_prestretch = nn.Parameter(torch.full((n,), -1.9))

    def forward(self, depression: Tensor) -> Tensor:
        return BedReaction.apply(
            depression,
            self.log_stiffness.exp(),
            self.log_prestretch.exp(),
            self.config.families,
            FRAME_CLEARANCE,
        )

    def impulse(self, depression: Tensor, rate_hz: float) -> Tensor:
        """Trapezoidal impulse of a contact trace (batch, samples)."""
        force = self(depression)
        return torch.trapezoid(force, dx=1.0 / rate_hz, dim=-1)


# --------------------------------------------------------------------------
# Time of flight
# --------------------------------------------------------------------------


class RoutineTime(torch.autograd.Function):
    """Total airborne time of the counted skills of each routine.

    ``apex`` is the height of the centre of mass at the top over its height at
    take-off, ``level`` the height at touch-down over the height at take-off
    (seat and back landings touch lower or higher than feet).  Both are
    (athlete, skill); ``counted`` is a boolean table of the same shape.
    """

    @staticmethod
    def forward(ctx, apex, level, counted):
        rise = torch.sqrt(2.0 * apex / GRAVITY)
        fall = torch.sqrt(2.0 * (apex - level) / GRAVITY)
        rise = torch.where(counted, rise, torch.ones_like(rise))
        fall = torch.where(counted, fall, torch.ones_like(fall))
        ctx.save_for_backward(rise, fall, counted)
        return ((rise + fall) * counted).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        rise, fall, counted = ctx.saved_tensors
        spread = grad.unsqueeze(-1) * counted
        g_apex = spread * 2.0 / (GRAVITY * rise)
        g_level = -spread / (GRAVITY * fall)
        return g_apex, g_level, None


def time_mark(apex: Tensor, counts: Tensor, level: Tensor | None = None) -> Tensor:
    """Time-of-flight mark; ``level`` defaults to landing where one took off."""
    if level is None:
        level = torch.zeros_like(apex)
    return RoutineTime.apply(apex, level, valid_skill_mask(counts, apex.shape[-1]))


# --------------------------------------------------------------------------
# Horizontal displacement
# --------------------------------------------------------------------------


class DisplacementDeduction(torch.autograd.Function):
    """Mean displacement deduction over the counted landings.

    Args:
        spots: landing positions, (athlete, skill, 2), origin at the cross.
        half: half length and half width of the jump zone, shape (2,).
        counted: bool, (athlete, skill); a routine with nothing counted has
            deduction zero.
        roundness: exponent of the superellipse that stands in for the zone.
        ring_width: softness of the rings.
    """

    @staticmethod
    def forward(ctx, spots, half, counted, roundness, ring_width):
        scaled = spots.abs() / half
        powered = scaled**roundness
        mass = powered.sum(-1)
        radius = mass ** (1.0 / roundness)
        radii = spots.new_tensor(RING_RADII)
        tenths = spots.new_tensor(RING_TENTHS)
        step = torch.sigmoid((radius.unsqueeze(-1) - radii) / ring_width)
        taken = (step * tenths).sum(-1)
        n = counted.sum(-1).clamp_min(1).to(spots.dtype)
        weight = counted / n.unsqueeze(-1)
        ctx.save_for_backward(spots, half, scaled, radius, step, weight)
        ctx.roundness = roundness
        ctx.ring_width = ring_width
        return (taken * weight).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        spots, half, scaled, radius, step, weight = ctx.saved_tensors
        tenths = spots.new_tensor(RING_TENTHS)
        d_radius = (step * (1.0 - step) * tenths).sum(-1) / ctx.ring_width
        d_radius = d_radius * weight * grad.unsqueeze(-1)
        # radius is homogeneous of degree one in the scaled coordinates
        safe = torch.where(radius > 0, radius, torch.ones_like(radius)).unsqueeze(-1)
        ratio = (scaled / safe) ** (ctx.roundness - 1.0)
        d_scaled = d_radius.unsqueeze(-1) * ratio
        g_spots = d_scaled * torch.sign(spots) / half
        g_half = -(d_scaled * scaled / half).sum(tuple(range(spots.dim() - 1)))
        return g_spots, g_half, None, None, None


class RoutineJudge(nn.Module):
    """Marks a batch of routines; the zone is a parameter so panels can be refitted."""

    def __init__(self, config: HallConfig | None = None):
        super().__init__()
        self.config = config or HallConfig()
        zone = [self.config.zone_half_length, self.config.zone_half_width]
        self.zone = nn.Parameter(torch.tensor(zone))

    def forward(self, apex, spots, counts, level=None):
        counted = valid_skill_mask(counts, apex.shape[-1])
        time = time_mark(apex, counts, level)
        off = DisplacementDeduction.apply(
            spots, self.zone, counted, self.config.roundness, self.config.ring_width
        )
        return time + (MAX_SKILLS - off * counts)


if __name__ == "__main__":
    torch.manual_seed(3)
    bed = SuspendedBed()
    trace = 0.8 * torch.sin(torch.linspace(0, 3.1, 40)).expand(2, -1)
    print("impulse", bed.impulse(trace, 120.0))
    judge = RoutineJudge()
    apex = 3.5 + torch.rand(3, 10)
    spots = torch.randn(3, 10, 2) * 0.4
    marks = judge(apex, spots, torch.tensor([10, 8, 10]), torch.randn(3, 10) * 0.3)
    marks.sum().backward()
    print("marks", marks.detach(), judge.zone.grad)
