"""Attention kernels (reference PyTorch versions of the fused ones) and rotary embedding.

Layout everywhere: ``(batch, heads, time, head_dim)``.
"""
import math

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class MaskedAttention(Function):
    """Scaled dot-product attention with a boolean mask.

    Args:
        q: (B, H, Tq, D)
        k: (B, H, Tk, D)
        v: (B, H, Tk, Dv)
        mask: bool, broadcastable to (B, H, Tq, Tk); True means *attend*. May be None.
            Rows without any allowed key give zeros.
        scale: softmax scale, defaults to 1/sqrt(D).

    Returns:
        (B, H, Tq, Dv)
    """

    @staticmethod
    def forward(ctx, q, k, v, mask=None, scale=None):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        s = q @ k.transpose(-1, -2) * scale
        if mask is not None:
            s = s.masked_fill(~mask, float("-inf"))
        p = torch.softmax(s, dim=-1)
        if mask is not None:
            p = torch.nan_to_num(p, nan=0.0)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale = scale
        return p @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, do):
        q, k, v, p = ctx.saved_tensors
        dq = dk = dv = None
        if ctx.needs_input_grad[2]:
            dv = p.transpose(-1, -2) @ do
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            dp = do @ v.transpose(-1, -2)
            ds = p * (dp - (dp * p).sum(-1, keepdim=True)) * ctx.scale
            dq = ds @ k
            dk = ds.transpose(-1, -2) @ q
        return dq, dk, dv, None, None


class FlashAttnRef(Function):
    """Flash-attention style: the probabilities are rebuilt from the log-sum-exp.

    q (B, H, Tq, D), k and v (B, H, Tk, D). With ``causal=True`` the queries are the
    last Tq positions of the sequence, as when decoding with a key/value cache.
    """

    @staticmethod
    def forward(ctx, q, k, v, causal=False):
        tq, tk = q.shape[-2], k.shape[-2]
        scale = 1.0 / math.sqrt(q.shape[-1])
        s = torch.einsum("bhqd,bhkd->bhqk", q, k) * scale
        if causal:
            keep = torch.ones(tq, tk, dtype=torch.bool, device=q.device).tril(tk - tq)
            s = s.masked_fill(~keep, -torch.inf)
        lse = torch.logsumexp(s, dim=-1)
        o = torch.einsum("bhqk,bhkd->bhqd", (s - lse[..., None]).exp(), v)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal, ctx.scale = causal, scale
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        s = torch.einsum("bhqd,bhkd->bhqk", q, k) * ctx.scale
        p = (s - lse[..., None]).exp()
        if ctx.causal:
            p = p.tril()
        delta = (do * o).sum(-1, keepdim=True)
        dv = torch.einsum("bhqk,bhqd->bhkd", p, do)
        dp = torch.einsum("bhqd,bhkd->bhqk", do, v)
        ds = p * (dp - delta) * ctx.scale
        dq = torch.einsum("bhqk,bhkd->bhqd", ds, k)
        dk = torch.einsum("bhqk,bhqd->bhkd", ds, q)
        return dq, dk, dv, None


class GroupedQueryAttention(Function):
    """Attention where ``Hq // Hkv`` consecutive query heads share one key/value head.

    q: "b hq t d";  k, v: "b hkv s d".
    """

    @staticmethod
    def forward(ctx, q, k, v):
        n_rep = q.size(1) // k.size(1)
        kk = k.repeat_interleave(n_rep, dim=1)
        vv = v.repeat_interleave(n_rep, dim=1)
        scale = q.size(-1) ** -0.5
        p = torch.softmax(q @ kk.mT * scale, -1)
        ctx.save_for_backward(q, kk, vv, p)
        ctx.n_rep, ctx.scale = n_rep, scale
        return p @ vv

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        q, kk, vv, p = ctx.saved_tensors
        dvv = p.mT @ grad_out
        dp = grad_out @ vv.mT
        ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * ctx.scale
        dq = ds @ kk
        dkk = ds.mT @ q

        b, hq, s, d = dkk.shape
        dk = dkk.view(b, ctx.n_rep, hq // ctx.n_rep, s, d).sum(1)
        dv = dvv.view(b, ctx.n_rep, hq // ctx.n_rep, s, d).sum(1)
        return dq, dk, dv


def _angles(positions, dim, base, dtype):
    inv = base ** (-torch.arange(0, dim, 2, device=positions.device, dtype=torch.float64) / dim)
    return (positions.to(torch.float64)[..., None] * inv).to(dtype)


def _rotate(x, cos, sin, interleaved):
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


@torch.library.custom_op("tinyattn::rotary", mutates_args=())
def rotary(x: Tensor, positions: Tensor, base: float = 10000.0, interleaved: bool = False) -> Tensor:
    """Rotary position embedding.

    x: (B, H, T, D) with D even; positions: (T,) integers.
    """
    th = _angles(positions, x.shape[-1], base, x.dtype)
    return _rotate(x, th.cos(), th.sin(), interleaved)


@rotary.register_fake
def _(x, positions, base=10000.0, interleaved=False):
    return torch.empty_like(x)


def _rotary_setup(ctx, inputs, output):
    x, positions, base, interleaved = inputs
    ctx.save_for_backward(positions)
    ctx.base, ctx.interleaved = base, interleaved


def _rotary_backward(ctx, grad):
    (positions,) = ctx.saved_tensors
    th = _angles(positions, grad.shape[-1], ctx.base, grad.dtype)
    return _rotate(grad, th.cos(), -th.sin(), ctx.interleaved), None, None, None


rotary.register_autograd(_rotary_backward, setup_context=_rotary_setup)


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads=None):
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads or heads
        self.hd = dim // heads
        self.wq = nn.Linear(dim, heads * self.hd, bias=False)
        self.wk = nn.Linear(dim, self.kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(dim, self.kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(heads * self.hd, dim, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(b, t, self.kv_heads, self.hd).transpose(1, 2)
        v = self.wv(x).view(b, t, self.kv_heads, self.hd).transpose(1, 2)
        pos = torch.arange(t, device=x.device)
        q, k = rotary(q, pos), rotary(k, pos)
        if self.kv_heads != self.heads:
            o = GroupedQueryAttention.apply(q, k, v)
        else:
            o = FlashAttnRef.apply(q, k, v, True)
        return self.wo(o.transpose(1, 2).reshape(b, t, -1))


if __name__ == "__main__":
    net = SelfAttention(32, 4)
    y = net(torch.randn(2, 7, 32))
    y.sum().backward()
    print(y.shape, net.wq.weight.grad.norm())
