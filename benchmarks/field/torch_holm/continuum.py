"""Constitutive laws and surface integrals."""
from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.autograd import Function


def _per_element(s: Tensor) -> Tensor:
    return s[..., None, None]


class NeoHookeanDensity(Function):
    @staticmethod
    def forward(ctx, F: Tensor, mu: Tensor, lam: Tensor) -> Tensor:
        log_j = torch.logdet(F)
        i1 = F.square().sum((-2, -1))
        iso = 0.5 * (i1 - F.shape[-1]) - log_j
        ctx.save_for_backward(F, mu, lam, log_j, iso)
        return mu * iso + 0.5 * lam * log_j.square()

    @staticmethod
    def backward(ctx, g):
        F, mu, lam, log_j, iso = ctx.saved_tensors
        F_inv = torch.linalg.inv(F)
        stress = _per_element(mu) * (F - F_inv) + _per_element(lam * log_j) * F_inv
        gF = _per_element(g) * stress
        g_mu = (g * iso).sum_to_size(mu.shape)
        g_lam = (0.5 * g * log_j.square()).sum_to_size(lam.shape)
        return gF, g_mu, g_lam


class StVenantKirchhoffDensity(Function):
    """St. Venant-Kirchhoff energy density of deformation gradients (..., d, d); mu, lam broadcast over elements."""

    @staticmethod
    def forward(ctx, F, mu, lam):
        eye = torch.eye(F.shape[-1], dtype=F.dtype, device=F.device)
        E = 0.5 * (F.mT @ F - eye)
        tr = E.diagonal(dim1=-2, dim2=-1).sum(-1)
        sq = E.square().sum((-2, -1))
        ctx.save_for_backward(F, mu, lam, E, tr, sq)
        return mu * sq + 0.5 * lam * tr.square()

    @staticmethod
    def backward(ctx, g):
        F, mu, lam, E, tr, sq = ctx.saved_tensors
        gF = g_mu = g_lam = None
        if ctx.needs_input_grad[0]:
            P = 2.0 * _per_element(mu) * (F @ E) + _per_element(lam * tr) * F
            gF = _per_element(g) * P
        if ctx.needs_input_grad[1]:
            g_mu = (g * sq).sum_to_size(mu.shape)
        if ctx.needs_input_grad[2]:
            g_lam = (0.5 * g * tr.square()).sum_to_size(lam.shape)
        return gF, g_mu, g_lam


class SurfaceIntegral(Function):
    @staticmethod
    def forward(ctx, verts, field, faces):
        tri = verts[faces]
        normal = torch.linalg.cross(tri[:, 1] - tri[:, 0], tri[:, 2] - tri[:, 0])
        twice = normal.norm(dim=-1)
        mean = field[faces].mean(1)
        ctx.save_for_backward(tri, normal / twice[:, None].clamp_min(1e-30), twice, mean, faces)
        ctx.n_verts = verts.shape[0]
        return 0.5 * (twice[:, None] * mean).sum(0)

    @staticmethod
    def backward(ctx, g):
        tri, n, twice, mean, faces = ctx.saved_tensors
        idx = faces.reshape(-1)
        opposite = tri[:, [2, 0, 1]] - tri[:, [1, 2, 0]]
        d_area = 0.5 * torch.linalg.cross(n[:, None, :].expand_as(opposite), opposite)
        per_corner = d_area * (mean @ g)[:, None, None]
        g_verts = tri.new_zeros(ctx.n_verts, 3).index_add_(0, idx, per_corner.reshape(-1, 3))
        share = (twice / 6.0)[:, None] * g
        g_field = tri.new_zeros(ctx.n_verts, g.shape[0]).index_add_(
            0, idx, share.repeat_interleave(3, dim=0)
        )
        return g_verts, g_field, None


class HerschelBulkleyStress(Function):
    """Papanastasiou-regularised Herschel-Bulkley shear stress, odd in the (nonzero) shear rate."""

    @staticmethod
    def forward(ctx, rate, tau_y, k, n, reg):
        mag = rate.abs()
        ctx.save_for_backward(rate, tau_y, k, n)
        ctx.reg = reg
        return torch.sign(rate) * (k * mag.pow(n) - tau_y * torch.expm1(-reg * mag))

    @staticmethod
    def backward(ctx, g):
        rate, tau_y, k, n = ctx.saved_tensors
        mag, s = rate.abs(), torch.sign(rate)
        decay = torch.exp(-ctx.reg * mag)
        visc = mag.pow(n)
        g_rate = g * (k * n * visc / mag + tau_y * ctx.reg * decay)
        g_tau = g * (1.0 - decay)
        g_k = g * s * visc
        g_n = g * s * k * visc * mag.log()
        return (
            g_rate.sum_to_size(rate.shape),
            g_tau.sum_to_size(tau_y.shape),
            g_k.sum_to_size(k.shape),
            g_n.sum_to_size(n.shape),
            None,
        )


class YieldStressFluid(nn.Module):
    def __init__(self, tau_y: float = 1.0, consistency: float = 0.5, index: float = 0.6, reg: float = 100.0):
        super().__init__()
        self.tau_y = nn.Parameter(torch.tensor(tau_y))
        self.k = nn.Parameter(torch.tensor(consistency))
        self.n = nn.Parameter(torch.tensor(index))
        self.reg = reg

    def forward(self, rate: Tensor) -> Tensor:
        return HerschelBulkleyStress.apply(rate, self.tau_y, self.k, self.n, self.reg)


def elastic_energy(F: Tensor, volume: Tensor, mu: Tensor, lam: Tensor, model: str = "neo") -> Tensor:
    law = {"neo": NeoHookeanDensity, "stvk": StVenantKirchhoffDensity}[model]
    return (volume * law.apply(F, mu, lam)).sum()
