"""Optical terms of a central-receiver solar field.

Lengths are metres except the slant ranges, which follow the usual correlation and are in kilometres.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor, nn

_CLEAR = (0.99321, -0.1176, 0.0197)
_FAR_RATE = 0.1106


@dataclass(frozen=True)
class Aperture:
    half_width: float = 5.0
    half_height: float = 6.0


class MirrorCosine(torch.autograd.Function):
    """Cosine of the incidence angle on mirrors that steer the sun onto one aim point.

    sun:        (*S, 3)  unit vectors toward the sun (not renormalised here)
    heliostats: (N, 3)   mirror centres
    target:     (3,)     aim point on the tower
    returns     (*S, N)

    A mirror normal bisects sun and target, so cos(i) = sqrt((1 + s.t) / 2).  Where the radicand falls under
    ``floor`` the value is held and has no gradient.
    """

    @staticmethod
    def forward(ctx, sun, heliostats, target, floor=1e-6):
        ray = target - heliostats
        dist = ray.norm(dim=-1, keepdim=True)
        t = ray / dist
        radicand = 0.5 * (1.0 + sun @ t.T)
        cos = radicand.clamp_min(floor).sqrt()
        ctx.save_for_backward(sun, t, dist, cos, radicand > floor)
        return cos

    @staticmethod
    def backward(ctx, grad):
        sun, t, dist, cos, live = ctx.saved_tensors
        g = torch.where(live, grad * 0.25 / cos, torch.zeros_like(grad))
        d_sun = g @ t
        d_t = g.reshape(-1, g.shape[-1]).T @ sun.reshape(-1, 3)
        d_ray = (d_t - t * (t * d_t).sum(-1, keepdim=True)) / dist
        return d_sun, -d_ray, d_ray.sum(0), None


class SlantTransmittance(torch.autograd.Function):
    """Atmospheric transmittance over the slant range (km), quadratic to 1 km and exponential beyond; scaled by
    a clarity factor that broadcasts against the ranges."""

    @staticmethod
    def forward(slant_km, clarity):
        a, b, c = _CLEAR
        near = a + slant_km * (b + c * slant_km)
        far = torch.exp(-_FAR_RATE * slant_km)
        return clarity * torch.where(slant_km <= 1.0, near, far)

    @staticmethod
    def setup_context(ctx, inputs, output):
        slant_km, clarity = inputs
        ctx.save_for_backward(slant_km, clarity)

    @staticmethod
    def backward(ctx, grad):
        slant_km, clarity = ctx.saved_tensors
        a, b, c = _CLEAR
        near = a + slant_km * (b + c * slant_km)
        tau = torch.where(slant_km <= 1.0, near, torch.exp(-_FAR_RATE * slant_km))
        slope = b + 2.0 * c * slant_km
        d_slant = (grad * clarity * slope).sum_to_size(slant_km.shape)
        d_clarity = (grad * tau).sum_to_size(clarity.shape)
        return d_slant, d_clarity


def _interval(offset, half, sigma):
    hi = (half - offset) / (sigma * math.sqrt(2.0))
    lo = (-half - offset) / (sigma * math.sqrt(2.0))
    return hi, lo, 0.5 * (torch.erf(hi) - torch.erf(lo))


class ReceiverSpill(torch.autograd.Function):
    @staticmethod
    def forward(ctx, aim, sigma, aperture: Aperture, alive: Optional[Tensor] = None):
        xh, xl, px = _interval(aim[..., 0], aperture.half_width, sigma)
        yh, yl, py = _interval(aim[..., 1], aperture.half_height, sigma)
        spill = 1.0 - px * py
        weight = torch.ones_like(spill) if alive is None else alive.to(spill.dtype).expand_as(spill)
        weight = weight / weight.sum(-1, keepdim=True).clamp_min(1.0)
        ctx.save_for_backward(sigma, xh, xl, px, yh, yl, py, weight)
        return (spill * weight).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        sigma, xh, xl, px, yh, yl, py, weight = ctx.saved_tensors
        g = -grad.unsqueeze(-1) * weight
        ex_h, ex_l = torch.exp(-xh * xh), torch.exp(-xl * xl)
        ey_h, ey_l = torch.exp(-yh * yh), torch.exp(-yl * yl)
        k = 1.0 / (sigma * math.sqrt(2.0 * math.pi))
        d_aim = torch.stack([g * py * k * (ex_l - ex_h), g * px * k * (ey_l - ey_h)], dim=-1)
        root_pi = math.sqrt(math.pi)
        d_sigma = -(g / (sigma * root_pi)) * (
            py * (xh * ex_h - xl * ex_l) + px * (yh * ey_h - yl * ey_l)
        )
        return d_aim, d_sigma.sum_to_size(sigma.shape), None, None


class FieldOptics(nn.Module):
    """Mirror by mirror optical efficiency with a trainable aim point."""

    def __init__(self, heliostats: Tensor, target, reflectivity: float = 0.93):
        super().__init__()
        self.register_buffer("heliostats", heliostats)
        self.target = nn.Parameter(torch.as_tensor(target, dtype=heliostats.dtype))
        self.reflectivity = reflectivity

    def forward(self, sun: Tensor, clarity: Tensor) -> Tensor:
        slant = (self.target - self.heliostats).norm(dim=-1) / 1000.0
        cos = MirrorCosine.apply(sun, self.heliostats, self.target)
        return self.reflectivity * cos * SlantTransmittance.apply(slant, clarity)
