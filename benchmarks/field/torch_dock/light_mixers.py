"""Cheap token mixers and poolings used in the small encoders."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function


def length_mask(lengths, size):
    return torch.arange(size, device=lengths.device)[None, :] < lengths[:, None]


class LightweightConv(Function):
    @staticmethod
    def forward(
        ctx,
        x,        # (B, T, C); what stands behind a sequence's end is ignored
        weight,   # (H, K) raw taps, softmaxed over K, one row for C // H channels
        lengths,  # (B,) int
    ):
        B, T, C = x.shape
        H, K = weight.shape
        taps = weight.softmax(-1)
        keep = length_mask(lengths, T)
        xp = F.pad(x * keep[..., None].to(x.dtype), (0, 0, K - 1, 0))  # causal
        win = xp.unfold(1, K, 1).reshape(B, T, H, C // H, K)
        ctx.save_for_backward(win, taps)
        return torch.einsum("bthck,hk->bthc", win, taps).reshape(B, T, C)

    @staticmethod
    def backward(ctx, g):
        win, taps = ctx.saved_tensors
        B, T, H, D, K = win.shape
        g = g.reshape(B, T, H, D)
        g_taps = torch.einsum("bthck,bthc->hk", win, g)
        g_weight = taps * (g_taps - (taps * g_taps).sum(-1, keepdim=True))
        g_x = torch.zeros_like(g)
        for k in range(K):
            lag = K - 1 - k
            if lag >= T:
                continue
            g_x[:, : T - lag] += g[:, lag:] * taps[:, k, None]
        return g_x.reshape(B, T, H * D), g_weight, None


class SpectralCropPool(Function):
    """Shorten a signal by keeping its lowest frequencies."""

    @staticmethod
    def forward(
        ctx,
        x,     # (..., T) real
        size,  # new length, 1 <= size <= T
    ):
        T = x.shape[-1]
        ctx.sizes = T, size
        low = torch.fft.rfft(x)[..., : size // 2 + 1]
        return torch.fft.irfft(low, n=size) * (size / T)

    @staticmethod
    def backward(ctx, g):
        T, size = ctx.sizes
        spec = torch.fft.rfft(g)
        spec = F.pad(spec, (0, T // 2 + 1 - spec.shape[-1]))
        return torch.fft.irfft(spec, n=T), None


class MultiplicativeMix(Function):
    @staticmethod
    def forward(
        ctx,
        a,      # (B, T, C) projected input
        b,      # (B, T, C) projected state, or (B, 1, C) when one state serves all steps
        alpha,  # (C,) gain of the product
        beta,   # (2, C) gains of a and b alone
        bias,   # (C,)
    ):
        y = torch.tanh(alpha * a * b + beta[0] * a + beta[1] * b + bias)
        ctx.save_for_backward(a, b, alpha, beta, y)
        return y

    @staticmethod
    def backward(ctx, g):
        a, b, alpha, beta, y = ctx.saved_tensors
        z = g * (1 - y) * (1 + y)
        za, zb = z * a, z * b
        return (
            alpha * zb + beta[0] * z,
            (alpha * za + beta[1] * z).sum_to_size(b.shape),
            (za * b).flatten(0, 1).sum(0),
            torch.stack([za, zb]).sum((1, 2)),
            z,
        )


class FisherEncode(Function):
    @staticmethod
    def forward(
        ctx,
        x,          # (B, N, D) local descriptors
        mask,       # (B, N) bool, at least one true in every row
        mu,         # (K, D)
        log_sigma,  # (K, D)
        logits,     # (K,) mixture weights before softmax
    ):
        u = (x[:, :, None] - mu) * torch.exp(-log_sigma)
        logw = logits.log_softmax(0)
        post = (logw - 0.5 * u.square().sum(-1) - log_sigma.sum(-1)).softmax(-1)
        m = mask.to(x.dtype)
        scale = torch.exp(-0.5 * logw) / m.sum(1, keepdim=True)  # (B, K)
        code = scale[..., None] * torch.einsum("bn,bnk,bnkd->bkd", m, post, u)
        ctx.save_for_backward(u, post, m, scale, code, log_sigma, logw)
        return code

    @staticmethod
    def backward(ctx, g):
        u, post, m, scale, code, log_sigma, logw = ctx.saved_tensors
        gs = g * scale[..., None]
        g_post = torch.einsum("bkd,bnkd->bnk", gs, u) * m[..., None]
        g_log = post * (g_post - (post * g_post).sum(-1, keepdim=True))
        g_u = (post * m[..., None])[..., None] * gs[:, None] - u * g_log[..., None]
        g_diff = g_u * torch.exp(-log_sigma)
        g_sigma = -(g_u * u).sum((0, 1)) - g_log.sum((0, 1))[:, None]
        g_logw = g_log.sum((0, 1)) - 0.5 * (g * code).sum((0, 2))
        g_logits = g_logw - logw.exp() * g_logw.sum()
        return g_diff.sum(2), None, -g_diff.sum((0, 1)), g_sigma, g_logits


class LightBlock(nn.Module):
    def __init__(self, dim, heads=4, kernel=7):
        super().__init__()
        self.inp = nn.Linear(dim, dim)
        self.gate = nn.Linear(dim, dim, bias=False)
        self.taps = nn.Parameter(torch.randn(heads, kernel) * 0.1)
        self.alpha = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.full((2, dim), 0.5))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x, lengths):
        mixed = LightweightConv.apply(self.inp(x), self.taps, lengths)
        return x + MultiplicativeMix.apply(mixed, self.gate(x), self.alpha, self.beta, self.bias)


class Encoder(nn.Module):
    def __init__(self, dim=64, depth=3, words=16, pooled=32):
        super().__init__()
        self.blocks = nn.ModuleList(LightBlock(dim) for _ in range(depth))
        self.mu = nn.Parameter(torch.randn(words, dim))
        self.log_sigma = nn.Parameter(torch.zeros(words, dim))
        self.logits = nn.Parameter(torch.zeros(words))
        self.pooled = pooled

    def forward(self, x, lengths):
        for block in self.blocks:
            x = block(x, lengths)
        code = FisherEncode.apply(x, length_mask(lengths, x.shape[1]), self.mu, self.log_sigma, self.logits)
        short = SpectralCropPool.apply(x.transpose(1, 2).contiguous(), min(self.pooled, x.shape[1]))
        return F.normalize(code.flatten(1), dim=-1), short
