"""Small geometric kernels used in registration and meshing."""
from __future__ import annotations

import math

import numpy as np
import torch
from torch.autograd.function import once_differentiable


def _rz(a):
    c, s, o, i = a.cos(), a.sin(), torch.zeros_like(a), torch.ones_like(a)
    return torch.stack([c, -s, o, s, c, o, o, o, i], -1).unflatten(-1, (3, 3))


def _ry(a):
    c, s, o, i = a.cos(), a.sin(), torch.zeros_like(a), torch.ones_like(a)
    return torch.stack([c, o, s, o, i, o, -s, o, c], -1).unflatten(-1, (3, 3))


def _rx(a):
    c, s, o, i = a.cos(), a.sin(), torch.zeros_like(a), torch.ones_like(a)
    return torch.stack([i, o, o, o, c, -s, o, s, c], -1).unflatten(-1, (3, 3))


def _hat(axis: int, like: torch.Tensor) -> torch.Tensor:
    k = np.zeros((3, 3))
    j, l = (axis + 1) % 3, (axis + 2) % 3
    k[l, j], k[j, l] = 1.0, -1.0
    return torch.as_tensor(k, dtype=like.dtype, device=like.device)


class YawPitchRollMatrix(torch.autograd.Function):
    """Rz(yaw) Ry(pitch) Rx(roll) from angles (..., 3), in radians or, with degrees=True, in degrees."""

    @staticmethod
    def forward(angles: torch.Tensor, degrees: bool = False) -> torch.Tensor:
        a = torch.deg2rad(angles) if degrees else angles
        yaw, pitch, roll = a.unbind(-1)
        return _rz(yaw) @ _ry(pitch) @ _rx(roll)

    @staticmethod
    def setup_context(ctx, inputs, output):
        angles, degrees = inputs
        ctx.save_for_backward(torch.deg2rad(angles) if degrees else angles, output)

    @staticmethod
    def backward(ctx, grad):
        a, rot = ctx.saved_tensors
        yaw, pitch, _ = a.unbind(-1)
        # dR/dyaw = [z]x R,  dR/dpitch = Rz [y]x Rz^T R,  dR/droll = R [x]x
        rz = _rz(yaw)
        d_yaw = _hat(2, a) @ rot
        d_pitch = rz @ _hat(1, a) @ rz.mT @ rot
        d_roll = rot @ _hat(0, a)
        g = torch.stack([(grad * d).sum((-2, -1)) for d in (d_yaw, d_pitch, d_roll)], -1)
        return g, None


class TetVolumes(torch.autograd.Function):
    """Signed volumes (M,) of tetrahedra (M, 4) over shared vertices (V, 3)."""

    @staticmethod
    def forward(ctx, vertices, tets):
        a, b, c, d = vertices[tets].unbind(1)
        ctx.save_for_backward(vertices, tets)
        return (torch.linalg.cross(b - a, c - a) * (d - a)).sum(-1) / 6.0

    @staticmethod
    def backward(ctx, g):
        vertices, tets = ctx.saved_tensors
        a, b, c, d = vertices[tets].unbind(1)
        u, v, w = b - a, c - a, d - a
        gb = torch.linalg.cross(v, w)
        gc = torch.linalg.cross(w, u)
        gd = torch.linalg.cross(u, v)
        corners = torch.stack([-(gb + gc + gd), gb, gc, gd], 1) * (g / 6.0)[:, None, None]
        out = torch.zeros_like(vertices)
        out.index_put_((tets,), corners, accumulate=True)
        return out, None


class PlaneFitError(torch.autograd.Function):
    """Weighted mean squared distance of point sets from their best-fitting plane.

    The value is the smallest eigenvalue of the weighted covariance

    ``C = sum_i w_i (x_i - m)(x_i - m)^T / W``,  ``m = sum_i w_i x_i / W``,  ``W = sum_i w_i``,

    in other words the minimum over all planes of the weighted mean squared
    orthogonal distance.

    Parameters
    ----------
    points : torch.Tensor
        ``(..., N, 3)`` neighbourhoods.
    weights : torch.Tensor
        ``(..., N)`` non-negative weights with a positive sum; zero for padding.
        They need not be normalised.

    Returns
    -------
    torch.Tensor
        ``(...,)`` plane-fit errors.

    Notes
    -----
    The smallest eigenvalue has to be simple (points that are not e.g. on a
    line).  By the envelope theorem neither the motion of the normal nor that
    of the centroid adds to the gradient.
    """

    @staticmethod
    def forward(ctx, points, weights):
        total = weights.sum(-1, keepdim=True)
        p = (weights / total).unsqueeze(-1)
        centred = points - (p * points).sum(-2, keepdim=True)
        cov = (p * centred).mT @ centred
        evals, evecs = torch.linalg.eigh(cov)
        normal = evecs[..., 0]
        err = evals[..., 0]
        ctx.save_for_backward(centred, p, total, normal, err)
        return err.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        centred, p, total, normal, err = ctx.saved_tensors
        dist = (centred * normal.unsqueeze(-2)).sum(-1)
        g = g.unsqueeze(-1)
        g_points = (2.0 * g * dist).unsqueeze(-1) * p * normal.unsqueeze(-2)
        g_weights = g * (dist.square() - err.unsqueeze(-1)) / total
        return g_points, g_weights


def register_step(angles, source, target, lr: float = 0.1, degrees: bool = False):
    """One gradient step on the attitude that turns `source` (N, 3) into `target`."""
    angles = angles.detach().requires_grad_(True)
    rot = YawPitchRollMatrix.apply(angles, degrees)
    loss = (source @ rot.mT - target).square().sum(-1).mean()
    (g,) = torch.autograd.grad(loss, angles)
    return (angles - lr * g).detach(), loss.item()


def mesh_quality(vertices: torch.Tensor, tets: torch.Tensor, floor: float = 1e-4) -> torch.Tensor:
    vol = TetVolumes.apply(vertices, tets)
    return torch.relu(floor - vol).sum()
