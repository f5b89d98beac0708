"""Differentiable pieces of the survey pipeline: lens plane, extinction, radial profiles."""
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class IsothermalDeflection(torch.autograd.Function):
    r"""Deflection field of a set of softened isothermal spheres.

    .. math::
        \alpha(x) = \sum_l b_l \frac{\sqrt{r_l^2 + s_l^2} - s_l}{r_l^2}\,(x - c_l),
        \qquad r_l = |x - c_l|

    Parameters
    ----------
    xy : Tensor, shape (N, 2)
        Image-plane positions, arcsec. A position may coincide with a centre.
    centre : Tensor, shape (L, 2)
        Lens centres.
    b : Tensor, shape (L,)
        Einstein radii.
    core : Tensor, shape (L,)
        Core radii, strictly positive.

    Returns
    -------
    Tensor, shape (N, 2)

    Notes
    -----
    The quotient is evaluated as ``1 / (sqrt(r^2 + s^2) + s)``, which is the same number and has no
    0/0 at the centre. All four arguments are differentiable.
    """

    @staticmethod
    def forward(xy: Tensor, centre: Tensor, b: Tensor, core: Tensor) -> Tensor:
        d = xy[:, None, :] - centre[None, :, :]
        w = torch.sqrt((d * d).sum(-1) + core**2)
        return ((b / (w + core))[..., None] * d).sum(1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        xy, centre, b, core = ctx.saved_tensors
        d = xy[:, None, :] - centre[None, :, :]
        w = torch.sqrt((d * d).sum(-1) + core**2)
        q = w + core
        gd = (g[:, None, :] * d).sum(-1)  # (N, L)
        grad_d = (b / q)[..., None] * g[:, None, :] - (b * gd / (w * q * q))[..., None] * d
        grad_b = (gd / q).sum(0)
        grad_core = -(b * gd / (w * q)).sum(0)
        return grad_d.sum(1), -grad_d.sum(0), grad_b, grad_core


class BandExtinction(torch.autograd.Function):
    """Magnitudes above the atmosphere, m - (k1[band] + k2[band] * colour) * airmass, one row per exposure."""

    @staticmethod
    def forward(ctx, mag, colour, airmass, k1, k2, band):
        ctx.save_for_backward(colour, airmass, k1, k2, band)
        return mag - (k1[band] + k2[band] * colour) * airmass

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        colour, airmass, k1, k2, band = ctx.saved_tensors
        grad_k1 = torch.zeros_like(k1)
        grad_k2 = torch.zeros_like(k2)
        grad_k1[band] += -g * airmass
        grad_k2[band] += -g * airmass * colour
        grad_colour = -g * k2[band] * airmass
        grad_airmass = -g * (k1[band] + k2[band] * colour)
        return g, grad_colour, grad_airmass, grad_k1, grad_k2, None


class RadialBinProfile(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pix, ivar, ring, n_rings):
        # pix (..., P), ivar (P,), ring (P,) int64
        norm = pix.new_zeros(n_rings).index_add_(0, ring, ivar)
        norm = torch.where(norm > 0, norm, torch.ones_like(norm))
        prof = pix.new_zeros(*pix.shape[:-1], n_rings).index_add_(-1, ring, pix * ivar) / norm
        ctx.save_for_backward(pix, ivar, ring, norm, prof)
        return prof

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        pix, ivar, ring, norm, prof = ctx.saved_tensors
        per_pix = (g / norm)[..., ring]
        grad_ivar = None
        if ctx.needs_input_grad[1]:
            grad_ivar = (per_pix * (pix - prof[..., ring])).reshape(-1, ivar.numel()).sum(0)
        return per_pix * ivar, grad_ivar, None, None


def ring_index(h: int, w: int, step: float = 1.0) -> Tensor:
    yy, xx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    r = torch.hypot(yy - (h - 1) / 2, xx - (w - 1) / 2)
    return (r / step).long().reshape(-1)


class ZeroPoints(nn.Module):
    """Per-band extinction coefficients fitted together with the star magnitudes."""

    def __init__(self, n_bands: int):
        super().__init__()
        self.k1 = nn.Parameter(torch.full((n_bands,), 0.15))
        self.k2 = nn.Parameter(torch.zeros(n_bands))

    def forward(self, mag, colour, airmass, band):
        return BandExtinction.apply(mag, colour, airmass, self.k1, self.k2, band)
