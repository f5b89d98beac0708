"""Bench and range arithmetic for recurve and compound bows.

The fitting bench in the club records draw-force curves, the chronograph gives
launch speeds and the range cameras give impact points on the face.  This file
holds the differentiable pieces that tie them together:

* work stored in the limbs while drawing,
* speed of the arrow down the lane, with wind gusts per time step,
* score of an end of arrows on a ringed face.

Everything is in SI units (newton, metre, second, kilogram) unless the name
says otherwise.  Tuning of a bow is done with :class:`BowTuner`, which fits the
limb parameters, the drag and the sight offset to recorded sessions.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

GRAIN_KG = 6.479891e-5
INCH_M = 0.0254
LBF_N = 4.4482216

#: Speed at which skin friction along the shaft equals form drag of the point.
SKIN_REFERENCE_SPEED = 12.0

#: Ring radii (m) of the 122 cm face, innermost first, and the points gained by
#: crossing each ring inwards.
FACE_122_RADII = (0.061, 0.122, 0.183, 0.244, 0.305, 0.366, 0.427, 0.488, 0.549, 0.610)
FACE_122_STEPS = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1)

#: 40 cm indoor face, triple spot: everything below the six is a miss.
FACE_40_SPOT_RADII = (0.020, 0.040, 0.060, 0.080, 0.100)
FACE_40_SPOT_STEPS = (1, 1, 1, 1, 6)

DRAG_LAWS = ("quadratic", "mixed")


class ArrowBuild(NamedTuple):
    """Shaft build sheet; ``radius`` is that of the shaft, not of the fletching."""

    mass_grains: float
    radius: float
    drag_area: float

    @property
    def mass(self) -> float:
        return self.mass_grains * GRAIN_KG

    def drag_per_metre(self, air_density: float = 1.204) -> float:
        return 0.5 * air_density * self.drag_area / self.mass


def stations_from_inches(inches: Sequence[float], *, dtype=torch.float64) -> Tensor:
    """Draw stations of the bench, which is marked in inches past brace height."""
    return torch.as_tensor(list(inches), dtype=dtype) * INCH_M


def limb_force(draw: Tensor, weight: Tensor, stack: Tensor) -> Tensor:
    """Two-parameter recurve law: linear pull with stacking near full draw."""
    fraction = draw / draw[..., -1:].clamp_min(1e-9)
    return weight[..., None] * (fraction + stack[..., None] * fraction.pow(3))


def _lead_sum(value: Tensor) -> Tensor:
    """Sum everything but the last axis."""
    return value.reshape(-1, value.shape[-1]).sum(0)


class StoredDrawWork(Function):
    """Trapezoid work along the draw.

    Parameters
    ----------
    force : Tensor, shape (..., N)
        Draw force at each station.
    stations : Tensor, shape (N,)
        Increasing draw lengths.  They need not be evenly spaced: the bench
        operator usually takes more readings near the wall.

    Returns
    -------
    work : Tensor, shape (..., N)
        Work done up to each station (zero at the first).
    total : Tensor, shape (...)
        Work at full draw.
    mean_force : Tensor, shape (...)
        ``total`` over the length of the power stroke.
    """

    @staticmethod
    def forward(ctx, force, stations):
        dx = stations[1:] - stations[:-1]
        middle = 0.5 * (force[..., 1:] + force[..., :-1])
        work = torch.zeros_like(force)
        work[..., 1:] = torch.cumsum(middle * dx, dim=-1)
        total = work[..., -1].clone()
        stroke = stations[-1] - stations[0]
        ctx.save_for_backward(force, stations, total)
        return work, total, total / stroke

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_work, grad_total, grad_mean):
        force, stations, total = ctx.saved_tensors
        dx = stations[1:] - stations[:-1]
        stroke = stations[-1] - stations[0]

        at_end = grad_total + grad_mean / stroke
        tail = grad_work[..., 1:].flip(-1).cumsum(-1).flip(-1)
        per_interval = tail + at_end[..., None]

        grad_force = grad_stations = None
        if ctx.needs_input_grad[0]:
            half = 0.5 * per_interval * dx
            grad_force = torch.zeros_like(force)
            grad_force[..., 1:] += half
            grad_force[..., :-1] += half
        if ctx.needs_input_grad[1]:
            middle = 0.5 * (force[..., 1:] + force[..., :-1])
            grad_dx = _lead_sum(per_interval * middle)
            grad_stroke = -(grad_mean * total).sum() / stroke.square()
            grad_stations = torch.zeros_like(stations)
            grad_stations[1:] += grad_dx
            grad_stations[:-1] -= grad_dx
            grad_stations[-1] += grad_stroke
            grad_stations[0] -= grad_stroke
        return grad_force, grad_stations


def _air_resistance(u: Tensor, law: str) -> Tuple[Tensor, Tensor]:
    """Resistance and its slope for air speed ``u``."""
    resistance = u * u.abs()
    slope = 2.0 * u.abs()
    if law == "mixed":
        resistance = resistance + SKIN_REFERENCE_SPEED * u
        slope = slope + SKIN_REFERENCE_SPEED
    return resistance, slope


class LaneSpeed(Function):
    """Speed of arrows down the lane, explicit Euler.

    Args:
        launch: (B,) launch speeds.
        drag: (B,) drag per metre of each arrow, ``0.5 rho CdA / m``.
        wind: (B, K) following wind in each step, headwind negative.
        dt: step in seconds.
        law: ``"quadratic"`` (form drag alone) or ``"mixed"`` (form drag and
            laminar skin friction, for carbon shafts with bare points).

    Returns:
        speeds (B, K + 1), starting with the launch, and the distance (B,)
        travelled after the last step.
    """

    @staticmethod
    def forward(ctx, launch, drag, wind, dt, law):
        if law not in DRAG_LAWS:
            raise ValueError(f"law must be one of {DRAG_LAWS}, got {law!r}")
        steps = wind.shape[1]
        speeds = [launch]
        for k in range(steps):
            resistance, _ = _air_resistance(speeds[-1] - wind[:, k], law)
            speeds.append(speeds[-1] - dt * drag * resistance)
        track = torch.stack(speeds, dim=1)
        distance = dt * 0.5 * (track[:, 1:] + track[:, :-1]).sum(1)
        ctx.save_for_backward(drag, wind, track)
        ctx.dt = dt
        ctx.law = law
        return track, distance

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_track, grad_distance):
        drag, wind, track = ctx.saved_tensors
        dt = ctx.dt
        steps = wind.shape[1]
        grad_wind = torch.zeros_like(wind)
        grad_drag = torch.zeros_like(drag)
        adjoint = grad_track[:, steps] + 0.5 * dt * grad_distance
        for k in range(steps - 1, -1, -1):
            u = track[:, k] - wind[:, k]
            _, slope = _air_resistance(u, ctx.law)
            grad_drag = grad_drag - dt * adjoint * u * u.abs()
            through = dt * drag * slope * adjoint
            grad_wind[:, k] = through
            share = 0.5 if k == 0 else 1.0
            adjoint = adjoint - through + grad_track[:, k] + share * dt * grad_distance
        return adjoint, grad_drag, grad_wind, None, None


class RingedFaceScore(Function):
    """Points of each arrow on a ringed face, by the line-cutter rule.

    The forward value is the integer score: a ring counts when the shaft touches
    its line, i.e. when the centre of the shaft is within ``ring + shaft``.
    The backward pass is a surrogate by intent: every ring's step is replaced by
    the derivative of a logistic of width ``blur`` (m) in the radius.  The
    second output, the radius itself, has its ordinary derivative.

    impacts: (..., 2); offset: (2,) added to every impact (sight correction).
    """

    @staticmethod
    def forward(impacts, offset, radii, steps, shaft, blur):
        hit = impacts + offset
        radius = torch.linalg.vector_norm(hit, dim=-1)
        lines = torch.as_tensor(radii, dtype=hit.dtype, device=hit.device) + shaft
        gain = torch.as_tensor(steps, dtype=hit.dtype, device=hit.device)
        touched = radius[..., None] <= lines
        return (touched.to(hit.dtype) * gain).sum(-1), radius

    @staticmethod
    def setup_context(ctx, inputs, output):
        impacts, offset, radii, steps, shaft, blur = inputs
        _, radius = output
        ctx.save_for_backward(impacts, offset, radius)
        ctx.face = (tuple(radii), tuple(steps), shaft, blur)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_score, grad_radius):
        impacts, offset, radius = ctx.saved_tensors
        radii, steps, shaft, blur = ctx.face
        lines = torch.as_tensor(radii, dtype=radius.dtype, device=radius.device) + shaft
        gain = torch.as_tensor(steps, dtype=radius.dtype, device=radius.device)
        soft = torch.sigmoid((lines - radius[..., None]) / blur)
        slope = -(gain * soft * (1.0 - soft)).sum(-1) / blur
        along = grad_score * slope + grad_radius

        hit = impacts + offset
        safe = torch.where(radius > 0, radius, torch.ones_like(radius))
        grad_hit = (along / safe)[..., None] * hit
        grad_impacts = grad_hit if ctx.needs_input_grad[0] else None
        grad_offset = _lead_sum(grad_hit) if ctx.needs_input_grad[1] else None
        return grad_impacts, grad_offset, None, None, None, None


class Face(NamedTuple):
    radii: Tuple[float, ...] = FACE_122_RADII
    steps: Tuple[int, ...] = FACE_122_STEPS
    blur: float = 0.02

    def score(self, impacts: Tensor, offset: Tensor, shaft: float):
        return RingedFaceScore.apply(
            impacts, offset, self.radii, self.steps, shaft, self.blur
        )


class BowTuner(nn.Module):
    """Fits limbs, efficiency, drag and sight of one bow to its sessions."""

    def __init__(
        self,
        stations: Tensor,
        build: ArrowBuild,
        face: Optional[Face] = None,
        law: str = "quadratic",
        dt: float = 0.02,
    ):
        super().__init__()
        self.register_buffer("stations", stations)
        dtype = stations.dtype
        self.build = build
        self.face = face or Face()
        self.law = law
        self.dt = dt
        self.weight = nn.Parameter(torch.tensor(38.0 * LBF_N, dtype=dtype))
        self.stack = nn.Parameter(torch.tensor(0.08, dtype=dtype))
        self.logit_efficiency = nn.Parameter(torch.tensor(0.9, dtype=dtype))
        self.log_drag = nn.Parameter(
            torch.tensor(math.log(build.drag_per_metre()), dtype=dtype)
        )
        self.sight = nn.Parameter(torch.zeros(2, dtype=dtype))

    def launch_speed(self) -> Tensor:
        force = limb_force(self.stations, self.weight, self.stack)
        _, total, _ = StoredDrawWork.apply(force, self.stations)
        efficiency = torch.sigmoid(self.logit_efficiency)
        return torch.sqrt(2.0 * efficiency * total / self.build.mass)

    def forward(self, wind: Tensor, impacts: Tensor):
        """wind (B, K), impacts (B, 2) -> arrival speed, distance, score."""
        launch = self.launch_speed().expand(wind.shape[0]).contiguous()
        drag = self.log_drag.exp().expand(wind.shape[0]).contiguous()
        speeds, distance = LaneSpeed.apply(launch, drag, wind, self.dt, self.law)
        score, _ = self.face.score(impacts, self.sight, self.build.radius)
        return speeds[:, -1], distance, score


if __name__ == "__main__":
    torch.manual_seed(3)
    bench = stations_from_inches([0, 3, 6, 9, 12, 14, 16, 17, 18, 18.5])
    tuner = BowTuner(bench, ArrowBuild(350.0, 0.0028, 6.2e-5))
    gusts = 1.5 * torch.randn(6, 40, dtype=torch.float64)
    holes = 0.2 * torch.randn(6, 2, dtype=torch.float64)
    arrival, distance, score = tuner(gusts, holes)
    loss = (arrival - 52.0).square().mean() - 0.01 * score.sum()
    loss.backward()
    print("arrival", arrival.detach().tolist())
    for name, parameter in tuner.named_parameters():
        print(name, parameter.grad)
