"""Colour and light transport primitives for the differentiable camera pipeline.

Everything in here works on trailing channel axes: colours are ``(..., 3)``, images ``(..., H, W, 3)`` and
directions ``(..., 3)``.
"""
from typing import Literal, Optional

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

D65 = (0.95047, 1.0, 1.08883)
REC709 = (0.2126, 0.7152, 0.0722)

_DELTA = 6.0 / 29.0


def _reduce_to(grad: Tensor, shape: torch.Size) -> Tensor:
    """Undo broadcasting."""
    return grad.sum_to_size(shape) if grad.shape != shape else grad


class LabFromXyz(torch.autograd.Function):
    """CIE XYZ to CIELAB.

    The companding curve is the usual cube root above ``(6/29)**3`` and its tangent line below, so out-of-gamut
    (negative) tristimulus values are fine. Only the companded values are kept for the backward pass; the slope is
    recovered from them.
    """

    @staticmethod
    def forward(ctx, xyz: Tensor, white: Tensor) -> Tensor:
        r = xyz / white
        linear = r <= _DELTA ** 3
        f = torch.where(linear, r / (3 * _DELTA ** 2) + 4.0 / 29.0, r.clamp_min(_DELTA ** 3) ** (1.0 / 3.0))
        ctx.save_for_backward(f, white)
        ctx.xyz_shape = xyz.shape
        fx, fy, fz = f.unbind(-1)
        return torch.stack((116.0 * fy - 16.0, 500.0 * (fx - fy), 200.0 * (fy - fz)), dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_lab: Tensor):
        f, white = ctx.saved_tensors
        g_l, g_a, g_b = grad_lab.unbind(-1)
        grad_f = torch.stack((500.0 * g_a, 116.0 * g_l - 500.0 * g_a + 200.0 * g_b, -200.0 * g_b), dim=-1)
        linear = f <= _DELTA
        grad_r = grad_f * torch.where(linear, torch.full_like(f, 1.0 / (3 * _DELTA ** 2)), 1.0 / (3.0 * f * f))
        r = torch.where(linear, (f - 4.0 / 29.0) * (3 * _DELTA ** 2), f ** 3)
        grad_xyz = grad_white = None
        if ctx.needs_input_grad[0]:
            grad_xyz = _reduce_to(grad_r / white, ctx.xyz_shape)
        if ctx.needs_input_grad[1]:
            grad_white = _reduce_to(-grad_r * r / white, white.shape)
        return grad_xyz, grad_white


def xyz_to_lab(xyz: Tensor, white: Optional[Tensor] = None) -> Tensor:
    """Convert ``(..., 3)`` XYZ to L*a*b*.

    Args:
        xyz: tristimulus values, any sign.
        white: reference white, ``(3,)`` or anything that broadcasts with ``xyz`` (positive). D65 if not given;
            may be learned.
    """
    if white is None:
        white = xyz.new_tensor(D65)
    return LabFromXyz.apply(xyz, white)


class RefractDirection(torch.autograd.Function):
    """Snell refraction of a bundle of rays, GLSL convention. See :func:`refract`."""

    @staticmethod
    def forward(ctx, direction, normal, eta, tir):
        cos = (direction * normal).sum(-1, keepdim=True)
        e = eta.unsqueeze(-1)
        k = 1.0 - e * e * (1.0 - cos * cos)
        internal = k <= 0
        root = k.clamp_min(0).sqrt()
        bent = e * direction - (e * cos + root) * normal
        if tir == "reflect":
            other = direction - 2.0 * cos * normal
        else:
            other = torch.zeros_like(bent)
        ctx.save_for_backward(direction, normal, eta, cos, root, internal)
        ctx.tir = tir
        return torch.where(internal, other, bent)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        direction, normal, eta, cos, root, internal = ctx.saved_tensors
        e = eta.unsqueeze(-1)
        safe_root = torch.where(internal, torch.ones_like(root), root)

        g_n = (grad * normal).sum(-1, keepdim=True)
        # transmitted part:  t = e d - (e c + s) n,  c = d.n,  s = sqrt(1 - e^2 (1 - c^2))
        g_cos = -g_n * (e + e * e * cos / safe_root)
        d_dir = e * grad + g_cos * normal
        d_nrm = -(e * cos + root) * grad + g_cos * direction
        d_eta = (grad * direction).sum(-1, keepdim=True) - g_n * (cos - e * (1.0 - cos * cos) / safe_root)

        zero = torch.zeros_like(grad)
        if ctx.tir == "reflect":
            r_dir = grad - 2.0 * g_n * normal
            r_nrm = -2.0 * cos * grad
        else:
            r_dir = r_nrm = zero
        d_dir = torch.where(internal, r_dir, d_dir)
        d_nrm = torch.where(internal, r_nrm, d_nrm)
        d_eta = torch.where(internal, torch.zeros_like(d_eta), d_eta).squeeze(-1)
        return (
            _reduce_to(d_dir, direction.shape),
            _reduce_to(d_nrm, normal.shape),
            _reduce_to(d_eta, eta.shape),
            None,
        )


def refract(direction: Tensor, normal: Tensor, eta: Tensor, tir: Literal["zero", "reflect"] = "zero") -> Tensor:
    """Refract rays at an interface.

    Parameters
    ----------
    direction : Tensor, (..., 3)
        Unit propagation directions.
    normal : Tensor, (..., 3)
        Unit normals on the side of the incoming ray (``direction . normal < 0``).
    eta : Tensor, (...)
        Index ratio ``n_in / n_out``; a 0-d tensor is shared by all the rays.
    tir : {"zero", "reflect"}
        What a ray beyond the critical angle becomes: the zero vector as in GLSL, or the mirrored ray.

    Returns
    -------
    Tensor, (..., 3)
        Differentiable in the direction, the normal and the ratio. The inputs are not re-normalised.
    """
    if tir not in ("zero", "reflect"):
        raise ValueError(f"unknown tir mode {tir!r}")
    return RefractDirection.apply(direction, normal, torch.as_tensor(eta, dtype=direction.dtype), tir)


class KeyedToneMap(torch.autograd.Function):
    # Reinhard et al. 2002, eq. 1-4, global operator. One log-average per image.

    @staticmethod
    def forward(ctx, rgb, key, mask, white, delta):
        coeff = rgb.new_tensor(REC709)
        lum = rgb @ coeff
        valid = torch.ones_like(lum) if mask is None else mask.to(lum.dtype).expand_as(lum)
        count = valid.sum((-2, -1), keepdim=True)
        avg = ((valid * (lum + delta).log()).sum((-2, -1), keepdim=True) / count).exp()
        inv_w2 = 0.0 if white is None else 1.0 / (white * white)
        scaled = key * lum / avg
        gain = key / avg * (1.0 + scaled * inv_w2) / (1.0 + scaled)
        ctx.save_for_backward(rgb, key, valid, lum, avg, gain)
        ctx.inv_w2, ctx.delta = inv_w2, delta
        return rgb * gain.unsqueeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        rgb, key, valid, lum, avg, gain = ctx.saved_tensors
        exposure = key / avg
        scaled = exposure * lum
        q = (1.0 + scaled * ctx.inv_w2) / (1.0 + scaled)
        dq = (ctx.inv_w2 - 1.0) / (1.0 + scaled) ** 2

        g_gain = (grad * rgb).sum(-1)
        g_exposure = (g_gain * (q + exposure * dq * lum)).sum((-2, -1), keepdim=True)
        # exposure = key * exp(-mean log)
        g_log_mean = -g_exposure * exposure
        n_pixels = lum.shape[-2] * lum.shape[-1]
        g_lum = g_gain * exposure * dq * exposure + g_log_mean / n_pixels * valid / (lum + ctx.delta)

        grad_rgb = grad * gain.unsqueeze(-1) + g_lum.unsqueeze(-1) * rgb.new_tensor(REC709)
        grad_key = (g_exposure / avg).sum().reshape(key.shape) if ctx.needs_input_grad[1] else None
        return grad_rgb, grad_key, None, None, None


def tone_map(rgb: Tensor, key: Tensor, mask: Optional[Tensor] = None, white: Optional[float] = None,
             delta: float = 1e-4) -> Tensor:
    """Photographic tone reproduction with automatic exposure.

    Args:
        rgb: ``(..., H, W, 3)`` linear radiance, nonnegative.
        key: 0-d tensor, middle grey of the rendered image.
        mask: optional ``(..., H, W)`` bool, the pixels that are metered (at least one per image). The curve is
            applied to all of the pixels in any case.
        white: luminance (after exposure) that maps to pure white; ``None`` disables burn-out.
        delta: floor inside of the logarithm.
    """
    return KeyedToneMap.apply(rgb, key, mask, white, delta)


class AutoExposure(nn.Module):
    """Learned middle grey in front of a perceptual loss."""

    def __init__(self, key: float = 0.18, white: Optional[float] = 4.0):
        super().__init__()
        self.log_key = nn.Parameter(torch.tensor(key).log())
        self.white = white

    def forward(self, rgb: Tensor, sky: Optional[Tensor] = None) -> Tensor:
        metered = None if sky is None else ~sky
        return tone_map(rgb, self.log_key.exp(), metered, self.white)
