"""Geometry and small implicit layers."""
from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _arc_weight(a, c):
    """sin(a * w) / sin(w) with c = cos(w), and its slopes in a and in c."""
    near = (1 - c) < 1e-4
    c_far = torch.where(near, torch.zeros_like(c), c)
    w = torch.acos(c_far)
    s = torch.sin(w)
    far = torch.sin(a * w) / s
    far_a = w * torch.cos(a * w) / s
    far_c = (torch.sin(a * w) * c_far - a * torch.cos(a * w) * s) / s**3
    lift = (1 - c) / 3
    value = torch.where(near, a * (1 + lift * (1 - a * a)), far)
    slope_a = torch.where(near, 1 + lift * (1 - 3 * a * a), far_a)
    slope_c = torch.where(near, -a * (1 - a * a) / 3, far_c)
    return value, slope_a, slope_c


class SlerpFunction(Function):
    """Spherical interpolation between unit vectors that are not antipodal.

    :param p: start, ``(..., d)``
    :param q: end, ``(..., d)``
    :param t: position, broadcastable to ``(..., 1)``
    """

    @staticmethod
    def forward(p, q, t):
        c = (p * q).sum(-1, keepdim=True)
        return _arc_weight(1 - t, c)[0] * p + _arc_weight(t, c)[0] * q

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        p, q, t = ctx.saved_tensors
        c = (p * q).sum(-1, keepdim=True)
        wp, wp_a, wp_c = _arc_weight(1 - t, c)
        wq, wq_a, wq_c = _arc_weight(t, c)
        gp = (grad * p).sum(-1, keepdim=True)
        gq = (grad * q).sum(-1, keepdim=True)
        g_c = gp * wp_c + gq * wq_c
        grad_p = (wp * grad + g_c * q).sum_to_size(p.shape)
        grad_q = (wq * grad + g_c * p).sum_to_size(q.shape)
        grad_t = (gq * wq_a - gp * wp_a).sum_to_size(t.shape)
        return grad_p, grad_q, grad_t


class PrincipalAxisFunction(Function):
    """Largest eigenvalue of the symmetric part of a matrix, and its unit eigenvector.

    The eigenvector's largest entry by magnitude is positive. Any square matrix is
    accepted, ``(..., n, n)``; its antisymmetric part has no influence.
    """

    @staticmethod
    def forward(ctx, matrix: Tensor):
        values, vectors = torch.linalg.eigh(0.5 * (matrix + matrix.mT))
        top = vectors[..., -1]
        pivot = top.abs().argmax(-1, keepdim=True)
        top = top * top.gather(-1, pivot).sign()
        ctx.save_for_backward(values, vectors, top)
        return values[..., -1].clone(), top.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g_value, g_axis):
        values, vectors, top = ctx.saved_tensors
        rest = vectors[..., :-1]
        gap = values[..., -1:] - values[..., :-1]
        coords = (rest.mT @ g_axis.unsqueeze(-1)).squeeze(-1) / gap
        turn = (rest @ coords.unsqueeze(-1)).squeeze(-1)
        along = g_value[..., None] * top + turn
        return along.unsqueeze(-1) * top.unsqueeze(-2)


class EquilibriumTanhFunction(Function):
    """State ``z = tanh(weight @ z + x + bias)`` of a recurrent layer at rest.

    Args:
        x (Tensor): drive, ``(batch, n)``.
        weight (Tensor): ``(n, n)``, with a spectral norm below one.
        bias (Tensor or None): ``(n,)``.
        tol (float): largest change at which to stop.
        max_iter (int): most iterations to take.
    """

    @staticmethod
    def forward(ctx, x, weight, bias=None, tol=1e-13, max_iter=1000):
        drive = x if bias is None else x + bias
        z = torch.tanh(drive)
        for _ in range(max_iter):
            new = torch.tanh(z @ weight.mT + drive)
            change = (new - z).abs().max()
            z = new
            if change <= tol:
                break
        ctx.save_for_backward(z, weight)
        ctx.has_bias = bias is not None
        return z

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        z, weight = ctx.saved_tensors
        slope = 1 - z * z
        eye = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
        system = eye - weight * slope.unsqueeze(-2)
        costate = torch.linalg.solve(system, grad.unsqueeze(-1)).squeeze(-1)
        g_drive = slope * costate
        g_bias = g_drive.sum(0) if ctx.has_bias else None
        return g_drive, g_drive.mT @ z, g_bias, None, None


class SegmentDistanceFunction(Function):
    """Distance of points to segments; zero gradient for a point that lies on its segment."""

    @classmethod
    def forward(cls, ctx, point, start, end):
        _, offset = cls._nearest(point, start, end)
        ctx.save_for_backward(point, start, end)
        return torch.linalg.vector_norm(offset, dim=-1)

    @staticmethod
    def _nearest(point, start, end):
        axis = end - start
        denom = axis.square().sum(-1, keepdim=True)
        denom = torch.where(denom > 0, denom, torch.ones_like(denom))
        t = (((point - start) * axis).sum(-1, keepdim=True) / denom).clamp(0.0, 1.0)
        return t, point - (start + t * axis)

    @classmethod
    @once_differentiable
    def backward(cls, ctx, grad):
        point, start, end = ctx.saved_tensors
        t, offset = SegmentDistanceFunction._nearest(point, start, end)
        length = torch.linalg.vector_norm(offset, dim=-1, keepdim=True)
        safe = torch.where(length > 0, length, torch.ones_like(length))
        g = grad.unsqueeze(-1) * offset / safe
        return (
            g.sum_to_size(point.shape),
            (-(1 - t) * g).sum_to_size(start.shape),
            (-t * g).sum_to_size(end.shape),
        )


class FisheyeProjectFunction(Function):

    @staticmethod
    def forward(ctx, points, focal, center, dist):
        ray, _, _, _, ratio = _fisheye(points, dist)
        ctx.save_for_backward(points, focal, dist)
        return focal * ray * ratio + center

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        points, focal, dist = ctx.saved_tensors
        ray, r, z, theta, ratio = _fisheye(points, dist)
        k1, k2, k3, k4 = dist
        sq = theta.square()
        bend = 1 + sq * (3 * k1 + sq * (4 * k2 + sq * (7 * k3 + sq * 9 * k4)))

        on_axis = r < 1e-9
        r_safe = torch.where(on_axis, torch.ones_like(r), r)
        depth2 = r.square() + z.square()
        ratio_r = torch.where(on_axis, torch.zeros_like(r), (bend * z / depth2 - ratio) / r_safe)
        ratio_z = torch.where(on_axis, -1 / z.square(), -bend * r / (depth2 * r_safe))

        g_scaled = grad * focal
        g_ratio = (g_scaled * ray).sum(-1, keepdim=True)
        g_ray = g_scaled * ratio + g_ratio * ratio_r * ray / r_safe
        g_points = torch.cat([g_ray, g_ratio * ratio_z], dim=-1)

        powers = torch.cat([theta**3, theta**5, theta**7, theta**9], dim=-1) / r_safe
        g_dist = (g_ratio * powers).reshape(-1, 4).sum(0)
        g_focal = (grad * ray * ratio).reshape(-1, 2).sum(0)
        g_center = grad.reshape(-1, 2).sum(0)
        return g_points, g_focal, g_center, g_dist


def _fisheye(points, dist):
    ray, z = points[..., :2], points[..., 2:]
    r = torch.linalg.vector_norm(ray, dim=-1, keepdim=True)
    theta = torch.atan2(r, z)
    k1, k2, k3, k4 = dist
    sq = theta.square()
    bent = theta * (1 + sq * (k1 + sq * (k2 + sq * (k3 + sq * k4))))
    on_axis = r < 1e-9
    ratio = torch.where(on_axis, 1 / z, bent / torch.where(on_axis, torch.ones_like(r), r))
    return ray, r, z, theta, ratio


class FisheyeCamera(NamedTuple):
    """Equidistant fisheye camera with an odd polynomial of the angle (four terms)."""

    focal: Tensor
    center: Tensor
    dist: Optional[Tensor] = None

    def project(self, points: Tensor) -> Tensor:
        """Pixels ``(..., 2)`` of points ``(..., 3)`` in front of the camera."""
        dist = self.dist if self.dist is not None else points.new_zeros(4)
        return FisheyeProjectFunction.apply(points, self.focal, self.center, dist)
