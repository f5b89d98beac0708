"""Amplitude-versus-offset forward model for layered media, and a small inversion on top of it."""
import math
from typing import Sequence

import torch
from torch.autograd.function import once_differentiable


def _contrast(a):
    """Mean across each interface and relative contrast of a layer property (..., L)."""
    mean = 0.5 * (a[..., 1:] + a[..., :-1])
    return mean, (a[..., 1:] - a[..., :-1]) / mean


def _to_layers(g_mean, g_rel, mean, rel):
    """Adjoint of ``_contrast``."""
    g_mean = g_mean - g_rel * rel / mean
    step = g_rel / mean
    out = g_mean.new_zeros(*g_mean.shape[:-1], g_mean.shape[-1] + 1)
    out[..., 1:] += 0.5 * g_mean + step
    out[..., :-1] += 0.5 * g_mean - step
    return out


def _angle_factors(angles, like):
    th = torch.tensor([math.radians(a) for a in angles], dtype=like.dtype, device=like.device)
    s2 = torch.sin(th) ** 2
    return s2, torch.tan(th) ** 2 - s2


class ShueyReflectivity(torch.autograd.Function):
    """P-wave reflection coefficients after Shuey (1985).

    R(theta) = R0 + G sin^2(theta) + F (tan^2(theta) - sin^2(theta))

    Parameters
    ----------
    vp, vs, rho : torch.Tensor, shape (..., L)
        Velocities and density per layer, L >= 2. ``vs`` may be zero (water).
    angles : sequence of float
        Incidence angles in degrees, below 90.
    terms : {2, 3}
        ``2`` drops the F term.

    Returns
    -------
    torch.Tensor, shape (..., len(angles), L - 1)
    """

    @staticmethod
    def forward(vp, vs, rho, angles, terms):
        a, ra = _contrast(vp)
        r, rr = _contrast(rho)
        b = 0.5 * (vs[..., 1:] + vs[..., :-1])
        db = vs[..., 1:] - vs[..., :-1]
        s2, t2 = _angle_factors(angles, vp)
        # K * 2 * db / b with K = (b / a)^2, written without a division by b
        grad = 0.5 * ra - 2 * (b * b * rr + 2 * b * db) / (a * a)
        out = (0.5 * (ra + rr))[..., None, :] + s2[:, None] * grad[..., None, :]
        if terms == 3:
            out = out + t2[:, None] * (0.5 * ra)[..., None, :]
        return out

    @staticmethod
    def setup_context(ctx, inputs, output):
        vp, vs, rho, ctx.angles, ctx.terms = inputs
        ctx.save_for_backward(vp, vs, rho)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        vp, vs, rho = ctx.saved_tensors
        a, ra = _contrast(vp)
        r, rr = _contrast(rho)
        b = 0.5 * (vs[..., 1:] + vs[..., :-1])
        db = vs[..., 1:] - vs[..., :-1]
        s2, t2 = _angle_factors(ctx.angles, vp)
        g0 = g.sum(dim=-2)
        g1 = (g * s2[:, None]).sum(dim=-2)
        g_ra = 0.5 * (g0 + g1)
        if ctx.terms == 3:
            g_ra = g_ra + 0.5 * (g * t2[:, None]).sum(dim=-2)
        k = -2 * g1 / (a * a)
        g_rr = 0.5 * g0 + k * b * b
        g_b = k * (2 * b * rr + 2 * db)
        g_db = 2 * k * b
        g_a = -2 * k * (b * b * rr + 2 * b * db) / a
        g_vs = torch.zeros_like(vs)
        g_vs[..., 1:] += 0.5 * g_b + g_db
        g_vs[..., :-1] += 0.5 * g_b - g_db
        return _to_layers(g_a, g_ra, a, ra), g_vs, _to_layers(torch.zeros_like(r), g_rr, r, rr), None, None


def shuey(vp, vs, rho, angles: Sequence[float] = (0.0, 10.0, 20.0, 30.0), terms: int = 3):
    if terms not in (2, 3):
        raise ValueError(f"terms must be 2 or 3, got {terms}")
    return ShueyReflectivity.apply(vp, vs, rho, tuple(float(a) for a in angles), terms)


def invert(observed, vp0, vs0, rho0, angles, steps=100, lr=1e-2, smooth=1e-2):
    """Fit log properties to observed reflectivities, starting from a smooth model."""
    start = [p.log() for p in (vp0, vs0, rho0)]
    params = [p.clone().requires_grad_() for p in start]
    opt = torch.optim.Adam(params, lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        misfit = (shuey(*(p.exp() for p in params), angles) - observed).square().mean()
        rough = sum((p - s).diff(dim=-1).square().mean() for p, s in zip(params, start))
        (misfit + smooth * rough).backward()
        opt.step()
    return [p.detach().exp() for p in params]
