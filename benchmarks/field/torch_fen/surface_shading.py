"""Surface energies and shading terms for inverse rendering."""
import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class ShadingConfig(NamedTuple):
    shadow_bias: float = 1e-3
    shadow_width: float = 0.05


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


class CotanDirichlet(torch.autograd.Function):
    """Dirichlet energy of a per-vertex field on a triangle mesh (cotangent weights).

    0.5 * integral |grad f|^2 = 0.25 * sum over corners of cot(corner) * |f_i - f_j|^2
    with (i, j) the edge opposite to the corner.

    Args:
        verts: (V, 3) positions.
        field: (V, C) values.
        faces: (F, 3) integer vertex ids, no degenerate faces.

    Returns:
        Scalar energy.
    """

    @staticmethod
    def _corners(verts, field, faces):
        for k in range(3):
            a, b, c = faces[:, k], faces[:, (k + 1) % 3], faces[:, (k + 2) % 3]
            yield a, b, c, verts[b] - verts[a], verts[c] - verts[a], field[b] - field[c]

    @staticmethod
    def forward(ctx, verts: Tensor, field: Tensor, faces: Tensor) -> Tensor:
        energy = verts.new_zeros(())
        for _, _, _, u, v, jump in CotanDirichlet._corners(verts, field, faces):
            cot = _dot(u, v) / torch.linalg.cross(u, v).norm(dim=-1)
            energy = energy + 0.25 * (cot * _dot(jump, jump)).sum()
        ctx.save_for_backward(verts, field, faces)
        return energy

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        verts, field, faces = ctx.saved_tensors
        g_verts, g_field = torch.zeros_like(verts), torch.zeros_like(field)
        for a, b, c, u, v, jump in CotanDirichlet._corners(verts, field, faces):
            cross = torch.linalg.cross(u, v)
            area2 = cross.norm(dim=-1, keepdim=True)
            normal = cross / area2
            dot = _dot(u, v).unsqueeze(-1)
            g_cot = 0.25 * grad * _dot(jump, jump).unsqueeze(-1)
            g_u = g_cot * (v / area2 - dot / area2 ** 2 * torch.linalg.cross(v, normal))
            g_v = g_cot * (u / area2 - dot / area2 ** 2 * torch.linalg.cross(normal, u))
            g_verts.index_add_(0, b, g_u)
            g_verts.index_add_(0, c, g_v)
            g_verts.index_add_(0, a, -(g_u + g_v))
            g_jump = 0.5 * grad * (dot / area2) * jump
            g_field.index_add_(0, b, g_jump)
            g_field.index_add_(0, c, -g_jump)
        return g_verts, g_field, None


class OrenNayarDiffuse(torch.autograd.Function):
    """Oren-Nayar reflected radiance for unit irradiance.

    With nl = max(n.l, 0), nv = max(n.v, 0), s = l.v - nl nv and
    t = max(nl, nv) if s > 0 else 1::

        L = albedo / pi * nl * (A + B s / t)
        A = 1 - 0.5 sigma^2 / (sigma^2 + 0.33),  B = 0.45 sigma^2 / (sigma^2 + 0.09)

    Args:
        normal, light, view: (P, 3) unit vectors, in any position to each other.
        albedo: (P, 3) or (3,).
        sigma: (P,) or scalar tensor, roughness in radians.

    Returns:
        (P, 3)
    """

    @staticmethod
    def forward(ctx, normal, light, view, albedo, sigma):
        nl = _dot(normal, light).clamp_min(0.0)
        nv = _dot(normal, view).clamp_min(0.0)
        s = _dot(light, view) - nl * nv
        t = torch.where(s > 0, torch.maximum(nl, nv).clamp_min(1e-6), torch.ones_like(s))
        s2 = sigma.square()
        a = 1.0 - 0.5 * s2 / (s2 + 0.33)
        b = 0.45 * s2 / (s2 + 0.09)
        shade = nl * (a + b * s / t)
        ctx.save_for_backward(normal, light, view, albedo, sigma)
        return albedo / math.pi * shade.unsqueeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        normal, light, view, albedo, sigma = ctx.saved_tensors
        raw_nl, raw_nv = _dot(normal, light), _dot(normal, view)
        nl, nv = raw_nl.clamp_min(0.0), raw_nv.clamp_min(0.0)
        s = _dot(light, view) - nl * nv
        t = torch.maximum(nl, nv).clamp_min(1e-6)
        s2 = sigma.square()
        a = 1.0 - 0.5 * s2 / (s2 + 0.33)
        b = 0.45 * s2 / (s2 + 0.09)
        shade = nl * (a + b * s / t)

        g_albedo = (grad * shade.unsqueeze(-1) / math.pi).sum_to_size(albedo.shape)
        g_shade = (grad * albedo).sum(-1) / math.pi
        g_s = g_shade * nl * b / t
        g_t = -g_s * s / t
        g_nl = g_shade * (a + b * s / t) - g_s * nv + torch.where(nl >= nv, g_t, 0.0)
        g_nv = -g_s * nl + torch.where(nl >= nv, 0.0, g_t)
        g_nl = torch.where(raw_nl > 0, g_nl, 0.0).unsqueeze(-1)
        g_nv = torch.where(raw_nv > 0, g_nv, 0.0).unsqueeze(-1)
        g_lv = g_s.unsqueeze(-1)

        da = -0.5 * 0.33 / (s2 + 0.33).square()
        db = 0.45 * 0.09 / (s2 + 0.09).square()
        g_sigma = (g_shade * nl * (da + db * s / t) * 2.0 * sigma).sum_to_size(sigma.shape)
        return (
            g_nl * light + g_nv * view,
            g_nl * normal + g_lv * view,
            g_nv * normal + g_lv * light,
            g_albedo,
            g_sigma,
        )


class HardVisibility(torch.autograd.Function):
    """Shadow map test, averaged over the taps of a pixel.

    Forward: the share of taps with ``depth <= occluder + bias``, a hard step.

    Backward: the step has no useful derivative. On purpose we do not return the
    derivative of the forward pass (zero almost everywhere) but that of the soft
    test ``sigmoid((occluder + bias - depth) / width)`` as a surrogate, so that
    optimisation can move shadow edges.

    depth (...,), occluder (..., K), bias and width plain floats.
    """

    @staticmethod
    def forward(ctx, depth, occluder, bias: float = 1e-3, width: float = 0.05):
        margin = occluder + bias - depth.unsqueeze(-1)
        ctx.save_for_backward(margin)
        ctx.width = width
        return (margin >= 0).to(depth.dtype).mean(-1)

    @staticmethod
    def backward(ctx, grad):
        (margin,) = ctx.saved_tensors
        soft = torch.sigmoid(margin / ctx.width)
        g = grad.unsqueeze(-1) * soft * (1 - soft) / (ctx.width * margin.shape[-1])
        return -g.sum(-1), g, None, None


class DiffuseShader(torch.nn.Module):
    def __init__(self, config: ShadingConfig = ShadingConfig(), roughness: float = 0.3):
        super().__init__()
        self.config = config
        self.sigma = torch.nn.Parameter(torch.tensor(roughness))

    def forward(self, gbuffer: dict, light: Tensor) -> Tensor:
        normal = gbuffer["normal"]
        radiance = OrenNayarDiffuse.apply(
            normal, light.expand_as(normal), gbuffer["view"], gbuffer["albedo"], self.sigma)
        visible = HardVisibility.apply(
            gbuffer["depth"], gbuffer["occluder"], self.config.shadow_bias, self.config.shadow_width)
        return radiance * visible.unsqueeze(-1)


def smooth_albedo_loss(verts: Tensor, albedo: Tensor, faces: Tensor, weight: float = 1e-2) -> Tensor:
    return weight * CotanDirichlet.apply(verts, albedo, faces)
