"""Transtibial socket fitting: interface pressure and daily limb volume.

The fitting room records strain gauges glued between liner and socket, and a
diary of when the prosthesis was worn.  From these we estimate

* how the silicone liner stiffens as it is squeezed towards its lock-up strain,
* which anatomical regions carry the load during stance, and
* how the residual limb shrinks over a day in the socket and recovers in the
  evening, so that the number of sock plies can be planned.

All three are fitted jointly with Adam over several hundred patients, so the
operators below carry their own backward passes; the generic graph of the
volume recurrence alone took several gigabytes for a one minute diary.

Units: strain dimensionless, pressure kPa, area cm^2, time h, volume percent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

# Fraction of the lock-up strain beyond which the liner law goes on linearly.
TANGENT_FRACTION = 0.92

REGIONS: Tuple[str, ...] = (
    "patellar_tendon",
    "tibial_crest",
    "fibular_head",
    "popliteal",
    "medial_flare",
    "distal_end",
)

# Published tolerance, kPa, in the order of REGIONS.
PAIN_THRESHOLD = (89.0, 42.0, 33.0, 50.0, 71.0, 27.0)

# One sock ply takes up about this much of the limb's volume.
PERCENT_PER_PLY = 0.8


def _unbroadcast(grad: Tensor, like: Tensor) -> Tensor:
    """Sum ``grad`` down to the shape ``like`` had before broadcasting."""
    return grad.sum_to_size(like.shape) if grad.shape != like.shape else grad


# ---------------------------------------------------------------------------
# liner
# ---------------------------------------------------------------------------


class LinerStiffening(Function):
    """Compressive stress of a gel liner near lock-up.

    Parameters
    ----------
    strain : Tensor
        Compressive strain, positive when squeezed.  Negative strain (liner
        lifted off) carries no stress.
    modulus : Tensor
        Small-strain modulus, broadcast against ``strain``.
    lock : Tensor
        Lock-up strain, broadcast against ``strain``.
    hardening : float
        Dimensionless weight of the lock-up term.

    Notes
    -----
    ``E e (1 + k e / (L - e))`` up to ``TANGENT_FRACTION * L``; from there the
    tangent is followed so that a bad gauge can not give infinite stress.
    """

    @staticmethod
    def forward(ctx, strain, modulus, lock, hardening=0.5):
        c = TANGENT_FRACTION
        knee = c * lock
        squeezed = strain > 0
        beyond = strain > knee
        inner = torch.minimum(strain.clamp(min=0.0), knee)
        room = lock - inner
        shape = inner + hardening * inner**2 / room
        knee_slope = 1.0 + hardening * c * (2.0 - c) / (1.0 - c) ** 2
        shape = shape + torch.where(beyond, knee_slope * (strain - knee), torch.zeros_like(shape))
        ctx.save_for_backward(strain, modulus, lock, inner, shape, beyond, squeezed)
        ctx.hardening = hardening
        ctx.knee_slope = knee_slope
        return modulus * shape

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        strain, modulus, lock, inner, shape, beyond, squeezed = ctx.saved_tensors
        k, c = ctx.hardening, TANGENT_FRACTION
        room = lock - inner
        d_strain = d_modulus = d_lock = None

        if ctx.needs_input_grad[0]:
            slope = 1.0 + k * inner * (2.0 * lock - inner) / room**2
            slope = torch.where(beyond, torch.full_like(slope, ctx.knee_slope), slope)
            slope = torch.where(squeezed, slope, torch.zeros_like(slope))
            d_strain = _unbroadcast(grad_out * modulus * slope, strain)
        if ctx.needs_input_grad[1]:
            d_modulus = _unbroadcast(grad_out * shape, modulus)
        if ctx.needs_input_grad[2]:
            below = -k * inner**2 / room**2
            above = c + k * c * c / (1.0 - c) - ctx.knee_slope * c
            sens = torch.where(beyond, torch.full_like(below, above), below)
            d_lock = _unbroadcast(grad_out * modulus * sens, lock)
        return d_strain, d_modulus, d_lock, None


class GelLiner(nn.Module):
    """A liner with one modulus and one lock-up strain per gauge site."""

    def __init__(self, sites: int, modulus_kpa: float = 120.0, lock: float = 0.45, hardening: float = 0.5):
        super().__init__()
        self.log_modulus = nn.Parameter(torch.full((sites,), math.log(modulus_kpa)))
        self.logit_lock = nn.Parameter(torch.full((sites,), math.log(lock / (1.0 - lock))))
        self.hardening = float(hardening)

    def forward(self, strain: Tensor) -> Tensor:
        return LinerStiffening.apply(
            strain, self.log_modulus.exp(), torch.sigmoid(self.logit_lock), self.hardening
        )


# ---------------------------------------------------------------------------
# regions
# ---------------------------------------------------------------------------


class RegionalContact(Function):
    """Area-weighted power mean of pressure within each region, and total force.

    Args:
        pressure: gauge pressures, (frames, sites).
        area: contact area behind each gauge, (sites,).
        region: integer region of each gauge, (sites,); several gauges share one.
        n_regions: number of regions; a region without a gauge reads zero.
        order: exponent of the mean, at least 1.  Large orders look at the peak.

    Returns:
        ``(level, force)`` of shapes (frames, n_regions) and (frames,).

    An unloaded region passes a zero gradient.
    """

    @staticmethod
    def forward(ctx, pressure, area, region, n_regions, order):
        frames = pressure.shape[0]
        where = region.expand(frames, -1)
        total = area.new_zeros(n_regions).index_add(0, region, area)
        safe_total = torch.where(total > 0, total, torch.ones_like(total))

        # scaled by the region's largest reading: high orders overflow float32
        size = pressure.abs()
        peak = size.new_zeros(frames, n_regions).scatter_reduce(1, where, size, "amax").clamp(min=1e-12)
        relative = (size / peak[:, region]) ** order
        raised = pressure.new_zeros(frames, n_regions).scatter_add(1, where, area * relative)
        level = peak * (raised / safe_total) ** (1.0 / order)
        force = pressure @ area

        ctx.save_for_backward(pressure, area, region, safe_total, level)
        ctx.order = order
        return level, force

    @staticmethod
    @once_differentiable
    def backward(ctx, g_level, g_force):
        pressure, area, region, safe_total, level = ctx.saved_tensors
        q = ctx.order
        at_site = level[:, region]
        loaded = at_site > 0
        ratio = torch.where(loaded, pressure.abs() / torch.where(loaded, at_site, torch.ones_like(at_site)),
                            torch.zeros_like(at_site))
        g_site = g_level[:, region] / safe_total[region]

        d_pressure = d_area = None
        if ctx.needs_input_grad[0]:
            through = g_site * area * ratio ** (q - 1.0) * pressure.sign()
            through = torch.where(loaded, through, torch.zeros_like(through))
            d_pressure = through + g_force[:, None] * area
        if ctx.needs_input_grad[1]:
            through = g_site * at_site * (ratio**q - 1.0) / q
            d_area = through.sum(0) + (g_force[:, None] * pressure).sum(0)
        return d_pressure, d_area, None, None, None


# ---------------------------------------------------------------------------
# volume through the day
# ---------------------------------------------------------------------------


class LimbVolumeDay(Function):
    """Limb volume relaxing to a load-dependent equilibrium, step by step.

    ``start`` (patients,), ``equilibrium`` (patients, steps), ``log_tau`` holds
    the two log time constants: socket off, socket on.  ``worn`` is the diary,
    boolean (patients, steps), ``dt`` the length of a step in hours.  The
    volume at the end of every step is returned.
    """

    @staticmethod
    def forward(ctx, start, equilibrium, log_tau, worn, dt):
        rate = dt * torch.exp(-log_tau)
        keep_by_state = torch.exp(-rate)
        keep = torch.where(worn, keep_by_state[1], keep_by_state[0])
        volume = start
        path: List[Tensor] = []
        for t in range(equilibrium.shape[1]):
            volume = equilibrium[:, t] + keep[:, t] * (volume - equilibrium[:, t])
            path.append(volume)
        path_t = torch.stack(path, dim=1)
        ctx.save_for_backward(start, equilibrium, path_t, keep, rate, keep_by_state, worn)
        return path_t

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_path):
        start, equilibrium, path, keep, rate, keep_by_state, worn = ctx.saved_tensors
        steps = path.shape[1]

        adjoint = torch.zeros_like(path)
        carry = torch.zeros_like(start)
        for t in range(steps - 1, -1, -1):
            carry = grad_path[:, t] + keep[:, t] * carry
            adjoint[:, t] = carry

        d_start = keep[:, 0] * adjoint[:, 0]
        d_equilibrium = (1.0 - keep) * adjoint

        before = torch.cat([start[:, None], path[:, :-1]], dim=1)
        d_keep = adjoint * (before - equilibrium)
        d_on = torch.where(worn, d_keep, torch.zeros_like(d_keep)).sum()
        d_off = torch.where(worn, torch.zeros_like(d_keep), d_keep).sum()
        # keep = exp(-rate), rate = dt exp(-log_tau)
        d_log_tau = torch.stack([d_off, d_on]) * keep_by_state * rate
        return d_start, d_equilibrium, d_log_tau, None, None


@dataclass
class Diary:
    """What a patient wrote down: hours donned and doffed, and activity."""

    donned: Sequence[Tuple[float, float]]
    activity: Sequence[float] = field(default_factory=list)

    def worn_mask(self, steps: int, dt: float, device: Optional[torch.device] = None) -> Tensor:
        clock = (torch.arange(steps, device=device) + 0.5) * dt
        mask = torch.zeros(steps, dtype=torch.bool, device=device)
        for on, off in self.donned:
            mask |= (clock >= on) & (clock < off)
        return mask


class VolumeModel(nn.Module):
    """Equilibrium volume from activity, followed by the relaxation."""

    def __init__(self, dt: float = 0.25):
        super().__init__()
        self.dt = dt
        self.log_tau = nn.Parameter(torch.tensor([math.log(5.0), math.log(1.5)]))
        self.shrink = nn.Parameter(torch.tensor([-4.0, -2.5]))

    def forward(self, start: Tensor, activity: Tensor, worn: Tensor) -> Tensor:
        settled = self.shrink[0] + self.shrink[1] * activity
        equilibrium = torch.where(worn, settled, torch.zeros_like(activity))
        return LimbVolumeDay.apply(start, equilibrium, self.log_tau, worn, self.dt)

    @staticmethod
    def plies(volume: Tensor) -> Tensor:
        return (-volume / PERCENT_PER_PLY).clamp(min=0.0).round()


class SocketFit(nn.Module):
    """Discomfort of a socket shape from gauge strains."""

    def __init__(self, region: Sequence[int], area: Sequence[float], order: float = 6.0):
        super().__init__()
        if len(region) != len(area):
            raise ValueError("one region and one area per gauge")
        self.liner = GelLiner(len(region))
        self.order = float(order)
        self.register_buffer("region", torch.as_tensor(region, dtype=torch.long))
        self.register_buffer("threshold", torch.tensor(PAIN_THRESHOLD))
        self.area = nn.Parameter(torch.as_tensor(area))

    def forward(self, strain: Tensor, body_weight: Tensor) -> Dict[str, Tensor]:
        pressure = self.liner(strain)
        level, force = RegionalContact.apply(
            pressure, self.area, self.region, len(REGIONS), self.order
        )
        over = (level / self.threshold - 1.0).clamp(min=0.0)
        balance = force / 10.0 - body_weight  # kPa cm^2 -> N
        return {
            "discomfort": over.square().sum(-1),
            "imbalance": balance,
            "level": level,
        }


def fit_socket(model: SocketFit, strain: Tensor, weight: Tensor, steps: int = 50) -> List[float]:
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    history = []
    for _ in range(steps):
        optimiser.zero_grad()
        out = model(strain, weight)
        loss = out["discomfort"].mean() + 1e-4 * out["imbalance"].square().mean()
        loss.backward()
        optimiser.step()
        history.append(loss.item())
    return history


if __name__ == "__main__":
    torch.manual_seed(3)
    fit = SocketFit([0, 0, 1, 2, 3, 3, 4, 5], [6.0, 5.5, 4.0, 2.5, 8.0, 8.0, 7.0, 3.0])
    gauges = 0.25 * torch.rand(40, 8)
    print(fit_socket(fit, gauges, torch.full((40,), 350.0), steps=10))

    model = VolumeModel()
    diary = Diary(donned=[(7.0, 12.5), (13.0, 21.0)])
    mask = diary.worn_mask(96, model.dt)[None].repeat(2, 1)
    day = model(torch.zeros(2), torch.rand(2, 96), mask)
    day.square().mean().backward()
    print(model.plies(day)[:, ::8], model.log_tau.grad)
