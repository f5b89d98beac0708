"""Sensitometry of colour negative film for the digital intermediate.

The laboratory fits its printer lights and its scanner profiles through this
model of a negative: the light that falls on a frame becomes an effective
exposure (long exposures lose speed), the three emulsion layers turn it into
dye density, the inhibitor released by one layer holds its neighbours back,
and the timer reads the integral density of the picture area.

Everything takes and returns plain tensors; the layers are ordered red,
green, blue throughout and always sit on the last axis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

LAYERS = ("red", "green", "blue")
LN10 = math.log(10.0)
MIN_EXPOSURE = 1e-6

# stock -> (time at which the reciprocity law is left [s], exponent per layer)
RECIPROCITY_TABLE = {
    "daylight_50": (1.0, (0.93, 0.91, 0.88)),
    "tungsten_200": (0.25, (0.90, 0.89, 0.85)),
    "tungsten_500": (0.10, (0.88, 0.87, 0.82)),
    "intermediate": (10.0, (0.97, 0.96, 0.95)),
}


class LayerCurve(NamedTuple):
    """Parameters of one emulsion's curves, each of shape ``(3,)``."""

    base: Tensor
    span: Tensor
    contrast: Tensor
    speed: Tensor


@dataclass(frozen=True)
class Stock:
    name: str
    skew: float = 1.0
    inhibition_threshold: float = 0.0

    @property
    def law_time(self) -> float:
        return RECIPROCITY_TABLE[self.name][0]

    @property
    def exponents(self) -> Tuple[float, ...]:
        return RECIPROCITY_TABLE[self.name][1]


def reduce_to_layers(x: Tensor) -> Tensor:
    """Sum everything but the last axis."""
    return x.reshape(-1, x.shape[-1]).sum(0)


def log_exposure(exposure: Tensor) -> Tensor:
    return torch.log10(exposure.clamp_min(MIN_EXPOSURE))


class SchwarzschildExposure(Function):
    """Effective exposure with reciprocity failure.

    Up to ``law_time`` the film integrates light, ``I * t``. Beyond, the
    time counts with a power below one,
    ``I * law_time * (t / law_time) ** p``.

    Parameters
    ----------
    irradiance : Tensor, (frames, 3)
    seconds : Tensor, (frames,)
    exponent : Tensor, (3,)
        Schwarzschild's p of each layer.
    law_time : float
        Longest time at which the reciprocity law holds; a property of the
        stock, see ``RECIPROCITY_TABLE``.
    """

    @staticmethod
    def forward(ctx, irradiance, seconds, exponent, law_time=1.0):
        t = seconds.unsqueeze(-1)
        ratio = t / law_time
        failing = t > law_time
        counted = torch.where(failing, law_time * ratio.pow(exponent), t.expand_as(irradiance))
        ctx.save_for_backward(irradiance, t, exponent, counted)
        ctx.law_time = law_time
        return irradiance * counted

    @staticmethod
    def backward(ctx, grad):
        irradiance, t, exponent, counted = ctx.saved_tensors
        failing = t > ctx.law_time
        rate = torch.where(failing, exponent * counted / t, torch.ones_like(counted))
        d_irradiance = grad * counted
        d_seconds = (grad * irradiance * rate).sum(-1)
        log_time = torch.where(failing, t.log(), torch.zeros_like(t))
        d_exponent = reduce_to_layers(grad * irradiance * counted * log_time)
        return d_irradiance, d_seconds, d_exponent, None


class CharacteristicCurve(Function):
    """Hurter-Driffield curve of each layer as a skewed logistic.

    density = base + span * (1 + exp(-contrast * (logH - speed))) ** -skew

    ``logH`` is (..., 3); the four parameters are (3,); ``skew`` is a python
    float (1 gives toe and shoulder of the same shape).
    """

    @staticmethod
    def forward(ctx, logh, base, span, contrast, speed, skew):
        offset = logh - speed
        z = contrast * offset
        rise = torch.exp(-skew * nn.functional.softplus(-z))
        ctx.skew = skew
        ctx.save_for_backward(offset, span, contrast, rise)
        return base + span * rise

    @staticmethod
    def backward(ctx, grad):
        offset, span, contrast, rise = ctx.saved_tensors
        slope = ctx.skew * rise * torch.sigmoid(-contrast * offset)
        through = grad * span * slope
        d_logh = through * contrast
        return (
            d_logh,
            reduce_to_layers(grad),
            reduce_to_layers(grad * rise),
            reduce_to_layers(through * offset),
            -reduce_to_layers(d_logh),
            None,
        )


class CouplerInhibition(Function):
    """Interimage effect of the DIR couplers.

    A layer that develops beyond ``threshold`` releases inhibitor in
    proportion, and each other layer loses density by its coupling to it.

    Args:
        density: (..., 3) layer densities before inhibition.
        coupling: (3, 3), row = layer held back, column = layer releasing.
            The diagonal is not used: a layer's action on itself is already
            in its curve.
        threshold: density at which the release starts (float).
    """

    @staticmethod
    def forward(ctx, density, coupling, threshold=0.0):
        off = coupling - torch.diag_embed(torch.diagonal(coupling))
        released = (density - threshold).clamp_min(0.0)
        ctx.save_for_backward(density, off, released)
        return density - released @ off.t()

    @staticmethod
    def backward(ctx, grad):
        density, off, released = ctx.saved_tensors
        developing = (density > 0).to(grad.dtype)
        d_density = grad - (grad @ off) * developing
        n = grad.shape[-1]
        d_off = -grad.reshape(-1, n).t() @ released.reshape(-1, n)
        d_off = d_off - torch.diag_embed(torch.diagonal(d_off))
        return d_density, d_off, None


class IntegralDensity(Function):
    """Density the timer's photocell sees over the picture area.

    The cell averages transmission, not density. Returns the reading per
    layer and the share of the frame inside the aperture. A frame whose
    aperture is shut reads zero.
    """

    @staticmethod
    def forward(ctx, density: Tensor, aperture: Tensor):
        # density (frames, pixels, 3), aperture (frames, pixels) bool
        gate = aperture.unsqueeze(-1)
        exponent = (-LN10 * density).masked_fill(~gate, float("-inf"))
        count = aperture.sum(-1, keepdim=True)
        open_ = count > 0
        total = torch.logsumexp(exponent, dim=1)
        reading = (count.clamp_min(1).to(density.dtype).log() - total) / LN10
        reading = torch.where(open_, reading, torch.zeros_like(reading))
        share = aperture.to(density.dtype).mean(-1)
        safe_total = torch.where(open_, total, torch.zeros_like(total))
        ctx.save_for_backward(exponent, safe_total)
        ctx.mark_non_differentiable(share)
        return reading, share

    @staticmethod
    def backward(ctx, grad_reading, _grad_share):
        exponent, total = ctx.saved_tensors
        weight = torch.exp(exponent - total.unsqueeze(1))
        return grad_reading.unsqueeze(1) * weight, None


class NegativeModel(nn.Module):
    """From scene irradiance to the densities of the developed negative."""

    def __init__(self, stock: Stock):
        super().__init__()
        self.stock = stock
        self.exponent = nn.Parameter(torch.tensor(stock.exponents))
        self.base = nn.Parameter(torch.tensor([0.18, 0.55, 0.85]))
        self.span = nn.Parameter(torch.tensor([2.0, 2.2, 2.3]))
        self.contrast = nn.Parameter(torch.tensor([1.25, 1.3, 1.35]))
        self.speed = nn.Parameter(torch.tensor([0.4, 0.3, 0.2]))
        self.coupling = nn.Parameter(0.06 * torch.ones(3, 3))

    def curve(self) -> LayerCurve:
        return LayerCurve(self.base, self.span, self.contrast, self.speed)

    def forward(self, irradiance: Tensor, seconds: Tensor) -> Tensor:
        """irradiance (frames, 3), seconds (frames,) -> density (frames, 3)."""
        exposure = SchwarzschildExposure.apply(
            irradiance, seconds, self.exponent, self.stock.law_time
        )
        c = self.curve()
        density = CharacteristicCurve.apply(
            log_exposure(exposure), c.base, c.span, c.contrast, c.speed, self.stock.skew
        )
        return CouplerInhibition.apply(
            density, self.coupling, self.stock.inhibition_threshold
        )


class PrinterTimer(nn.Module):
    """Printer lights that bring each frame's reading to the aim density."""

    POINTS_PER_DENSITY = 40.0

    def __init__(self, aim: Tuple[float, float, float] = (0.8, 1.15, 1.55)):
        super().__init__()
        self.register_buffer("aim", torch.tensor(aim))

    def forward(self, density: Tensor, aperture: Optional[Tensor] = None) -> Tensor:
        if aperture is None:
            aperture = torch.ones(density.shape[:2], dtype=torch.bool, device=density.device)
        reading, _ = IntegralDensity.apply(density, aperture)
        return 25.0 + self.POINTS_PER_DENSITY * (reading - self.aim)


def wedge_exposures(steps: int = 21, stop: float = 0.5) -> Tensor:
    """Irradiances of a step wedge, darkest step first."""
    span = torch.arange(steps, dtype=torch.get_default_dtype()) * stop * math.log10(2.0)
    return torch.pow(10.0, span - 1.0).unsqueeze(-1).expand(steps, 3).contiguous()


def fit_stock(model: NegativeModel, measured: Tensor, seconds: Tensor, steps: int = 50):
    """Fit the stock's parameters to a measured wedge, shape (steps, 3)."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    wedge = wedge_exposures(measured.shape[0]).to(measured)
    history = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (model(wedge, seconds) - measured).square().mean()
        loss.backward()
        optimiser.step()
        history.append(float(loss.detach()))
    return history


if __name__ == "__main__":
    torch.manual_seed(0)
    model = NegativeModel(Stock("tungsten_500", skew=0.8, inhibition_threshold=0.9))
    seconds = torch.full((21,), 0.02)
    target = model(wedge_exposures(), seconds).detach() * 1.05
    print(fit_stock(model, target, seconds, steps=5))
    timer = PrinterTimer()
    print(timer(torch.rand(2, 16, 3) * 2.0))
