# SPECT forward model pieces with adjoints, used by the quantitative Lu-177 pipeline.
from __future__ import annotations

import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn


class Geometry(NamedTuple):
    views: int
    bins: int
    depth: int
    step_cm: float = 0.44      # voxel size along the ray


HALF_LIFE_H = {"Tc99m": 6.01, "Lu177": 159.5, "In111": 67.3, "I123": 13.2}


class AttenuatedRaySum(torch.autograd.Function):
    """Line integral of activity, attenuated on the way to the collimator.

    Photons born in the middle of a voxel cross half of it and all the voxels between
    it and the collimator.
    """

    @staticmethod
    def forward(ctx, activity: Tensor,       # (..., N, ...) along `dim`
                mu: Tensor,                  # 1/cm, same rank, broadcasts to activity
                step: float,                 # cm
                dim: int = -1,
                collimator: str = "near") -> Tensor:   # 'near': before voxel 0, 'far': after N-1
        full = mu.expand_as(activity)
        if collimator == "near":
            path = full.cumsum(dim) - 0.5 * full
        elif collimator == "far":
            path = full.flip(dim).cumsum(dim).flip(dim) - 0.5 * full
        else:
            raise ValueError(collimator)
        seen = torch.exp(-step * path) * step
        ctx.save_for_backward(activity, seen)
        ctx.mu_shape, ctx.step, ctx.dim, ctx.side = mu.shape, step, dim, collimator
        return (activity * seen).sum(dim)

    @staticmethod
    def backward(ctx, grad: Tensor):
        activity, seen = ctx.saved_tensors
        dim = ctx.dim
        g = grad.unsqueeze(dim) * seen
        c = g * activity
        if ctx.side == "near":
            behind = c.flip(dim).cumsum(dim).flip(dim)
        else:
            behind = c.cumsum(dim)
        g_mu = -ctx.step * (behind - 0.5 * c)
        return g, g_mu.sum_to_size(ctx.mu_shape), None, None, None


class PoissonMisfit(torch.autograd.Function):
    """Negative Poisson log-likelihood of the counts, without the constant log y! term."""

    @staticmethod
    def forward(ctx, projection: Tensor,     # (V, B) noise-free primary counts, >= 0
                sensitivity: Tensor,         # (B,) per detector bin, > 0
                scatter: Tensor,             # (V, B) additive estimate, > 0
                counts: Tensor,              # (V, B) measured
                valid: Tensor,               # (V, B) bool, False on dead bins and masked views
                reduction: str = "sum"):     # 'sum', 'mean' (over valid bins) or 'none'
        expected = projection * sensitivity + scatter
        term = (expected - counts * expected.log()) * valid
        ctx.save_for_backward(projection, sensitivity, expected, counts, valid)
        ctx.reduction = reduction
        if reduction == "none":
            return term
        if reduction == "mean":
            return term.sum() / valid.sum()
        return term.sum()

    @staticmethod
    def backward(ctx, grad):
        projection, sensitivity, expected, counts, valid = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad = grad / counts.numel()
        ratio = counts / expected
        g = grad * (1.0 - ratio) * valid
        g_counts = None
        if ctx.needs_input_grad[3]:
            g_counts = -grad * expected.log() * valid
        return g * sensitivity, (g * projection).sum(0), g, g_counts, None, None


class DecayCorrect(torch.autograd.Function):
    """Refer frame-averaged activity to injection time."""

    @staticmethod
    def forward(ctx, rate: Tensor,           # (S, F) mean rate in every frame
                half_life: Tensor,           # (I,) hours
                isotope: Tensor,             # (S,) int64 row of half_life, scans share isotopes
                start: Tensor,               # (F,) hours after injection, >= 0
                duration: Tensor) -> Tensor:  # (F,) hours, > 0
        lam = math.log(2.0) / half_life[isotope][:, None]
        x = lam * duration
        factor = torch.exp(lam * start) * x / -torch.expm1(-x)
        ctx.save_for_backward(rate, half_life, isotope, start, duration, factor)
        return rate * factor

    @staticmethod
    def backward(ctx, grad):
        rate, half_life, isotope, start, duration, factor = ctx.saved_tensors
        period = half_life[isotope][:, None]
        lam = math.log(2.0) / period
        x = lam * duration
        # 1 - x / expm1(x), series for frames much shorter than the half-life
        small = x < 1e-2
        safe = torch.where(small, torch.ones_like(x), x)
        h = torch.where(small, x / 2 - x ** 2 / 12 + x ** 4 / 720, 1 - safe / torch.expm1(safe))
        common = grad * rate * factor
        g_scan = (-common * (h + lam * start) / period).sum(1)
        g_half = torch.zeros_like(half_life).index_add(0, isotope, g_scan)
        g_start = (common * lam).sum(0) if ctx.needs_input_grad[3] else None
        g_dur = (common * h / duration).sum(0) if ctx.needs_input_grad[4] else None
        return grad * factor, g_half, None, g_start, g_dur


class RotatingCamera(nn.Module):
    """activity (depth, bins) rotated by the caller for each view -> projections (V, B)."""

    def __init__(self, geom: Geometry, learn_sensitivity: bool = False):
        super().__init__()
        self.geom = geom
        self.sensitivity = nn.Parameter(torch.ones(geom.bins), requires_grad=learn_sensitivity)

    def forward(self, rotated: Tensor, mu_map: Tensor) -> Tensor:
        # rotated: (V, depth, B); mu_map: (V, depth, B), or (1, depth, B) for a uniform cylinder
        return AttenuatedRaySum.apply(rotated, mu_map, self.geom.step_cm, 1, "near")

    def loss(self, rotated, mu_map, scatter, counts, valid: Optional[Tensor] = None):
        if valid is None:
            valid = torch.ones_like(counts, dtype=torch.bool)
        return PoissonMisfit.apply(self(rotated, mu_map), self.sensitivity, scatter, counts, valid, "mean")


def reconstruct(camera: RotatingCamera, counts, mu_map, scatter, valid, n_iter: int = 50, lr: float = 0.05):
    g = camera.geom
    log_act = torch.zeros(g.views, g.depth, g.bins, requires_grad=True)
    opt = torch.optim.Adam([log_act], lr=lr)
    for _ in range(n_iter):
        opt.zero_grad()
        camera.loss(log_act.exp(), mu_map, scatter, counts, valid).backward()
        opt.step()
    return log_act.detach().exp()
