"""Rotation-equivariant building blocks for point and molecular graphs. Vector axis last."""
import math
from typing import Optional

import torch
from torch import nn
from torch.autograd import Function


class VectorNeuronLeakyReLU(Function):
    # x, k: (..., C, 3); k may be shared over channels, (..., 1, 3)
    @staticmethod
    def forward(ctx, x, k, slope=0.2, eps=1e-6):
        ctx.save_for_backward(x, k)
        ctx.slope, ctx.eps = slope, eps
        dot = (x * k).sum(-1, keepdim=True)
        sq = (k * k).sum(-1, keepdim=True) + eps
        return x - (1.0 - slope) * dot.clamp(max=0.0) / sq * k

    @staticmethod
    def backward(ctx, g):
        x, k = ctx.saved_tensors
        dot = (x * k).sum(-1, keepdim=True)
        sq = (k * k).sum(-1, keepdim=True) + ctx.eps
        c = (1.0 - ctx.slope) * (dot < 0).to(g.dtype) / sq
        gk_dot = (g * k).sum(-1, keepdim=True)
        gx = g - c * gk_dot * k
        gk = -c * (gk_dot * x + dot * g - 2.0 * dot * gk_dot / sq * k)
        return gx.sum_to_size(x.shape), gk.sum_to_size(k.shape), None, None


class EquivariantRMSNorm(Function):
    """RMS normalisation of one irrep block over its channels.

    Args:
        x: (N, C, 2l+1) features of degree l.
        weight: (C,) per-channel scale.
        eps: added under the root.
        normalization: "norm" takes the mean over channels of the squared vector norms; "component" takes the
            mean over channels *and* components, so that i.i.d. unit components give an rms of one for every l.
    """

    @staticmethod
    def forward(ctx, x, weight, eps=1e-5, normalization="norm"):
        sq = x.pow(2)
        sq = sq.sum(-1) if normalization == "norm" else sq.mean(-1)
        inv = torch.rsqrt(sq.mean(-1, keepdim=True) + eps).unsqueeze(-1)
        ctx.save_for_backward(x, weight, inv)
        return x * inv * weight[:, None]

    @staticmethod
    def backward(ctx, g):
        x, weight, inv = ctx.saved_tensors
        channels = x.shape[1]
        gw = g * weight[:, None]
        inner = (gw * x).sum((1, 2), keepdim=True) / channels
        grad_x = inv * gw - x * inv.pow(3) * inner
        grad_weight = (g * x * inv).sum((0, 2))
        return grad_x, grad_weight, None, None


def _envelope(r, length, cutoff):
    inside = (r < cutoff).to(r.dtype)
    decay = torch.exp(-r / length)
    window = 0.5 * (1.0 + torch.cos(math.pi * r / cutoff)) * inside
    d_window = -0.5 * math.pi / cutoff * torch.sin(math.pi * r / cutoff) * inside
    phi = decay * window
    d_r = decay * d_window - phi / length
    d_length = phi * r / length**2
    return phi, d_r, d_length


class DirectedEdgeMessage(Function):
    """out[i] = sum over edges j->i of phi(|r_ij|) * h_j (outer) r_ij/|r_ij|; pos (N, 3), h (N, F) -> (N, F, 3)."""

    @staticmethod
    def forward(ctx, pos, h, length, src, dst, cutoff):
        r_vec = pos[dst] - pos[src]
        r = r_vec.norm(dim=-1)
        unit = r_vec / r[:, None]
        phi, _, _ = _envelope(r, length, cutoff)
        msg = (phi[:, None] * h[src])[:, :, None] * unit[:, None, :]
        ctx.save_for_backward(h, r, unit, length, src, dst)
        ctx.cutoff = cutoff
        return msg.new_zeros(pos.shape[0], h.shape[1], 3).index_add_(0, dst, msg)

    @staticmethod
    def backward(ctx, grad_out):
        h, r, unit, length, src, dst = ctx.saved_tensors
        phi, d_r, d_length = _envelope(r, length, ctx.cutoff)
        g = grad_out[dst]
        along = torch.einsum("efd,ed->ef", g, unit)
        vec = torch.einsum("efd,ef->ed", g, h[src])
        radial = (vec * unit).sum(-1)
        g_vec = (d_r * radial)[:, None] * unit + (phi / r)[:, None] * (vec - radial[:, None] * unit)
        grad_pos = grad_out.new_zeros(h.shape[0], 3)
        grad_pos.index_add_(0, dst, g_vec).index_add_(0, src, -g_vec)
        grad_h = torch.zeros_like(h)
        grad_h[src] += phi[:, None] * along
        return grad_pos, grad_h, (d_length * radial).sum().reshape(length.shape), None, None, None


class VNBlock(nn.Module):
    def __init__(self, channels, shared=False, slope=0.2, normalization="norm"):
        super().__init__()
        self.lin = nn.Linear(channels, channels, bias=False)
        self.dir = nn.Linear(channels, 1 if shared else channels, bias=False)
        self.weight = nn.Parameter(torch.ones(channels))
        self.slope, self.normalization = slope, normalization

    def forward(self, v, edge_feats: Optional[torch.Tensor] = None):
        q = self.lin(v.transpose(-1, -2)).transpose(-1, -2)
        k = self.dir(v.transpose(-1, -2)).transpose(-1, -2)
        y = VectorNeuronLeakyReLU.apply(q, k, self.slope)
        return EquivariantRMSNorm.apply(y, self.weight, 1e-5, self.normalization)
