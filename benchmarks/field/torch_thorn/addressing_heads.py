"""Addressing mechanisms of memory-augmented networks (NTM / DNC style heads)."""

import torch
from torch import nn
from torch.autograd import Function


class ShiftAddress(Function):
    """Rotate an address: out[b, i] = sum_k kernel[b, k] * w[b, (i - offset_k) mod N], offset_k = k - K // 2."""

    @staticmethod
    def forward(ctx, w, kernel):
        half = kernel.shape[-1] // 2
        ctx.offsets = [k - half for k in range(kernel.shape[-1])]
        ctx.save_for_backward(w, kernel)
        out = torch.zeros_like(w)
        for k, shift in enumerate(ctx.offsets):
            out = out + kernel[:, k : k + 1] * torch.roll(w, shift, dims=-1)
        return out

    @staticmethod
    def backward(ctx, g):
        w, kernel = ctx.saved_tensors
        gw = torch.zeros_like(w)
        gk = []
        for k, shift in enumerate(ctx.offsets):
            gw = gw + kernel[:, k : k + 1] * torch.roll(g, shift, dims=-1)
            gk.append((g * torch.roll(w, shift, dims=-1)).sum(-1))
        return gw, torch.stack(gk, -1)


class UsageAllocation(Function):
    """Allocation weights of a DNC write head.

    usage: (..., N) in [0, 1].  Slots are ranked from least to most used (stable for ties) and the slot of rank j
    gets (1 - u_j) * prod_{i < j} u_i.  The order itself is treated as constant, which is exact away from ties.
    """

    @staticmethod
    def forward(usage):
        order = torch.argsort(usage, dim=-1, stable=True)
        u = usage.gather(-1, order)
        before = torch.cat([torch.ones_like(u[..., :1]), u.cumprod(-1)[..., :-1]], -1)
        alloc = torch.zeros_like(u).scatter(-1, order, (1 - u) * before)
        return alloc, order, before

    @staticmethod
    def setup_context(ctx, inputs, output):
        (usage,) = inputs
        _, order, before = output
        ctx.mark_non_differentiable(order, before)
        ctx.save_for_backward(usage, order, before)

    @staticmethod
    def backward(ctx, g, *_):
        usage, order, before = ctx.saved_tensors
        u, gs = usage.gather(-1, order), g.gather(-1, order)
        gu = torch.empty_like(u)
        carry = torch.zeros_like(u[..., 0])
        for j in range(u.shape[-1] - 1, -1, -1):
            gu[..., j] = before[..., j] * (carry - gs[..., j])
            carry = gs[..., j] * (1 - u[..., j]) + carry * u[..., j]
        return torch.zeros_like(gu).scatter(-1, order, gu)


class TemporalLinkRead(Function):
    # link (B, N, N), reads (B, R, N) -> forward and backward addresses, (B, R, N) each
    @staticmethod
    def forward(link, reads):
        return reads @ link.mT, reads @ link

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g_fwd, g_bwd):
        link, reads = ctx.saved_tensors
        g_reads = g_fwd @ link + g_bwd @ link.mT
        g_link = None
        if ctx.needs_input_grad[0]:
            g_link = g_fwd.mT @ reads + reads.mT @ g_bwd
        return g_link, g_reads


class WriteHead(nn.Module):
    def __init__(self, width, taps=3):
        super().__init__()
        self.to_kernel = nn.Linear(width, taps)
        self.to_gate = nn.Linear(width, 1)

    def forward(self, hidden, address, usage):
        alloc, _, _ = UsageAllocation.apply(usage)
        gate = torch.sigmoid(self.to_gate(hidden))
        mixed = gate * alloc + (1 - gate) * address
        return ShiftAddress.apply(mixed, self.to_kernel(hidden).softmax(-1))
