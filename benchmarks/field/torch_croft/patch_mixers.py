import torch
import torch.nn as nn
from torch.autograd import Function


def _channel(v, x):
    return v.view(1, -1, *([1] * (x.dim() - 2)))


class SoftSlots(Function):
    """Soft assignment of tokens to expert slots.

    x (batch, tokens, dim), phi (dim, slots), keep (batch, tokens) bool with at least one
    token a row. Returns the slot inputs (batch, slots, dim), convex in the kept tokens,
    and the combine weights (batch, tokens, slots), zero for tokens left out.
    """

    @staticmethod
    def forward(ctx, x, phi, keep):
        logits = x @ phi
        keep = keep.unsqueeze(-1)
        dispatch = logits.masked_fill(~keep, float("-inf")).softmax(1)
        combine = logits.softmax(2) * keep
        ctx.save_for_backward(x, phi, dispatch, combine)
        return dispatch.transpose(1, 2) @ x, combine

    @staticmethod
    def backward(ctx, g_slots, g_combine):
        x, phi, dispatch, combine = ctx.saved_tensors
        g_disp = x @ g_slots.transpose(1, 2)
        g_logits = dispatch * (g_disp - (g_disp * dispatch).sum(1, keepdim=True))
        g_logits = g_logits + combine * (g_combine - (g_combine * combine).sum(2, keepdim=True))
        g_x = dispatch @ g_slots + g_logits @ phi.t()
        g_phi = torch.einsum("bnd,bns->ds", x, g_logits)
        return g_x, g_phi, None


class CoordinateGate(Function):
    # x: (N, C, H, W); row, col: (C, 2) slope and offset of the gate along each axis

    @staticmethod
    def forward(ctx, x, row, col):
        row_mean = x.mean(3, keepdim=True)
        col_mean = x.mean(2, keepdim=True)
        gr = torch.sigmoid(row_mean * _channel(row[:, 0], x) + _channel(row[:, 1], x))
        gc = torch.sigmoid(col_mean * _channel(col[:, 0], x) + _channel(col[:, 1], x))
        ctx.save_for_backward(x, row, col, row_mean, col_mean, gr, gc)
        return x * gr * gc

    @staticmethod
    def backward(ctx, g):
        x, row, col, row_mean, col_mean, gr, gc = ctx.saved_tensors
        h, w = x.shape[2:]
        d_row = (g * x * gc).sum(3, keepdim=True) * gr * (1 - gr)
        d_col = (g * x * gr).sum(2, keepdim=True) * gc * (1 - gc)
        g_x = g * gr * gc
        g_x = g_x + d_row * _channel(row[:, 0], x) / h
        g_x = g_x + d_col * _channel(col[:, 0], x) / w
        g_row = torch.stack([(d_row * row_mean).sum((0, 2, 3)), d_row.sum((0, 2, 3))], -1)
        g_col = torch.stack([(d_col * col_mean).sum((0, 2, 3)), d_col.sum((0, 2, 3))], -1)
        return g_x, g_row, g_col


class SpatialGatingUnit(Function):
    @staticmethod
    def forward(u, v, weight, bias, causal=False):
        w = weight.tril() if causal else weight
        return u * (w @ v + bias[:, None])

    @staticmethod
    def setup_context(ctx, inputs, output):
        u, v, weight, bias, ctx.causal = inputs
        ctx.save_for_backward(u, v, weight, bias)

    @staticmethod
    def backward(ctx, g):
        u, v, weight, bias = ctx.saved_tensors
        w = weight.tril() if ctx.causal else weight
        gate = w @ v + bias[:, None]
        g_gate = g * u
        g_w = torch.einsum("bid,bjd->ij", g_gate, v)
        return g * gate, w.t() @ g_gate, g_w, g_gate.sum((0, 2)), None


class GMLPBlock(nn.Module):
    def __init__(self, dim, hidden, tokens, causal=False):
        super().__init__()
        self.norm, self.gate_norm = nn.LayerNorm(dim), nn.LayerNorm(hidden)
        self.up, self.down = nn.Linear(dim, 2 * hidden), nn.Linear(hidden, dim)
        self.weight = nn.Parameter(torch.randn(tokens, tokens) * 1e-3)
        self.bias = nn.Parameter(torch.ones(tokens))
        self.causal = causal

    def forward(self, x):
        u, v = torch.nn.functional.gelu(self.up(self.norm(x))).chunk(2, -1)
        return x + self.down(SpatialGatingUnit.apply(u, self.gate_norm(v), self.weight, self.bias, self.causal))


class SoftExperts(nn.Module):
    def __init__(self, dim, experts, slots_each=1, hidden=64):
        super().__init__()
        self.phi = nn.Parameter(torch.randn(dim, experts * slots_each) * dim**-0.5)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim)) for _ in range(experts)
        )

    def forward(self, x, keep):
        slots, combine = SoftSlots.apply(x, self.phi, keep)
        outs = [f(s) for f, s in zip(self.experts, slots.chunk(len(self.experts), 1))]
        return combine @ torch.cat(outs, 1)
