"""Scan-to-map registration terms: NDT score, landmark observation model, heading residual."""

import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

TWO_PI = 2.0 * math.pi


class VoxelMap(NamedTuple):
    means: Tensor  # (V, D)
    precision: Tensor  # (V, D, D)


def wrap_to_pi(a: Tensor) -> Tensor:
    return torch.remainder(a + math.pi, TWO_PI) - math.pi


class NdtScore(Function):
    """Normal-distributions-transform score of a scan.

    points     (P, D)      scan points in the map frame
    means      (V, D)      voxel means
    precision  (V, D, D)   inverse covariances, need not be symmetric to rounding
    voxel_ids  (P,)        voxel of each point, -1 for a point outside the map
    d1, d2     floats      mixture constants of Magnusson (2009)

    Returns (P,) with ``-d1 * exp(-d2/2 q^T A q)``; points outside the map score 0.
    """

    @staticmethod
    def forward(ctx, points, means, precision, voxel_ids, d1=1.0, d2=0.5):
        inside = voxel_ids >= 0
        ids = voxel_ids.clamp(min=0)
        q = points - means[ids]
        A = precision[ids]
        maha = torch.einsum("pi,pij,pj->p", q, A, q)
        score = torch.where(inside, -d1 * torch.exp(-0.5 * d2 * maha), torch.zeros_like(maha))
        ctx.save_for_backward(q, A, score, ids)
        ctx.shapes = means.shape, precision.shape
        ctx.d2 = d2
        return score

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_score):
        q, A, score, ids = ctx.saved_tensors
        mean_shape, prec_shape = ctx.shapes
        # score is zero outside the map, hence so is every term below
        coef = -0.5 * ctx.d2 * score * grad_score
        sym = A + A.transpose(-1, -2)
        grad_points = coef[:, None] * torch.einsum("pij,pj->pi", sym, q)

        grad_means = q.new_zeros(mean_shape)
        grad_means[ids] -= grad_points

        grad_prec = q.new_zeros(prec_shape)
        outer = coef[:, None, None] * q[:, :, None] * q[:, None, :]
        grad_prec.index_add_(0, ids, outer)
        return grad_points, grad_means, grad_prec, None, None, None


class RangeBearingPredict(Function):
    """Range and bearing of landmarks `obs_ids` (B, K) seen from `pose` (B, 3) or (3,); id -1 is no observation."""

    @staticmethod
    def forward(pose, landmarks, obs_ids):
        seen = obs_ids >= 0
        delta = landmarks[obs_ids.clamp(min=0)] - pose[..., None, :2]
        rng = torch.linalg.vector_norm(delta, dim=-1)
        bearing = wrap_to_pi(torch.atan2(delta[..., 1], delta[..., 0]) - pose[..., None, 2])
        z = torch.stack((rng, bearing), dim=-1)
        return torch.where(seen[..., None], z, torch.zeros_like(z))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_z):
        pose, landmarks, obs_ids = ctx.saved_tensors
        seen = obs_ids >= 0
        ids = obs_ids.clamp(min=0)
        delta = landmarks[ids] - pose[..., None, :2]
        sq = delta.square().sum(-1)
        sq = torch.where(seen, sq, torch.ones_like(sq))
        g_r = torch.where(seen, grad_z[..., 0], torch.zeros_like(sq)) * sq.rsqrt()
        g_b = torch.where(seen, grad_z[..., 1], torch.zeros_like(sq))
        dx, dy = delta.unbind(-1)
        g_delta = torch.stack((g_r * dx - g_b * dy / sq, g_r * dy + g_b * dx / sq), dim=-1)

        grad_pose = torch.cat((-g_delta.sum(-2), -g_b.sum(-1, keepdim=True)), dim=-1)
        grad_landmarks = torch.zeros_like(landmarks).index_add(
            0, ids.expand(g_delta.shape[:-1]).reshape(-1), g_delta.reshape(-1, 2)
        )
        return grad_pose.sum_to_size(pose.shape), grad_landmarks, None


class WrappedYawHuber(Function):
    @staticmethod
    def forward(ctx, yaw, yaw_ref, delta, weight, reduction):
        diff = yaw - yaw_ref
        r = wrap_to_pi(diff)
        a = r.abs()
        loss = torch.where(a <= delta, 0.5 * r * r, delta * (a - 0.5 * delta))
        if weight is not None:
            loss = loss * weight
        ctx.save_for_backward(diff, weight)
        ctx.delta, ctx.reduction = delta, reduction
        ctx.in_shapes = yaw.shape, yaw_ref.shape
        if reduction == "none":
            return loss
        return loss.mean() if reduction == "mean" else loss.sum()

    @staticmethod
    def backward(ctx, g):
        diff, weight = ctx.saved_tensors
        d = diff.clamp(-ctx.delta, ctx.delta)
        if weight is not None:
            d = d * weight
        if ctx.reduction == "mean":
            g = g / d.numel()
        d = d * g
        s0, s1 = ctx.in_shapes
        return d.sum_to_size(s0), -d.sum_to_size(s1), None, None, None


def yaw_huber(yaw, yaw_ref, delta=0.2, weight: Optional[Tensor] = None, reduction="mean"):
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction)
    return WrappedYawHuber.apply(yaw, yaw_ref, delta, weight, reduction)


class ScanMatcher(nn.Module):
    """Refines a planar pose against a voxel map."""

    def __init__(self, voxels: VoxelMap, outlier_ratio: float = 0.55):
        super().__init__()
        self.means = nn.Parameter(voxels.means.clone())
        self.precision = nn.Parameter(voxels.precision.clone())
        self.d1 = 1.0 + outlier_ratio
        self.d2 = 0.5

    def forward(self, scan: Tensor, pose: Tensor, voxel_ids: Tensor) -> Tensor:
        c, s = torch.cos(pose[2]), torch.sin(pose[2])
        rot = torch.stack((torch.stack((c, -s)), torch.stack((s, c))))
        world = scan @ rot.T + pose[:2]
        return NdtScore.apply(world, self.means, self.precision, voxel_ids, self.d1, self.d2).sum()
