"""Polymer melt properties and runner balancing for injection moulding.

SI units throughout: K, Pa, 1/s, m^3/kg, m^3/s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class WLF:
    d2: float = 373.15
    d3: float = 1.5e-7
    a1: float = 27.0
    a2: float = 51.6
    no_flow: float = 400.0
    min_shear: float = 1e-2


@dataclass(frozen=True)
class TaitCoefficients:
    """Two-domain Tait coefficients; the defaults are for a general purpose polystyrene."""

    b1m: float = 9.9e-4
    b2m: float = 6.0e-7
    b3m: float = 1.5e8
    b4m: float = 4.0e-3
    b1s: float = 9.9e-4
    b2s: float = 2.2e-7
    b3s: float = 2.2e8
    b4s: float = 3.0e-3
    b5: float = 373.0
    b6: float = 3.0e-7
    b7: float = 0.0
    b8: float = 0.0
    b9: float = 0.0


POLYPROPYLENE = TaitCoefficients(b1m=1.27e-3, b2m=9.5e-7, b3m=8.5e7, b4m=4.8e-3, b1s=1.15e-3, b2s=4.5e-7, b3s=1.5e8,
                                 b4s=4.2e-3, b5=396.0, b6=1.8e-7, b7=8.7e-5, b8=5.37e-2, b9=1.4e-8)


class CrossWLF(torch.autograd.Function):
    @staticmethod
    def forward(ctx, temperature, pressure, shear, log_d1, tau, index, grade, wlf, log10):
        t = temperature.clamp(min=wlf.no_flow)
        rate = shear.clamp(min=wlf.min_shear)
        base = wlf.a2 + t - wlf.d2
        rise = t - wlf.d2 - wlf.d3 * pressure
        log_zero = log_d1[grade] - wlf.a1 * rise / base
        n = index[grade]
        reduced = log_zero + rate.log() - tau[grade].log()
        arg = (1 - n) * reduced
        log_eta = log_zero - F.softplus(arg)
        out = log_eta / math.log(10.0) if log10 else log_eta.exp()
        ctx.save_for_backward(temperature, pressure, shear, tau, index, grade, base, rate, reduced, out)
        ctx.shape_d1, ctx.wlf, ctx.log10 = log_d1.shape, wlf, log10
        return out

    @staticmethod
    def backward(ctx, grad):
        temperature, pressure, shear, tau, index, grade, base, rate, reduced, out = ctx.saved_tensors
        wlf = ctx.wlf
        n = index[grade]
        share = torch.sigmoid((1 - n) * reduced)
        g = grad / math.log(10.0) if ctx.log10 else grad * out
        thin = (1 - n) * share
        g_zero = g * (1 - thin)
        g_t = -g_zero * wlf.a1 * (wlf.a2 + wlf.d3 * pressure) / base**2 * (temperature > wlf.no_flow)
        g_p = g_zero * wlf.a1 * wlf.d3 / base
        g_shear = -g * thin / rate * (shear > wlf.min_shear)

        def per_grade(values, like):
            ids = grade.expand(values.shape).reshape(-1)
            return values.new_zeros(like).index_add(0, ids, values.reshape(-1))

        return (g_t.sum_to_size(temperature.shape), g_p.sum_to_size(pressure.shape), g_shear.sum_to_size(shear.shape),
                per_grade(g_zero, ctx.shape_d1), per_grade(g * thin / tau[grade], tau.shape),
                per_grade(g * share * reduced, index.shape), None, None, None)


def cross_wlf(temperature, pressure, shear, log_d1, tau, index, grade, wlf: WLF = WLF(), log10: bool = False):
    """Cross-WLF viscosity of a melt.

    Parameters
    ----------
    temperature, pressure, shear : Tensor
        Broadcast against one another. Below ``wlf.no_flow`` the temperature is held, below ``wlf.min_shear`` the rate.
    log_d1, tau, index : Tensor, shape (grades,)
        Log of the reference viscosity, stress at the onset of thinning, power-law index.
    grade : LongTensor
        Grade of each point, broadcasts with the points.
    log10 : bool
        Return the decadic logarithm.
    """
    return CrossWLF.apply(temperature, pressure, shear, log_d1, tau, index, grade, wlf, log10)


class TaitVolume(torch.autograd.Function):
    C = 0.0894

    @staticmethod
    def forward(ctx, temperature, pressure, coef):
        above = temperature - coef.b5
        melt = above > coef.b6 * pressure

        def pick(m, s):
            return torch.where(melt, torch.full_like(above, m), torch.full_like(above, s))

        slope, decay = pick(coef.b2m, coef.b2s), pick(coef.b4m, coef.b4s)
        v0 = pick(coef.b1m, coef.b1s) + slope * above
        stiff = pick(coef.b3m, coef.b3s) * torch.exp(-decay * above)
        cold = torch.where(melt, torch.zeros_like(above), above)
        crystal = coef.b7 * torch.exp(coef.b8 * cold - coef.b9 * pressure) * ~melt
        squeeze = 1 - TaitVolume.C * torch.log1p(pressure / stiff)
        ctx.save_for_backward(pressure, slope, decay, v0, stiff, crystal, squeeze)
        ctx.coef = coef
        return v0 * squeeze + crystal

    @staticmethod
    def backward(ctx, grad):
        pressure, slope, decay, v0, stiff, crystal, squeeze = ctx.saved_tensors
        compress = v0 * TaitVolume.C / (stiff + pressure)
        g_t = grad * (slope * squeeze - compress * decay * pressure + ctx.coef.b8 * crystal)
        g_p = -grad * compress
        return g_t, g_p, None


def tait_volume(temperature, pressure, coef: TaitCoefficients = TaitCoefficients()):
    """Specific volume in the melt and the solid domain; temperature and pressure have one shape.

    ``b7``, ``b8`` and ``b9`` describe the volume that is lost on crystallisation, zero for amorphous polymers.
    """
    return TaitVolume.apply(temperature, pressure, coef)


class RunnerDrop(torch.autograd.Function):
    """Pressure lost between the sprue and every cavity of a branched cold runner."""

    @staticmethod
    def forward(ctx, flow, radius, length, consistency, path, n, min_flow):
        path = path.to(flow.dtype)
        raw = flow @ path                                               # (shots, segments)
        carried = raw.clamp(min=min_flow)
        wall_rate = (3 * n + 1) / n * carried / (math.pi * radius**3)
        drop = 2 * consistency * length / radius * wall_rate**n
        ctx.save_for_backward(raw, carried, radius, length, consistency, path, drop)
        ctx.n, ctx.min_flow = n, min_flow
        return drop @ path.T

    @staticmethod
    def backward(ctx, grad):
        raw, carried, radius, length, consistency, path, drop = ctx.saved_tensors
        g_log = (grad @ path) * drop
        g_flow = (ctx.n * g_log / carried * (raw > ctx.min_flow)) @ path.T
        per_segment = g_log.sum(0)
        g_radius = -(1 + 3 * ctx.n) * per_segment / radius
        g_length = per_segment / length
        g_consistency = (per_segment / consistency).sum_to_size(consistency.shape)
        return g_flow, g_radius, g_length, g_consistency, None, None, None


def runner_drop(flow, radius, length, consistency, path, n=0.35, min_flow=1e-9):
    """Power-law pressure drop per cavity.

    Parameters
    ----------
    flow : (shots, cavities)
    radius, length : (segments,)
    consistency : () or (segments,)
    path : BoolTensor, shape (cavities, segments)
        Segments passed on the way to the cavity. Cavities share segments near the sprue.
    """
    return RunnerDrop.apply(flow, radius, length, consistency, path, n, min_flow)


class MeltModel(nn.Module):
    def __init__(self, grades: int, wlf: WLF = WLF(), coef: TaitCoefficients = TaitCoefficients()):
        super().__init__()
        self.log_d1 = nn.Parameter(torch.full((grades,), 25.0))
        self.tau = nn.Parameter(torch.full((grades,), 3.0e4))
        self.index = nn.Parameter(torch.full((grades,), 0.3))
        self.wlf, self.coef = wlf, coef

    def forward(self, temperature, pressure, shear, grade):
        eta = cross_wlf(temperature, pressure, shear, self.log_d1, self.tau, self.index, grade, self.wlf, True)
        return eta, tait_volume(temperature, pressure, self.coef)


class RunnerLayout(nn.Module):
    def __init__(self, path, radius, length, n=0.35):
        super().__init__()
        self.register_buffer("path", path)
        self.log_radius = nn.Parameter(radius.log())
        self.length = nn.Parameter(length)
        self.consistency = nn.Parameter(torch.tensor(1.0e4))
        self.n = n

    def forward(self, flow):
        return runner_drop(flow, self.log_radius.exp(), self.length, self.consistency, self.path, self.n)
