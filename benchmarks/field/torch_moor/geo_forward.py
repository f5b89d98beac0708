"""Forward operators used by the inversion notebooks: pumping tests, block-centred
flow and volcano geodesy.  All of them run in the dtype of their tensor arguments.
"""
from __future__ import annotations

import math
from typing import Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

_EULER_GAMMA = 0.57721566490153286


def _well_function(u: Tensor) -> Tensor:
    """Exponential integral E1(u), u > 0 (power series below 2, continued fraction above)."""
    small = u.clamp(max=2.0)
    term = torch.ones_like(small)
    acc = torch.zeros_like(small)
    for k in range(1, 34):
        term = term * (-small / k)
        acc = acc + term / k
    low = -_EULER_GAMMA - torch.log(small) - acc

    big = u.clamp(min=2.0)
    tail = torch.zeros_like(big)
    for k in range(90, 0, -1):
        tail = k * k / (big + (2 * k + 1) - tail)
    high = torch.exp(-big) / (big + 1.0 - tail)
    return torch.where(u < 2.0, low, high)


class TheisDrawdown(Function):
    """Superposed Theis drawdown of several wells in a confined aquifer."""

    @staticmethod
    def forward(rates, transmissivity, storativity, distance, times, starts):
        tau = times[:, None] - times.new_tensor(starts)[None, :]           # (nt, nw)
        running = tau > 0
        tau = torch.where(running, tau, torch.ones_like(tau))
        u = distance[None] ** 2 * storativity / (4.0 * transmissivity * tau[:, None, :])
        lift = rates / (4.0 * math.pi * transmissivity)
        contrib = lift * _well_function(u) * running[:, None, :]
        return contrib.sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        rates, transmissivity, storativity, distance, times, starts = inputs
        ctx.save_for_backward(rates, transmissivity, storativity, distance, times, output)
        ctx.starts = starts

    @staticmethod
    def backward(ctx, grad):
        rates, trans, stor, distance, times, drawdown = ctx.saved_tensors
        tau = times[:, None] - times.new_tensor(ctx.starts)[None, :]
        running = tau > 0
        tau = torch.where(running, tau, torch.ones_like(tau))
        u = distance[None] ** 2 * stor / (4.0 * trans * tau[:, None, :])
        live = running[:, None, :].to(u.dtype)
        lift = 1.0 / (4.0 * math.pi * trans)
        # -u dE1/du = exp(-u): every derivative through u is a multiple of this
        h = grad[..., None] * live * rates * lift * torch.exp(-u)          # (nt, no, nw)

        g_rates = g_trans = g_stor = g_dist = g_times = None
        if ctx.needs_input_grad[0]:
            g_rates = (grad[..., None] * live * lift * _well_function(u)).sum((0, 1))
        if ctx.needs_input_grad[1]:
            g_trans = (h.sum() - (grad * drawdown).sum()) / trans
        if ctx.needs_input_grad[2]:
            g_stor = -h.sum() / stor
        if ctx.needs_input_grad[3]:
            g_dist = -2.0 * h.sum(0) / distance
        if ctx.needs_input_grad[4]:
            g_times = (h / tau[:, None, :]).sum((1, 2))
        return g_rates, g_trans, g_stor, g_dist, g_times, None


def theis_drawdown(
    rates: Tensor,
    transmissivity: Tensor,
    storativity: Tensor,
    distance: Tensor,
    times: Tensor,
    starts: Optional[Sequence[float]] = None,
) -> Tensor:
    r"""Drawdown at observation wells.

    Parameters
    ----------
    rates : Tensor, shape (nw,)
        Pumping rates (negative for injection).
    transmissivity, storativity : Tensor, shape ()
        Positive aquifer parameters.
    distance : Tensor, shape (no, nw)
        Positive distance from every observation point to every well.
    times : Tensor, shape (nt,)
        Observation times.
    starts : sequence of float, optional
        Switch-on time of each well, zero by default.  A well that has not been switched
        on yet contributes nothing.

    Returns
    -------
    Tensor, shape (nt, no)
    """
    if starts is None:
        starts = (0.0,) * rates.shape[0]
    return TheisDrawdown.apply(
        rates, transmissivity, storativity, distance, times, tuple(float(s) for s in starts)
    )


class FaceConductivity(Function):
    """Distance-weighted harmonic mean of the conductivity of neighbouring cells.

    ``k`` has shape (..., n) and is positive, ``widths`` holds the n cell widths (a fixed part
    of the grid: no gradient is returned for it).  The result has shape (..., n - 1):

        k_face = (w_l + w_r) / (w_l / k_l + w_r / k_r)
    """

    @staticmethod
    def forward(ctx, k: Tensor, widths: Tensor) -> Tensor:
        wl, wr = widths[:-1], widths[1:]
        face = (wl + wr) / (wl / k[..., :-1] + wr / k[..., 1:])
        ctx.save_for_backward(k, face)
        return face

    @staticmethod
    def backward(ctx, grad_face: Tensor):
        k, face = ctx.saved_tensors
        half = 0.5 * grad_face * face * face
        grad_k = torch.zeros_like(k)
        grad_k[..., :-1] += half / k[..., :-1] ** 2
        grad_k[..., 1:] += half / k[..., 1:] ** 2
        return grad_k, None


class DarcyColumn(nn.Module):
    """Darcy flux through the interior faces of a one-dimensional column."""

    def __init__(self, widths: Sequence[float]):
        super().__init__()
        self.register_buffer("widths", torch.as_tensor(widths))

    def forward(self, log_k: Tensor, head: Tensor) -> Tensor:
        w = self.widths.to(log_k.dtype)
        face = FaceConductivity.apply(log_k.exp(), w)
        spacing = 0.5 * (w[:-1] + w[1:])
        return -face * (head[..., 1:] - head[..., :-1]) / spacing


class MogiSurface(Function):
    """Surface motion over a spherical pressure source, for a series of epochs.

    Arguments (all tensors but the last):
        stations  (n, 2)   east / north of the stations
        source    (3,)     east, north, depth (> 0) of the chamber
        dvolume   (t,)     volume change at every epoch
        poisson   float    Poisson ratio of the half space

    Returns the horizontal (t, n, 2) and the vertical (t, n) displacement.
    """

    @staticmethod
    def forward(ctx, stations, source, dvolume, poisson=0.25):
        offset = stations - source[:2]
        depth = source[2]
        dist3 = (offset.square().sum(-1) + depth ** 2) ** 1.5
        scale = (1.0 - poisson) / math.pi
        unit_h = scale * offset / dist3[:, None]
        unit_v = scale * depth / dist3
        ctx.save_for_backward(stations, source, dvolume, unit_h, unit_v)
        ctx.scale = scale
        return dvolume[:, None, None] * unit_h, dvolume[:, None] * unit_v

    @staticmethod
    def backward(ctx, grad_h, grad_v):
        stations, source, dvolume, unit_h, unit_v = ctx.saved_tensors
        offset = stations - source[:2]
        depth = source[2]
        r2 = offset.square().sum(-1) + depth ** 2
        inv3 = ctx.scale * r2 ** -1.5

        grad_dv = None
        if ctx.needs_input_grad[2]:
            grad_dv = (grad_h * unit_h).sum((1, 2)) + (grad_v * unit_v).sum(1)

        grad_stations = grad_source = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            # the geometry is shared by all epochs
            gh = dvolume.mean() * grad_h.sum(0)
            gv = dvolume.mean() * grad_v.sum(0)
            along = (gh * offset).sum(-1) + gv * depth
            pull = -3.0 * along / r2 * inv3
            g_off = gh * inv3[:, None] + pull[:, None] * offset
            g_depth = gv * inv3 + pull * depth
            grad_stations = g_off
            grad_source = torch.cat([-g_off.sum(0), g_depth.sum().reshape(1)])
        return grad_stations, grad_source, grad_dv, None


def line_of_sight(
    stations: Tensor, source: Tensor, dvolume: Tensor, look: Tuple[float, float, float], poisson: float = 0.25
) -> Tensor:
    """InSAR range change (t, n) for a constant look vector (east, north, up)."""
    horizontal, vertical = MogiSurface.apply(stations, source, dvolume, poisson)
    east, north, up = look
    return -(horizontal[..., 0] * east + horizontal[..., 1] * north + vertical * up)
