"""Photometric models used by the survey calibration and the asteroid fits."""
import math
from typing import Optional

import numpy as np
import torch
from torch.autograd import Function

_POGSON = 2.5 / math.log(10.0)
_HG_A = (3.33, 1.87)
_HG_B = (0.63, 1.22)


class ZeroPointRemoval(Function):
    """Subtract the zero point of every exposure.

    mags: (exposures, stars). weights: same shape or None, non-negative with a positive sum
    per exposure (inverse variances; zero for stars that were not seen). Returns
    ``mags - zp[:, None]`` and ``zp``, the weighted mean magnitude over the stars.
    """

    @staticmethod
    def _mean(values: torch.Tensor, weights: Optional[torch.Tensor]) -> torch.Tensor:
        if weights is None:
            return values.mean(1, keepdim=True)
        return (weights * values).sum(1, keepdim=True) / weights.sum(1, keepdim=True)

    @staticmethod
    def forward(ctx, mags, weights=None):
        zp = ZeroPointRemoval._mean(mags, weights)
        resid = mags - zp
        ctx.weighted = weights is not None
        if ctx.weighted:
            ctx.save_for_backward(resid, weights)
        ctx.stars = mags.shape[1]
        return resid, zp.squeeze(1)

    @staticmethod
    def backward(ctx, g_resid, g_zp):
        g_zp = g_zp.unsqueeze(1)
        if not ctx.weighted:
            # removing the mean is a projection
            return g_resid - ZeroPointRemoval._mean(g_resid, None) + g_zp / ctx.stars, None
        resid, weights = ctx.saved_tensors
        total = weights.sum(1, keepdim=True)
        g_mags = g_resid - ZeroPointRemoval._mean(g_resid, weights) + g_zp * weights / total
        g_weights = None
        if ctx.needs_input_grad[1]:
            g_weights = (g_zp - g_resid.sum(1, keepdim=True)) * resid / total
        return g_mags, g_weights


class AsteroidPhaseHG(Function):
    """Apparent magnitude of asteroids in the IAU (H, G) system.

    V = H + 5 log10(r d) - 2.5 log10((1 - G) phi_1 + G phi_2),
    phi_k = exp(-A_k tan(alpha / 2) ** B_k)

    ``h`` and ``slope`` hold one value per asteroid, ``obj`` says to which asteroid each
    observation belongs (many observations per asteroid, some asteroids may have none).
    ``alpha``, ``helio`` and ``geo`` are per observation; phase angles lie in (0, 120 deg),
    in radians unless ``degrees`` is set.
    """

    @staticmethod
    def _phases(alpha):
        tan = torch.tan(0.5 * alpha)
        return tan, [torch.exp(-a * tan**b) for a, b in zip(_HG_A, _HG_B)]

    @staticmethod
    def forward(h, slope, alpha, helio, geo, obj, degrees=False):
        _, (p1, p2) = AsteroidPhaseHG._phases(torch.deg2rad(alpha) if degrees else alpha)
        g = slope[obj]
        flux = (1 - g) * p1 + g * p2
        return h[obj] + 5 * torch.log10(helio * geo) - 2.5 * torch.log10(flux)

    @staticmethod
    def setup_context(ctx, inputs, output):
        h, slope, alpha, helio, geo, obj, degrees = inputs
        ctx.save_for_backward(slope, alpha, helio, geo, obj)
        ctx.degrees = degrees

    @staticmethod
    def backward(ctx, grad):
        slope, alpha, helio, geo, obj = ctx.saved_tensors
        need = ctx.needs_input_grad
        g_h = g_slope = g_alpha = g_helio = g_geo = None
        if need[0]:
            g_h = torch.zeros_like(slope).index_add_(0, obj, grad)
        if need[1] or need[2]:
            angle = torch.deg2rad(alpha) if ctx.degrees else alpha
            tan, (p1, p2) = AsteroidPhaseHG._phases(angle)
            g = slope[obj]
            d_flux = -_POGSON * grad / ((1 - g) * p1 + g * p2)
            if need[1]:
                g_slope = torch.zeros_like(slope).index_add_(0, obj, d_flux * (p2 - p1))
            if need[2]:
                d1, d2 = (-a * b * tan ** (b - 1) * p for a, b, p in zip(_HG_A, _HG_B, (p1, p2)))
                g_alpha = d_flux * ((1 - g) * d1 + g * d2) * 0.5 * (1 + tan**2)
                if ctx.degrees:
                    g_alpha = g_alpha * (math.pi / 180.0)
        if need[3]:
            g_helio = 2 * _POGSON * grad / helio
        if need[4]:
            g_geo = 2 * _POGSON * grad / geo
        return g_h, g_slope, g_alpha, g_helio, g_geo, None, None


def relative_photometry(mags, sigma=None):
    """Zero-point free magnitudes; ``sigma`` are the photometric errors."""
    weights = None if sigma is None else sigma.pow(-2)
    return ZeroPointRemoval.apply(mags, weights)[0]


def fit_hg(table: dict, n_objects: int, steps: int = 300, lr: float = 0.05):
    """Least squares H and G for all asteroids of ``table`` (dict of numpy columns)."""
    col = {k: torch.from_numpy(np.asarray(table[k], dtype=np.float64)) for k in ("alpha", "r", "delta", "mag")}
    obj = torch.from_numpy(np.asarray(table["obj"], dtype=np.int64))
    h = torch.full((n_objects,), 15.0, dtype=torch.float64, requires_grad=True)
    slope = torch.full((n_objects,), 0.15, dtype=torch.float64, requires_grad=True)
    opt = torch.optim.Adam([h, slope], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        model = AsteroidPhaseHG.apply(h, slope, col["alpha"], col["r"], col["delta"], obj, True)
        (model - col["mag"]).square().mean().backward()
        opt.step()
    return h.detach().numpy(), slope.detach().numpy()
