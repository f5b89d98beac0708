"""Differentiable image formation for cryo-EM model refinement (PyTorch).

An atomic model is posed (unit quaternion + in-plane shift), its atoms are splatted on the detector, the
contrast transfer function is applied, and the result is compared with particle images.  Torsion restraints and a
small volume renderer for neural density maps live here too.
"""
from __future__ import annotations

import math
from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Detector(NamedTuple):
    height: int
    width: int
    apix: float = 1.0  # pixel size, Angstrom


# ------------------------------------------------------------------------------------------------ torsions


class Torsion(Function):
    """Signed dihedral angles of atom quadruples.

    ``coords`` is (conformers, atoms, 3) and ``quads`` (torsions, 4), integer; the result is (conformers, torsions),
    in radians, within (-pi, pi].  Gradients after Blondel & Karplus (1996), free of the singularity of arccos.
    """

    @staticmethod
    def forward(ctx, coords: Tensor, quads: Tensor) -> Tensor:
        i, j, k, l = (coords[:, quads[:, n]] for n in range(4))
        f, g, h = i - j, j - k, l - k
        a = torch.linalg.cross(f, g, dim=-1)
        b = torch.linalg.cross(h, g, dim=-1)
        g_len = g.norm(dim=-1)
        sin = (torch.linalg.cross(b, a, dim=-1) * g).sum(-1) / g_len
        cos = (a * b).sum(-1)
        ctx.save_for_backward(quads, f, g, h, a, b, g_len)
        ctx.n_atoms = coords.shape[1]
        return torch.atan2(sin, cos)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        quads, f, g, h, a, b, g_len = ctx.saved_tensors
        ua = a / (a * a).sum(-1, keepdim=True)
        ub = b / (b * b).sum(-1, keepdim=True)
        g_len = g_len.unsqueeze(-1)
        fg = (f * g).sum(-1, keepdim=True) / g_len
        hg = (h * g).sum(-1, keepdim=True) / g_len
        shear = fg * ua - hg * ub
        parts = (-g_len * ua, g_len * ua + shear, -shear - g_len * ub, g_len * ub)
        out = grad.new_zeros(grad.shape[0], ctx.n_atoms, 3)
        for n, part in enumerate(parts):
            out.index_add_(1, quads[:, n], grad.unsqueeze(-1) * part)
        return out, None


def backbone_quads(n_residues: int) -> Tensor:
    """Quadruples (phi, psi, omega) of a chain stored as N, CA, C, N, CA, C, ..."""
    start = torch.arange(3 * n_residues - 3)
    return start[:, None] + torch.arange(4)[None, :]


# ------------------------------------------------------------------------------------------------ pose


def _rotation(q: Tensor) -> Tensor:
    w, x, y, z = q.unbind(-1)
    rows = (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )
    return torch.stack(rows, dim=-1).reshape(q.shape[:-1] + (3, 3))


class PoseAtoms(Function):
    """Rotates one model into the frame of every particle.

    quat  : (particles, 4), scalar first; any nonzero length, the rotation is that of ``quat / |quat|``
    model : (atoms, 3)
    return: (particles, atoms, 3)
    """

    @staticmethod
    def forward(ctx, quat, model):
        unit = quat / quat.norm(dim=-1, keepdim=True)
        rot = _rotation(unit)
        ctx.save_for_backward(unit, rot, model)
        return torch.einsum("pij,aj->pai", rot, model)

    @staticmethod
    def backward(ctx, grad):
        unit, rot, model = ctx.saved_tensors
        g_quat = g_model = None
        if ctx.needs_input_grad[0]:
            m = torch.einsum("pai,aj->pij", grad, model)
            w, x, y, z = (c[:, None] for c in unit.unbind(-1))
            m00, m01, m02, m10, m11, m12, m20, m21, m22 = (c[:, None] for c in m.flatten(1).unbind(-1))
            gw = 2 * (-z * m01 + y * m02 + z * m10 - x * m12 - y * m20 + x * m21)
            gx = 2 * (y * (m01 + m10) + z * (m02 + m20) - 2 * x * (m11 + m22) + w * (m21 - m12))
            gy = 2 * (x * (m01 + m10) + z * (m12 + m21) - 2 * y * (m00 + m22) + w * (m02 - m20))
            gz = 2 * (x * (m02 + m20) + y * (m12 + m21) - 2 * z * (m00 + m11) + w * (m10 - m01))
            g_unit = torch.cat([gw, gx, gy, gz], dim=-1)
            # stay in the tangent space of the sphere
            g_quat = g_unit - unit * (unit * g_unit).sum(-1, keepdim=True)
        if ctx.needs_input_grad[1]:
            g_model = torch.einsum("pij,pai->aj", rot, grad)
        return g_quat, g_model


# ------------------------------------------------------------------------------------------------ splatting


def _centred(n: int, like: Tensor, apix: float = 1.0) -> Tensor:
    return (torch.arange(n, dtype=like.dtype, device=like.device) - 0.5 * (n - 1)) * apix


class GaussianSplat(Function):
    """Projects atoms as isotropic Gaussians on the detector plane.

    Args:
        xy: (particles, atoms, 2) positions in Angstrom, x along the width, origin in the image centre.
        sigma: (atoms,) widths in Angstrom.
        amplitude: (atoms,) scattering amplitudes.
        detector: image size and pixel size.

    Returns:
        (particles, height, width) images.
    """

    @staticmethod
    def forward(ctx, xy, sigma, amplitude, detector):
        dx = _centred(detector.width, xy, detector.apix) - xy[..., 0:1]
        dy = _centred(detector.height, xy, detector.apix) - xy[..., 1:2]
        inv = 0.5 / sigma[:, None] ** 2
        ex, ey = torch.exp(-inv * dx * dx), torch.exp(-inv * dy * dy)
        ctx.save_for_backward(xy, sigma, amplitude, ex, ey)
        ctx.detector = detector
        return torch.einsum("a,pah,paw->phw", amplitude, ey, ex)

    @staticmethod
    def backward(ctx, grad):
        xy, sigma, amplitude, ex, ey = ctx.saved_tensors
        height, width = ctx.detector.height, ctx.detector.width
        dx = _centred(width, xy) - xy[..., 0:1]
        dy = _centred(height, xy) - xy[..., 1:2]
        rows = torch.einsum("phw,paw->pah", grad, ex)
        mass = (rows * ey).sum(-1)
        along_y = (rows * ey * dy).sum(-1)
        rows_x = torch.einsum("phw,paw->pah", grad, ex * dx)
        along_x = (rows_x * ey).sum(-1)
        spread = (torch.einsum("phw,paw->pah", grad, ex * dx * dx) * ey + rows * ey * dy * dy).sum(-1)
        g_xy = (amplitude / sigma**2)[:, None] * torch.stack([along_x, along_y], dim=-1)
        g_sigma = amplitude / sigma**3 * spread.sum(0)
        return g_xy, g_sigma, mass.sum(0), None


# ------------------------------------------------------------------------------------------------ CTF


class _ApplyCTF(Function):
    @staticmethod
    def forward(ctx, image, defocus, b_factor, k2, wavelength, cs, contrast):
        z = defocus[:, None, None]
        chi = math.pi * wavelength * z * k2 - 0.5 * math.pi * cs * wavelength**3 * k2**2
        phase = math.sqrt(1.0 - contrast**2)
        envelope = torch.exp(-0.25 * b_factor * k2)
        ctf = -(phase * torch.sin(chi) + contrast * torch.cos(chi)) * envelope
        slope = -(phase * torch.cos(chi) - contrast * torch.sin(chi)) * envelope * (math.pi * wavelength) * k2
        spectrum = torch.fft.rfft2(image)
        ctx.save_for_backward(spectrum, ctf, slope, k2)
        ctx.size = image.shape[-2:]
        return torch.fft.irfft2(spectrum * ctf, s=ctx.size)

    @staticmethod
    def backward(ctx, grad):
        spectrum, ctf, slope, k2 = ctx.saved_tensors
        g_image = torch.fft.irfft2(torch.fft.rfft2(grad) * ctf, s=ctx.size)
        by_defocus = torch.fft.irfft2(spectrum * slope, s=ctx.size)
        by_b = torch.fft.irfft2(spectrum * ctf * (-0.25 * k2), s=ctx.size)
        return g_image, (grad * by_defocus).sum((-2, -1)), (grad * by_b).sum(), None, None, None, None


class ContrastTransfer(nn.Module):
    """CTF of a microscope without astigmatism; images (particles, height, width), defocus (particles,) in Angstrom."""

    def __init__(self, detector: Detector, kilovolts: float = 300.0, cs_mm: float = 2.7, contrast: float = 0.1):
        super().__init__()
        volts = kilovolts * 1e3
        self.wavelength = 12.2639 / math.sqrt(volts + 0.97845e-6 * volts**2)
        self.cs, self.contrast = cs_mm * 1e7, contrast
        ky = torch.fft.fftfreq(detector.height, detector.apix, dtype=torch.float64)
        kx = torch.fft.rfftfreq(detector.width, detector.apix, dtype=torch.float64)
        self.register_buffer("k2", ky[:, None] ** 2 + kx[None, :] ** 2)
        self.b_factor = nn.Parameter(torch.tensor(60.0, dtype=torch.float64))

    def forward(self, image: Tensor, defocus: Tensor) -> Tensor:
        k2 = self.k2.to(image.dtype)
        b = self.b_factor.to(image.dtype)
        return _ApplyCTF.apply(image, defocus, b, k2, self.wavelength, self.cs, self.contrast)


# ------------------------------------------------------------------------------------------------ volume rendering


def ray_compositor(white_background: bool = False):
    """Emission-absorption compositor for ray samples.

    Gives ``composite(density, colour, step) -> (pixel, opacity)``: density and step (rays, samples), colour
    (rays, samples, channels), pixel (rays, channels), opacity (rays,).  Light that passes all samples shows the
    background, black or white.
    """
    backdrop = 1.0 if white_background else 0.0

    class Composite(Function):
        @staticmethod
        def forward(ctx, density, colour, step) -> Tuple[Tensor, Tensor]:
            depth = torch.cumsum(density * step, dim=1)
            after = torch.exp(-depth)  # transmittance behind each sample
            before = torch.cat([torch.ones_like(after[:, :1]), after[:, :-1]], dim=1)
            weight = before - after
            pixel = (weight.unsqueeze(-1) * colour).sum(1) + backdrop * after[:, -1:]
            ctx.save_for_backward(density, colour, step, weight, after)
            return pixel, 1.0 - after[:, -1]

        @staticmethod
        def backward(ctx, g_pixel, g_opacity):
            density, colour, step, weight, after = ctx.saved_tensors
            shade = torch.einsum("rsc,rc->rs", colour, g_pixel)
            lit = weight * shade
            behind = lit.sum(1, keepdim=True) - torch.cumsum(lit, dim=1)
            g_depth = after * shade - behind + (g_opacity * after[:, -1]).unsqueeze(1)
            g_colour = weight.unsqueeze(-1) * g_pixel.unsqueeze(1)
            return g_depth * step, g_colour, g_depth * density

    return Composite.apply


class DensityField(nn.Module):
    def __init__(self, hidden: int = 32, white_background: bool = False, dtype: Optional[torch.dtype] = None):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(3, hidden, dtype=dtype), nn.SiLU(), nn.Linear(hidden, 4, dtype=dtype))
        self.composite = ray_compositor(white_background)

    def forward(self, points: Tensor, step: Tensor):
        out = self.trunk(points)
        return self.composite(nn.functional.softplus(out[..., 0]), torch.sigmoid(out[..., 1:]), step)
