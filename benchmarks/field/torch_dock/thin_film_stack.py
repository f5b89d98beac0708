"""Optical interference coatings by the admittance recursion.

The stack is walked from the substrate towards the incident medium.  Every
layer turns the optical admittance seen below it into the one seen above it;
the reflectance follows from the last one.
"""
import math

import torch
from torch.autograd import Function

SENSES = {"at_least": 1, "equal": 0, "at_most": -1}


def _like(grad, ref):
    """Bring a cotangent to the shape and the number field of `ref`."""
    if not ref.is_complex() and grad.is_complex():
        grad = grad.real
    return grad.sum_to_size(ref.shape)


class LayerAdmittance(Function):
    """Admittance above one homogeneous layer.

    Parameters
    ----------
    below : complex tensor, shape (A, W)
        Admittance at the lower face, for A angles and W wavelengths.
    eta : real or complex tensor, shape (A, W), (A, 1) or ()
        Tilted admittance of the layer, complex for an absorbing film.
    delta : real or complex tensor, shape (A, W)
        Phase thickness of the layer in radians.

    Returns
    -------
    complex tensor, shape (A, W)
    """

    @staticmethod
    def forward(ctx, below, eta, delta):
        c, s = torch.cos(delta), torch.sin(delta)
        field = c + 1j * below / eta * s
        above = (below * c + 1j * eta * s) / field
        ctx.save_for_backward(below, eta, delta, field, above)
        return above

    @staticmethod
    def backward(ctx, g):
        below, eta, delta, field, above = ctx.saved_tensors
        inv = 1 / field
        to_below = inv * inv
        to_eta = 1j * torch.sin(delta) * (1 + above * below / eta**2) * inv
        to_delta = 1j * (eta - above * above / eta)
        return (
            _like(g * to_below.conj(), below),
            _like(g * to_eta.conj(), eta),
            _like(g * to_delta.conj(), delta),
        )


class PowerReflectance(Function):
    """Reflected fraction of the power at the front of the assembly.

    Parameters
    ----------
    eta0 : real tensor, shape (A, 1)
        Tilted admittance of the (transparent) incident medium.
    y : complex tensor, shape (A, W)
        Admittance of the assembly.

    Returns
    -------
    real tensor, shape (A, W), between 0 and 1 for passive stacks
    """

    @staticmethod
    def forward(ctx, eta0, y):
        r = (eta0 - y) / (eta0 + y)
        ctx.save_for_backward(eta0, y, r)
        return r.real**2 + r.imag**2

    @staticmethod
    def backward(ctx, g):
        eta0, y, r = ctx.saved_tensors
        den = (eta0 + y) ** 2
        dr_dy = -2 * eta0 / den
        dr_deta = 2 * y / den
        grad_eta0 = grad_y = None
        if ctx.needs_input_grad[0]:
            grad_eta0 = (g * 2 * (r * dr_deta).real).sum(-1, keepdim=True)
        if ctx.needs_input_grad[1]:
            grad_y = 2 * g * r * dr_dy.conj()
        return grad_eta0, grad_y


class MeritFunction(Function):
    r"""Figure of merit :math:`(\frac{1}{AW}\sum |(R-T)/\delta|^p)^{1/p}`.

    Parameters
    ----------
    refl : tensor, shape (A, W)
    target, tol : tensors, shape (W,)
        Wanted reflectance and its tolerance (positive).
    sense : integer tensor, shape (W,)
        Values of `SENSES`.  A point asked for ``at_least`` counts only when
        it falls short, one asked for ``at_most`` only when it is above.
    power : float
        Exponent, at least 1.
    """

    @staticmethod
    def forward(ctx, refl, target, tol, sense, power):
        x = (refl - target) / tol
        x = torch.where((sense == 0) | (sense * x < 0), x, torch.zeros_like(x))
        merit = x.abs().pow(power).mean().pow(1.0 / power)
        ctx.save_for_backward(x, tol, merit)
        ctx.power = power
        return merit

    @staticmethod
    def backward(ctx, g):
        x, tol, merit = ctx.saved_tensors
        if merit == 0:
            z = torch.zeros_like(x)
            return z, z.sum(0), z.sum(0), None, None
        slope = g * x.sign() * (x.abs() / merit).pow(ctx.power - 1) / x.numel() / tol
        return slope, -slope.sum(0), -(slope * x).sum(0), None, None


def phase_thickness(index, thickness, cos_theta, wavelength):
    """2 pi n d cos(theta) / lambda on an (A, W) grid."""
    return 2 * math.pi * index * thickness * cos_theta[:, None] / wavelength[None, :]


def snell_cosines(angles, n_in, n_layer):
    sin = torch.sin(angles) * n_in / n_layer
    return torch.sqrt(1 - sin**2)


def stack_reflectance(thicknesses, indices, substrate, angles, wavelengths, n_in=1.0):
    """s-polarised reflectance of layers listed from the substrate upwards."""
    cos_sub = snell_cosines(angles, n_in, substrate.real)
    y = (substrate * cos_sub[:, None]).expand(len(angles), len(wavelengths)).contiguous()
    for d, n in zip(thicknesses, indices):
        cos = snell_cosines(angles, n_in, n.real)
        delta = phase_thickness(n.real, d, cos, wavelengths)
        y = LayerAdmittance.apply(y, n * cos[:, None], delta)
    eta0 = n_in * torch.cos(angles)[:, None]
    return PowerReflectance.apply(eta0, y)


def refine(thicknesses, indices, substrate, angles, wavelengths, target, tol, sense,
           power=2.0, steps=200, lr=1e-3):
    """Adam on the layer thicknesses (micrometres)."""
    thicknesses = thicknesses.clone().requires_grad_(True)
    opt = torch.optim.Adam([thicknesses], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        refl = stack_reflectance(thicknesses, indices, substrate, angles, wavelengths)
        MeritFunction.apply(refl, target, tol, sense, power).backward()
        opt.step()
        with torch.no_grad():
            thicknesses.clamp_(min=1e-3)
    return thicknesses.detach()
