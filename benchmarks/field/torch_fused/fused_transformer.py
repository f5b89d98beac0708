"""Memory-lean building blocks for decoder-only transformers.

Everything here trades a little recomputation in the backward pass for not
keeping the large intermediates (attention probabilities, MLP hidden states)
alive between forward and backward.
"""
import math
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = [
    "LseAttention",
    "GroupedQueryAttention",
    "ApplyRotary",
    "PackedSwiGLU",
    "RecomputedMLP",
    "AddRMSNorm",
    "MaskedSoftmax",
]


class LseAttention(Function):
    """Attention which only keeps the log-sum-exp of each row.

    Args:
        q: queries ``[batch, heads, q_len, head_dim]``.
        k: keys ``[batch, heads, kv_len, head_dim]``.
        v: values ``[batch, heads, kv_len, head_dim]``.
        causal: if True, the last query is aligned with the last key
            (so that ``q_len < kv_len`` works with a key/value cache).
        scale: softmax scale, ``head_dim ** -0.5`` if None.

    Returns:
        ``[batch, heads, q_len, head_dim]``.
    """

    @staticmethod
    def forward(ctx, q, k, v, causal=False, scale=None):
        tq, tk = q.shape[-2], k.shape[-2]
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        s = torch.matmul(q, k.transpose(-1, -2)) * scale
        if causal:
            keep = torch.ones(tq, tk, dtype=torch.bool, device=q.device).tril(tk - tq)
            s = s.masked_fill(~keep, float("-inf"))
        lse = torch.logsumexp(s, dim=-1, keepdim=True)
        out = torch.matmul(torch.exp(s - lse), v)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.causal = causal
        ctx.scale = scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, do):
        q, k, v, out, lse = ctx.saved_tensors
        p = torch.exp(torch.matmul(q, k.transpose(-1, -2)) * ctx.scale - lse)
        if ctx.causal:
            rows = torch.arange(q.shape[-2], device=q.device)[:, None]
            cols = torch.arange(k.shape[-2], device=q.device)[None, :]
            p = p.masked_fill(cols > rows, 0.0)
        dv = torch.matmul(p.transpose(-1, -2), do)
        dp = torch.matmul(do, v.transpose(-1, -2))
        delta = (do * out).sum(dim=-1, keepdim=True)
        ds = p * (dp - delta) * ctx.scale
        dq = torch.matmul(ds, k)
        dk = torch.matmul(ds.transpose(-1, -2), q)
        return dq, dk, dv, None, None


def lse_attention(q, k, v, causal=False, scale=None):
    return LseAttention.apply(q, k, v, causal, scale)


class GroupedQueryAttention(Function):

    @staticmethod
    def forward(ctx, q, k, v, key_mask: Optional[torch.Tensor] = None):
        n_rep = q.shape[1] // k.shape[1]
        kr = k.repeat_interleave(n_rep, dim=1)
        vr = v.repeat_interleave(n_rep, dim=1)
        s = q @ kr.mT / math.sqrt(q.shape[-1])
        if key_mask is not None:
            s = s.masked_fill(~key_mask[:, None, None, :], float("-inf"))
        p = s.softmax(-1)
        ctx.save_for_backward(q, k, v, p)
        ctx.n_rep = n_rep
        return p @ vr

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        q, k, v, p = ctx.saved_tensors
        n_rep = ctx.n_rep
        b, hkv, tk, d = k.shape
        kr = k.repeat_interleave(n_rep, dim=1)
        vr = v.repeat_interleave(n_rep, dim=1)

        dp = g @ vr.mT
        ds = p * (dp - (dp * p).sum(-1, keepdim=True)) / math.sqrt(d)
        dq = ds @ kr
        # fold the repeated heads back onto the shared ones
        dk = (ds.mT @ q).view(b, n_rep, hkv, tk, d).sum(dim=1)
        dv = (p.mT @ g).view(b, n_rep, hkv, tk, v.shape[-1]).sum(dim=1)
        return dq, dk, dv, None


class GQABlock(nn.Module):
    def __init__(self, dim: int, n_heads: int, n_kv_heads: int):
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, key_mask=None):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(b, t, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(b, t, self.n_kv_heads, self.head_dim).transpose(1, 2)
        o = GroupedQueryAttention.apply(q, k, v, key_mask)
        return self.wo(o.transpose(1, 2).reshape(b, t, -1))


def _rotate(x, cos, sin, interleaved):
    if interleaved:
        x1, x2 = x[..., 0::2], x[..., 1::2]
        return torch.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1).flatten(-2)
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1)


class ApplyRotary(Function):
    """Rotary position embedding with explicit positions.

    x is (batch, seq, heads, head_dim), positions is an integer table
    (batch, seq). ``interleaved`` selects GPT-J pairs instead of NeoX halves.
    """

    @staticmethod
    def _tables(x, positions, base):
        half = x.shape[-1] // 2
        inv_freq = base ** (-torch.arange(half, dtype=x.dtype, device=x.device) / half)
        ang = positions.to(x.dtype)[:, :, None, None] * inv_freq
        return ang.cos(), ang.sin()

    @staticmethod
    def forward(ctx, x, positions, base=10000.0, interleaved=False):
        cos, sin = ApplyRotary._tables(x, positions, base)
        ctx.save_for_backward(cos, sin)
        ctx.interleaved = interleaved
        return _rotate(x, cos, sin, interleaved)

    @staticmethod
    def backward(ctx, grad):
        cos, sin = ctx.saved_tensors
        # the inverse of a rotation is the rotation by the opposite angle
        return _rotate(grad, cos, -sin, ctx.interleaved), None, None, None


class PackedSwiGLU(Function):
    # [..., 2 * hidden] -> [..., hidden]

    @staticmethod
    def forward(x, dim):
        gate, up = x.chunk(2, dim=dim)
        return F.silu(gate) * up

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.dim = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        gate, up = x.chunk(2, dim=ctx.dim)
        sig = torch.sigmoid(gate)
        silu = gate * sig
        return torch.cat((dy * up * (sig + silu * (1 - sig)), dy * silu), dim=ctx.dim), None


class SwiGLUFeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w12 = nn.Linear(dim, 2 * hidden, bias=False)
        self.w3 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w3(PackedSwiGLU.apply(self.w12(x), -1))


def _act(h, kind):
    if kind == "gelu":
        return F.gelu(h)
    if kind == "silu":
        return F.silu(h)
    if kind == "relu2":
        return F.relu(h).square()
    raise ValueError(f"unknown activation {kind!r}")


def _act_grad(h, kind):
    if kind == "gelu":
        cdf = 0.5 * (1.0 + torch.erf(h * math.sqrt(0.5)))
        pdf = torch.exp(-0.5 * h * h) / math.sqrt(2.0 * math.pi)
        return cdf + h * pdf
    if kind == "silu":
        s = torch.sigmoid(h)
        return s * (1.0 + h * (1.0 - s))
    if kind == "relu2":
        return 2.0 * h
    raise ValueError(f"unknown activation {kind!r}")


class RecomputedMLP(Function):
    """``act(x @ w1.T + b1) @ w2.T + b2`` without storing the hidden layer.

    Parameters
    ----------
    x : Tensor, shape (..., dim)
    w1 : Tensor, shape (hidden, dim)
    b1 : Tensor, shape (hidden,)
    w2 : Tensor, shape (dim_out, hidden)
    b2 : Tensor, shape (dim_out,)
    activation : {"gelu", "silu", "relu2"}
    """

    @staticmethod
    def forward(ctx, x, w1, b1, w2, b2, activation="gelu"):
        ctx.save_for_backward(x, w1, b1, w2)
        ctx.activation = activation
        return F.linear(_act(F.linear(x, w1, b1), activation), w2, b2)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, w1, b1, w2 = ctx.saved_tensors
        h = F.linear(x, w1, b1)
        a = _act(h, ctx.activation)
        g2 = g.reshape(-1, g.shape[-1])
        dx = dw1 = db1 = dw2 = db2 = None
        if ctx.needs_input_grad[3]:
            dw2 = g2.t() @ a.reshape(-1, a.shape[-1])
        if ctx.needs_input_grad[4]:
            db2 = g2.sum(0)
        dh = (g @ w2) * _act_grad(h, ctx.activation)
        dh2 = dh.reshape(-1, dh.shape[-1])
        if ctx.needs_input_grad[0]:
            dx = dh @ w1
        if ctx.needs_input_grad[1]:
            dw1 = dh2.t() @ x.reshape(-1, x.shape[-1])
        if ctx.needs_input_grad[2]:
            db1 = dh2.sum(0)
        return dx, dw1, db1, dw2, db2, None


class AddRMSNorm(Function):
    """Pre-norm residual step: ``s = x + residual; y = s / rms(s) * weight``.

    :param x: output of the previous sub-layer, ``(..., dim)``
    :param residual: residual stream, ``(..., dim)``
    :param weight: gain, ``(dim,)``
    :param eps: added to the mean square
    :returns: ``(y, s)``; ``s`` is the updated residual stream
    """

    @staticmethod
    def forward(ctx, x, residual, weight, eps=1e-6):
        s = x + residual
        rstd = torch.rsqrt(s.pow(2).mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(s, rstd, weight)
        return s * rstd * weight, s

    @staticmethod
    @once_differentiable
    def backward(ctx, dy, ds):
        s, rstd, weight = ctx.saved_tensors
        s_hat = s * rstd
        wdy = dy * weight
        d = rstd * (wdy - s_hat * (wdy * s_hat).mean(-1, keepdim=True))
        dweight = (dy * s_hat).reshape(-1, s.shape[-1]).sum(0)
        return d, d + ds, dweight, None


class MaskedSoftmax(Function):
    """Softmax over ``dim`` where mask is False means "not there".

    A row in which everything is masked gives zeros rather than NaN.

    scores: "*b q k", mask: bool, broadcastable to scores
    """

    @staticmethod
    def forward(scores, mask, dim):
        y = scores.masked_fill(~mask, float("-inf")).softmax(dim)
        return y.masked_fill(~mask, 0.0)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, ctx.dim = inputs
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None, None


def masked_softmax(scores, mask, dim=-1):
    return MaskedSoftmax.apply(scores, mask, dim)
