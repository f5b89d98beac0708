"""Geometry helpers for reconstruction: poses, point sets, volume rendering, feature look-up.

Quaternions are (w, x, y, z), real part first.
"""

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class QuaternionToMatrix(Function):
    """
    Rotation matrices of quaternions that need not have unit length.

    Args:
        quaternions: tensor of shape (..., 4), none of them zero.

    Returns:
        Rotation matrices as tensor of shape (..., 3, 3).
    """

    @staticmethod
    def forward(ctx, quaternions: Tensor) -> Tensor:
        norm = quaternions.norm(dim=-1, keepdim=True)
        u = quaternions / norm
        w, x, y, z = u.unbind(-1)
        ctx.save_for_backward(u, norm)
        o = torch.stack((
            1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w),
            2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w),
            2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y),
        ), -1)
        return o.reshape(quaternions.shape[:-1] + (3, 3))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor) -> Tensor:
        u, norm = ctx.saved_tensors
        w, x, y, z = u.unbind(-1)
        g00, g01, g02, g10, g11, g12, g20, g21, g22 = grad.flatten(-2).unbind(-1)
        gw = 2 * (z * (g10 - g01) + y * (g02 - g20) + x * (g21 - g12))
        gx = 2 * (y * (g01 + g10) + z * (g02 + g20) + w * (g21 - g12) - 2 * x * (g11 + g22))
        gy = 2 * (x * (g01 + g10) + z * (g12 + g21) + w * (g02 - g20) - 2 * y * (g00 + g22))
        gz = 2 * (x * (g02 + g20) + y * (g12 + g21) + w * (g10 - g01) - 2 * z * (g00 + g11))
        gu = torch.stack((gw, gx, gy, gz), -1)
        return (gu - u * (gu * u).sum(-1, keepdim=True)) / norm


class ChamferDistanceFunction(Function):
    """Squared nearest-neighbour distances in both directions.

    xyz1 is (B, N, 3), xyz2 is (B, M, 3).  Gives dist1 (B, N), dist2 (B, M), idx1, idx2.
    """

    @staticmethod
    def forward(ctx, xyz1, xyz2):
        d = (xyz1[:, :, None] - xyz2[:, None]).pow(2).sum(-1)
        dist1, idx1 = d.min(dim=2)
        dist2, idx2 = d.min(dim=1)
        ctx.save_for_backward(xyz1, xyz2, idx1, idx2)
        ctx.mark_non_differentiable(idx1, idx2)
        return dist1, dist2, idx1, idx2

    @staticmethod
    @once_differentiable
    def backward(ctx, graddist1, graddist2, _gidx1, _gidx2):
        xyz1, xyz2, idx1, idx2 = ctx.saved_tensors
        batch = torch.arange(xyz1.shape[0], device=xyz1.device)[:, None]
        diff1 = 2 * graddist1[..., None] * (xyz1 - xyz2[batch, idx1])
        diff2 = 2 * graddist2[..., None] * (xyz2 - xyz1[batch, idx2])
        gradxyz1 = diff1.clone()
        gradxyz2 = diff2.clone()
        gradxyz1[batch, idx2] -= diff2
        gradxyz2[batch, idx1] -= diff1
        return gradxyz1, gradxyz2


def chamfer_loss(a, b):
    d1, d2, _, _ = ChamferDistanceFunction.apply(a, b)
    return d1.mean() + d2.mean()


class RenderWeights(Function):
    # w_i = exp(-sum_{j<i} sigma_j delta_j) * (1 - exp(-sigma_i delta_i))
    # sigma, delta: (rays, samples), both >= 0

    @staticmethod
    def forward(sigma, delta):
        s = sigma * delta
        before = torch.cat([torch.zeros_like(s[..., :1]), s[..., :-1].cumsum(-1)], dim=-1)
        return torch.exp(-before) * -torch.expm1(-s)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad):
        sigma, delta, weights = ctx.saved_tensors
        gw = grad * weights
        # sum over the samples behind each one
        behind = torch.cat([gw[..., 1:].flip(-1).cumsum(-1).flip(-1),
                            torch.zeros_like(gw[..., :1])], dim=-1)
        after = torch.exp(-(sigma * delta).cumsum(-1))
        gs = grad * after - behind
        return gs * delta, gs * sigma


def composite(rgb, sigma, t_vals, far=1e10):
    delta = torch.cat([t_vals[..., 1:] - t_vals[..., :-1],
                       torch.full_like(t_vals[..., :1], far)], dim=-1)
    w = RenderWeights.apply(sigma, delta)
    depth = (w * t_vals).sum(-1)
    return (w[..., None] * rgb).sum(-2), depth, w.sum(-1)


def _corner(feat, ix, iy):
    """feat (B, C, H, W), integer ix, iy (B, N) -> values (B, C, N), zero outside."""
    B, C, H, W = feat.shape
    ok = (ix >= 0) & (ix < W) & (iy >= 0) & (iy < H)
    lin = iy.clamp(0, H - 1) * W + ix.clamp(0, W - 1)
    val = feat.flatten(2).gather(2, lin[:, None].expand(-1, C, -1))
    return val * ok[:, None].to(feat.dtype), lin, ok


class SampleFeatures(Function):
    """Bilinear look-up of image features at projected points.

    ``uv`` (B, N, 2) holds (u, v) in [-1, 1], the borders of the outer pixels being at -1 and 1
    (``align_corners=False``); pixels outside count as zero.  ``feat`` is (B, C, H, W), the result
    (B, C, N).
    """

    @staticmethod
    def forward(ctx, feat, uv):
        H, W = feat.shape[-2:]
        px = ((uv[..., 0] + 1) * W - 1) / 2
        py = ((uv[..., 1] + 1) * H - 1) / 2
        x0, y0 = px.floor(), py.floor()
        fx, fy = (px - x0)[:, None], (py - y0)[:, None]
        x0, y0 = x0.long(), y0.long()
        v00 = _corner(feat, x0, y0)[0]
        v01 = _corner(feat, x0 + 1, y0)[0]
        v10 = _corner(feat, x0, y0 + 1)[0]
        v11 = _corner(feat, x0 + 1, y0 + 1)[0]
        ctx.save_for_backward(feat, x0, y0, fx, fy)
        return (v00 * (1 - fx) * (1 - fy) + v01 * fx * (1 - fy)
                + v10 * (1 - fx) * fy + v11 * fx * fy)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        feat, x0, y0, fx, fy = ctx.saved_tensors
        B, C, H, W = feat.shape
        v00, l00, m00 = _corner(feat, x0, y0)
        v01, l01, m01 = _corner(feat, x0 + 1, y0)
        v10, l10, m10 = _corner(feat, x0, y0 + 1)
        v11, l11, m11 = _corner(feat, x0 + 1, y0 + 1)

        grad_feat = torch.zeros_like(feat).flatten(2)
        for lin, ok, wgt in ((l00, m00, (1 - fx) * (1 - fy)), (l01, m01, fx * (1 - fy)),
                             (l10, m10, (1 - fx) * fy), (l11, m11, fx * fy)):
            contrib = grad * wgt * ok[:, None].to(grad.dtype)
            grad_feat.scatter_add_(2, lin[:, None].expand(-1, C, -1), contrib)

        d_px = (grad * ((v01 - v00) * (1 - fy) + (v11 - v10) * fy)).sum(1)
        d_py = (grad * ((v10 - v00) * (1 - fx) + (v11 - v01) * fx)).sum(1)
        grad_uv = torch.stack([d_px, d_py], dim=-1) * (W / 2)
        return grad_feat.view_as(feat), grad_uv


def project_and_sample(feat, points, quat, trans, focal=1.0):
    """points (B, N, 3) in world coordinates, quat (B, 4), trans (B, 3)"""
    R = QuaternionToMatrix.apply(quat)
    cam = points @ R.transpose(-1, -2) + trans[:, None]
    uv = focal * cam[..., :2] / cam[..., 2:].clamp(min=1e-4)
    return SampleFeatures.apply(feat, uv)


if __name__ == "__main__":
    q = torch.tensor([[1.0, 0.1, 0.0, 0.2]], requires_grad=True)
    pts = torch.rand(1, 9, 3) + torch.tensor([0.0, 0.0, 2.0])
    f = project_and_sample(torch.randn(1, 4, 8, 8), pts, q, torch.zeros(1, 3))
    f.sum().backward()
    print(q.grad)
