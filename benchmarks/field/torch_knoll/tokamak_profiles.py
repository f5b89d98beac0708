"""1-D profile formulas used by the transport fitter."""
from typing import NamedTuple

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class BoschHale(NamedTuple):
    bg: float
    mrc2: float
    c: tuple
    t_min: float
    t_max: float


REACTIONS = {
    "DT": BoschHale(34.3827, 1124656.0,
                    (1.17302e-9, 1.51361e-2, 7.51886e-2, 4.60643e-3, 1.35e-2, -1.0675e-4, 1.366e-5), 0.2, 100.0),
    "DHe3": BoschHale(68.7508, 1124572.0,
                      (5.51036e-10, 6.41918e-3, -2.02896e-3, -1.9108e-5, 1.35776e-4, 0.0, 0.0), 0.5, 190.0),
}
_UNIT = 1e16  # cm3/s -> 1e-22 m3/s


class FusionReactivity(Function):
    """Maxwellian <sigma v> after Bosch & Hale, in 1e-22 m3/s (or its log), from ion temperature in keV.

    Held constant outside the fitted range of the reaction.
    """

    @staticmethod
    def forward(ctx, ti, reaction="DT", log=False):
        r = REACTIONS[reaction]
        c1, c2, c3, c4, c5, c6, c7 = r.c
        t = ti.clamp(r.t_min, r.t_max)
        num = t * (c2 + t * (c4 + t * c6))
        den = 1.0 + t * (c3 + t * (c5 + t * c7))
        theta = t / (1.0 - num / den)
        xi = (r.bg ** 2 / (4.0 * theta)) ** (1.0 / 3.0)
        sv = _UNIT * c1 * theta * torch.sqrt(xi / (r.mrc2 * t ** 3)) * torch.exp(-3.0 * xi)
        dnum = c2 + t * (2 * c4 + 3 * t * c6)
        dden = c3 + t * (2 * c5 + 3 * t * c7)
        dratio = (dnum * den - num * dden) / den.square()
        dlog_theta = 1.0 / t + dratio * theta / t
        dlog = dlog_theta * (5.0 / 6.0 + xi) - 1.5 / t
        dlog = dlog * ((ti >= r.t_min) & (ti <= r.t_max))
        ctx.save_for_backward(dlog if log else dlog * sv)
        return torch.log(sv) if log else sv

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (slope,) = ctx.saved_tensors
        return g * slope, None, None


def _poloidal_weights(n, endpoint, like):
    w = torch.ones(n, dtype=like.dtype, device=like.device)
    if endpoint:
        w[0] = w[-1] = 0.5
    return w


class FluxSurfaceAverage(Function):
    """Flux-surface average <f> = sum_k f J w / sum_k J w over the last axis.

    Args:
        f: (..., M) sampled around the surface.
        jac: (..., M) Jacobian, positive; it may lack leading axes of ``f``.
        endpoint: the grid repeats theta = 0 at 2 pi; both end points then count half.
    """

    @staticmethod
    def forward(f, jac, endpoint=False):
        w = jac * _poloidal_weights(jac.shape[-1], endpoint, jac)
        return (f * w).sum(-1) / w.sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        f, jac, _ = inputs
        ctx.save_for_backward(f, jac, output)

    @staticmethod
    def backward(ctx, g):
        f, jac, avg = ctx.saved_tensors
        share = (g / jac.sum(-1)).unsqueeze(-1)
        g_f = (share * jac).sum_to_size(f.shape)
        g_jac = (share * (f - avg.unsqueeze(-1))).sum_to_size(jac.shape)
        return g_f, g_jac, None


def _lnlambda(te, ne, z, floor):
    cold = te < 10.0 * z.square()
    half = 0.5 * (torch.log(ne) + 29.9336062089227)
    lc = 23.0 - half - torch.log(z) + 1.5 * torch.log(te)
    lh = 24.0 - half + torch.log(te)
    raw = torch.where(cold, lc, lh)
    return raw.clamp(min=floor), cold, raw > floor


class SpitzerResistivity(Function):
    @staticmethod
    def forward(ctx, te, ne, z, trapped=None, floor=2.0):
        """te [eV], ne [1e19 m-3], z (effective charge), trapped fraction in [0, 1): broadcast. nano-ohm metre."""
        lam, cold, free = _lnlambda(te, ne, z, floor)
        a = 1.0 + z * (1.198 + 0.222 * z)
        b = 1.0 + z * (2.966 + 0.753 * z)
        eta = 1.03e5 * z * lam * a / b * te ** -1.5
        if trapped is not None:
            eta = eta / (1.0 - trapped) ** 2
        ctx.save_for_backward(te, ne, z, trapped, lam, cold, free, a, b, eta)
        return eta

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        te, ne, z, trapped, lam, cold, free, a, b, eta = ctx.saved_tensors
        ge = g * eta
        gl = ge / lam * free
        g_te = (gl * torch.where(cold, 1.5, 1.0) - 1.5 * ge) / te
        g_ne = -0.5 * gl / ne
        g_z = ge * (1.0 / z + (1.198 + 0.444 * z) / a - (2.966 + 1.506 * z) / b) - gl * cold / z
        g_tr = None
        if trapped is not None and ctx.needs_input_grad[3]:
            g_tr = (2.0 * ge / (1.0 - trapped)).sum_to_size(trapped.shape)
        return (g_te.sum_to_size(te.shape), g_ne.sum_to_size(ne.shape), g_z.sum_to_size(z.shape), g_tr, None)


def fusion_power_density(ni, ti, mix=0.5):
    return mix * (1 - mix) * ni.square() * FusionReactivity.apply(ti, "DT")


def loop_voltage(te, ne, z, jac, current, radius, trapped=None):
    eta = SpitzerResistivity.apply(te, ne, z, trapped)
    return 6.283185307179586 * radius * FluxSurfaceAverage.apply(eta * current, jac, True)
