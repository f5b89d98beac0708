"""Diffraction geometry and short-range order of alloys."""

import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class InterplanarSpacing(Function):
    """d-spacing of the planes (hkl) of general (triclinic) cells.

    Args:
        cell: (B, 3, 3), rows are the lattice vectors a, b, c in angstrom, non-singular.
        hkl:  (R, 3) Miller indices, none of them (0, 0, 0); not differentiated.
    Returns:
        (B, R) spacings in angstrom.
    """

    @staticmethod
    def forward(ctx, cell, hkl):
        inv = torch.linalg.inv(cell)
        q = hkl.to(cell.dtype) @ inv.transpose(-1, -2)
        d = q.norm(dim=-1).reciprocal()
        ctx.save_for_backward(inv, q, d)
        return d

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        inv, q, d = ctx.saved_tensors
        grad_q = -q * (d.pow(3) * grad).unsqueeze(-1)
        grad_cell = -q.transpose(-1, -2) @ (grad_q @ inv)
        return grad_cell, None


class BraggTwoTheta(Function):
    """Peak position 2*theta for spacing d and wavelength, plus the zero shift of the instrument.

    All three broadcast.  `degrees` picks the unit of the result and of the shift.  Reflections out of reach
    (wavelength >= 2 d) are put at backscatter, without gradients other than the shift's.
    """

    @staticmethod
    def forward(ctx, d, wavelength, zero, degrees=True):
        s = wavelength / (2.0 * d)
        reach = s < 1.0
        unit = 180.0 / math.pi if degrees else 1.0
        theta = torch.asin(torch.where(reach, s, torch.ones_like(s)))
        ctx.save_for_backward(d, wavelength, reach)
        ctx.unit, ctx.zero_shape = unit, zero.shape
        return 2.0 * unit * theta + zero

    @staticmethod
    def backward(ctx, grad):
        d, wavelength, reach = ctx.saved_tensors
        s = torch.where(reach, wavelength / (2.0 * d), torch.zeros_like(wavelength / d))
        g_s = torch.where(
            reach,
            (2.0 * ctx.unit) * grad / torch.sqrt((1.0 - s) * (1.0 + s)),
            torch.zeros_like(grad),
        )
        g_d = (-g_s * s / d).sum_to_size(d.shape)
        g_w = (g_s / (2.0 * d)).sum_to_size(wavelength.shape)
        return g_d, g_w, grad.sum_to_size(ctx.zero_shape), None


class WarrenCowley(Function):
    """alpha_ij = 1 - P_ij / (c_i c_j) over one shell; occ (N, S), shell (N, K) padded by -1."""

    @staticmethod
    def forward(ctx, occ, shell, composition=None):
        present = shell >= 0
        idx = shell.clamp_min(0)
        near = (occ[idx] * present.unsqueeze(-1).to(occ.dtype)).sum(1)
        bonds = present.sum().clamp_min(1).to(occ.dtype)
        pair = occ.T @ near / bonds
        c = occ.mean(0) if composition is None else composition
        ctx.given = composition is not None
        outer = torch.outer(c, c)
        ctx.save_for_backward(occ, near, idx, present, bonds, pair, c, outer)
        return 1.0 - pair / outer

    @staticmethod
    def backward(ctx, grad):
        occ, near, idx, present, bonds, pair, c, outer = ctx.saved_tensors
        g_pair = -grad / outer / bonds
        g_occ = near @ g_pair.T
        g_near = occ @ g_pair
        spread = g_near.unsqueeze(1) * present.unsqueeze(-1).to(occ.dtype)
        g_occ.index_add_(0, idx.reshape(-1), spread.reshape(-1, occ.shape[1]))
        g_comp = None
        if ctx.given:
            g_outer = grad * pair / outer.square()
            g_comp = (g_outer + g_outer.T) @ c
        return g_occ, None, g_comp


def peak_list(cell, hkl, wavelength=1.5406, zero=0.0):
    d = InterplanarSpacing.apply(cell, hkl)
    ref = dict(dtype=d.dtype, device=d.device)
    return BraggTwoTheta.apply(d, torch.as_tensor(wavelength, **ref), torch.as_tensor(zero, **ref))
