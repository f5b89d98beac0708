# AC network quantities in per unit for physics-informed training of OPF proxies
from __future__ import annotations

import torch
from torch import nn


def _rect(vm, va):
    return vm * torch.cos(va), vm * torch.sin(va)


def _polar_grads(ge, gf, vm, va):
    c, s = torch.cos(va), torch.sin(va)
    return ge * c + gf * s, vm * (gf * c - ge * s)


class BusInjection(torch.autograd.Function):
    """Active and reactive bus injections of a network.

    vm, va : (B, N)  voltage magnitudes and angles
    g, b   : (N, N)  real and imaginary part of the bus admittance matrix; a phase-shifting
                     transformer between i and j makes Y[i, j] != Y[j, i]

    Returns ``(p, q)``, each (B, N), with  S = V conj(Y V).
    """

    @staticmethod
    def forward(ctx, vm, va, g, b):
        e, f = _rect(vm, va)
        ir = e @ g.T - f @ b.T
        ii = f @ g.T + e @ b.T
        ctx.save_for_backward(vm, va, g, b, ir, ii)
        return e * ir + f * ii, f * ir - e * ii

    @staticmethod
    def backward(ctx, gp, gq):
        vm, va, g, b, ir, ii = ctx.saved_tensors
        e, f = _rect(vm, va)
        g_ir = gp * e + gq * f
        g_ii = gp * f - gq * e
        ge = gp * ir - gq * ii + g_ir @ g.T + g_ii @ b.T
        gf = gp * ii + gq * ir + g_ii @ g.T - g_ir @ b.T
        g_vm, g_va = _polar_grads(ge, gf, vm, va)
        g_g = g_b = None
        if ctx.needs_input_grad[2]:
            g_g = g_ir.T @ e + g_ii.T @ f
        if ctx.needs_input_grad[3]:
            g_b = g_ii.T @ e - g_ir.T @ f
        return g_vm, g_va, g_g, g_b


class LineCurrentMagnitude(torch.autograd.Function):
    @staticmethod
    def forward(vm, va, g, b, tap, f_bus, t_bus, in_service, eps):
        e, f = _rect(vm, va)
        de = e[:, f_bus] / tap - e[:, t_bus]
        df = f[:, f_bus] / tap - f[:, t_bus]
        ir, ii = g * de - b * df, g * df + b * de
        mag = torch.sqrt(ir * ir + ii * ii + eps)
        return torch.where(in_service, mag, torch.zeros_like(mag))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:8])
        ctx.eps = inputs[8]

    @staticmethod
    def backward(ctx, g_mag):
        vm, va, g, b, tap, f_bus, t_bus, in_service = ctx.saved_tensors
        e, f = _rect(vm, va)
        ef, ff = e[:, f_bus], f[:, f_bus]
        de, df = ef / tap - e[:, t_bus], ff / tap - f[:, t_bus]
        ir, ii = g * de - b * df, g * df + b * de
        scale = torch.where(in_service, g_mag, torch.zeros_like(g_mag)) * torch.rsqrt(
            ir * ir + ii * ii + ctx.eps
        )
        g_ir, g_ii = scale * ir, scale * ii
        g_de, g_df = g * g_ir + b * g_ii, g * g_ii - b * g_ir
        ge = torch.zeros_like(e).index_add(1, f_bus, g_de / tap).index_add(1, t_bus, -g_de)
        gf = torch.zeros_like(f).index_add(1, f_bus, g_df / tap).index_add(1, t_bus, -g_df)
        g_vm, g_va = _polar_grads(ge, gf, vm, va)
        g_tap = -(g_de * ef + g_df * ff) / tap**2
        return (
            g_vm,
            g_va,
            (g_ir * de + g_ii * df).sum(0),
            (g_ii * de - g_ir * df).sum(0),
            g_tap.sum_to_size(tap.shape),
            None,
            None,
            None,
            None,
        )


def _zip_poly(coef, x):
    return coef[..., 0] * x * x + coef[..., 1] * x + coef[..., 2]


class ZipLoad(torch.autograd.Function):
    """ZIP loads; below `v_min` they turn into constant impedance, continuous at `v_min`. Returns (p, q)."""

    @staticmethod
    def forward(ctx, v, p0, q0, zip_p, zip_q, v_min=0.7):
        low = v < v_min
        x = v.clamp(min=v_min)
        sag = torch.where(low, (v / v_min) ** 2, torch.ones_like(v))
        fp, fq = _zip_poly(zip_p, x) * sag, _zip_poly(zip_q, x) * sag
        ctx.save_for_backward(v, p0, q0, zip_p, zip_q, fp, fq)
        ctx.v_min = v_min
        return p0 * fp, q0 * fq

    @staticmethod
    def backward(ctx, gp, gq):
        v, p0, q0, zip_p, zip_q, fp, fq = ctx.saved_tensors
        low = v < ctx.v_min
        a, r = gp * p0, gq * q0

        def slope(coef, f):
            return torch.where(low, 2 * f / v, 2 * coef[..., 0] * v + coef[..., 1])

        g_v = a * slope(zip_p, fp) + r * slope(zip_q, fq)
        basis = torch.stack((v * v, v, torch.ones_like(v)), dim=-1)
        g_zip_p = (a[..., None] * basis).sum_to_size(zip_p.shape)
        g_zip_q = (r[..., None] * basis).sum_to_size(zip_q.shape)
        return (
            g_v,
            (gp * fp).sum_to_size(p0.shape),
            (gq * fq).sum_to_size(q0.shape),
            g_zip_p,
            g_zip_q,
            None,
        )


class BalanceResidual(nn.Module):
    """Mismatch between generation, voltage-dependent load and network injection."""

    def __init__(self, g, b, p0, q0, v_min=0.7):
        super().__init__()
        self.register_buffer("g", g)
        self.register_buffer("b", b)
        self.register_buffer("p0", p0)
        self.register_buffer("q0", q0)
        self.zip_logits = nn.Parameter(torch.zeros(2, 3))
        self.v_min = v_min

    def forward(self, vm, va, pg, qg):
        mix = torch.softmax(self.zip_logits, dim=-1)
        pl, ql = ZipLoad.apply(vm, self.p0, self.q0, mix[0], mix[1], self.v_min)
        p, q = BusInjection.apply(vm, va, self.g, self.b)
        return pg - pl - p, qg - ql - q


def line_loading(vm, va, branch: dict, rating=None, eps=1e-12):
    tap = branch.get("tap", torch.ones_like(branch["g"]))
    on = branch.get("in_service", torch.ones_like(branch["g"], dtype=torch.bool))
    mag = LineCurrentMagnitude.apply(
        vm, va, branch["g"], branch["b"], tap, branch["from"], branch["to"], on, eps
    )
    return mag if rating is None else mag / rating
