"""Head-discharge relations used by the calibration of the canal gauges.

Everything is in SI units and works on any leading batch shape.  Both relations below are cheap, but the taped version
of each keeps a dozen intermediates per time step alive, and the calibration runs over years of ten-minute records, so
they come with their derivatives written out.
"""
from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

GRAVITY = 9.80665
RE_LAMINAR = 2300.0
RE_TURBULENT = 4000.0

_NOTCH = {"rectangular": 1.5, "triangular": 2.5}


def _reduce_to(grad: Tensor, shape: torch.Size) -> Tensor:
    """Sum ``grad`` down to ``shape`` (the inverse of broadcasting)."""
    lead = grad.dim() - len(shape)
    if lead:
        grad = grad.sum(dim=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return grad.sum(dim=axes, keepdim=True) if axes else grad


class VillemonteWeir(torch.autograd.Function):
    """Discharge over a sharp-crested weir, free or submerged (Villemonte, 1947).

    Parameters
    ----------
    upstream, downstream : Tensor
        Heads above the crest.  ``downstream`` may be negative (free overfall); where it is positive it has to be
        strictly below ``upstream``.  A gauge with ``upstream <= 0`` is dry and passes nothing.
    breadth, coeff : Tensor
        Crest breadth (or the tangent of the half angle for a V notch) and discharge coefficient.
    notch : {"rectangular", "triangular"}
    submergence : float
        Exponent of Villemonte's reduction, 0.385 in the original.  Not differentiated.

    Returns
    -------
    Tensor
        Discharge, with the broadcast shape of the four tensors.
    """

    @staticmethod
    def forward(ctx, upstream, downstream, breadth, coeff, notch="rectangular", submergence=0.385):
        n = _NOTCH[notch]
        up, down, b, c = torch.broadcast_tensors(upstream, downstream, breadth, coeff)
        wet = up > 0
        h = torch.where(wet, up, torch.ones_like(up))
        ratio = torch.where(wet, down.clamp_min(0.0), torch.zeros_like(down)) / h
        reduction = (1.0 - ratio ** n) ** submergence
        free = math.sqrt(2.0 * GRAVITY) * h ** n
        q = torch.where(wet, b * c * free * reduction, torch.zeros_like(h))
        ctx.save_for_backward(upstream, downstream, breadth, coeff)
        ctx.n, ctx.m = n, submergence
        return q

    @staticmethod
    def backward(ctx, grad_q):
        upstream, downstream, breadth, coeff = ctx.saved_tensors
        n, m = ctx.n, ctx.m
        up, down, b, c = torch.broadcast_tensors(upstream, downstream, breadth, coeff)
        wet = (up > 0).to(grad_q.dtype)
        h = torch.where(up > 0, up, torch.ones_like(up))
        ratio = wet * down.clamp_min(0.0) / h

        inner = 1.0 - ratio ** n
        unit = wet * grad_q * math.sqrt(2.0 * GRAVITY) * h ** (n - 1.0)
        drowned = m * inner ** (m - 1.0) * n
        g_up = unit * b * c * (n * inner ** m + drowned * ratio ** n)
        g_down = -unit * b * c * drowned * ratio ** (n - 1.0)
        unit = unit * h * inner ** m
        return (
            _reduce_to(g_up, upstream.shape),
            _reduce_to(g_down, downstream.shape),
            _reduce_to(unit * c, breadth.shape),
            _reduce_to(unit * b, coeff.shape),
            None,
            None,
        )


def _colebrook_root(re: Tensor, rough: Tensor, iters: int = 24) -> Tensor:
    # x = 1 / sqrt(f); Newton in x from the fully rough / smooth guess
    c = 2.0 / math.log(10.0)
    x = -1.8 * torch.log10((rough / 3.7) ** 1.11 + 6.9 / re)
    for _ in range(iters):
        a = rough / 3.7 + 2.51 * x / re
        x = x - (x + c * torch.log(a)) / (1.0 + c * 2.51 / (re * a))
    return x


class ColebrookFriction(torch.autograd.Function):
    """Darcy friction factor for every regime of a full pipe.

    Laminar below ``RE_LAMINAR`` (64 / Re), Colebrook-White above ``RE_TURBULENT`` and a smoothstep blend of the two in
    between.  ``re`` is positive, the relative roughness is between 0 and 0.05; the two broadcast.
    The Colebrook equation is differentiated implicitly, nothing of the Newton loop is kept.
    """

    @staticmethod
    def forward(ctx, re: Tensor, rough: Tensor) -> Tensor:
        s = ((re - RE_LAMINAR) / (RE_TURBULENT - RE_LAMINAR)).clamp(0.0, 1.0)
        w = s * s * (3.0 - 2.0 * s)
        x = _colebrook_root(re.clamp_min(RE_LAMINAR), rough)
        ctx.save_for_backward(re, rough, s, x)
        return (1.0 - w) * 64.0 / re + w / (x * x)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        re, rough, s, x = ctx.saved_tensors
        c = 2.0 / math.log(10.0)
        w = s * s * (3.0 - 2.0 * s)
        dw = 6.0 * s * (1.0 - s) / (RE_TURBULENT - RE_LAMINAR)

        ret = re.clamp_min(RE_LAMINAR)
        a = rough / 3.7 + 2.51 * x / ret
        slope = 1.0 + c * 2.51 / (ret * a)
        dx_dre = c * 2.51 * x / (ret * ret * a) / slope
        dx_drough = -c / (3.7 * a) / slope
        df_dx = -2.0 / x ** 3

        g_re = g_rough = None
        if ctx.needs_input_grad[0]:
            lam, tur = 64.0 / re, 1.0 / (x * x)
            local = dw * (tur - lam) - (1.0 - w) * lam / re + w * df_dx * dx_dre
            g_re = _reduce_to(grad * local, re.shape)
        if ctx.needs_input_grad[1]:
            g_rough = _reduce_to(grad * w * df_dx * dx_drough, rough.shape)
        return g_re, g_rough


def head_loss(velocity: Tensor, diameter: Tensor, length: Tensor, rough: Tensor, nu: float = 1.307e-6) -> Tensor:
    """Darcy-Weisbach loss along full pipes, in metres."""
    re = velocity.abs() * diameter / nu
    f = ColebrookFriction.apply(re, rough / diameter)
    return f * length / diameter * velocity * velocity.abs() / (2.0 * GRAVITY)


class GaugeBank(nn.Module):
    """A bank of weirs sharing one record of levels; breadths are surveyed, coefficients are calibrated."""

    def __init__(self, crest: Tensor, breadth: Tensor, notch: str = "rectangular") -> None:
        super().__init__()
        self.register_buffer("crest", crest)
        self.register_buffer("breadth", breadth)
        self.log_coeff = nn.Parameter(torch.full_like(breadth, math.log(0.41)))
        self.notch = notch

    def forward(self, level_up: Tensor, level_down: Tensor) -> Tensor:
        """``level_*``: [time, gauge] water levels; returns [time, gauge] discharges."""
        return VillemonteWeir.apply(
            level_up - self.crest, level_down - self.crest, self.breadth, self.log_coeff.exp(), self.notch
        )
