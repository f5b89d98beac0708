r"""Forward model of small-angle scattering curves, from particle sizes to the reduced chi square.

.. math:: I(q) \to R I(q) \to c\, R I(q) + \mathrm{background}

All curves are sampled at the same, strictly increasing ``q``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def _amplitude(x: Tensor) -> tuple[Tensor, Tensor]:
    """Form amplitude of a sphere, 3 (sin x - x cos x) / x^3, and its derivative."""
    small = x.abs() < 1.0
    z = torch.where(small, torch.ones_like(x), x)
    s, c = torch.sin(z), torch.cos(z)
    far = 3.0 * (s - z * c) / z**3
    far_slope = 3.0 * s / z**2 - 3.0 * far / z
    y = torch.where(small, x, torch.zeros_like(x)) ** 2
    near = 1.0 + y * (-1.0 / 10 + y * (1.0 / 280 + y * (-1.0 / 15120 + y * (1.0 / 1330560 - y / 172972800))))
    near_slope = x * (-1.0 / 5 + y * (1.0 / 70 + y * (-1.0 / 2520 + y * (1.0 / 166320 - y / 17297280))))
    return torch.where(small, near, far), torch.where(small, near_slope, far_slope)


class SpherePopulation(torch.autograd.Function):
    r"""Intensity of a dilute population of spheres.

    :param radius: radii of the size classes, ``(..., R)``
    :param number: number density of the classes, ``(..., R)`` or ``(R,)``
    :param contrast: scattering contrast of the classes, broadcasts against ``radius``
    :param q: momentum transfer, ``(Q,)``
    :param per_volume: divide by the total volume of the spheres
    :returns: ``(..., Q)``
    """

    @staticmethod
    def forward(ctx, radius, number, contrast, q, per_volume):
        amp, slope = _amplitude(radius[..., :, None] * q)
        volume = 4.0 / 3.0 * math.pi * radius**3
        strength = number * contrast**2 * volume**2
        curve = (strength[..., :, None] * amp**2).sum(-2)
        occupied = (number * volume).sum(-1, keepdim=True)
        out = curve / occupied if per_volume else curve
        ctx.save_for_backward(radius, number, contrast, q, amp, slope, volume, occupied, out)
        ctx.per_volume = per_volume
        return out

    @staticmethod
    def backward(ctx, grad):
        radius, number, contrast, q, amp, slope, volume, occupied, out = ctx.saved_tensors
        g_occupied = torch.zeros_like(occupied)
        if ctx.per_volume:
            grad = grad / occupied
            g_occupied = -(grad * out).sum(-1, keepdim=True)
        seen = (grad[..., None, :] * amp**2).sum(-1)
        steep = (grad[..., None, :] * 2.0 * amp * slope * q).sum(-1)
        strength = number * contrast**2 * volume**2
        g_radius = seen * 6.0 * strength / radius + steep * strength + g_occupied * 3.0 * number * volume / radius
        g_number = seen * contrast**2 * volume**2 + g_occupied * volume
        g_contrast = seen * 2.0 * number * contrast * volume**2
        return (
            g_radius.sum_to_size(radius.shape),
            g_number.sum_to_size(number.shape),
            g_contrast.sum_to_size(contrast.shape),
            (grad[..., None, :] * strength[..., :, None] * 2.0 * amp * slope * radius[..., :, None])
            .sum(-2).sum_to_size(q.shape) if ctx.needs_input_grad[3] else None,
            None,
        )


class ResolutionSmear(torch.autograd.Function):
    r"""Average a curve over the Gaussian resolution of each point.

    :param curve: ``(..., Q)``
    :param width: standard deviation of the resolution at each point, ``(Q,)``
    :param q: ``(Q,)``, not differentiated
    :returns: ``(..., Q)``, row i the mean of ``curve`` under a normal density about ``q[i]``, by the trapezoidal rule
    """

    @staticmethod
    def forward(ctx, curve, width, q):
        spacing = torch.gradient(q)[0]
        offset = q[None, :] - q[:, None]
        log_kernel = -0.5 * (offset / width[:, None]) ** 2 + spacing.log()
        kernel = torch.softmax(log_kernel, dim=-1)
        ctx.save_for_backward(curve, width, offset, kernel)
        return curve @ kernel.T

    @staticmethod
    def backward(ctx, grad):
        curve, width, offset, kernel = ctx.saved_tensors
        g_curve = grad @ kernel
        stretch = (offset / width[:, None]) ** 2
        local = torch.softmax(-0.5 * stretch, dim=-1)
        centred = stretch - (local * stretch).sum(-1, keepdim=True)
        moved = curve @ (local * centred).T
        g_width = (grad * moved).reshape(-1, width.numel()).sum(0) / width
        return g_curve, g_width, None


class ScaledChiSquare(torch.autograd.Function):
    r"""Reduced chi square after the best scale factor has been taken out.

    :param model: ``(B, Q)`` model curves
    :param data: ``(Q,)`` or ``(B, Q)`` measured curves
    :param error: standard errors, shape of ``data``
    :param window: ``(Q,)`` bool, the points over which the scale is found, or ``None`` for all of them
    :param clip: hold the scale at zero if the best one would be negative
    :returns: ``(B,)``, the sum over *all* points divided by their number less one
    """

    @staticmethod
    def forward(ctx, model, data, error, window, clip):
        weight = error**-2
        inside = weight if window is None else weight * window
        overlap = (inside * model * data).sum(-1, keepdim=True)
        norm = (inside * model**2).sum(-1, keepdim=True)
        scale = overlap / norm
        if clip:
            scale = scale.clamp_min(0.0)
        residual = scale * model - data
        dof = model.shape[-1] - 1
        ctx.save_for_backward(model, data, error, scale, residual)
        ctx.dof = dof
        return (weight * residual**2).sum(-1) / dof

    @staticmethod
    def backward(ctx, grad):
        model, data, error, scale, residual = ctx.saved_tensors
        pull = 2.0 * grad[:, None] * residual / error**2 / ctx.dof
        g_model = pull * scale
        g_error = -pull * residual / error
        return (
            g_model.sum_to_size(model.shape),
            (-pull).sum_to_size(data.shape),
            g_error.sum_to_size(error.shape),
            None,
            None,
        )


def sphere_curve(radius, number, contrast, q, per_volume=False):
    """Ideal intensity; see :class:`SpherePopulation`."""
    return SpherePopulation.apply(radius, number, contrast, q, per_volume)


def smear(curve, width, q):
    """Curve as the instrument sees it."""
    return ResolutionSmear.apply(curve, width, q)


def reduced_chi_square(model, data, error, window=None, clip=True):
    """Misfit of model curves up to a factor."""
    return ScaledChiSquare.apply(model, data, error, window, clip)


class Instrument(torch.nn.Module):
    """Resolution ``sqrt(a^2 + (b q)^2)`` of a pinhole camera with learned a and b."""

    def __init__(self, q: Tensor, floor: float = 1e-3, relative: float = 0.05):
        super().__init__()
        self.register_buffer("q", q)
        self.log_floor = torch.nn.Parameter(torch.tensor(math.log(floor), dtype=q.dtype))
        self.log_relative = torch.nn.Parameter(torch.tensor(math.log(relative), dtype=q.dtype))

    def forward(self, curve: Tensor) -> Tensor:
        width = torch.sqrt(self.log_floor.exp() ** 2 + (self.log_relative.exp() * self.q) ** 2)
        return smear(curve, width, self.q)
