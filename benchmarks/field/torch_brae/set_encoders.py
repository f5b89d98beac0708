"""Pooling and slot-writing blocks of the set encoder."""
import math

import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class PowerMeanSet(Function):
    """Power mean over the elements of a set with one learnt exponent per channel.

        y[b, c] = ( mean_{n valid} max(x[b, n, c], eps) ** p[c] ) ** (1 / p[c])

    Shapes: ``x`` (B, N, C); ``p`` (C,), not 0; ``mask`` (B, N) bool, True for real elements, or None.
    The powers are taken in the log domain, so large ``|p|`` neither over- nor underflows. A set without a valid
    element gives zeros (and sends no gradient). Entries below ``eps`` are held at ``eps`` and get no gradient.
    """

    @staticmethod
    def forward(ctx, x, p, mask=None, eps=1e-6):
        logs = x.clamp_min(eps).log()
        scaled = logs * p
        if mask is None:
            count = x.new_full((x.shape[0], 1), float(x.shape[1]))
        else:
            scaled = scaled.masked_fill(~mask.unsqueeze(-1), -math.inf)
            count = mask.sum(1, keepdim=True).to(x.dtype)
        filled = count > 0
        lse = torch.logsumexp(scaled, 1)
        log_y = torch.where(filled, (lse - count.clamp_min(1).log()) / p, torch.zeros_like(lse))
        y = torch.where(filled, log_y.exp(), torch.zeros_like(log_y))
        weights = torch.where(filled.unsqueeze(1), (scaled - lse.unsqueeze(1)).exp(), torch.zeros_like(scaled))
        ctx.save_for_backward(x, p, logs, log_y, y, weights)
        ctx.eps = eps
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, p, logs, log_y, y, weights = ctx.saved_tensors
        gy = g * y
        live = x > ctx.eps
        d_x = torch.where(live, gy.unsqueeze(1) * weights / x.clamp_min(ctx.eps), torch.zeros_like(x))
        d_p = (gy * ((weights * logs).sum(1) - log_y) / p).sum(0)
        return d_x, d_p, None, None


class EraseAddWrite(Function):
    """Erase-then-add write of all heads into the slots: memory (B, S, D), weights (B, H, S), erase and add (B, H, D)."""

    @staticmethod
    def forward(memory, weights, erase, add):
        keep = 1.0 - weights.unsqueeze(-1) * erase.unsqueeze(2)
        written = torch.einsum("bhs,bhd->bsd", weights, add)
        return memory * keep.prod(1) + written

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        memory, weights, erase, add = ctx.saved_tensors
        keep = 1.0 - weights.unsqueeze(-1) * erase.unsqueeze(2)
        d_memory = g * keep.prod(1)
        erased = g * memory
        d_erase = -torch.einsum("bsd,bhs->bhd", erased, weights)
        d_weights = -torch.einsum("bsd,bhd->bhs", erased, erase) + torch.einsum("bsd,bhd->bhs", g, add)
        d_add = torch.einsum("bsd,bhs->bhd", g, weights)
        return d_memory, d_weights, d_erase, d_add


class MaskedCovariancePool(Function):
    @staticmethod
    def forward(ctx, x, mask, shrink=0.0, unbiased=False, flat=True):
        dim = x.shape[-1]
        m = mask.bool().to(x.dtype).unsqueeze(-1)
        count = m.sum(1, keepdim=True)
        centred = (x - (x * m).sum(1, keepdim=True) / count.clamp_min(1)) * m
        denom = (count - 1 if unbiased else count).clamp_min(1)
        cov = centred.mT @ centred / denom
        if shrink:
            level = cov.diagonal(dim1=-2, dim2=-1).mean(-1)
            cov = (1 - shrink) * cov + shrink * torch.diag_embed(level.unsqueeze(-1).expand(-1, dim))
        ctx.save_for_backward(centred, denom)
        ctx.shrink, ctx.flat = shrink, flat
        if not flat:
            return cov
        i, j = torch.triu_indices(dim, dim, device=x.device)
        return cov[:, i, j] * torch.where(i == j, 1.0, math.sqrt(2.0)).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        centred, denom = ctx.saved_tensors
        dim = centred.shape[-1]
        if ctx.flat:
            i, j = torch.triu_indices(dim, dim, device=g.device)
            g_cov = g.new_zeros(g.shape[0], dim, dim)
            g_cov[:, i, j] = g * torch.where(i == j, 1.0, math.sqrt(2.0)).to(g.dtype)
        else:
            g_cov = g
        if ctx.shrink:
            level = g_cov.diagonal(dim1=-2, dim2=-1).mean(-1)
            g_cov = (1 - ctx.shrink) * g_cov + ctx.shrink * torch.diag_embed(level.unsqueeze(-1).expand(-1, dim))
        # the deviations sum to zero over the set, so the path through the mean drops out
        d_x = centred @ (g_cov + g_cov.mT) / denom
        return d_x, None, None, None, None


class SlotWriter(nn.Module):
    def __init__(self, width, slots, heads=1):
        super().__init__()
        self.heads = heads
        self.address = nn.Linear(width, heads * slots)
        self.erase = nn.Linear(width, heads * width)
        self.add = nn.Linear(width, heads * width)

    def forward(self, memory, token):
        shape = (token.shape[0], self.heads, -1)
        w = self.address(token).view(shape).softmax(-1)
        return EraseAddWrite.apply(memory, w, self.erase(token).view(shape).sigmoid(), self.add(token).view(shape))


class SetHead(nn.Module):
    def __init__(self, width, classes, shrink=0.1):
        super().__init__()
        self.p = nn.Parameter(torch.full((width,), 3.0))
        self.shrink = shrink
        self.out = nn.Linear(width + width * (width + 1) // 2, classes)

    def forward(self, x, mask):
        first = PowerMeanSet.apply(x.exp(), self.p, mask)
        second = MaskedCovariancePool.apply(x, mask, self.shrink, True)
        return self.out(torch.cat([first, second], -1))
