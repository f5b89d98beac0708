"""Differentiable process model of a chrome tannery, from the drum to the splitting machine.

The wet end of a tannery runs hides through a sequence of drums.  Recipes are
written relative to the limed weight of the pack ("200 % float, 7 % chrome
powder") and adjusted by the foreman from a handful of measurements: chrome
left in the spent float, chrome taken up by the hide, and the shrinkage
temperature of a strip cut at the backbone.  This module lets those
measurements be fitted jointly with recipe variables by gradient descent.

Stages
------
``ChromeUptake``
    Exchange of chrome between the float and the collagen, step by step.
``DrumMix``
    Exchange of float between neighbouring positions around the drum.
``ShrinkageTemperature``
    Hydrothermal stability as a function of the fixed chrome and aldehyde.
``GradeSplit``
    Allocation of split area to the thickness grades in which leather is sold.

All concentrations are in grams of Cr2O3 per kilogram, temperatures in degrees
Celsius, thicknesses in millimetres and areas in square decimetres.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import torch
from torch import nn
from torch.autograd.function import once_differentiable

#: Thickness classes of the upper-leather price list (mm).
UPPER_GRADES_MM = (0.9, 1.1, 1.3, 1.6, 2.0, 2.5)

#: Collagen-to-liquor partition coefficient at the end pH of basification.
PARTITION = 14.0

#: Shrinkage temperature of raw pickled pelt, by region of the hide.
PELT_TS = {"butt": 58.0, "belly": 54.0, "shoulder": 56.5, "neck": 57.0}


class UptakeResult(NamedTuple):
    fixed: torch.Tensor
    spent: torch.Tensor


class PackReport(NamedTuple):
    fixed: torch.Tensor
    spent: torch.Tensor
    shrinkage: torch.Tensor
    grade_area: torch.Tensor


def _reduce_to(grad: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Sum ``grad`` over whatever axes ``like`` was broadcast along."""
    return grad.sum_to_size(like.shape) if grad.shape != like.shape else grad


def basification_schedule(steps: int, start: float, end: float, dtype=torch.float32) -> torch.Tensor:
    """Rate constants per step while magnesia raises the pH of the float."""
    ramp = torch.linspace(0.0, 1.0, steps, dtype=dtype)
    return start + (end - start) * ramp * ramp * (3.0 - 2.0 * ramp)


def _exchange(float_c, hide_c, rate, float_ratio, partition):
    flux = rate * (float_c - hide_c / partition)
    return float_c - flux / float_ratio, hide_c + flux, flux


class ChromeUptake(torch.autograd.Function):
    """Chrome exchange between float and hide over the tanning run.

    Per step ``t`` the mass flux into the hide is
    ``rate[t] * (float - hide / partition)``.  Mass leaving the float is
    diluted by the float ratio (kilograms of float per kilogram of hide; 1.0 is
    a "100 % float", short floats are below, paddles run at 3 and above).

    Parameters
    ----------
    float0, hide0 : Tensor, (drums,)
        Starting concentrations.
    rate : Tensor, (steps, drums)
        Mass-transfer rate per step.
    float_ratio, partition : float

    Returns
    -------
    fixed : Tensor, (steps, drums)
        Chrome in the hide after each step.
    spent : Tensor, (drums,)
        Chrome left in the float at the end.
    """

    @staticmethod
    def forward(float0, hide0, rate, float_ratio=1.0, partition=PARTITION):
        float_c, hide_c = float0, hide0
        fixed = []
        for step in range(rate.shape[0]):
            float_c, hide_c, _ = _exchange(float_c, hide_c, rate[step], float_ratio, partition)
            fixed.append(hide_c)
        return torch.stack(fixed), float_c.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        float0, hide0, rate, float_ratio, partition = inputs
        ctx.save_for_backward(float0, hide0, rate)
        ctx.float_ratio = float_ratio
        ctx.partition = partition

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_fixed, grad_spent):
        float0, hide0, rate = ctx.saved_tensors
        ratio, partition = ctx.float_ratio, ctx.partition

        gaps = []
        float_c, hide_c = float0, hide0
        for step in range(rate.shape[0]):
            gaps.append(float_c - hide_c / partition)
            float_c, hide_c, _ = _exchange(float_c, hide_c, rate[step], ratio, partition)

        bar_float = grad_spent
        bar_hide = torch.zeros_like(hide0)
        grad_rate = torch.empty_like(rate)
        for step in reversed(range(rate.shape[0])):
            bar_hide = bar_hide + grad_fixed[step]
            bar_flux = bar_hide - bar_float / ratio
            grad_rate[step] = (bar_hide - bar_float) * gaps[step]
            bar_float = bar_float + bar_flux * rate[step]
            bar_hide = bar_hide - bar_flux * rate[step] / partition
        return bar_float, bar_hide, grad_rate, None, None


def _stir(x: torch.Tensor, alpha: torch.Tensor, axis: int) -> torch.Tensor:
    return x + alpha * (x.roll(1, axis) - 2.0 * x + x.roll(-1, axis))


class DrumMix(torch.autograd.Function):
    """Turns of the drum, each exchanging liquor with both neighbours around `axis`.

    `alpha` is any shape that broadcasts against `x` and has extent one along
    `axis` (one exchange share per drum, say).
    """

    @staticmethod
    def forward(ctx, x, alpha, turns, axis):
        if alpha.dim() and alpha.expand_as(x).stride(axis) != 0 and x.shape[axis] > 1:
            raise ValueError("alpha must not vary along the stirred axis")
        states = [x]
        for _ in range(turns):
            states.append(_stir(states[-1], alpha, axis))
        ctx.save_for_backward(alpha, *states[:-1])
        ctx.axis = axis
        return states[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        alpha, *states = ctx.saved_tensors
        bar = grad
        bar_alpha = torch.zeros_like(alpha)
        for state in reversed(states):
            curve = state.roll(1, ctx.axis) - 2.0 * state + state.roll(-1, ctx.axis)
            bar_alpha = bar_alpha + _reduce_to(bar * curve, alpha)
            bar = _stir(bar, alpha, ctx.axis)
        return bar, bar_alpha, None, None


class ShrinkageTemperature(torch.autograd.Function):
    """Ts = pelt + gain * (1 - exp(-cr / half)) + synergy * ald * cr / (1 + cr)

    Args:
        cr: fixed chrome, (hides, regions).
        ald: glutaraldehyde offer, (hides, 1).
        pelt, gain, half: region constants, (regions,).
        synergy: scalar tensor.
    """

    @staticmethod
    def forward(ctx, cr, ald, pelt, gain, half, synergy):
        ctx.save_for_backward(cr, ald, pelt, gain, half, synergy)
        return pelt + gain * -torch.expm1(-cr / half) + synergy * ald * cr / (1.0 + cr)

    @staticmethod
    def backward(ctx, grad):
        cr, ald, pelt, gain, half, synergy = ctx.saved_tensors
        decay = torch.exp(-cr / half)
        cross = cr / (1.0 + cr)
        g_cr = grad * (gain * decay / half + synergy * ald / (1.0 + cr) ** 2)
        g_ald = _reduce_to(grad * synergy * cross, ald)
        g_pelt = _reduce_to(grad, pelt)
        g_gain = _reduce_to(grad * (1.0 - decay), gain)
        g_half = _reduce_to(-grad * gain * decay * cr / half**2, half)
        g_syn = _reduce_to(grad * ald * cross, synergy)
        return g_cr, g_ald, g_pelt, g_gain, g_half, g_syn


class GradeSplit(torch.autograd.Function):
    """Area per thickness grade.

    A piece whose thickness lies between two grades is shared between them in
    proportion to nearness.  Pieces thinner than the first grade, or thicker
    than the last one, count wholly to that grade.
    """

    @staticmethod
    def forward(ctx, thickness, area, grades):
        inside = thickness.clamp(min=grades[0].item(), max=grades[-1].item())
        upper = torch.searchsorted(grades, inside.detach().contiguous(), right=True)
        upper = upper.clamp(1, grades.numel() - 1)
        lower = upper - 1
        step = grades[upper] - grades[lower]
        share = (inside - grades[lower]) / step
        total = thickness.new_zeros(grades.numel())
        total.index_add_(0, lower, area * (1.0 - share))
        total.index_add_(0, upper, area * share)
        ctx.save_for_backward(area, share, step, lower, upper)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        area, share, step, lower, upper = ctx.saved_tensors
        g_low, g_high = grad[lower], grad[upper]
        g_thickness = area * (g_high - g_low) / step
        g_area = g_low * (1.0 - share) + g_high * share
        return g_thickness, g_area, None


class TanningDrum(nn.Module):
    """One recipe for a set of drums; the rate constants are learned."""

    def __init__(self, drums: int, steps: int, float_ratio: float = 1.0, partition: float = PARTITION):
        super().__init__()
        ramp = basification_schedule(steps, 0.04, 0.22)
        self.log_rate = nn.Parameter(ramp.log()[:, None].repeat(1, drums))
        self.float_ratio = float_ratio
        self.partition = partition

    def forward(self, offer: torch.Tensor, carried: Optional[torch.Tensor] = None) -> UptakeResult:
        carried = torch.zeros_like(offer) if carried is None else carried
        fixed, spent = ChromeUptake.apply(
            offer / self.float_ratio, carried, self.log_rate.exp(), self.float_ratio, self.partition
        )
        return UptakeResult(fixed, spent)


class DrumCirculation(nn.Module):
    def __init__(self, drums: int, turns: int = 6):
        super().__init__()
        self.raw = nn.Parameter(torch.full((drums, 1, 1), -1.5))
        self.turns = turns

    def forward(self, liquor):
        # liquor: (drums, positions, solutes)
        return DrumMix.apply(liquor, 0.5 * torch.sigmoid(self.raw), self.turns, 1)


class StabilityHead(nn.Module):
    """Shrinkage temperature by region, from fixed chrome and aldehyde offer."""

    def __init__(self, regions: Sequence[str] = tuple(PELT_TS)):
        super().__init__()
        self.regions = tuple(regions)
        self.register_buffer("pelt", torch.tensor([PELT_TS[name] for name in self.regions]))
        self.gain = nn.Parameter(torch.full((len(self.regions),), 48.0))
        self.log_half = nn.Parameter(torch.full((len(self.regions),), 2.0))
        self.synergy = nn.Parameter(torch.tensor(1.5))

    def forward(self, cr, ald):
        return ShrinkageTemperature.apply(cr, ald, self.pelt, self.gain, self.log_half.exp(), self.synergy)


class SplittingMachine(nn.Module):
    def __init__(self, grades: Sequence[float] = UPPER_GRADES_MM):
        super().__init__()
        self.register_buffer("grades", torch.tensor(grades))
        self.gauge = nn.Parameter(torch.tensor(1.0))

    def forward(self, thickness, area):
        return GradeSplit.apply(self.gauge * thickness, area, self.grades)


class Tannery(nn.Module):
    """Drum, stability and splitting in one go, for a pack of one hide per drum."""

    def __init__(self, drums: int, steps: int, float_ratio: float = 1.5):
        super().__init__()
        self.drum = TanningDrum(drums, steps, float_ratio)
        self.head = StabilityHead()
        self.splitter = SplittingMachine()
        self.affinity = nn.Parameter(torch.tensor([1.0, 1.12, 1.05, 0.97]))

    def forward(self, offer, ald, thickness, area) -> PackReport:
        uptake = self.drum(offer)
        cr = uptake.fixed[-1][:, None] * self.affinity
        return PackReport(uptake.fixed, uptake.spent, self.head(cr, ald), self.splitter(thickness, area))


if __name__ == "__main__":
    torch.manual_seed(3)
    plant = Tannery(drums=3, steps=12)
    report = plant(
        offer=torch.tensor([18.0, 22.0, 25.0]),
        ald=torch.tensor([[0.0], [0.5], [1.0]]),
        thickness=0.8 + 2.0 * torch.rand(40),
        area=8.0 + 4.0 * torch.rand(40),
    )
    loss = (report.shrinkage - 100.0).pow(2).mean() + report.spent.sum() - 1e-2 * report.grade_area[3]
    loss.backward()
    print("spent float", report.spent.tolist())
    print("rate grad norm", plant.drum.log_rate.grad.norm().item())
    mixed = DrumCirculation(3)(torch.rand(3, 8, 2))
    print("liquor after turns", tuple(mixed.shape))
