"""Tokenizer-free front end: hashed byte n-grams, learned chunk boundaries, and the smoother that undoes the chunking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

PRIME = 1_000_003


@dataclass(frozen=True)
class ByteFrontConfig:
    dim: int = 64
    orders: Sequence[int] = (2, 3, 4)
    buckets: int = 4096
    threshold: float = 0.5


class Chunks(NamedTuple):
    prob: Tensor
    is_start: Tensor


def rolling_hash(ids: Tensor, order: int, buckets: int) -> Tensor:
    """Bucket of the n-gram that ends at each position; positions before the first full n-gram get -1."""
    h = torch.zeros_like(ids)
    for j in range(order):
        shifted = torch.roll(ids, j, dims=1)
        h = (h * PRIME + shifted + 1) % buckets
    h[:, : order - 1] = -1
    return h


class HashedNgramSum(Function):
    """Gated mean of hashed n-gram embeddings.

    Args:
        table: ``[n_orders, buckets, dim]``.
        gate: ``[n_orders]``.
        slots: int64 ``[n_orders, batch, time]`` bucket ids, -1 where there is no n-gram of that order. The same bucket
            may occur any number of times.

    Returns:
        ``[batch, time, dim]``: the sum of ``gate[n] * table[n, slot]`` over the orders present at a position, divided
        by how many are present (a position without any is zero).
    """

    @staticmethod
    def forward(ctx, table, gate, slots):
        present = slots >= 0
        count = present.sum(0).clamp(min=1).to(table.dtype)
        out = table.new_zeros(*slots.shape[1:], table.shape[-1])
        for n in range(table.shape[0]):
            rows = table[n, slots[n].clamp(min=0)]
            out += gate[n] * rows * present[n].unsqueeze(-1)
        ctx.save_for_backward(table, gate, slots)
        return out / count.unsqueeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        table, gate, slots = ctx.saved_tensors
        present = slots >= 0
        count = present.sum(0).clamp(min=1).to(table.dtype)
        g = grad_out / count.unsqueeze(-1)
        d_table = torch.zeros_like(table) if ctx.needs_input_grad[0] else None
        d_gate = torch.zeros_like(gate) if ctx.needs_input_grad[1] else None
        for n in range(table.shape[0]):
            keep = present[n]
            idx, gk = slots[n][keep], g[keep]
            if d_table is not None:
                d_table[n].index_add_(0, idx, gate[n] * gk)
            if d_gate is not None:
                d_gate[n] = (table[n, idx] * gk).sum()
        return d_table, d_gate, None


class BoundaryCosine(Function):
    """Probability that a position opens a chunk: ``(1 - cos(q_t, k_{t-1})) / 2``; the first position always does."""

    @staticmethod
    def forward(q, k, threshold=0.5, eps=1e-6):
        a, b = q[:, 1:], k[:, :-1]
        na = torch.rsqrt(a.square().sum(-1) + eps * eps)
        nb = torch.rsqrt(b.square().sum(-1) + eps * eps)
        cos = (a * b).sum(-1) * na * nb
        prob = torch.cat([torch.ones_like(q[:, :1, 0]), 0.5 - 0.5 * cos], dim=1)
        return prob, prob >= threshold

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, _, eps = inputs
        ctx.eps = eps
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(q, k)

    @staticmethod
    def backward(ctx, g_prob, _g_start):
        q, k = ctx.saved_tensors
        a, b = q[:, 1:], k[:, :-1]
        na = torch.rsqrt(a.square().sum(-1, keepdim=True) + ctx.eps**2)
        nb = torch.rsqrt(b.square().sum(-1, keepdim=True) + ctx.eps**2)
        ua, ub = a * na, b * nb
        cos = (ua * ub).sum(-1, keepdim=True)
        g = -0.5 * g_prob[:, 1:].unsqueeze(-1)
        da = g * na * (ub - cos * ua)
        db = g * nb * (ua - cos * ub)
        edge = torch.zeros_like(q[:, :1])
        return torch.cat([edge, da], 1), torch.cat([db, edge], 1), None, None


class DechunkSmoother(Function):
    """z_t = p_t x_t + (1 - p_t) z_{t-1}; where ``mask`` is False the state is carried over unchanged.

    x ``[batch, time, dim]``, p ``[batch, time]``, state ``[batch, dim]``, mask bool ``[batch, time]`` or None.
    """

    @staticmethod
    def forward(ctx, x, p, state, mask=None):
        p_eff = p if mask is None else p * mask
        z, steps = state, []
        for t in range(x.shape[1]):
            w = p_eff[:, t, None]
            z = w * x[:, t] + (1 - w) * z
            steps.append(z)
        out = torch.stack(steps, dim=1)
        ctx.save_for_backward(x, p, state, out)
        ctx.mask = mask
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, p, state, out = ctx.saved_tensors
        dx, dp = torch.empty_like(x), torch.empty_like(p)
        lam = torch.zeros_like(state)
        for t in range(x.shape[1] - 1, -1, -1):
            prev = out[:, t - 1] if t > 0 else state
            lam = lam + grad_out[:, t]
            w = p[:, t, None]
            dx[:, t] = w * lam
            dp[:, t] = ((x[:, t] - prev) * lam).sum(-1)
            lam = (1 - w) * lam
        if ctx.mask is not None:
            dx = dx * ctx.mask.unsqueeze(-1)
            dp = dp * ctx.mask
        return dx, dp, lam, None


class ByteFront(nn.Module):
    def __init__(self, cfg: ByteFrontConfig):
        super().__init__()
        self.cfg = cfg
        self.table = nn.Parameter(torch.zeros(len(cfg.orders), cfg.buckets, cfg.dim))
        self.gate = nn.Parameter(torch.ones(len(cfg.orders)))
        self.q = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.k = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def embed(self, ids: Tensor) -> Tensor:
        slots = torch.stack([rolling_hash(ids, n, self.cfg.buckets) for n in self.cfg.orders])
        return HashedNgramSum.apply(self.table, self.gate, slots)

    def chunk(self, h: Tensor) -> Chunks:
        return Chunks(*BoundaryCosine.apply(self.q(h), self.k(h), self.cfg.threshold, 1e-6))

    @staticmethod
    def dechunk(
        x: Tensor, chunks: Chunks, mask: Optional[Tensor] = None, state: Optional[Tensor] = None
    ) -> Tensor:
        if state is None:
            state = x.new_zeros(x.shape[0], x.shape[-1])
        return DechunkSmoother.apply(x, chunks.prob, state, mask)
