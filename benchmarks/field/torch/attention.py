"""Attention primitives.  Convention: mask is True where attention is allowed."""

import math
import torch
from torch.autograd import Function


class MaskedSoftmaxFn(Function):
    """Softmax over ``dim`` restricted to the positions where ``mask`` is True.

    Slices without a single allowed position give zeros (not NaN).

    :param scores: any shape
    :param mask: bool tensor, broadcastable to ``scores``
    :param dim: axis that is normalised; encoder-decoder attention uses -1, slot attention
        normalises over the slots (dim=1)
    """

    @staticmethod
    def forward(ctx, scores, mask, dim=-1):
        scores = scores.masked_fill(~mask, float("-inf"))
        top = scores.amax(dim=dim, keepdim=True)
        top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
        e = torch.exp(scores - top)
        z = e.sum(dim=dim, keepdim=True)
        p = e / torch.where(z > 0, z, torch.ones_like(z))
        ctx.save_for_backward(p)
        ctx.dim = dim
        return p

    @staticmethod
    def backward(ctx, grad_output):
        p, = ctx.saved_tensors
        inner = (grad_output * p).sum(-1, keepdim=True)
        return p * (grad_output - inner), None, None


def masked_softmax(scores, mask=None, dim=-1):
    if mask is None:
        mask = torch.ones((), dtype=torch.bool, device=scores.device)
    return MaskedSoftmaxFn.apply(scores, mask, dim)


def _probs(q, k, scale, allowed):
    s = torch.matmul(q, k.transpose(-2, -1)) * scale
    if allowed is not None:
        s = s.masked_fill(~allowed, float("-inf"))
    m = s.amax(-1, keepdim=True)
    m = m.masked_fill(m == float("-inf"), 0.0)
    e = torch.exp(s - m)
    z = e.sum(-1, keepdim=True)
    return e / z.masked_fill(z == 0, 1.0)


def _allowed(mask, causal, t, s, device):
    if causal:
        tri = torch.ones(t, s, dtype=torch.bool, device=device).tril(diagonal=s - t)
        mask = tri if mask is None else mask & tri
    return mask


class CheckpointedSDPA(Function):
    """softmax(q k^T * scale) v with the probabilities recomputed in the backward pass

    q: (B, H, T, D)    k: (B, H, S, D)    v: (B, H, S, E)
    mask: bool, broadcastable to (B, H, T, S), or None
    """

    @staticmethod
    def forward(ctx, q, k, v, mask=None, causal=False, scale=None):
        scale = 1.0 / math.sqrt(q.size(-1)) if scale is None else scale
        allowed = _allowed(mask, causal, q.size(-2), k.size(-2), q.device)
        p = _probs(q, k, scale, allowed)
        ctx.save_for_backward(q, k, v, allowed)
        ctx.scale = scale
        return p @ v

    @staticmethod
    def backward(ctx, do):
        q, k, v, allowed = ctx.saved_tensors
        p = _probs(q, k, ctx.scale, allowed)
        dv = p.transpose(-2, -1) @ do
        dp = do @ v.transpose(-2, -1)
        ds = p * (dp - (dp * p).sum(-1, keepdim=True))
        dq = ds @ k * ctx.scale
        dk = ds.transpose(-2, -1) @ q * ctx.scale
        return dq, dk, dv, None, None, None


class GroupedQueryAttention(Function):

    @staticmethod
    def forward(ctx, q, k, v):
        # q: [b, hq, t, d], k and v: [b, hkv, s, d] with hq a multiple of hkv
        n_rep = q.shape[1] // k.shape[1]
        kr = k.repeat_interleave(n_rep, dim=1)
        vr = v.repeat_interleave(n_rep, dim=1)
        attn = torch.softmax(q @ kr.transpose(2, 3) * q.shape[-1] ** -0.5, dim=-1)
        ctx.save_for_backward(q, k, v, attn)
        ctx.n_rep = n_rep
        return attn @ vr

    @staticmethod
    def backward(ctx, grad_out):
        q, k, v, attn = ctx.saved_tensors
        b, hkv, s, d = k.shape
        n_rep = ctx.n_rep
        kr = k.repeat_interleave(n_rep, dim=1)
        vr = v.repeat_interleave(n_rep, dim=1)
        scale = q.shape[-1] ** -0.5
        grad_vr = attn.transpose(2, 3) @ grad_out
        grad_attn = grad_out @ vr.transpose(2, 3)
        grad_s = attn * (grad_attn - (grad_attn * attn).sum(-1, keepdim=True)) * scale
        grad_q = grad_s @ kr
        grad_kr = grad_s.transpose(2, 3) @ q
        # fold the repeated heads back
        grad_k = grad_kr.view(b, n_rep, hkv, s, d).sum(1)
        grad_v = grad_vr.view(b, n_rep, hkv, s, v.shape[-1]).sum(1)
        return grad_q, grad_k, grad_v


def _phi(x):
    return torch.where(x > 0, x + 1, torch.exp(x.clamp(max=0)))


def _dphi(x):
    return torch.where(x > 0, torch.ones_like(x), torch.exp(x.clamp(max=0)))


class LinearAttentionFn(Function):
    """Linear attention of Katharopoulos et al., elu(x) + 1 feature map, not causal.

    Args:
        q: Queries, (B, H, T, D).
        k: Keys, (B, H, S, D).
        v: Values, (B, H, S, E).
        key_mask: (B, S) bool, False for padded keys.
        eps: Guards the normaliser.
    """

    @staticmethod
    def forward(ctx, q, k, v, key_mask, eps=1e-6):
        fq = _phi(q)
        fk = _phi(k) * key_mask[:, None, :, None].to(k.dtype)
        kv = fk.transpose(-2, -1) @ v                       # B H D E
        ksum = fk.sum(-2)                                   # B H D
        den = (fq * ksum.unsqueeze(-2)).sum(-1, keepdim=True) + eps
        out = (fq @ kv) / den
        ctx.save_for_backward(q, k, v, fk, kv, ksum, den, out)
        return out

    @staticmethod
    def backward(ctx, g):
        q, k, v, fk, kv, ksum, den, out = ctx.saved_tensors
        fq = _phi(q)
        gn = g / den
        gd = -(gn * out).sum(-1, keepdim=True)
        g_fq = gn @ kv.transpose(-2, -1) + gd * ksum.unsqueeze(-2)
        g_kv = fq.transpose(-2, -1) @ gn
        g_ksum = (gd * fq).sum(-2, keepdim=True)
        g_v = fk @ g_kv
        g_fk = v @ g_kv.transpose(-2, -1) + g_ksum
        return g_fq * _dphi(q), g_fk * _dphi(k), g_v, None, None


class SlotUpdate(torch.nn.Module):
    """One round of slot attention without the GRU."""

    def __init__(self, dim):
        super().__init__()
        self.q = torch.nn.Linear(dim, dim, bias=False)
        self.k = torch.nn.Linear(dim, dim, bias=False)
        self.v = torch.nn.Linear(dim, dim, bias=False)

    def forward(self, slots, tokens, token_mask):
        logits = self.q(slots) @ self.k(tokens).transpose(1, 2) / slots.size(-1) ** 0.5
        a = masked_softmax(logits, token_mask[:, None, :], dim=1)
        a = a / (a.sum(-1, keepdim=True) + 1e-8)
        return a @ self.v(tokens)


if __name__ == "__main__":
    x = torch.randn(2, 7, 12)
    print(SlotUpdate(12)(torch.randn(2, 3, 12), x, torch.ones(2, 7, dtype=torch.bool)).shape)
