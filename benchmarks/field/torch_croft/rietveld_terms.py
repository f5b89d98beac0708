"""Terms of a Rietveld refinement (powder diffraction) with analytic derivatives."""
import math

import torch
from torch.autograd import Function

TWO_PI = 2 * math.pi
LN2 = math.log(2.0)


class StructureFactor(Function):
    """Real and imaginary part of F(hkl).

    Args:
        xyz: (atoms, 3) fractional coordinates.
        occ: (atoms,) occupancies.
        biso: (atoms,) isotropic displacement parameters, square angstrom.
        form: (atoms, refl) scattering factors, f0 + f'.
        hkl: (refl, 3) integer indices as a float tensor, not refined.
        s2: (refl,) (sin(theta) / lambda)^2, not refined.

    Returns:
        A, B: two (refl,) tensors, F = A + iB.

    Either output may stay unused, as A alone does in a centrosymmetric group.
    """

    @staticmethod
    def forward(ctx, xyz, occ, biso, form, hkl, s2):
        ctx.set_materialize_grads(False)
        phase = TWO_PI * xyz @ hkl.t()
        damp = torch.exp(-biso[:, None] * s2)
        amp = occ[:, None] * form * damp
        ctx.save_for_backward(phase, amp, damp, occ, form, hkl, s2)
        return (amp * phase.cos()).sum(0), (amp * phase.sin()).sum(0)

    @staticmethod
    def backward(ctx, gA, gB):
        if gA is None and gB is None:
            return (None,) * 6
        phase, amp, damp, occ, form, hkl, s2 = ctx.saved_tensors
        gA = torch.zeros_like(s2) if gA is None else gA
        gB = torch.zeros_like(s2) if gB is None else gB
        c, s = phase.cos(), phase.sin()
        g_amp = gA * c + gB * s
        g_phase = amp * (gB * c - gA * s)
        g_xyz = TWO_PI * g_phase @ hkl
        g_occ = (g_amp * form * damp).sum(1)
        g_biso = -(g_amp * amp * s2).sum(1)
        g_form = g_amp * occ[:, None] * damp
        return g_xyz, g_occ, g_biso, g_form, None, None


def caglioti(center, uvw):
    t = torch.tan(torch.deg2rad(center) / 2)
    return t, torch.sqrt(uvw[0] * t * t + uvw[1] * t + uvw[2])


class PowderPeaks(Function):
    """Sum of area-normalised pseudo-Voigt peaks on a two-theta grid.

    two_theta (points,) is the measured grid, fixed. center (peaks,) in degrees,
    area (peaks,), eta (peaks,) the Lorentz share, uvw (3,) the Caglioti
    coefficients, which set the full width of every peak from its own position.
    """

    @staticmethod
    def forward(ctx, two_theta, center, area, eta, uvw):
        _, fwhm = caglioti(center, uvw)
        d = (two_theta[:, None] - center) / fwhm
        lor = 2 / math.pi / (fwhm * (1 + 4 * d * d))
        gau = 2 * math.sqrt(LN2 / math.pi) / fwhm * torch.exp(-4 * LN2 * d * d)
        ctx.save_for_backward(two_theta, center, area, eta, uvw)
        return ((eta * lor + (1 - eta) * gau) * area).sum(-1)

    @staticmethod
    def backward(ctx, g):
        two_theta, center, area, eta, uvw = ctx.saved_tensors
        t, fwhm = caglioti(center, uvw)
        d = (two_theta[:, None] - center) / fwhm
        lor = 2 / math.pi / (fwhm * (1 + 4 * d * d))
        gau = 2 * math.sqrt(LN2 / math.pi) / fwhm * torch.exp(-4 * LN2 * d * d)
        g = g[:, None]

        g_area = (g * (eta * lor + (1 - eta) * gau)).sum(0)
        g_eta = (g * area * (lor - gau)).sum(0)

        # by the position at a fixed width, then by the width
        d2 = 4 * d * d
        slope = -eta * lor * 8 * d / (1 + d2) - (1 - eta) * gau * 8 * LN2 * d
        widen = eta * lor * (2 * d2 - 1) / (1 + d2) + (1 - eta) * gau * (2 * LN2 * d2 - 1)
        g_center = -(g * area * slope).sum(0) / fwhm
        g_fwhm = (g * area * widen).sum(0) / fwhm
        rad = math.pi / 360 * (1 + t * t)
        g_center = g_center + g_fwhm * (2 * uvw[0] * t + uvw[1]) * rad / (2 * fwhm)
        half = g_fwhm / (2 * fwhm)
        g_uvw = torch.stack([(half * t * t).sum(), (half * t).sum(), half.sum()])
        return None, g_center, g_area, g_eta, g_uvw


class MarchDollase(Function):
    """Preferred orientation: r (samples,), cos_alpha (refl, equivalents), valid like it -> (samples, refl)."""

    @staticmethod
    def forward(ctx, r, cos_alpha, valid):
        r = r[:, None, None]
        c2 = cos_alpha.square()
        base = r * r * c2 + (1 - c2) / r
        count = valid.sum(-1).clamp(min=1)
        ctx.save_for_backward(r, cos_alpha, valid, base, count)
        return (base.pow(-1.5) * valid).sum(-1) / count

    @staticmethod
    def backward(ctx, g):
        r, cos_alpha, valid, base, count = ctx.saved_tensors
        c2 = cos_alpha.square()
        g_base = (g / count)[..., None] * valid * -1.5 * base.pow(-2.5)
        g_r = (g_base * (2 * r * c2 - (1 - c2) / (r * r))).sum((1, 2))
        g_cos = (g_base * 2 * cos_alpha * (r * r - 1 / r)).sum(0)
        return g_r, g_cos, None


def integrated_intensity(A, B, multiplicity, lorentz, orientation=None):
    out = multiplicity * lorentz * (A * A + B * B)
    return out if orientation is None else out * orientation
