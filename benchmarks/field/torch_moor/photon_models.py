import math

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = ["UniformTransit", "transit_flux", "FresnelReflectance", "fresnel", "DebyeScattering", "SaxsProfile"]


def _reduce_like(grad, ref):
    while grad.dim() > ref.dim():
        grad = grad.sum(0)
    for axis, size in enumerate(ref.shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.sum(axis, keepdim=True)
    return grad


# --------------------------------------------------------------------------- transits


def _lens_angles(p, z):
    k0 = torch.arccos(((p * p + z * z - 1.0) / (2.0 * p * z)).clamp(-1.0, 1.0))
    k1 = torch.arccos(((1.0 - p * p + z * z) / (2.0 * z)).clamp(-1.0, 1.0))
    return k0, k1


def _chord(p, z):
    return torch.sqrt((4.0 * z * z - (1.0 + z * z - p * p) ** 2).clamp(min=0.0))


class UniformTransit(Function):
    """Flux of a uniformly bright stellar disc behind an opaque one."""

    @staticmethod
    def forward(ctx, p, z, third_light):
        p, z = torch.broadcast_tensors(p, z)
        outside = z >= 1.0 + p
        covered = z <= p - 1.0
        inside = z <= 1.0 - p
        partial = ~(outside | covered | inside)
        zz = torch.where(partial, z, torch.ones_like(z))
        pp = torch.where(partial, p, torch.full_like(p, 0.5))
        k0, k1 = _lens_angles(pp, zz)
        lens = (pp * pp * k0 + k1 - 0.5 * _chord(pp, zz)) / math.pi
        area = torch.where(partial, lens, torch.zeros_like(lens))
        area = torch.where(inside, p * p, area)
        area = torch.where(covered, torch.ones_like(area), area)
        ctx.save_for_backward(p, z, area)
        ctx.third_light = third_light
        return 1.0 - (1.0 - third_light) * area

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        p, z, _ = ctx.saved_tensors
        outside = z >= 1.0 + p
        nested = z <= (1.0 - p).abs()
        partial = ~(outside | nested)
        zz = torch.where(partial, z, torch.ones_like(z))
        pp = torch.where(partial, p, torch.full_like(p, 0.5))
        k0, _ = _lens_angles(pp, zz)
        zero = torch.zeros_like(p)
        d_p = torch.where(partial, 2.0 * pp * k0 / math.pi, zero)
        d_p = torch.where(nested, 2.0 * p, d_p)
        d_z = torch.where(partial, -_chord(pp, zz) / (math.pi * zz), zero)
        g = -(1.0 - ctx.third_light) * grad
        return g * d_p, g * d_z, None


def transit_flux(p, z, third_light=0.0):
    """Relative flux during a transit, occultation or eclipse.

    Parameters
    ----------
    p : Tensor
        Radius of the occulting body over the radius of the star, p > 0.  Values above one
        (eclipsing binaries, white dwarfs) are fine: the star is hidden completely for
        ``z <= p - 1``.
    z : Tensor
        Separation of the centres in stellar radii, z >= 0.  Broadcasts against ``p``.
    third_light : float
        Fraction of the out-of-transit flux that comes from somebody else.
    """
    p, z = torch.broadcast_tensors(p, z)
    return UniformTransit.apply(p, z, float(third_light))


# --------------------------------------------------------------------------- interfaces


class FresnelReflectance(Function):
    """Power reflectance of a smooth dielectric interface.

    Beyond the critical angle everything is reflected (value one, no slope).
    """

    @staticmethod
    def forward(cos_i, n1, n2, polarization):
        eta = n1 / n2
        t2 = 1.0 - eta * eta * (1.0 - cos_i * cos_i)
        total = t2 <= 0
        t = torch.sqrt(torch.where(total, torch.ones_like(t2), t2))
        rs = (n1 * cos_i - n2 * t) / (n1 * cos_i + n2 * t)
        rp = (n2 * cos_i - n1 * t) / (n2 * cos_i + n1 * t)
        ws, wp = {"s": (1.0, 0.0), "p": (0.0, 1.0), "none": (0.5, 0.5)}[polarization]
        return torch.where(total, torch.ones_like(t2), ws * rs * rs + wp * rp * rp)

    @staticmethod
    def setup_context(ctx, inputs, output):
        cos_i, n1, n2, polarization = inputs
        ctx.save_for_backward(cos_i, n1, n2)
        ctx.polarization = polarization

    @staticmethod
    def backward(ctx, grad):
        c, n1, n2 = ctx.saved_tensors
        ws, wp = {"s": (1.0, 0.0), "p": (0.0, 1.0), "none": (0.5, 0.5)}[ctx.polarization]
        eta = n1 / n2
        t2 = 1.0 - eta * eta * (1.0 - c * c)
        total = t2 <= 0
        t = torch.sqrt(torch.where(total, torch.ones_like(t2), t2))

        # r = (a - b) / (a + b)  ->  dr = 2 (b da - a db) / (a + b)^2
        a_s, b_s = n1 * c, n2 * t
        a_p, b_p = n2 * c, n1 * t
        fs = 4.0 * ws * (a_s - b_s) / (a_s + b_s) ** 3 * grad
        fp = 4.0 * wp * (a_p - b_p) / (a_p + b_p) ** 3 * grad
        fs = torch.where(total, torch.zeros_like(fs), fs)
        fp = torch.where(total, torch.zeros_like(fp), fp)

        g_t = -fs * a_s * n2 - fp * a_p * n1
        g_c = fs * b_s * n1 + fp * b_p * n2 + g_t * eta * eta * c / t
        g_eta = -g_t * eta * (1.0 - c * c) / t
        g_n1 = fs * b_s * c - fp * a_p * t + g_eta / n2
        g_n2 = -fs * a_s * t + fp * b_p * c - g_eta * eta / n2
        return _reduce_like(g_c, c), _reduce_like(g_n1, n1), _reduce_like(g_n2, n2), None


def fresnel(cos_i, n1=1.0, n2=1.5, polarization="none"):
    """Reflectance for cosines of incidence in (0, 1]; indices may be floats or tensors that broadcast.

    polarization: "s", "p" or "none" (the mean of the two).
    """
    n1 = torch.as_tensor(n1, dtype=cos_i.dtype, device=cos_i.device)
    n2 = torch.as_tensor(n2, dtype=cos_i.dtype, device=cos_i.device)
    return FresnelReflectance.apply(cos_i, n1, n2, polarization)


# --------------------------------------------------------------------------- small-angle scattering


def _sinc_pair(x):
    """sin(x)/x and (cos(x) - sin(x)/x)/x**2 (the latter tends to -1/3)."""
    near = x.abs() < 0.1
    xs = torch.where(near, torch.ones_like(x), x)
    s = torch.sin(xs) / xs
    h = (torch.cos(xs) - s) / (xs * xs)
    y = torch.where(near, x * x, torch.zeros_like(x))
    s0 = 1.0 + y * (-1.0 / 6 + y * (1.0 / 120 + y * (-1.0 / 5040 + y / 362880)))
    h0 = -1.0 / 3 + y * (1.0 / 30 + y * (-1.0 / 840 + y * (1.0 / 45360 - y / 3991680)))
    return torch.where(near, s0, s), torch.where(near, h0, h)


class DebyeScattering(Function):
    """Debye formula  I(q) = sum_ij f_i(q) f_j(q) sin(q r_ij) / (q r_ij).

    Memory saver: loops over q in both directions and stores only the inputs, so the
    (q, atom, atom) block is never alive.

    positions (n, 3), form (nq, n), q (nq,)  ->  (nq,)
    """

    @staticmethod
    def forward(ctx, positions, form, q):
        r = (positions[:, None] - positions[None]).square().sum(-1).sqrt()
        out = []
        for k in range(q.shape[0]):
            s, _ = _sinc_pair(q[k] * r)
            out.append(form[k] @ s @ form[k])
        ctx.save_for_backward(positions, form, q)
        return torch.stack(out)

    @staticmethod
    def backward(ctx, grad):
        positions, form, q = ctx.saved_tensors
        delta = positions[:, None] - positions[None]
        r2 = delta.square().sum(-1)
        r = r2.sqrt()
        pair = torch.zeros_like(r)
        g_form = torch.zeros_like(form)
        g_q = torch.zeros_like(q)
        for k in range(q.shape[0]):
            s, h = _sinc_pair(q[k] * r)
            ff = form[k][:, None] * form[k][None, :]
            g_form[k] = 2.0 * grad[k] * (s @ form[k])
            g_q[k] = grad[k] * q[k] * (ff * h * r2).sum()
            pair += grad[k] * q[k] ** 2 * ff * h
        g_pos = 2.0 * (pair[..., None] * delta).sum(1) if ctx.needs_input_grad[0] else None
        return g_pos, g_form, g_q


class SaxsProfile(torch.nn.Module):
    """Normalised scattering profile on a fixed q grid, one Gaussian form factor per element."""

    def __init__(self, q_max=0.5, bins=16, elements=4):
        super().__init__()
        self.register_buffer("q", torch.as_tensor(np.linspace(0.0, q_max, bins), dtype=torch.float32))
        self.log_amp = torch.nn.Parameter(torch.zeros(elements))
        self.log_width = torch.nn.Parameter(torch.zeros(elements))

    def forward(self, positions, element):
        width = self.log_width.exp()[element]
        form = self.log_amp.exp()[element] * torch.exp(-0.5 * (self.q[:, None] * width) ** 2)
        intensity = DebyeScattering.apply(positions, form, self.q)
        return intensity / intensity[:1]
