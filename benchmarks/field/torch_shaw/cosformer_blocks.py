"""Softmax-free token mixers used in our long-document encoder.

The three kernels below keep only what their backward pass needs, which is what lets
the encoder run 16k tokens on a single card.
"""
import math

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def length_mask(lengths, size):
    """Boolean mask (B, T) that is True at real tokens."""
    return torch.arange(size, device=lengths.device)[None, :] < lengths[:, None]


def cosine_reweighting(lengths, size, dtype):
    """cos(pi/2 * (i - j) / L_b) for every sentence, zero wherever i or j is padding."""
    pos = torch.arange(size, device=lengths.device, dtype=dtype)
    delta = pos[:, None] - pos[None, :]
    weight = torch.cos(0.5 * math.pi * delta[None] / lengths[:, None, None].to(dtype))
    real = length_mask(lengths, size)
    pair = real[:, :, None] & real[:, None, :]
    return (weight * pair)[:, None]


class CosReweightedAttention(Function):
    """Quadratic form of cosFormer attention.

    Args:
        q: Non-negative query features, (B, H, T, D).
        k: Non-negative key features, (B, H, T, D).
        v: Values, (B, H, T, E).
        lengths: Number of real tokens per sentence, int64 (B,).
        causal: If True a token attends to itself and to its past only.
        eps: Added to the normaliser.

    Returns:
        (B, H, T, E); rows of padding tokens are zero.
    """

    @staticmethod
    def forward(q, k, v, lengths, causal=False, eps=1e-6):
        weight = cosine_reweighting(lengths, q.shape[-2], q.dtype)
        scores = torch.matmul(q, k.transpose(-1, -2)) * weight
        if causal:
            scores = scores.tril()
        norm = scores.sum(-1, keepdim=True) + eps
        return torch.matmul(scores, v) / norm

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, lengths, causal, eps = inputs
        ctx.save_for_backward(q, k, v, lengths, output)
        ctx.causal = causal
        ctx.eps = eps

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        q, k, v, lengths, out = ctx.saved_tensors
        weight = cosine_reweighting(lengths, q.shape[-2], q.dtype)
        scores = torch.matmul(q, k.transpose(-1, -2)) * weight
        if ctx.causal:
            scores = scores.tril()
        norm = scores.sum(-1, keepdim=True) + ctx.eps
        g = grad_out / norm
        grad_v = torch.matmul(scores.transpose(-1, -2), g)
        g_scores = torch.matmul(g, v.transpose(-1, -2)) - (g * out).sum(-1, keepdim=True)
        g_scores = g_scores * weight
        grad_q = torch.matmul(g_scores, k)
        grad_k = torch.matmul(g_scores.transpose(-1, -2), q)
        return grad_q, grad_k, grad_v, None, None, None


class GaussianTokenKernel(Function):
    """exp(-|q_i - k_j|^2 / (2 b_h^2 sqrt(D))) as used by SOFT-style attention.

    Args:
        q: Queries (B, H, T, D).
        k: Landmark keys (B, H, M, D).
        log_band: Logarithm of the bandwidth of each head, (H,).

    Returns:
        Kernel matrix (B, H, T, M).
    """

    @staticmethod
    def forward(ctx, q, k, log_band):
        root = math.sqrt(q.shape[-1])
        sq = (q[..., :, None, :] - k[..., None, :, :]).square().sum(-1)
        inv = torch.exp(-2.0 * log_band)[:, None, None] / root
        kern = torch.exp(-0.5 * sq * inv)
        ctx.save_for_backward(q, k, inv, kern)
        return kern

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        q, k, inv, kern = ctx.saved_tensors
        gk = grad_out * kern
        w = gk * inv
        grad_q = grad_k = grad_band = None
        if ctx.needs_input_grad[0]:
            grad_q = torch.matmul(w, k) - w.sum(-1, keepdim=True) * q
        if ctx.needs_input_grad[1]:
            grad_k = torch.matmul(w.transpose(-1, -2), q) - w.sum(-2)[..., None] * k
        if ctx.needs_input_grad[2]:
            # kern = exp(-u), u ~ exp(-2 s)  =>  d kern / d s = 2 u kern
            grad_band = -2.0 * (gk * kern.clamp_min(torch.finfo(kern.dtype).tiny).log()).sum((0, 2, 3))
        return grad_q, grad_k, grad_band


class LowRankGate(Function):
    """y = x * sigmoid(sharpness * x @ down @ up + bias).

    Args:
        x: Tokens (..., D).
        down: Projection to the bottleneck (D, R); may be frozen.
        up: Projection back (R, D).
        bias: Gate bias (D,).
        sharpness: Python float.
    """

    @staticmethod
    def forward(x, down, up, bias, sharpness=1.0):
        return x * torch.sigmoid(sharpness * (x @ down @ up) + bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, down, up, bias, ctx.sharpness = inputs
        ctx.save_for_backward(x, down, up, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, down, up, bias = ctx.saved_tensors
        a = ctx.sharpness
        hidden = x @ down
        gate = torch.sigmoid(a * (hidden @ up) + bias)
        g_logit = grad_out * x * gate * (1.0 - gate)
        g_hidden = a * (g_logit @ up.t())
        grad_x = grad_down = grad_up = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_x = grad_out * gate + g_hidden @ down.t()
        if ctx.needs_input_grad[1]:
            grad_down = x.flatten(0, -2).t() @ g_hidden.flatten(0, -2)
            grad_up = a * hidden.flatten(0, -2).t() @ g_logit.flatten(0, -2)
        if ctx.needs_input_grad[3]:
            grad_bias = g_logit.flatten(0, -2).sum(0)
        return grad_x, grad_down, grad_up, grad_bias, None


class CosFormerLayer(nn.Module):
    """Multi-head cosFormer layer with a bottleneck gate on its output."""

    def __init__(self, dim, heads=4, rank=8, causal=False, freeze_down=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv = nn.Linear(dim, 3 * dim)
        self.down = nn.Parameter(torch.randn(dim, rank) / math.sqrt(dim), requires_grad=not freeze_down)
        self.up = nn.Parameter(torch.randn(rank, dim) * 0.02)
        self.gate_bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x, lengths):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = CosReweightedAttention.apply(torch.relu(q), torch.relu(k), v, lengths, self.causal, 1e-6)
        y = y.transpose(1, 2).reshape(b, t, d)
        return x + LowRankGate.apply(y, self.down, self.up, self.gate_bias, 1.0)


class LandmarkKernel(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.log_band = nn.Parameter(torch.zeros(heads))

    def forward(self, q, landmarks, v):
        kern = GaussianTokenKernel.apply(q, landmarks, self.log_band)
        core = GaussianTokenKernel.apply(landmarks, landmarks, self.log_band)
        eye = 1e-3 * torch.eye(core.shape[-1], dtype=core.dtype, device=core.device)
        return kern @ torch.linalg.solve(core + eye, kern.transpose(-1, -2) @ v)
