"""Analysis of saddle pressure mats for equine gait work.

A pressure mat is a grid of capacitive cells placed between the saddle and the
horse's back.  It is read at a fixed frame rate while the horse is lunged or
ridden, and the fitter wants to know

* how much load each region (withers, rib bearing left and right, ...) takes,
* where in the region the load is centred, and
* how those numbers move through one stride, from hoof strike to hoof strike.

The regions can be hard masks drawn by the fitter, or soft memberships which
are learned so that the summary predicts the veterinary palpation score.  The
cells creep under load and are corrected by a first-order recovery filter
with learned per-cell coefficients.

Shapes used throughout
----------------------
B      recordings in a batch
T      frames
R, C   rows (front to back) and columns (left to right) of the mat
Z      zones
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

FRAME_RATE_HZ = 60.0
CELL_PITCH_MM = 19.0
MIN_ZONE_LOAD_KPA = 40.0
PHASES_PER_STRIDE = 20
DEFAULT_RETENTION = 0.985
DEFAULT_CREEP_GAIN = 0.06


class ZoneSummary(NamedTuple):
    """What the fitter sees for each frame and zone."""

    mean_kpa: Tensor
    fore_aft_mm: Tensor
    lateral_mm: Tensor


@dataclass(frozen=True)
class MatGeometry:
    rows: int = 16
    cols: int = 16
    pitch_mm: float = CELL_PITCH_MM

    def fore_aft(self, like: Tensor) -> Tensor:
        """Row coordinates in mm, zero at the middle of the mat, (R, 1)."""
        r = torch.arange(self.rows, dtype=like.dtype, device=like.device)
        return ((r - 0.5 * (self.rows - 1)) * self.pitch_mm)[:, None]

    def lateral(self, like: Tensor) -> Tensor:
        """Column coordinates in mm, (1, C)."""
        c = torch.arange(self.cols, dtype=like.dtype, device=like.device)
        return ((c - 0.5 * (self.cols - 1)) * self.pitch_mm)[None, :]


def quadrant_masks(geometry: MatGeometry, dtype=torch.float32) -> Tensor:
    """Four hard zones: front left, front right, rear left, rear right."""
    masks = torch.zeros(4, geometry.rows, geometry.cols, dtype=dtype)
    r, c = geometry.rows // 2, geometry.cols // 2
    masks[0, :r, :c] = 1.0
    masks[1, :r, c:] = 1.0
    masks[2, r:, :c] = 1.0
    masks[3, r:, c:] = 1.0
    return masks


class ZoneLoad(Function):
    """Mean pressure and centre of pressure of every zone.

    Parameters
    ----------
    pressure : (B, T, R, C) tensor
        Cell pressures in kPa, not negative.
    membership : (Z, R, C) tensor
        Weight of each cell in each zone.
    fore_aft, lateral : tensors, (R, 1) and (1, C)
        Cell coordinates; constants of the mat.
    min_load : float
        Zones whose summed pressure is less than this are referred to
        ``min_load`` instead, which draws the centre of a zone that has
        lifted off towards the origin of the mat.

    Returns
    -------
    mean, fore, side : each (B, T, Z)
    """

    @staticmethod
    def forward(ctx, pressure, membership, fore_aft, lateral, min_load=MIN_ZONE_LOAD_KPA):
        area = membership.sum(dim=(-2, -1))
        load = torch.einsum("btrc,zrc->btz", pressure, membership)
        reference = load.clamp(min=min_load)
        fore = torch.einsum("btrc,zrc->btz", pressure * fore_aft, membership) / reference
        side = torch.einsum("btrc,zrc->btz", pressure * lateral, membership) / reference
        ctx.save_for_backward(
            pressure, membership, fore_aft, lateral, area, load, reference, fore, side
        )
        return load / area, fore, side

    @staticmethod
    def backward(ctx, grad_mean, grad_fore, grad_side):
        (pressure, membership, fore_aft, lateral,
         area, load, reference, fore, side) = ctx.saved_tensors

        # every output is (moment / divisor); collect what multiplies p * w
        on_load = grad_mean / area - (grad_fore * fore + grad_side * side) / reference
        on_fore = grad_fore / reference
        on_side = grad_side / reference

        grad_pressure = grad_membership = None
        if ctx.needs_input_grad[0]:
            grad_pressure = (
                torch.einsum("btz,zrc->btrc", on_load, membership)
                + torch.einsum("btz,zrc->btrc", on_fore, membership) * fore_aft
                + torch.einsum("btz,zrc->btrc", on_side, membership) * lateral
            )
        if ctx.needs_input_grad[1]:
            grad_membership = (
                torch.einsum("btz,btrc->zrc", on_load, pressure)
                + torch.einsum("btz,btrc->zrc", on_fore, pressure * fore_aft)
                + torch.einsum("btz,btrc->zrc", on_side, pressure * lateral)
            )
            through_area = -(grad_mean * load).sum(dim=(0, 1)) / area.square()
            grad_membership = grad_membership + through_area[:, None, None]
        return grad_pressure, grad_membership, None, None, None


class StrideResample(Function):
    """Resample a series onto stride phase.

    ``series`` has one row per frame and ``strikes`` holds the hoof strike
    times in seconds, one more than there are strides.  Stride ``s`` is
    sampled at ``n_phase`` equally spaced times starting at ``strikes[s]``
    and stopping short of ``strikes[s + 1]``.  Between frames the series is
    linear; before the first and after the last frame it is held.
    """

    @staticmethod
    def forward(series, strikes, n_phase, rate):
        frames = series.shape[0]
        phase = torch.arange(n_phase, dtype=series.dtype, device=series.device) / n_phase
        times = torch.lerp(strikes[:-1, None], strikes[1:, None], phase)
        pos = times * rate
        left = pos.detach().floor().clamp(0, frames - 2).long()
        frac = (pos - left).clamp(0.0, 1.0).unsqueeze(-1)
        return series[left] * (1.0 - frac) + series[left + 1] * frac

    @staticmethod
    def setup_context(ctx, inputs, output):
        series, strikes, n_phase, rate = inputs
        ctx.save_for_backward(series, strikes)
        ctx.n_phase, ctx.rate = n_phase, rate

    @staticmethod
    def backward(ctx, grad_out):
        series, strikes = ctx.saved_tensors
        frames, channels = series.shape
        phase = torch.arange(ctx.n_phase, dtype=series.dtype, device=series.device) / ctx.n_phase
        pos = torch.lerp(strikes[:-1, None], strikes[1:, None], phase) * ctx.rate
        left = pos.floor().clamp(0, frames - 2).long()
        frac = (pos - left).clamp(0.0, 1.0).unsqueeze(-1)

        grad_series = grad_strikes = None
        if ctx.needs_input_grad[0]:
            flat = left.reshape(-1)
            grad_series = torch.zeros_like(series)
            grad_series.index_add_(0, flat, (grad_out * (1.0 - frac)).reshape(-1, channels))
            grad_series.index_add_(0, flat + 1, (grad_out * frac).reshape(-1, channels))
        if ctx.needs_input_grad[1]:
            inside = (pos >= 0) & (pos <= frames - 1)
            slope = (grad_out * (series[left + 1] - series[left])).sum(-1)
            on_time = slope * inside * ctx.rate
            grad_strikes = torch.zeros_like(strikes)
            grad_strikes[:-1] += (on_time * (1.0 - phase)).sum(-1)
            grad_strikes[1:] += (on_time * phase).sum(-1)
        return grad_series, grad_strikes, None, None


class SensorRecovery(Function):
    """Removes creep from cell readings.

        y[t]     = x[t] - gain * s[t]
        s[t + 1] = retention * s[t] + (1 - retention) * x[t]

    Args:
        x: readings (B, T, N), N the flattened cells.
        retention, gain: per cell, (N,).
        s0: creep state at the first frame, (B, N).

    Returns:
        The corrected readings (B, T, N) and the state after the last frame
        (B, N), from which the next chunk of a long recording is continued.
    """

    @staticmethod
    def forward(ctx, x, retention, gain, s0):
        state = s0
        corrected = torch.empty_like(x)
        states = torch.empty_like(x)
        for t in range(x.shape[1]):
            states[:, t] = state
            corrected[:, t] = x[:, t] - gain * state
            state = retention * state + (1.0 - retention) * x[:, t]
        ctx.save_for_backward(x, retention, gain, states)
        return corrected, state.clone()

    @staticmethod
    def backward(ctx, grad_y, grad_state):
        x, retention, gain, states = ctx.saved_tensors
        grad_x = torch.empty_like(x)
        grad_retention = torch.zeros_like(retention)
        carry = retention * grad_state
        for t in range(x.shape[1] - 1, -1, -1):
            grad_x[:, t] = grad_y[:, t] + (1.0 - retention) * carry
            grad_retention += (carry * (states[:, t] - x[:, t])).sum(0)
            carry = retention * carry - gain * grad_y[:, t]
        grad_gain = -(grad_y * states).sum(dim=(0, 1))
        return grad_x, grad_retention, grad_gain, carry


class CreepCorrection(nn.Module):
    """Learned recovery filter; works on chunks of a long ride."""

    def __init__(self, geometry: MatGeometry):
        super().__init__()
        n = geometry.rows * geometry.cols
        logit = math.log(DEFAULT_RETENTION / (1.0 - DEFAULT_RETENTION))
        self.raw_retention = nn.Parameter(torch.full((n,), logit))
        self.gain = nn.Parameter(torch.full((n,), DEFAULT_CREEP_GAIN))

    def forward(self, frames: Tensor, state: Tensor | None = None):
        b, t, r, c = frames.shape
        flat = frames.reshape(b, t, r * c)
        if state is None:
            state = flat.new_zeros(b, r * c)
        y, state = SensorRecovery.apply(
            flat, torch.sigmoid(self.raw_retention), self.gain, state
        )
        return y.reshape(b, t, r, c), state


class SaddleFitModel(nn.Module):
    """Palpation score from the stride-averaged zone summaries."""

    def __init__(self, geometry: MatGeometry | None = None, zones: int = 4, hidden: int = 32):
        super().__init__()
        self.geometry = geometry or MatGeometry()
        self.creep = CreepCorrection(self.geometry)
        start = quadrant_masks(self.geometry)[:zones]
        self.membership_logits = nn.Parameter(4.0 * start - 2.0)
        self.head = nn.Sequential(
            nn.Linear(3 * zones * PHASES_PER_STRIDE, hidden), nn.SiLU(), nn.Linear(hidden, 1)
        )

    def summarise(self, frames: Tensor) -> ZoneSummary:
        membership = torch.sigmoid(self.membership_logits)
        out = ZoneLoad.apply(
            frames.clamp(min=0.0),
            membership,
            self.geometry.fore_aft(frames),
            self.geometry.lateral(frames),
            MIN_ZONE_LOAD_KPA,
        )
        return ZoneSummary(*out)

    def forward(self, frames: Tensor, strikes: list[Tensor]) -> Tensor:
        frames, _ = self.creep(frames)
        summary = torch.cat(self.summarise(frames), dim=-1)
        scores = []
        for series, hoof in zip(summary, strikes):
            strides = StrideResample.apply(series, hoof, PHASES_PER_STRIDE, FRAME_RATE_HZ)
            scores.append(self.head(strides.mean(0).reshape(-1)))
        return torch.stack(scores)


def synthetic_ride(batch: int, frames: int, geometry: MatGeometry) -> Tensor:
    """A trot-like load which rocks from left to right."""
    t = torch.arange(frames) / FRAME_RATE_HZ
    sway = torch.sin(2 * math.pi * 1.3 * t)[None, :, None, None]
    cols = torch.linspace(-1, 1, geometry.cols)[None, None, None, :]
    rows = torch.linspace(-1, 1, geometry.rows)[None, None, :, None]
    load = 12.0 * torch.exp(-2 * (cols - 0.4 * sway).square() - rows.square())
    return load + 0.2 * torch.rand(batch, frames, geometry.rows, geometry.cols)


if __name__ == "__main__":
    torch.manual_seed(0)
    geo = MatGeometry(rows=8, cols=10)
    model = SaddleFitModel(geo)
    ride = synthetic_ride(2, 180, geo)
    hooves = [torch.tensor([0.11, 0.87, 1.66, 2.42]), torch.tensor([0.2, 0.99, 1.8])]
    loss = (model(ride, hooves) - 1.5).square().mean()
    loss.backward()
    print(f"loss {loss.item():.4f}",
          f"grad on membership {model.membership_logits.grad.norm().item():.4f}")
