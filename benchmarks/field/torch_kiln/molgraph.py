"""Rotations, bonded terms and pooled readouts for molecular graphs."""
from __future__ import annotations

import torch


def hamilton(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    pw, px, py, pz = p.unbind(-1)
    qw, qx, qy, qz = q.unbind(-1)
    return torch.stack([
        pw * qw - px * qx - py * qy - pz * qz,
        pw * qx + px * qw + py * qz - pz * qy,
        pw * qy - px * qz + py * qw + pz * qx,
        pw * qz + px * qy - py * qx + pz * qw,
    ], -1)


def conjugate(q: torch.Tensor) -> torch.Tensor:
    return torch.cat([q[..., :1], -q[..., 1:]], -1)


class QuaternionProductFunction(torch.autograd.Function):
    """Hamilton product of (w, x, y, z) quaternions; leading axes broadcast."""

    @staticmethod
    def forward(ctx, p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(p, q)
        return hamilton(p, q)

    @staticmethod
    def backward(ctx, grad):
        p, q = ctx.saved_tensors
        grad_p = hamilton(grad, conjugate(q))
        grad_q = hamilton(grad, conjugate(p))
        return grad_p.sum_to_size(p.shape), grad_q.sum_to_size(q.shape)


class AngleEnergyFunction(torch.autograd.Function):
    """Harmonic bending energy ``sum_t k_t (theta_t - theta0_t)**2``.

    Args:
        positions: "atoms 3"
        triplets: "terms 3" integer; the middle column is the apex.
        k: "terms" stiffness.
        theta0: "terms" rest angles in radians.

    Returns:
        scalar energy. Straight or folded angles have no defined gradient.
    """

    @staticmethod
    def forward(ctx, positions, triplets, k, theta0):
        i, j, l = triplets.unbind(1)
        a = positions[i] - positions[j]
        b = positions[l] - positions[j]
        sin = torch.linalg.cross(a, b).norm(dim=-1)
        cos = (a * b).sum(-1)
        theta = torch.atan2(sin, cos)
        delta = theta - theta0
        ctx.save_for_backward(positions, triplets, k, delta)
        return (k * delta ** 2).sum()

    @staticmethod
    def backward(ctx, grad):
        positions, triplets, k, delta = ctx.saved_tensors
        i, j, l = triplets.unbind(1)
        a = positions[i] - positions[j]
        b = positions[l] - positions[j]
        n = torch.linalg.cross(a, b)
        n = n / n.norm(dim=-1, keepdim=True)
        da = torch.linalg.cross(a, n) / (a * a).sum(-1, keepdim=True)
        db = -torch.linalg.cross(b, n) / (b * b).sum(-1, keepdim=True)
        coef = (2 * grad * k * delta)[:, None]
        grad_pos = torch.zeros_like(positions)
        grad_pos[i] += coef * da
        grad_pos[l] += coef * db
        grad_pos[j] -= coef * (da + db)
        return grad_pos, None, grad * delta ** 2, -2 * grad * k * delta


class SegmentLogMeanExp(torch.autograd.Function):
    """Smooth maximum pooling, ``log(mean(exp(beta * x))) / beta`` in every segment.

    ``x`` is ``(items, ...)``, ``ids`` is ``(items,)`` in any order, ``beta`` a nonzero scalar tensor.
    Segments without items read ``fill``.
    """

    @staticmethod
    def forward(ctx, x, ids, beta, num_segments, fill=0.0):
        z = beta * x
        index = ids.view((-1,) + (1,) * (x.dim() - 1)).expand_as(x)
        shape = (num_segments,) + tuple(x.shape[1:])
        top = z.new_full(shape, float("-inf")).scatter_reduce(0, index, z, "amax")
        e = torch.exp(z - top[ids])
        total = z.new_zeros(shape).index_add(0, ids, e)
        count = torch.bincount(ids, minlength=num_segments).to(x.dtype)
        count = count.view((-1,) + (1,) * (x.dim() - 1))
        empty = count == 0
        safe_total = torch.where(empty, torch.ones_like(total), total)
        lme = torch.where(empty, torch.zeros_like(total), top) + torch.log(safe_total / count.clamp_min(1))
        out = torch.where(empty, torch.full_like(lme, fill), lme / beta)
        ctx.save_for_backward(x, ids, beta, e / total[ids], out)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, ids, beta, share, out = ctx.saved_tensors
        g = grad[ids]
        gx = g * share
        gbeta = None
        if ctx.needs_input_grad[2]:
            gbeta = (gx * (x - out[ids])).sum() / beta
        return gx, None, gbeta, None, None
