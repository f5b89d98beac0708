"""Differentiable building blocks for a polarimetric optical bench.

Everything here works on plain tensors; wavelengths are in micrometres and
phases in radians.
"""
from __future__ import annotations

import math
from typing import Optional, Sequence

import torch
from torch import Tensor, nn

__all__ = ["JonesApply", "SellmeierIndex", "AiryEtalon", "WavePlate", "Glass", "etalon_transmission"]

# Schott N-BK7
_BK7_B = (1.03961212, 0.231792344, 1.01046945)
_BK7_C = (0.00600069867, 0.0200179144, 103.560653)


def _reduce_like(grad: Tensor, ref_shape: torch.Size) -> Tensor:
    return grad.sum_to_size(ref_shape) if grad.shape != ref_shape else grad


class JonesApply(torch.autograd.Function):
    r"""Propagate Jones vectors through a polarising element.

    Parameters
    ----------
    jones : Tensor, complex, shape (2, 2) or (C, 2, 2)
        Jones matrix of the element, one for all channels or one per channel.
    field : Tensor, complex, shape (N, C, 2)
        Electric field (:math:`E_x, E_y`) of `N` rays in `C` wavelength channels.

    Returns
    -------
    Tensor, complex, shape (N, C, 2)
        ``out[n, c] = jones[c] @ field[n, c]``.

    Notes
    -----
    Gradients follow the torch convention for complex tensors (conjugate
    Wirtinger derivative), so that ``x - lr * x.grad`` descends a real loss.
    A shared ``(2, 2)`` matrix collects the gradient of all the channels.
    """

    @staticmethod
    def forward(ctx, jones: Tensor, field: Tensor) -> Tensor:
        ctx.save_for_backward(jones, field)
        return torch.matmul(jones, field.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    def backward(ctx, grad_out: Tensor):
        jones, field = ctx.saved_tensors
        grad_jones = grad_field = None
        if ctx.needs_input_grad[0]:
            grad_jones = torch.einsum("nci,ncj->cij", grad_out, field)
            grad_jones = _reduce_like(grad_jones, jones.shape)
        if ctx.needs_input_grad[1]:
            grad_field = torch.matmul(jones.mH, grad_out.unsqueeze(-1)).squeeze(-1)
        return grad_jones, grad_field


class SellmeierIndex(torch.autograd.Function):
    r"""Refractive index from the Sellmeier equation.

    .. math:: n^2(\lambda) = 1 + \sum_k \frac{B_k \lambda^2}{\lambda^2 - C_k}

    Parameters
    ----------
    wavelength : Tensor, any shape
        Vacuum wavelength in micrometres, away from the poles
        :math:`\lambda^2 = C_k` and inside the transparent range (n^2 > 0).
    b, c : Tensor, shape (K,)
        Oscillator strengths and squared resonance wavelengths (um^2).

    Returns
    -------
    Tensor
        Index of refraction with the shape of `wavelength`.

    Notes
    -----
    Differentiable with respect to all the three arguments, which is what the
    melt-data refit needs (`b` and `c` are fitted, `wavelength` enters via the
    dispersion of a grating).
    """

    @staticmethod
    def forward(ctx, wavelength, b, c):
        lam2 = wavelength.square().unsqueeze(-1)
        n = torch.sqrt(1.0 + (b * lam2 / (lam2 - c)).sum(-1))
        ctx.save_for_backward(wavelength, b, c, n)
        return n

    @staticmethod
    def backward(ctx, g):
        wavelength, b, c, n = ctx.saved_tensors
        lam2 = wavelength.square().unsqueeze(-1)
        inv = (lam2 - c).reciprocal()
        half = (0.5 * g / n).unsqueeze(-1)  # dn = d(n^2) / 2n
        lead = tuple(range(half.dim() - 1))

        g_lam = g_b = g_c = None
        if ctx.needs_input_grad[0]:
            slope = -(b * c * inv.square()).sum(-1)
            g_lam = half.squeeze(-1) * slope * 2.0 * wavelength
        if ctx.needs_input_grad[1]:
            g_b = half * lam2 * inv
            g_b = g_b.sum(lead) if lead else g_b
        if ctx.needs_input_grad[2]:
            g_c = half * b * lam2 * inv.square()
            g_c = g_c.sum(lead) if lead else g_c
        return g_lam, g_b, g_c


class AiryEtalon(torch.autograd.Function):
    """Fabry-Perot transmission 1 / (1 + F sin^2(phase/2)), F = 4R/(1-R)^2; phase and 0 <= R < 1 broadcast."""

    @staticmethod
    def forward(ctx, phase: Tensor, reflectivity: Tensor) -> Tensor:
        loss = 1.0 - reflectivity
        finesse = 4.0 * reflectivity / loss.square()
        trans = 1.0 / (1.0 + finesse * torch.sin(0.5 * phase).square())
        ctx.save_for_backward(phase, reflectivity, trans)
        return trans

    @staticmethod
    def backward(ctx, g):
        phase, r, trans = ctx.saved_tensors
        loss = 1.0 - r
        common = -g * trans.square()
        # d sin^2(p/2) / dp = sin(p) / 2
        g_phase = common * (4.0 * r / loss.square()) * 0.5 * torch.sin(phase)
        # dF/dR = 4 (1 + R) / (1 - R)^3, sin^2(p/2) = (1 - cos p) / 2
        g_r = common * 4.0 * (1.0 + r) / loss.pow(3) * 0.5 * (1.0 - torch.cos(phase))
        return _reduce_like(g_phase, phase.shape), _reduce_like(g_r, r.shape)


def etalon_transmission(thickness: Tensor, index: Tensor, wavelength: Tensor, reflectivity: Tensor,
                        angle: float = 0.0) -> Tensor:
    """Transmission of a plane-parallel etalon at an internal `angle`."""
    phase = 4.0 * math.pi * index * thickness * math.cos(angle) / wavelength
    return AiryEtalon.apply(phase, reflectivity)


class Glass(nn.Module):
    def __init__(self, b: Sequence[float] = _BK7_B, c: Sequence[float] = _BK7_C, dtype: Optional[torch.dtype] = None):
        super().__init__()
        self.b = nn.Parameter(torch.tensor(b, dtype=dtype))
        self.c = nn.Parameter(torch.tensor(c, dtype=dtype))

    def forward(self, wavelength: Tensor) -> Tensor:
        return SellmeierIndex.apply(wavelength, self.b, self.c)


class WavePlate(nn.Module):
    """Linear retarder with learnable retardance and fast-axis angle."""

    def __init__(self, retardance: float = math.pi / 2, theta: float = 0.0):
        super().__init__()
        self.retardance = nn.Parameter(torch.tensor(retardance))
        self.theta = nn.Parameter(torch.tensor(theta))

    def matrix(self) -> Tensor:
        c, s = torch.cos(self.theta), torch.sin(self.theta)
        rot = torch.stack([torch.stack([c, -s]), torch.stack([s, c])])
        half = 0.5 * self.retardance
        ph = torch.stack([torch.polar(torch.ones_like(half), -half), torch.polar(torch.ones_like(half), half)])
        rot_c = rot.to(ph.dtype)
        return rot_c @ torch.diag(ph) @ rot_c.mT

    def forward(self, field: Tensor) -> Tensor:
        return JonesApply.apply(self.matrix(), field)
