"""Point-cloud layers: kernel-point convolution, kernel correlation and ICP terms.

Clouds are kept flat, ``(N, 3)``; neighbourhoods are ``(M, K)`` index tables.
"""
import math
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = ["KPConv", "KernelCorrelation", "PointToPlane", "IcpWeights"]

_FAR = 1.0e6


def _gather_rows(table, index):
    """``table[index]`` where the index ``len(table)`` is a shadow row."""
    pad = table.new_zeros((1, table.shape[1]))
    return torch.cat([table, pad], 0)[index]


def fibonacci_kernel(size: int, radius: float) -> torch.Tensor:
    """Kernel points on a sphere, the first at the centre."""
    i = torch.arange(size - 1, dtype=torch.get_default_dtype()) + 0.5
    phi = torch.acos(1 - 2 * i / max(size - 1, 1))
    theta = math.pi * (1 + 5 ** 0.5) * i
    pts = torch.stack([torch.cos(theta) * torch.sin(phi),
                       torch.sin(theta) * torch.sin(phi), torch.cos(phi)], -1)
    return torch.cat([torch.zeros(1, 3), pts * radius], 0)


class KPConvFunction(Function):
    """Rigid kernel point convolution with linear influence.

    Args:
        queries: ``(M, 3)`` centres.
        support: ``(N, 3)`` points carrying the features.
        neighbors: ``(M, K)`` integer; an entry equal to ``N`` is a shadow
            neighbour, which adds nothing.
        feats: ``(N, Cin)``.
        weight: ``(P, Cin, Cout)``, one matrix for each kernel point.
        kernel: ``(P, 3)`` positions of the kernel points, fixed.
        extent: radius of influence of a kernel point (float).

    Returns ``(M, Cout)``. The influence is ``max(0, 1 - d / extent)``; where a
    neighbour sits on a kernel point its direction is taken as zero.
    """

    @staticmethod
    def forward(ctx, queries, support, neighbors, feats, weight, kernel, extent):
        n = support.shape[0]
        rel = _gather_rows(support, neighbors) - queries[:, None]
        rel = torch.where((neighbors == n)[..., None], rel.new_full((), _FAR), rel)
        diff = rel[:, :, None] - kernel
        dist = diff.square().sum(-1).sqrt()
        infl = (1 - dist / extent).clamp_min(0)
        gathered = _gather_rows(feats, neighbors)
        pooled = torch.einsum("mkp,mkc->mpc", infl, gathered)
        out = torch.einsum("mpc,pcd->md", pooled, weight)
        ctx.save_for_backward(diff, dist, infl, neighbors, feats, weight, pooled)
        ctx.extent = extent
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        diff, dist, infl, neighbors, feats, weight, pooled = ctx.saved_tensors
        n, cin = feats.shape
        g_weight = torch.einsum("mpc,md->pcd", pooled, grad_out)
        g_pooled = torch.einsum("md,pcd->mpc", grad_out, weight)
        flat = neighbors.reshape(-1)

        g_gath = torch.einsum("mkp,mpc->mkc", infl, g_pooled)
        g_feats = grad_out.new_zeros(n + 1, cin)
        g_feats.index_add_(0, flat, g_gath.reshape(-1, cin))

        g_infl = torch.einsum("mpc,mkc->mkp", g_pooled, _gather_rows(feats, neighbors))
        g_dist = torch.where(infl > 0, -g_infl / ctx.extent, torch.zeros_like(g_infl))
        safe = torch.where(dist > 0, dist, torch.ones_like(dist))
        g_rel = (g_dist[..., None] * diff / safe[..., None]).sum(2)
        g_support = grad_out.new_zeros(n + 1, 3)
        g_support.index_add_(0, flat, g_rel.reshape(-1, 3))
        return (-g_rel.sum(1), g_support[:n], None, g_feats[:n], g_weight, None, None)


class KernelCorrelationFunction(Function):
    """Correlation of local shapes with learned point sets (after KCNet).

    xyz ``(N, 3)``, index ``(N, K)`` neighbours of each point, kernels
    ``(M, L, 3)``. Gives ``(N, M)``: the Gaussian affinity between the kernel
    points and the neighbour offsets, summed over kernel points and averaged
    over neighbours.
    """

    @staticmethod
    def forward(ctx, xyz, index, kernels, sigma=0.5):
        rel = xyz[index] - xyz[:, None]
        gap = kernels[None, None] - rel[:, :, None, None]
        aff = torch.exp(-gap.square().sum(-1) / (2 * sigma ** 2))
        ctx.save_for_backward(index, gap, aff)
        ctx.sigma = sigma
        return aff.sum(-1).mean(1)

    @staticmethod
    def backward(ctx, grad):
        index, gap, aff = ctx.saved_tensors
        k = index.shape[1]
        pull = (grad[:, None, :, None] * aff)[..., None] * gap / (k * ctx.sigma ** 2)
        grad_kernels = -pull.sum((0, 1)) if ctx.needs_input_grad[2] else None
        grad_xyz = None
        if ctx.needs_input_grad[0]:
            grad_rel = pull.sum((2, 3))
            grad_xyz = -grad_rel.sum(1)
            grad_xyz[index.reshape(-1)] += grad_rel.reshape(-1, 3)
        return grad_xyz, None, grad_kernels, None


class PointToPlaneFunction(Function):
    """Weighted point-to-plane error of a rigid motion.

    ``src``, ``dst``, ``normals`` are ``(N, 3)`` and matched row by row,
    ``weights`` ``(N,)`` positive, ``rot`` ``(3, 3)``, ``trans`` ``(3,)``.
    The value is the weighted average of the squared residuals
    ``n . (R p + t - q)``; the weights need not sum to one.
    """

    @staticmethod
    def forward(ctx, src, dst, normals, weights, rot, trans):
        gap = src @ rot.T + trans - dst
        res = (normals * gap).sum(-1)
        total = weights.sum()
        ctx.save_for_backward(src, normals, weights, rot, gap, res, total)
        return (weights * res.square()).sum() / total

    @staticmethod
    def backward(ctx, grad):
        src, normals, weights, rot, gap, res, total = ctx.saved_tensors
        coef = (2 * grad * weights * res / total)[:, None]
        push = coef * normals
        g_weights = grad * res.square() / total
        return (push @ rot, -push, coef * gap, g_weights, push.T @ src, push.sum(0))


@dataclass
class IcpWeights:
    scale: float = 1.0
    floor: float = 1e-3

    def __call__(self, residual):
        return self.floor + 1 / (1 + (residual / self.scale) ** 2)


class PointToPlane(nn.Module):
    def __init__(self, weighting: Optional[IcpWeights] = None):
        super().__init__()
        self.weighting = weighting or IcpWeights()

    def forward(self, src, dst, normals, rot, trans):
        r = ((src @ rot.T + trans - dst) * normals).sum(-1)
        return PointToPlaneFunction.apply(src, dst, normals, self.weighting(r), rot, trans)


class KernelCorrelation(nn.Module):
    def __init__(self, n_kernels=16, points=8, *, sigma=0.5):
        super().__init__()
        self.kernels = nn.Parameter(torch.rand(n_kernels, points, 3) - 0.5)
        self.sigma = sigma

    def forward(self, xyz, k=8):
        index = torch.cdist(xyz, xyz).topk(k, largest=False).indices
        return KernelCorrelationFunction.apply(xyz, index, self.kernels, self.sigma)


class KPConv(nn.Module):
    def __init__(self, cin, cout, *, kernel_size=15, radius=0.6, extent=0.4):
        super().__init__()
        self.register_buffer("kernel", fibonacci_kernel(kernel_size, radius))
        self.weight = nn.Parameter(torch.randn(kernel_size, cin, cout) / math.sqrt(cin))
        self.extent = extent

    def forward(self, queries, support, neighbors, feats):
        return KPConvFunction.apply(queries, support, neighbors, feats, self.weight,
                                    self.kernel.to(feats.dtype), self.extent)
