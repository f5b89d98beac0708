"""Building blocks of a sparse voxel backbone for street scans.

A batch of scans is one long list of occupied voxels.  ``coords`` has a row
(scene, x, y, z) per voxel and ``feats`` a row of channels per voxel; scenes are
stored one behind the other and hold whatever number of voxels they hold.

The neighbourhood search is done once per resolution on the CPU (`kernel_map`)
and gives an integer table with the columns tap, source row, destination row.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

MISSING = -1


def kernel_map(coords_in: torch.Tensor, coords_out: torch.Tensor, radius: int = 1) -> torch.Tensor:
    """All (tap, source, destination) triples of a cubic kernel, as an (P, 3) int64 table."""
    where = {tuple(c): i for i, c in enumerate(coords_in.tolist())}
    offsets = list(itertools.product(range(-radius, radius + 1), repeat=3))
    rows = []
    for tap, (dx, dy, dz) in enumerate(offsets):
        for dst, (s, x, y, z) in enumerate(coords_out.tolist()):
            src = where.get((s, x + dx, y + dy, z + dz))
            if src is not None:
                rows.append((tap, src, dst))
    return torch.tensor(rows, dtype=torch.long).reshape(-1, 3)


def _ends(table: torch.Tensor, tap: int, transposed: bool):
    part = table[table[:, 0] == tap]
    return (part[:, 2], part[:, 1]) if transposed else (part[:, 1], part[:, 2])


class KernelMapConv(Function):
    """Sparse convolution through a kernel map.

    feats (N_in, C_in), weight (taps, C_in, C_out), bias (C_out,) or None.  With
    ``transposed`` the same table is walked from destination to source, as the decoder
    does with the table of the matching encoder stage.
    """

    @staticmethod
    def forward(ctx, feats, weight, bias, table, n_out, transposed=False):
        out = feats.new_zeros(n_out, weight.shape[2])
        for tap in range(weight.shape[0]):
            src, dst = _ends(table, tap, transposed)
            if src.numel():
                out = out.index_add(0, dst, feats[src] @ weight[tap])
        if bias is not None:
            out = out + bias
        ctx.save_for_backward(feats, weight, table)
        ctx.transposed = transposed
        ctx.has_bias = bias is not None
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        feats, weight, table = ctx.saved_tensors
        need_feats, need_weight, need_bias = ctx.needs_input_grad[:3]
        g_feats = torch.zeros_like(feats) if need_feats else None
        g_weight = torch.zeros_like(weight) if need_weight else None
        for tap in range(weight.shape[0]):
            src, dst = _ends(table, tap, ctx.transposed)
            if not src.numel():
                continue
            rows = grad[dst]
            if need_feats:
                g_feats.index_add_(0, src, rows @ weight[tap].t())
            if need_weight:
                g_weight[tap] = feats[src].t() @ rows
        g_bias = grad.sum(0) if ctx.has_bias and need_bias else None
        return g_feats, g_weight, g_bias, None, None, None


class SceneInstanceNorm(Function):
    """Normalises every channel over the voxels of one scene.

    Args: x (N, C), gamma (C,), beta (C,), scene (N,) int64 ids in [0, n_scenes),
    n_scenes, eps.  The variance is the biased one.
    """

    @staticmethod
    def forward(ctx, x, gamma, beta, scene, n_scenes, eps=1e-5):
        count = torch.bincount(scene, minlength=n_scenes).clamp(min=1).to(x.dtype)[:, None]
        zeros = x.new_zeros(n_scenes, x.shape[1])
        mean = zeros.index_add(0, scene, x) / count
        centred = x - mean[scene]
        var = zeros.index_add(0, scene, centred * centred) / count
        inv = (var + eps).rsqrt()
        xhat = centred * inv[scene]
        ctx.save_for_backward(xhat, inv, gamma, scene)
        return xhat * gamma + beta

    @staticmethod
    def backward(ctx, grad):
        xhat, inv, gamma, scene = ctx.saved_tensors
        n_scenes, channels = inv.shape
        voxels = xhat.shape[0] / n_scenes

        def scene_mean(t):
            return t.new_zeros(n_scenes, channels).index_add(0, scene, t) / voxels

        gx = grad * gamma
        gx = gx - scene_mean(gx)[scene] - xhat * scene_mean(gx * xhat)[scene]
        return gx * inv[scene], (grad * xhat).sum(0), grad.sum(0), None, None, None


class CornerInterpolate(Function):
    """Voxel features at free points, from up to eight corner voxels each.

    corners (P, 8) holds rows of ``feats`` or MISSING where the corner is not occupied;
    weights (P, 8) are the trilinear weights.  The weights that remain are rescaled to
    sum one; a point without any corner gets zeros.
    """

    FLOOR = 1e-6

    @staticmethod
    def forward(ctx, feats, weights, corners):
        there = corners != MISSING
        rows = corners.clamp(min=0)
        w = weights * there
        total = w.sum(1, keepdim=True)
        out = (w[:, :, None] * feats[rows]).sum(1) / total.clamp(min=CornerInterpolate.FLOOR)
        ctx.save_for_backward(feats, w, total, out, rows, there)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        feats, w, total, out, rows, there = ctx.saved_tensors
        scale = total.clamp(min=CornerInterpolate.FLOOR)
        spread = (w / scale)[:, :, None] * grad[:, None, :]
        g_feats = torch.zeros_like(feats).index_add_(0, rows.reshape(-1), spread.reshape(-1, feats.shape[1]))
        along = torch.einsum("pc,pkc->pk", grad, feats[rows])
        pull = (grad * out).sum(1, keepdim=True) * (total >= CornerInterpolate.FLOOR)
        return g_feats, (along - pull) / scale * there, None


class SparseBlock(nn.Module):
    """conv - norm - relu on a fixed set of voxels."""

    def __init__(self, c_in: int, c_out: int, radius: int = 1):
        super().__init__()
        taps = (2 * radius + 1) ** 3
        self.weight = nn.Parameter(torch.randn(taps, c_in, c_out) * (taps * c_in) ** -0.5)
        self.gamma = nn.Parameter(torch.ones(c_out))
        self.beta = nn.Parameter(torch.zeros(c_out))

    def forward(self, feats, coords, table):
        y = KernelMapConv.apply(feats, self.weight, None, table, coords.shape[0])
        scene = coords[:, 0]
        y = SceneInstanceNorm.apply(y, self.gamma, self.beta, scene, int(scene.max()) + 1)
        return torch.relu(y)
