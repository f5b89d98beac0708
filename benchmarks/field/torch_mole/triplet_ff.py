"""Bond-order and three-body terms for the toy force field.

Edges and triplets come from the neighbour list as integer tables:

    pairs     (E, 2)   i, j       each pair once
    triplets  (T, 2)   ij, ik     rows of the *bond* table (directed bonds)
    trimers   (K, 3)   ij, jk, ki rows of ``pairs``
"""
import math
from dataclasses import dataclass

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class BondOrderParams:
    c: float = 1.0039e5
    d: float = 16.217
    h: float = -0.59825
    lam3: float = 1.3258
    m: int = 3          # 3 (Si, C) or 1 (mixed alloys)
    r_in: float = 2.7
    r_out: float = 3.0


def ramp(r, lo, hi):
    """Smooth cutoff and its slope."""
    t = ((r - lo) / (hi - lo)).clamp(0.0, 1.0)
    f = 0.5 + 0.5 * torch.cos(math.pi * t)
    df = -0.5 * math.pi / (hi - lo) * torch.sin(math.pi * t)
    return f, df


class CoordinationNumber(Function):
    """Counts of neighbours of every atom, by a smooth step in r.

    radii holds one covalent radius per element, z the element index of each
    atom; kind is "exp" (D3) or "erf" (D4).
    """

    @staticmethod
    def forward(ctx, r, radii, z, pairs, kind):
        i, j = pairs[:, 0], pairs[:, 1]
        rc = radii[z[i]] + radii[z[j]]
        if kind == "exp":
            count = torch.sigmoid(16.0 * (rc / r - 1.0))
        elif kind == "erf":
            count = 0.5 * torch.erfc(7.5 * (r / rc - 1.0))
        else:
            raise ValueError(kind)
        cn = r.new_zeros(z.shape[0])
        cn = cn.index_add(0, i, count).index_add(0, j, count)
        ctx.save_for_backward(r, rc, z, pairs, count)
        ctx.kind = kind
        ctx.n_elements = radii.shape[0]
        return cn

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        r, rc, z, pairs, count = ctx.saved_tensors
        i, j = pairs[:, 0], pairs[:, 1]
        g_count = g[i] + g[j]
        if ctx.kind == "exp":
            slope = 16.0 * count * (1.0 - count)
            d_r, d_rc = -slope * rc / r**2, slope / r
        else:
            slope = 7.5 / math.sqrt(math.pi) * torch.exp(-((7.5 * (r / rc - 1.0)) ** 2))
            d_r, d_rc = -slope / rc, slope * r / rc**2
        g_radii = g.new_zeros(ctx.n_elements)
        g_radii.index_add_(0, z[i], 2.0 * g_count * d_rc)
        return g_count * d_r, g_radii, None, None, None


class AxilrodTeller(Function):
    """Triple-dipole energy, summed.  r (E,), c9 (K,), trimers (K, 3)."""

    @staticmethod
    def forward(r, c9, trimers):
        a, b, c = r.square()[trimers].unbind(1)
        v = a * b * c
        cosines = (a + b - c) * (b + c - a) * (c + a - b)
        return (c9 * (v**-1.5 + 0.375 * cosines * v**-2.5)).sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        r, c9, trimers = ctx.saved_tensors
        sq = r.square()[trimers]
        v = sq.prod(1, keepdim=True)
        s = sq.sum(1, keepdim=True)
        f = s - 2.0 * sq                  # opposite-side factors
        cosines = f.prod(1, keepdim=True)
        # d(cosines)/d(sq_a): +1 in two of the factors, -1 in its own
        fa, fb, fc = f.unbind(1)
        dcos = torch.stack((fa * (fb + fc) - fb * fc,
                            fb * (fc + fa) - fc * fa,
                            fc * (fa + fb) - fa * fb), 1)
        dv = -1.5 * v**-2.5 - 0.9375 * cosines * v**-3.5
        d_sq = dv * v / sq + 0.375 * dcos * v**-2.5
        g_side = g * c9[:, None] * d_sq * 2.0 * r[trimers]
        g_r = torch.zeros_like(r).index_add(0, trimers.reshape(-1), g_side.reshape(-1))
        v, cosines = v[:, 0], cosines[:, 0]
        return g_r, g * (v**-1.5 + 0.375 * cosines * v**-2.5), None


class BondZeta(Function):
    """zeta_ij = sum_k fc(r_ik) g(cos) exp((lam3 (r_ij - r_ik))^m)

    r (E,) directed bond lengths, cos (T,), triplets (T, 2); returns (E,).
    """

    @staticmethod
    def forward(ctx, r, cos, triplets, p: BondOrderParams):
        ij, ik = triplets[:, 0], triplets[:, 1]
        fc, dfc = ramp(r[ik], p.r_in, p.r_out)
        q = p.d**2 + (p.h - cos) ** 2
        ang = 1.0 + (p.c / p.d) ** 2 - p.c**2 / q
        dang = -2.0 * p.c**2 * (p.h - cos) / q**2
        u = p.lam3 * (r[ij] - r[ik])
        e = torch.exp(u**p.m)
        ctx.save_for_backward(r, triplets, fc, dfc, ang, dang, u, e)
        ctx.m = p.m
        return torch.zeros_like(r).index_add(0, ij, fc * ang * e)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        r, triplets, fc, dfc, ang, dang, u, e = ctx.saved_tensors
        ij, ik = triplets[:, 0], triplets[:, 1]
        gz = g[ij]
        g_stretch = gz * fc * ang * e * ctx.m * u ** (ctx.m - 1)
        g_cut = gz * dfc * ang * e
        g_r = torch.zeros_like(r)
        g_r.index_add_(0, ij, g_stretch)
        g_r.index_add_(0, ik, g_cut - g_stretch)
        return g_r, gz * fc * dang * e, None, None


def bond_order(zeta, beta, n):
    return (1.0 + (beta * zeta) ** n) ** (-0.5 / n)


def energy(r_bond, cos, triplets, p, beta=0.3, n=0.78, A=3264.7, B=95.4, l1=3.24, l2=1.33):
    b = bond_order(BondZeta.apply(r_bond, cos, triplets, p), beta, n)
    fc, _ = ramp(r_bond, p.r_in, p.r_out)
    return 0.5 * (fc * (A * torch.exp(-l1 * r_bond) - b * B * torch.exp(-l2 * r_bond))).sum()
