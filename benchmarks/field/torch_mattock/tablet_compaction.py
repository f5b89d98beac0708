"""Differentiable tablet press model for formulation studies.

The chain follows the usual bench sequence of a direct-compression product:

1. powder blend  -> in-die solid fraction under the main punch (Heckel),
2. solid fraction -> tensile strength (Ryshkewitch-Duckworth),
3. over-lubrication of the blend weakens it (Kushner's exposure law),
4. tensile strength -> crushing force as read on the hardness tester.

All of the stages take tensors in MPa, mm, N, g/cm^3.  The models are fitted
jointly to press records with ``fit_press_records``; the constants fitted are
per excipient (yield pressure, rearrangement intercept), per granulation lot
(lubricant sensitivity) and global (zero-porosity strength).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Sequence

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# Pitt's coefficients for doubly convex round tablets.
PITT_THICKNESS = 2.84
PITT_RATIO = 0.126
PITT_BAND = 3.15
PITT_OFFSET = 0.01
PITT_SCALE = 10.0

FACES = ("flat", "convex")

# Typical materials: (true density g/cm^3, mean yield pressure MPa, intercept)
EXCIPIENTS = {
    "mcc_102": (1.56, 72.0, 0.62),
    "lactose_sd": (1.54, 158.0, 0.74),
    "dcp_dihydrate": (2.31, 430.0, 0.88),
    "starch_1500": (1.49, 61.0, 0.81),
    "api_form_ii": (1.29, 95.0, 0.55),
}


class BlendParameters(NamedTuple):
    yield_pressure: Tensor
    intercept: Tensor
    true_density: Tensor


@dataclass(frozen=True)
class Tooling:
    """Punch tooling of one station."""

    diameter: float = 9.0
    cup_depth: float = 0.0

    @property
    def face(self) -> str:
        return "convex" if self.cup_depth > 0 else "flat"


def excipient_parameters(names: Sequence[str], dtype=torch.float32) -> BlendParameters:
    rows = torch.tensor([EXCIPIENTS[n] for n in names], dtype=dtype)
    return BlendParameters(rows[:, 1].clone(), rows[:, 2].clone(), rows[:, 0].clone())


class HeckelBlendDensity(torch.autograd.Function):
    """Solid fraction of a blend under the punch.

    Every component densifies on its own Heckel line,

        D_m = 1 - exp(-(P / Py_m + A_m)),

    and the apparent volumes add up, so that the blend's solid fraction is
    ``sum(w / rho) / sum(w / (rho * D))``.

    Parameters
    ----------
    pressure : Tensor, shape (..., )
        Punch pressures, any shape.
    yield_pressure, intercept, true_density : Tensor, shape (M,)
    mass_fraction : Tensor, shape (M,)
        Needs no normalisation; only the ratio of the masses counts.
    """

    @staticmethod
    def forward(ctx, pressure, yield_pressure, intercept, true_density, mass_fraction):
        exponent = pressure.unsqueeze(-1) / yield_pressure + intercept
        pores = torch.exp(-exponent)
        component = 1.0 - pores
        volume = mass_fraction / true_density
        solid = volume.sum()
        apparent = (volume / component).sum(-1)
        blend = solid / apparent
        ctx.save_for_backward(
            pressure, yield_pressure, true_density, volume, pores, component, apparent, blend
        )
        return blend

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_blend):
        (pressure, yield_pressure, true_density, volume, pores, component, apparent,
         blend) = ctx.saved_tensors
        lead = tuple(range(pressure.dim()))
        # d blend / d volume_m = 1 / apparent - blend / (apparent * D_m)
        scaled = (grad_blend / apparent).unsqueeze(-1)
        d_volume = scaled * (1.0 - blend.unsqueeze(-1) / component)
        d_component = scaled * blend.unsqueeze(-1) * volume / component.square()
        d_exponent = d_component * pores

        grad_pressure = (d_exponent / yield_pressure).sum(-1)
        grad_yield = -(d_exponent * pressure.unsqueeze(-1) / yield_pressure.square())
        grad_intercept = d_exponent
        if lead:
            grad_yield = grad_yield.sum(lead)
            grad_intercept = grad_intercept.sum(lead)
            d_volume = d_volume.sum(lead)
        grad_density = -d_volume * volume / true_density
        grad_mass = d_volume / true_density
        return grad_pressure, grad_yield, grad_intercept, grad_density, grad_mass


class PittCrushingForce(torch.autograd.Function):
    """Diametral crushing force of a round tablet.

    ``strength``, ``diameter``, ``thickness`` and ``band`` have one common
    shape (use ``expand`` before).  With ``face="flat"`` the force is that of the
    Brazilian disc, pi * d * t * sigma / 2, and the band plays no part; with
    ``face="convex"`` it is Pitt's expression for doubly convex tablets.
    """

    @staticmethod
    def forward(ctx, strength, diameter, thickness, band, face="flat"):
        if face not in FACES:
            raise ValueError(f"face must be one of {FACES}, got {face!r}")
        ctx.face = face
        ctx.save_for_backward(strength, diameter, thickness, band)
        if face == "flat":
            return 0.5 * math.pi * strength * diameter * thickness
        shape = _pitt_shape(diameter, thickness, band)
        return math.pi * strength * diameter.square() * shape / PITT_SCALE

    @staticmethod
    def backward(ctx, grad_force):
        strength, diameter, thickness, band = ctx.saved_tensors
        if ctx.face == "flat":
            half = 0.5 * math.pi * grad_force
            return (
                half * diameter * thickness,
                half * strength * thickness,
                half * strength * diameter,
                torch.zeros_like(band),
                None,
            )
        shape = _pitt_shape(diameter, thickness, band)
        area = math.pi * diameter.square() / PITT_SCALE
        shape_d = -PITT_THICKNESS * thickness / diameter.square()
        shape_t = PITT_THICKNESS / diameter - PITT_RATIO / band
        shape_w = PITT_RATIO * thickness / band.square() + PITT_BAND / diameter
        pull = grad_force * strength * area
        grad_strength = grad_force * area * shape
        grad_diameter = pull * (2.0 * shape / diameter + shape_d)
        return grad_strength, grad_diameter, pull * shape_t, pull * shape_w, None


def _pitt_shape(diameter, thickness, band):
    return (
        PITT_THICKNESS * thickness / diameter
        - PITT_RATIO * thickness / band
        + PITT_BAND * band / diameter
        + PITT_OFFSET
    )


class LubricantExposure(torch.autograd.Function):
    """Strength retained after blending with the stearate.

    Args:
        extent: ``(N,)`` mixing extents K (dm), one per pressed tablet.
        beta: ``(G,)`` the largest loss of each granulation.
        gamma: ``(G,)`` the rate of loss of each granulation (1/dm).
        lot: ``(N,)`` int64, the granulation a tablet was pressed from.

    Returns:
        ``(N,)`` factor ``(1 - beta) + beta * exp(-gamma * K)``.
    """

    @staticmethod
    def forward(ctx, extent, beta, gamma, lot):
        fade = torch.exp(-gamma[lot] * extent)
        ctx.save_for_backward(extent, beta, gamma, lot, fade)
        return 1.0 - beta[lot] * (1.0 - fade)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_factor):
        extent, beta, gamma, lot, fade = ctx.saved_tensors
        slope = -grad_factor * beta[lot] * fade
        grad_extent = slope * gamma[lot]

        grad_beta = torch.zeros_like(beta)
        grad_beta.index_add_(0, lot, grad_factor * (fade - 1.0))

        grad_gamma = torch.zeros_like(gamma)
        grad_gamma[lot] = slope * extent
        return grad_extent, grad_beta, grad_gamma, None


def mixing_extent(volume_l: Tensor, headspace: Tensor, revolutions: Tensor) -> Tensor:
    """K = V^(1/3) * F * r, in dm."""
    return volume_l.pow(1.0 / 3.0) * headspace * revolutions


def duckworth_strength(solid_fraction: Tensor, sigma0: Tensor, bonding: Tensor) -> Tensor:
    return sigma0 * torch.exp(-bonding * (1.0 - solid_fraction))


def tablet_thickness(mass_mg: Tensor, solid_fraction: Tensor, density: Tensor, tool: Tooling):
    """Overall thickness and band of a round tablet of the given mass (mm)."""
    volume = mass_mg / (density * solid_fraction)  # mm^3
    area = math.pi * tool.diameter**2 / 4.0
    c = tool.cup_depth
    cap = math.pi * c * (3.0 * (tool.diameter / 2.0) ** 2 + c * c) / 6.0
    band = (volume - 2.0 * cap).clamp_min(0.2 * area) / area
    return band + 2.0 * c, band


class PressRecords(NamedTuple):
    pressure: Tensor      # (N,)
    mass_mg: Tensor       # (N,)
    extent: Tensor        # (N,)
    lot: Tensor           # (N,) int64
    crushing: Tensor      # (N,)


class TabletPress(nn.Module):
    """Punch pressure in, crushing force out."""

    def __init__(self, names: Sequence[str], masses: Sequence[float], lots: int,
                 tool: Tooling = Tooling()):
        super().__init__()
        start = excipient_parameters(names)
        self.log_yield = nn.Parameter(start.yield_pressure.log())
        self.intercept = nn.Parameter(start.intercept)
        self.register_buffer("true_density", start.true_density)
        self.register_buffer("masses", torch.tensor(masses, dtype=torch.float32))
        self.log_sigma0 = nn.Parameter(torch.tensor(2.0))
        self.bonding = nn.Parameter(torch.tensor(7.0))
        self.beta_raw = nn.Parameter(torch.full((lots,), -0.5))
        self.gamma_log = nn.Parameter(torch.full((lots,), -5.0))
        self.tool = tool

    def solid_fraction(self, pressure: Tensor) -> Tensor:
        return HeckelBlendDensity.apply(
            pressure, self.log_yield.exp(), self.intercept, self.true_density, self.masses
        )

    def forward(self, records: PressRecords) -> Tensor:
        fraction = self.solid_fraction(records.pressure)
        strength = duckworth_strength(fraction, self.log_sigma0.exp(), self.bonding)
        strength = strength * LubricantExposure.apply(
            records.extent, torch.sigmoid(self.beta_raw), self.gamma_log.exp(), records.lot
        )
        density = self.masses.sum() / (self.masses / self.true_density).sum()
        thickness, band = tablet_thickness(records.mass_mg, fraction, density, self.tool)
        diameter = torch.full_like(strength, self.tool.diameter)
        return PittCrushingForce.apply(strength, diameter, thickness, band, self.tool.face)


def fit_press_records(model: TabletPress, records: PressRecords, steps: int = 200,
                      lr: float = 0.02) -> list[float]:
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    trace = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (model(records).clamp_min(1e-3).log() - records.crushing.log()).square().mean()
        loss.backward()
        optimiser.step()
        trace.append(float(loss.detach()))
    return trace


def synthetic_records(n: int = 60, lots: int = 4, seed: int = 3) -> PressRecords:
    gen = torch.Generator().manual_seed(seed)
    pressure = 40.0 + 260.0 * torch.rand(n, generator=gen)
    mass = 300.0 + 20.0 * torch.randn(n, generator=gen)
    lot = torch.randint(lots, (n,), generator=gen)
    extent = mixing_extent(
        torch.full((n,), 20.0), torch.full((n,), 0.5), 30.0 + 400.0 * torch.rand(n, generator=gen)
    )
    crushing = 30.0 + 0.45 * pressure - 0.02 * extent
    return PressRecords(pressure, mass, extent, lot, crushing)


if __name__ == "__main__":
    press = TabletPress(("mcc_102", "lactose_sd", "api_form_ii"), (60.0, 30.0, 10.0), lots=4,
                        tool=Tooling(diameter=9.0, cup_depth=0.9))
    losses = fit_press_records(press, synthetic_records(), steps=50)
    print(f"log-force mse: {losses[0]:.4f} -> {losses[-1]:.4f}")
