"""Forward models for thermal-infrared and stellar spectra.

The retrieval loop fits a handful of parameters per spectrum but evaluates the
model on several thousand pixels, so the operators below keep only their inputs
(or one small recursion) between the forward and the backward pass.
"""
from __future__ import annotations

import math
from typing import Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

# 2 h c^2 and h c / k for wavelengths in micrometres
RADIATION_C1 = 1.191042972e8  # W um^4 m^-2 sr^-1
RADIATION_C2 = 1.438776877e4  # um K

EDGES = ("zero", "nearest")


def trapezoid_weights(wavelength):
    """Quadrature weights of the trapezoidal rule on an increasing grid."""
    step = np.diff(np.asarray(wavelength, dtype=np.float64))
    if np.any(step <= 0):
        raise ValueError("the wavelength grid must increase")
    weights = np.zeros(step.size + 1)
    weights[:-1] += 0.5 * step
    weights[1:] += 0.5 * step
    return weights


class PlanckRadiance(torch.autograd.Function):
    """Spectral radiance of a black body.

    Parameters
    ----------
    wavelength : Tensor
        Wavelength in micrometres, positive.
    temperature : Tensor
        Temperature in kelvin, positive; broadcasts against ``wavelength``.

    Returns
    -------
    Tensor
        Radiance in W m^-2 sr^-1 um^-1.
    """

    @staticmethod
    def forward(ctx, wavelength, temperature):
        ctx.save_for_backward(wavelength, temperature)
        x = RADIATION_C2 / (wavelength * temperature)
        return RADIATION_C1 * wavelength.pow(-5) * torch.exp(-x) / -torch.expm1(-x)

    @staticmethod
    def backward(ctx, grad_output):
        wavelength, temperature = ctx.saved_tensors
        x = RADIATION_C2 / (wavelength * temperature)
        occupied = -torch.expm1(-x)
        radiance = RADIATION_C1 * wavelength.pow(-5) * torch.exp(-x) / occupied
        # d log B / d log T = x / (1 - exp(-x)), and -x enters through lambda as well
        slope = x / occupied
        weighted = grad_output * radiance
        grad_wavelength = grad_temperature = None
        if ctx.needs_input_grad[0]:
            grad_wavelength = (weighted * (slope - 5.0) / wavelength).sum_to_size(wavelength.shape)
        if ctx.needs_input_grad[1]:
            grad_temperature = (weighted * slope / temperature).sum_to_size(temperature.shape)
        return grad_wavelength, grad_temperature


class AddingLayers(torch.autograd.Function):
    """Reflectance of a stack of layers over a surface (adding method).

    Starting at the ground, every layer is put on top of the stack below it

    .. math:: R \\leftarrow r_k + \\frac{t_k^2 R}{1 - r_k R}

    Parameters
    ----------
    reflectance, transmittance : Tensor, shape (..., layers)
        Properties of the single layers, the uppermost layer first; each in [0, 1).
    surface : Tensor, shape broadcastable to (...)
        Albedo of the ground, in [0, 1).

    Notes
    -----
    Only the first derivative is available.
    """

    @staticmethod
    def forward(ctx, reflectance, transmittance, surface):
        layers = reflectance.shape[-1]
        below = torch.empty_like(reflectance)
        stack = surface.expand(reflectance.shape[:-1])
        for k in range(layers - 1, -1, -1):
            below[..., k] = stack
            r, t = reflectance[..., k], transmittance[..., k]
            stack = r + t * t * stack / (1.0 - r * stack)
        ctx.save_for_backward(reflectance, transmittance, below)
        ctx.surface_shape = surface.shape
        return stack.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        reflectance, transmittance, below = ctx.saved_tensors
        grad_r = torch.empty_like(reflectance)
        grad_t = torch.empty_like(transmittance)
        adjoint = grad_output
        for k in range(reflectance.shape[-1]):
            r, t, under = reflectance[..., k], transmittance[..., k], below[..., k]
            bounce = 1.0 / (1.0 - r * under)
            through = t * bounce
            grad_r[..., k] = adjoint * (1.0 + (through * under).square())
            grad_t[..., k] = adjoint * 2.0 * through * under
            adjoint = adjoint * through.square()
        return grad_r, grad_t, adjoint.sum_to_size(ctx.surface_shape)


class EquivalentWidth(torch.autograd.Function):
    """Width of a rectangular line that takes away the same flux.

    Parameters
    ----------
    flux : Tensor, shape (..., pixels)
    continuum : Tensor, shape (..., pixels) or (pixels,)
        Positive.
    weights : Tensor, shape (pixels,)
        Quadrature weights of the (fixed) wavelength grid; constant.
    good : BoolTensor, shape (..., pixels)
        False for pixels that the pipeline rejected; they add nothing to the width.
    """

    @staticmethod
    def forward(flux, continuum, weights, good):
        depth = 1.0 - flux / continuum
        return torch.where(good, weights * depth, torch.zeros_like(depth)).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        flux, continuum, weights, good = inputs
        ctx.save_for_backward(flux, continuum, weights, good)

    @staticmethod
    def backward(ctx, grad_output):
        flux, continuum, weights, good = ctx.saved_tensors
        per_pixel = grad_output.unsqueeze(-1) * weights / continuum
        grad_flux = grad_continuum = None
        if ctx.needs_input_grad[0]:
            grad_flux = -torch.where(good, per_pixel, torch.zeros_like(per_pixel))
        if ctx.needs_input_grad[1]:
            grad_continuum = (per_pixel * flux / continuum).sum_to_size(continuum.shape)
        return grad_flux, grad_continuum, None, None


def equivalent_width(wavelength, flux, continuum, good: Optional[torch.Tensor] = None):
    """Equivalent width in units of `wavelength`; see :class:`EquivalentWidth`.

    Parameters
    ----------
    wavelength : array_like, shape (pixels,)
    flux, continuum : Tensor
    good : BoolTensor, optional
        All pixels are used without it.
    """
    weights = torch.as_tensor(trapezoid_weights(wavelength), dtype=flux.dtype, device=flux.device)
    if good is None:
        good = torch.ones_like(flux, dtype=torch.bool)
    return EquivalentWidth.apply(flux, continuum, weights, good)


def _extend(flux, half, edge):
    rows = flux.reshape(-1, 1, flux.shape[-1])
    if edge == "nearest":
        rows = F.pad(rows, (half, half), mode="replicate")
    else:
        rows = F.pad(rows, (half, half))
    return rows.squeeze(1)


class InstrumentBroadening(torch.autograd.Function):
    """Smear spectra with the line spread function of the spectrograph.

    Parameters
    ----------
    flux : Tensor, shape (..., pixels)
    profile : Tensor, shape (2 * half + 1,)
        Line spread function on the pixel grid. It need not be symmetric.
    edge : {"zero", "nearest"}
        What lies outside of the detector: nothing, or the outermost pixel value.

    Returns
    -------
    Tensor, shape (..., pixels)
        ``out[p] = sum_k profile[k] * flux[p + k - half]``.
    """

    @staticmethod
    def forward(ctx, flux, profile, edge="zero"):
        if edge not in EDGES:
            raise ValueError(f"edge must be one of {EDGES}")
        if profile.numel() % 2 == 0:
            raise ValueError("the profile needs an odd number of pixels")
        ctx.save_for_backward(flux, profile)
        ctx.edge = edge
        windows = _extend(flux, profile.numel() // 2, edge).unfold(-1, profile.numel(), 1)
        return (windows @ profile).reshape(flux.shape)

    @staticmethod
    def backward(ctx, grad_output):
        flux, profile = ctx.saved_tensors
        size = profile.numel()
        half = size // 2
        pixels = flux.shape[-1]
        grad_rows = grad_output.reshape(-1, pixels)
        grad_flux = grad_profile = None
        if ctx.needs_input_grad[0]:
            spread = F.conv_transpose1d(grad_rows.unsqueeze(1), profile.view(1, 1, size)).squeeze(1)
            grad_flux = spread[:, half:half + pixels].reshape(flux.shape)
        if ctx.needs_input_grad[1]:
            windows = _extend(flux, half, ctx.edge).unfold(-1, size, 1)
            grad_profile = torch.einsum("rp,rpk->k", grad_rows, windows)
        return grad_flux, grad_profile, None


class LineSpread(nn.Module):
    """Learnable skewed Gaussian line spread function."""

    def __init__(self, half: int = 6, width: float = 1.5, edge: str = "zero"):
        super().__init__()
        self.half = half
        self.edge = edge
        self.log_width = nn.Parameter(torch.tensor(math.log(width)))
        self.skew = nn.Parameter(torch.zeros(()))

    def forward(self, flux):
        offset = torch.arange(-self.half, self.half + 1, dtype=flux.dtype, device=flux.device)
        z = offset / self.log_width.exp()
        shape = torch.exp(-0.5 * z * z) * torch.sigmoid(self.skew * z)
        return InstrumentBroadening.apply(flux, shape / shape.sum(), self.edge)


def emission_spectrum(wavelength, temperature, reflectance, transmittance, surface):
    """Thermal emission of a scattering column of one temperature."""
    column = AddingLayers.apply(reflectance, transmittance, surface)
    return (1.0 - column).unsqueeze(-1) * PlanckRadiance.apply(wavelength, temperature)
