"""Feature-crossing blocks of click models: low-rank crosses, weighted field pairs, soft numeric bins."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LowRankCross(torch.autograd.Function):
    """x0 * (U (V x) + b) [+ x].

    x0, x: (..., D), of one shape; v: (R, D); u: (D, R); bias: (D,) or None. `residual` adds x back.
    """

    @staticmethod
    def forward(x0, x, v, u, bias, residual):
        h = (x @ v.T) @ u.T
        if bias is not None:
            h = h + bias
        out = x0 * h
        return out + x if residual else out

    @staticmethod
    def setup_context(ctx, inputs, output):
        x0, x, v, u, bias, residual = inputs
        ctx.save_for_backward(x0, x, v, u, bias)
        ctx.residual = residual

    @staticmethod
    def backward(ctx, grad):
        x0, x, v, u, bias = ctx.saved_tensors
        low = x @ v.T
        h = low @ u.T
        if bias is not None:
            h = h + bias
        gh = grad * x0
        glow = gh @ u
        gx = glow @ v
        if ctx.residual:
            gx = gx + grad
        gh2, glow2 = gh.reshape(-1, gh.shape[-1]), glow.reshape(-1, glow.shape[-1])
        gv = glow2.T @ x.reshape(-1, x.shape[-1])
        gu = gh2.T @ low.reshape(-1, low.shape[-1])
        gb = gh2.sum(0) if bias is not None else None
        return grad * h, gx, gv, gu, gb, None


class FieldPairWeights(torch.autograd.Function):
    # sum_{i<j} r_ij <e_i, e_j>, absent fields left out

    @staticmethod
    def forward(ctx, emb, pair_weight, present=None):
        live = emb if present is None else emb * present.unsqueeze(-1).to(emb.dtype)
        upper = torch.triu(pair_weight, diagonal=1)
        gram = live @ live.transpose(1, 2)
        ctx.save_for_backward(emb, upper, present)
        return (gram * upper).sum((1, 2))

    @staticmethod
    def backward(ctx, grad):
        emb, upper, present = ctx.saved_tensors
        live = emb if present is None else emb * present.unsqueeze(-1).to(emb.dtype)
        d_emb = torch.einsum("b,ij,bjd->bid", grad, upper + upper.T, live)
        if present is not None:
            d_emb = d_emb * present.unsqueeze(-1).to(emb.dtype)
        d_weight = torch.einsum("b,bid,bjd->ij", grad, emb, emb).triu(diagonal=1)
        return d_emb, d_weight, None


class SoftBinEmbedding(torch.autograd.Function):
    """Soft discretisation of numeric fields into H learned bins.

    x (B, F), w (F, H), skip (F,), tau () positive, table (F, H, D) -> (B, F, D):
    score = leaky(x w) + skip * (x w), bins = softmax(score / tau), out = bins @ table.
    """

    SLOPE = 0.01

    @staticmethod
    def forward(ctx, x, w, skip, tau, table):
        lin = x.unsqueeze(-1) * w
        score = F.leaky_relu(lin, SoftBinEmbedding.SLOPE) + skip.unsqueeze(-1) * lin
        bins = torch.softmax(score / tau, dim=-1)
        ctx.save_for_backward(x, w, skip, tau, table, lin, score, bins)
        return torch.einsum("bfh,fhd->bfd", bins, table)

    @staticmethod
    def backward(ctx, grad):
        x, w, skip, tau, table, lin, score, bins = ctx.saved_tensors
        g_table = torch.einsum("bfh,bfd->fhd", bins, grad)
        g_bins = torch.einsum("bfd,fhd->bfh", grad, table)
        g_logit = bins * (g_bins - (bins * g_bins).sum(-1, keepdim=True))
        g_tau = -(g_logit * score).sum() / (tau * tau)
        g_score = g_logit / tau
        leaky = torch.where(lin > 0, 1.0, SoftBinEmbedding.SLOPE).to(lin.dtype)
        g_lin = g_score * (leaky + skip.unsqueeze(-1))
        g_skip = (g_score * lin).sum((0, 2))
        return (g_lin * w).sum(-1), (g_lin * x.unsqueeze(-1)).sum(0), g_skip, g_tau, g_table


class CrossTower(nn.Module):
    def __init__(self, dim, rank=8, depth=2):
        super().__init__()
        self.v = nn.ParameterList(
            [nn.Parameter(torch.randn(rank, dim) / math.sqrt(dim)) for _ in range(depth)]
        )
        self.u = nn.ParameterList(
            [nn.Parameter(torch.randn(dim, rank) / math.sqrt(rank)) for _ in range(depth)]
        )
        self.bias = nn.ParameterList([nn.Parameter(torch.zeros(dim)) for _ in range(depth)])

    def forward(self, x0):
        x = x0
        for v, u, b in zip(self.v, self.u, self.bias):
            x = LowRankCross.apply(x0, x, v, u, b, True)
        return x


class NumericFields(nn.Module):
    def __init__(self, fields, bins, dim):
        super().__init__()
        self.w = nn.Parameter(torch.randn(fields, bins))
        self.skip = nn.Parameter(torch.full((fields,), 0.1))
        self.log_tau = nn.Parameter(torch.zeros(()))
        self.table = nn.Parameter(torch.randn(fields, bins, dim) * 0.05)

    def forward(self, x):
        return SoftBinEmbedding.apply(x, self.w, self.skip, self.log_tau.exp(), self.table)
