import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _shift(x, s):
    # y[t] = x[t + s] along dim 0, zeros outside
    T = x.shape[0]
    if s >= 0:
        return F.pad(x[min(s, T) :], (0, 0) * (x.dim() - 1) + (0, min(s, T)))
    return F.pad(x[: max(T + s, 0)], (0, 0) * (x.dim() - 1) + (min(-s, T), 0))


class LightweightConvFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, padding_l, weight_softmax):
        # x: T x B x C, weight: H x K
        T, B, C = x.shape
        H, K = weight.shape
        w = weight.softmax(-1) if weight_softmax else weight
        xh = x.reshape(T, B, H, C // H)
        out = torch.zeros_like(xh)
        for k in range(K):
            out = out + _shift(xh, k - padding_l) * w[:, k, None]
        ctx.save_for_backward(x, weight)
        ctx.padding_l, ctx.weight_softmax = padding_l, weight_softmax
        return out.reshape(T, B, C)

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        T, B, C = x.shape
        H, K = weight.shape
        w = weight.softmax(-1) if ctx.weight_softmax else weight
        xh, gh = x.reshape(T, B, H, C // H), g.reshape(T, B, H, C // H)
        gx = torch.zeros_like(xh)
        gw = []
        for k in range(K):
            s = k - ctx.padding_l
            gx = gx + _shift(gh, -s) * w[:, k, None]
            gw.append((gh * _shift(xh, s)).sum((0, 1, 3)))
        gw = torch.stack(gw, 1)
        if ctx.weight_softmax:
            gw = w * (gw - (w * gw).sum(-1, keepdim=True))
        return gx.reshape(T, B, C), gw, None, None


class LightweightConv(nn.Module):
    def __init__(self, dim, kernel_size=3, padding_l=None, num_heads=1, weight_softmax=True):
        super().__init__()
        self.padding_l = kernel_size - 1 if padding_l is None else padding_l
        self.weight_softmax = weight_softmax
        self.weight = nn.Parameter(torch.empty(num_heads, kernel_size))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x):
        return LightweightConvFunction.apply(x, self.weight, self.padding_l, self.weight_softmax)


def _mdct_basis(n, like):
    t = torch.arange(2 * n, dtype=like.dtype, device=like.device)[:, None]
    k = torch.arange(n, dtype=like.dtype, device=like.device)[None]
    return torch.cos(math.pi / n * (t + 0.5 + n / 2) * (k + 0.5))


def _mdct_scale(n, norm, inverse=False):
    if norm == "ortho":
        return math.sqrt(2 / n)
    return 2 / n if inverse else 1.0


def _overlap_add(frames, length):
    n = frames.shape[-1] // 2
    out = frames.new_zeros(*frames.shape[:-2], length)
    for i in range(frames.shape[-2]):
        out[..., i * n : i * n + 2 * n] += frames[..., i, :]
    return out


class MDCTFunction(Function):
    """MDCT of (..., L) with hop n and window (2n,). norm: "ortho" or None (plain cosine sum)."""

    @staticmethod
    def forward(ctx, x, window, norm="ortho"):
        n = window.numel() // 2
        ctx.norm = norm
        ctx.save_for_backward(x, window)
        frames = x.unfold(-1, 2 * n, n) * window
        return frames @ _mdct_basis(n, x) * _mdct_scale(n, norm)

    @staticmethod
    def backward(ctx, g):
        x, window = ctx.saved_tensors
        n = window.numel() // 2
        frames = g @ _mdct_basis(n, g).T * _mdct_scale(n, ctx.norm, inverse=True)
        gx = _overlap_add(frames * window, x.shape[-1])
        gw = (frames * x.unfold(-1, 2 * n, n)).reshape(-1, 2 * n).sum(0)
        return gx, gw, None


class MDCT(nn.Module):
    def __init__(self, n, norm="ortho"):
        super().__init__()
        self.norm = norm
        self.register_buffer("window", torch.sin(math.pi * (torch.arange(2 * n) + 0.5) / (2 * n)))

    def forward(self, x):
        n = self.window.numel() // 2
        return MDCTFunction.apply(F.pad(x, (n, n)), self.window.to(x.dtype), self.norm)


class DiceFn(Function):
    """Data-adaptive activation of DIN with batch statistics; x (B, C) or (B, T, C), alpha (C,)."""

    @staticmethod
    def forward(ctx, x, alpha, eps):
        dims = tuple(range(x.dim() - 1))
        var, mean = torch.var_mean(x, dims, unbiased=False)
        inv = (var + eps).rsqrt()
        z = (x - mean) * inv
        p = torch.sigmoid(z)
        ctx.save_for_backward(x, alpha, z, p, inv)
        ctx.mark_non_differentiable(mean, var)
        return x * (p + (1 - p) * alpha), mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx, g, _mean, _var):
        x, alpha, z, p, inv = ctx.saved_tensors
        gz = g * x * (1 - alpha) * p * (1 - p)
        gx = g * (p + (1 - p) * alpha)
        gx = gx + inv * (gz - gz.mean(0, keepdim=True) - z * (gz * z).mean(0, keepdim=True))
        galpha = (g * x * (1 - p)).reshape(-1, alpha.numel()).sum(0)
        return gx, galpha, None


class Dice(nn.Module):
    def __init__(self, dim, momentum=0.1, eps=1e-8):
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(dim))
        self.momentum, self.eps = momentum, eps
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("var", torch.ones(dim))

    def forward(self, x):
        if self.training:
            y, mean, var = DiceFn.apply(x, self.alpha, self.eps)
            self.mean.lerp_(mean, self.momentum)
            self.var.lerp_(var, self.momentum)
            return y
        p = torch.sigmoid((x - self.mean) * (self.var + self.eps).rsqrt())
        return x * (p + (1 - p) * self.alpha)


class HardestNegativeHinge(Function):
    # VSE++: scores (N, N), rows images, columns captions; items with equal id are no negatives of each other
    @staticmethod
    def forward(ctx, scores, ids, margin, reduction):
        n = scores.shape[0]
        same = ids[:, None] == ids[None]
        neg = scores.masked_fill(same, float("-inf"))
        pos = scores.diagonal()
        row, col = neg.max(1), neg.max(0)
        cost_r = (margin + row.values - pos).clamp(min=0)
        cost_c = (margin + col.values - pos).clamp(min=0)
        ctx.save_for_backward(row.indices, col.indices, cost_r > 0, cost_c > 0)
        ctx.div = n if reduction == "mean" else 1
        return (cost_r + cost_c).sum() / ctx.div

    @staticmethod
    def backward(ctx, g):
        row, col, hit_r, hit_c = ctx.saved_tensors
        n = row.numel()
        i = torch.arange(n, device=row.device)
        a, b = hit_r.to(g.dtype), hit_c.to(g.dtype)
        flat = g.new_zeros(n * n)
        flat = flat.index_add(0, i * n + row, a)
        flat = flat.index_add(0, col * n + i, b)
        flat = flat.index_add(0, i * (n + 1), -(a + b))
        return g * flat.view(n, n) / ctx.div, None, None, None


def vse_loss(image_emb, text_emb, ids=None, margin=0.2, reduction="sum"):
    if ids is None:
        ids = torch.arange(image_emb.shape[0], device=image_emb.device)
    scores = F.normalize(image_emb, dim=-1) @ F.normalize(text_emb, dim=-1).T
    return HardestNegativeHinge.apply(scores, ids, margin, reduction)
