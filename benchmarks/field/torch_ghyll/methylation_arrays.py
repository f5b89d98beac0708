"""Preprocessing of DNA methylation data with learned constants.

Rows are samples, columns are CpG sites.
"""

import math
from typing import Dict, Optional

import torch
from torch import Tensor, nn

LN2 = math.log(2.0)


class IntensityFraction(torch.autograd.Function):
    """Methylated fraction (or log ratio) from the two channel intensities."""

    @staticmethod
    def forward(ctx, meth, unmeth, background, dye, offset, log_ratio):
        m = (meth - background).clamp(min=0)
        raw_u = (unmeth - background).clamp(min=0)
        u = dye * raw_u
        ctx.save_for_backward(m, u, raw_u, background, dye)
        ctx.offset, ctx.log_ratio = offset, log_ratio
        if log_ratio:
            return torch.log2((m + offset) / (u + offset))
        return m / (m + u + offset)

    @staticmethod
    def backward(ctx, grad):
        m, u, raw_u, background, dye = ctx.saved_tensors
        a = ctx.offset
        if ctx.log_ratio:
            g_m = grad / (LN2 * (m + a))
            g_u = -grad / (LN2 * (u + a))
        else:
            total = m + u + a
            g_m = grad * (u + a) / total**2
            g_u = -grad * m / total**2
        g_m = g_m * (m > 0)
        g_u = g_u * (raw_u > 0)
        g_dye = (g_u * raw_u).sum_to_size(dye.shape)
        g_background = -(g_m + g_u).sum_to_size(background.shape)
        return g_m, g_u * dye, g_background, g_dye, None, None


def intensity_fraction(meth: Tensor, unmeth: Tensor, background: Tensor, dye: Optional[Tensor] = None,
                       offset: float = 100.0, log_ratio: bool = False) -> Tensor:
    """Beta values ``m / (m + u + offset)``, or M values ``log2((m + offset) / (u + offset))``.

    :param meth: (samples, sites) intensities of the methylated probe
    :param unmeth: (samples, sites) intensities of the unmethylated probe
    :param background: () or (samples, 1), subtracted from both; what falls below zero is set to zero
    :param dye: () or (samples, 1), gain that brings the unmethylated channel to the level of the other
    :param offset: stabilising constant
    :param log_ratio: return M values
    """
    if dye is None:
        dye = torch.ones((), dtype=meth.dtype, device=meth.device)
    return IntensityFraction.apply(meth, unmeth, background, dye, offset, log_ratio)


class CellDeconvolution(torch.autograd.Function):
    """Weighted ridge fit of mixtures by reference profiles."""

    @staticmethod
    def forward(ctx, mixture, reference, precision, ridge, to_one):
        d = precision.expand_as(mixture)
        eye = torch.eye(reference.shape[1], dtype=mixture.dtype, device=mixture.device)
        normal = torch.einsum("pk,bp,pl->bkl", reference, d, reference) + ridge * eye
        fit = torch.linalg.solve(normal, (d * mixture) @ reference)
        total = fit.sum(-1, keepdim=True)
        out = fit / total if to_one else fit
        ctx.save_for_backward(mixture, reference, precision, normal, fit, total)
        ctx.to_one = to_one
        return out

    @staticmethod
    def backward(ctx, grad):
        mixture, reference, precision, normal, fit, total = ctx.saved_tensors
        if ctx.to_one:
            grad = (grad - (grad * fit).sum(-1, keepdim=True) / total) / total
        adjoint = torch.linalg.solve(normal, grad)
        d = precision.expand_as(mixture)
        lifted = adjoint @ reference.T
        residual = mixture - fit @ reference.T
        g_mixture = d * lifted
        g_reference = (d * residual).T @ adjoint - (d * lifted).T @ fit
        g_precision = (lifted * residual).sum_to_size(precision.shape)
        return g_mixture, g_reference, g_precision, None, None


def cell_deconvolution(mixture, reference, precision, ridge=1e-3, to_one=False):
    """Cell type shares (samples, types).

    mixture is (samples, sites), reference (sites, types), precision (sites,) or (samples, sites).  With ``to_one``
    the shares of a sample are divided by their sum.
    """
    return CellDeconvolution.apply(mixture, reference, precision, ridge, to_one)


def _spread(kernel: Tensor, values: Tensor) -> Tensor:
    return values @ kernel.T


class RegionSmoother(torch.autograd.Function):
    @staticmethod
    def forward(ctx, level, coverage, bandwidth, position, chromosome, prior):
        gap = position.unsqueeze(1) - position.unsqueeze(0)
        near = chromosome.unsqueeze(1) == chromosome.unsqueeze(0)
        h = bandwidth.expand_as(position).unsqueeze(1)
        kernel = torch.exp(-0.5 * (gap / h) ** 2) * near
        weight = _spread(kernel, coverage) + prior
        smooth = (_spread(kernel, coverage * level) + 0.5 * prior) / weight
        ctx.save_for_backward(level, coverage, bandwidth, gap, kernel, weight, smooth)
        return smooth

    @staticmethod
    def backward(ctx, grad):
        level, coverage, bandwidth, gap, kernel, weight, smooth = ctx.saved_tensors
        unit = grad / weight
        back = _spread(kernel, unit)
        back_smooth = _spread(kernel, unit * smooth)
        g_level = coverage * back
        g_coverage = level * back - back_smooth
        g_kernel = unit.T @ (coverage * level) - (unit * smooth).T @ coverage
        h = bandwidth.expand(gap.shape[0])
        g_h = (g_kernel * kernel * gap**2).sum(1) / h**3
        return g_level, g_coverage, g_h.sum_to_size(bandwidth.shape), None, None, None


def region_smoother(level, coverage, bandwidth, position, chromosome, prior=0.1):
    """Kernel regression of methylation along the genome, weighted with read coverage.

    :param level: (samples, sites) observed fractions
    :param coverage: (samples, sites) read depths
    :param bandwidth: kernel width at the site that is estimated, () or, where it follows the local density of
        CpGs, (sites,)
    :param position: (sites,) in kb
    :param chromosome: (sites,) integers; sites of other chromosomes have no influence
    :param prior: pseudo reads at one half
    """
    return RegionSmoother.apply(level, coverage, bandwidth, position, chromosome, prior)


class ArrayPipeline(nn.Module):
    """Intensities to cell type shares."""

    def __init__(self, reference: Tensor, config: Optional[Dict] = None):
        super().__init__()
        config = {"offset": 100.0, "ridge": 1e-3, "to_one": True, **(config or {})}
        self.config = config
        sites = reference.shape[0]
        self.reference = nn.Parameter(reference.clone())
        self.log_precision = nn.Parameter(torch.zeros(sites))
        self.background = nn.Parameter(torch.tensor(50.0))
        self.dye = nn.Parameter(torch.tensor(1.0))

    def forward(self, meth, unmeth):
        beta = intensity_fraction(meth, unmeth, self.background, self.dye, self.config["offset"])
        return cell_deconvolution(beta, self.reference, self.log_precision.exp(), self.config["ridge"],
                                  self.config["to_one"])


class AdaptiveSmoother(nn.Module):
    def __init__(self, position: Tensor, chromosome: Tensor, width: float = 1.0, per_site: bool = False):
        super().__init__()
        self.register_buffer("position", position)
        self.register_buffer("chromosome", chromosome)
        shape = position.shape if per_site else ()
        self.log_width = nn.Parameter(torch.full(shape, math.log(width)))

    def forward(self, level, coverage):
        return region_smoother(level, coverage, self.log_width.exp(), self.position, self.chromosome)
