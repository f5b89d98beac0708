"""Forward operators for joint seismic / potential-field inversion."""
from __future__ import annotations

from typing import TYPE_CHECKING

import math

import torch
from torch import nn
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

# gravitational constant in mGal km^2 / (g cm^-3 km^3)
BIG_G = 6.6743


def _moveout_geometry(velocity, offsets, n_t, dt, stretch_mute):
    """Fractional sample that every (zero-offset time, offset) pair is read from, and whether it is live."""
    k = torch.arange(n_t, dtype=velocity.dtype, device=velocity.device).unsqueeze(-1)
    ratio = offsets / (velocity.unsqueeze(-1) * dt)
    pos = torch.sqrt(k * k + ratio * ratio)
    live = pos <= n_t - 1
    if stretch_mute is not None:
        live = live & (pos <= (1.0 + stretch_mute) * k)
    lower = pos.floor().long().clamp(0, n_t - 2)
    return pos, lower, live


class MoveoutCorrection(torch.autograd.Function):
    """Hyperbolic normal moveout with linear interpolation in time."""

    @staticmethod
    def forward(gather, velocity, offsets, dt, stretch_mute):
        n_t = gather.shape[-2]
        pos, lower, live = _moveout_geometry(velocity, offsets, n_t, dt, stretch_mute)
        frac = pos - lower
        index = lower.expand(gather.shape)
        a = gather.gather(-2, index)
        b = gather.gather(-2, index + 1)
        return torch.where(live, a + frac * (b - a), torch.zeros_like(a))

    @staticmethod
    def setup_context(ctx, inputs, output):
        gather, velocity, offsets, dt, stretch_mute = inputs
        ctx.save_for_backward(gather, velocity, offsets)
        ctx.dt, ctx.stretch_mute = dt, stretch_mute

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        gather, velocity, offsets = ctx.saved_tensors
        pos, lower, live = _moveout_geometry(velocity, offsets, gather.shape[-2], ctx.dt, ctx.stretch_mute)
        frac = pos - lower
        grad = grad * live
        index = lower.expand(gather.shape)

        d_gather = d_velocity = d_offsets = None
        if ctx.needs_input_grad[0]:
            d_gather = torch.zeros_like(gather)
            d_gather.scatter_add_(-2, index, grad * (1.0 - frac))
            d_gather.scatter_add_(-2, index + 1, grad * frac)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            slope = gather.gather(-2, index + 1) - gather.gather(-2, index)
            d_pos = (grad * slope).reshape(-1, *pos.shape).sum(0)
            # the apex (zero time at zero offset) does not move with the velocity
            d_pos = torch.where(pos > 0, d_pos / pos.clamp_min(1e-30), torch.zeros_like(d_pos))
            v = velocity.unsqueeze(-1)
            scale = 1.0 / (v * ctx.dt) ** 2
            d_velocity = (-d_pos * offsets ** 2 * scale / v).sum(-1)
            d_offsets = (d_pos * offsets * scale).sum(0)
        return d_gather, d_velocity, d_offsets, None, None


def nmo_correct(
    gather: Float[Tensor, "*batch time offset"],
    velocity: Float[Tensor, "time"],
    offsets: Float[Tensor, "offset"],
    dt: float = 0.004,
    stretch_mute: float | None = None,
) -> Float[Tensor, "*batch time offset"]:
    """Flatten a CMP gather.

    Sample ``(t0, x)`` of the result is the gather at ``sqrt(t0^2 + x^2 / v(t0)^2)``, linearly interpolated.
    Samples that fall off the record, or that are stretched by more than ``stretch_mute`` (0.3 means 30 %), are zero;
    which samples those are is not differentiated. At least two time samples.
    """
    return MoveoutCorrection.apply(gather, velocity, offsets, dt, stretch_mute)


def _attraction(stations, centers):
    """dx, dz and r for a block of bodies."""
    delta = centers.unsqueeze(0) - stations.unsqueeze(1)
    r = delta.norm(dim=-1)
    return delta, r


class SphereAnomaly(torch.autograd.Function):
    """Vertical attraction of buried spheres, evaluated in blocks of bodies so that the (S, N) kernel is never held.

    The kernel is recomputed block by block in the backward pass.
    """

    @staticmethod
    def forward(ctx, stations, centers, radius, contrast, block):
        ctx.save_for_backward(stations, centers, radius, contrast)
        ctx.block = block
        total = stations.new_zeros(stations.shape[0])
        for start in range(0, centers.shape[0], block):
            sl = slice(start, start + block)
            delta, r = _attraction(stations, centers[sl])
            mass = (4.0 / 3.0) * math.pi * radius[sl] ** 3 * contrast[sl]
            total += BIG_G * (mass * delta[..., 2] / r ** 3).sum(1)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        stations, centers, radius, contrast = ctx.saved_tensors
        d_stations = torch.zeros_like(stations)
        d_centers = torch.zeros_like(centers)
        d_radius = torch.zeros_like(radius)
        d_contrast = torch.zeros_like(contrast)

        n_blocks = max(1, centers.shape[0] // ctx.block)
        for b in range(n_blocks):
            sl = slice(b * ctx.block, (b + 1) * ctx.block)
            delta, r = _attraction(stations, centers[sl])
            volume = (4.0 / 3.0) * math.pi * radius[sl] ** 3
            mass = volume * contrast[sl]

            kernel = BIG_G * delta[..., 2] / r ** 3
            d_mass = grad @ kernel
            d_radius[sl] = d_mass * 4.0 * math.pi * radius[sl] ** 2 * contrast[sl]
            d_contrast[sl] = d_mass * volume

            outer = BIG_G * grad.unsqueeze(1) * mass
            d_delta = -3.0 * (outer * delta[..., 2] / r ** 5).unsqueeze(-1) * delta
            d_delta[..., 2] += outer / r ** 3
            d_centers[sl] = d_delta.sum(0)
            d_stations -= d_delta.sum(1)
        return d_stations, d_centers, d_radius, d_contrast, None


def sphere_anomaly(
    stations: Float[Tensor, "S 3"],
    centers: Float[Tensor, "N 3"],
    radius: Float[Tensor, "N"],
    contrast: Float[Tensor, "N"],
    block: int = 64,
) -> Float[Tensor, "S"]:
    """Gravity anomaly in mGal at ``stations`` of ``N`` homogeneous spheres.

    Coordinates are in km with z down, density contrasts in g/cm^3. Stations must lie outside of the spheres.
    ``block`` is the number of bodies handled at a time and has no influence on the result.
    """
    return SphereAnomaly.apply(stations, centers, radius, contrast, block)


class SphereCloud(nn.Module):
    def __init__(self, n_bodies: int, extent: float = 10.0, block: int = 64):
        super().__init__()
        xyz = torch.rand(n_bodies, 3) * extent
        xyz[:, 2] = 1.0 + 0.3 * xyz[:, 2]
        self.centers = nn.Parameter(xyz)
        self.log_radius = nn.Parameter(torch.full((n_bodies,), -1.2))
        self.contrast = nn.Parameter(0.1 * torch.randn(n_bodies))
        self.block = block

    def forward(self, stations):
        return sphere_anomaly(stations, self.centers, self.log_radius.exp(), self.contrast, self.block)


def invert(model: SphereCloud, stations, observed, steps: int = 200, lr: float = 1e-2):
    """Plain Adam fit; returns the misfit history."""
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    history = []
    for _ in range(steps):
        opt.zero_grad()
        misfit = (model(stations) - observed).square().mean()
        misfit.backward()
        opt.step()
        history.append(float(misfit.detach()))
    return history
