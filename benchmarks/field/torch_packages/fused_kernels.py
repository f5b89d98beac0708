"""Fused building blocks of transformer layers, written in plain torch.

Every function stores only what its backward needs, instead of the whole graph of intermediate results.
"""

from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = [
    "AddRMSNormFunction",
    "GroupNormFunction",
    "GroupedQueryAttentionFunction",
    "MaskedSoftmax",
    "RMSNormFunction",
    "RotaryFunction",
    "SiLUMulFunction",
    "add_rms_norm",
    "grouped_query_attention",
]


def _acc(x):
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


class RMSNormFunction(Function):
    """Root mean square normalisation over the last dimension.

    Parameters
    ----------
    X : Tensor, shape (..., hidden)
    W : Tensor, shape (hidden,)
    eps : float
        Added to the mean square.
    offset : float
        Added to the weight, 0.0 for Llama and 1.0 for Gemma.
    """

    @staticmethod
    def forward(ctx, X, W, eps=1e-6, offset=0.0):
        x = _acc(X)
        rstd = torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + eps)
        ctx.save_for_backward(X, W, rstd)
        ctx.offset = offset
        return (x * rstd * (offset + _acc(W))).to(X.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, dY):
        X, W, rstd = ctx.saved_tensors
        x, dy = _acc(X), _acc(dY)
        xhat = x * rstd
        dX = dW = None
        if ctx.needs_input_grad[0]:
            m = dy * (ctx.offset + _acc(W))
            dX = rstd * (m - xhat * (m * xhat).mean(dim=-1, keepdim=True))
            dX = dX.to(X.dtype)
        if ctx.needs_input_grad[1]:
            dW = (dy * xhat).reshape(-1, X.shape[-1]).sum(dim=0).to(W.dtype)
        return dX, dW, None, None


class AddRMSNormFunction(Function):
    """Adds a residual and normalises the sum.

    Returns the normalised tensor and the sum ``S = X + R``, which is the residual of the next block. With
    ``offset=1.0`` the weight is stored around zero.
    """

    @staticmethod
    def forward(ctx, X, R, W, eps=1e-6, offset=0.0):
        S = X + R
        s = _acc(S)
        rstd = torch.rsqrt(s.square().mean(-1, keepdim=True) + eps)
        Y = (s * rstd * (_acc(W) + offset)).to(X.dtype)
        ctx.save_for_backward(S, W, rstd)
        return Y, S

    @staticmethod
    def backward(ctx, dY, dS):
        S, W, rstd = ctx.saved_tensors
        xhat = _acc(S) * rstd
        m = _acc(dY) * _acc(W)
        dX = rstd * (m - xhat * (m * xhat).mean(-1, keepdim=True)) + dS
        dX = dX.to(S.dtype)
        dW = (_acc(dY) * xhat).flatten(0, -2).sum(0).to(W.dtype)
        return dX, dX, dW, None, None


def add_rms_norm(x, residual, weight, *, eps=1e-6, offset=0.0):
    return AddRMSNormFunction.apply(x, residual, weight, eps, offset)


class GroupNormFunction(Function):
    @staticmethod
    def forward(ctx, X, weight, bias, num_groups, eps=1e-5):
        n, c = X.shape[:2]
        if c % num_groups:
            raise ValueError(f"{c} channels do not fall into {num_groups} groups")
        grouped = X.reshape(n, num_groups, -1)
        mean = grouped.mean(-1, keepdim=True)
        rstd = torch.rsqrt(grouped.var(-1, unbiased=False, keepdim=True) + eps)
        xhat = ((grouped - mean) * rstd).view_as(X)
        shape = (1, c) + (1,) * (X.dim() - 2)
        ctx.save_for_backward(xhat, rstd, weight)
        ctx.num_groups = num_groups
        return xhat * weight.view(shape) + bias.view(shape)

    @staticmethod
    def backward(ctx, dY):
        xhat, rstd, weight = ctx.saved_tensors
        n, c = xhat.shape[:2]
        shape = (1, c) + (1,) * (xhat.dim() - 2)
        g = dY.reshape(n, ctx.num_groups, -1)
        h = xhat.reshape(n, ctx.num_groups, -1)
        centred = g - g.mean(-1, keepdim=True) - h * (g * h).mean(-1, keepdim=True)
        dX = (centred * rstd).reshape(xhat.shape) * weight.view(shape)
        dims = [0] + list(range(2, dY.dim()))
        return dX, (dY * xhat).sum(dims), dY.sum(dims), None, None


class GroupNorm(nn.Module):
    """Drop-in group normalisation on :class:`GroupNormFunction`."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5):
        super().__init__()
        self.num_groups = num_groups
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(num_channels))
        self.bias = nn.Parameter(torch.zeros(num_channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return GroupNormFunction.apply(x, self.weight, self.bias, self.num_groups, self.eps)


class SiLUMulFunction(Function):
    """``silu(gate_multiplier * a) * b``, the gate of SwiGLU blocks; ``a`` and ``b`` of one shape."""

    @staticmethod
    def forward(ctx, a: torch.Tensor, b: torch.Tensor, gate_multiplier: float = 1.0) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        ctx.gate_multiplier = gate_multiplier
        z = a * gate_multiplier
        return z * torch.sigmoid(z) * b

    @staticmethod
    def backward(ctx, dc: torch.Tensor):
        a, b = ctx.saved_tensors
        z = a * ctx.gate_multiplier
        sig = torch.sigmoid(z)
        silu = z * sig
        da = dc * b * (sig + silu * (1 - sig)) * ctx.gate_multiplier
        db = dc * silu
        return da, db, None


class MaskedSoftmax(Function):
    """Softmax in which only some of the entries take part.

    Args:
        input (Tensor): scores of any shape.
        mask (Tensor): bool or int, broadcastable to ``input``; zero entries take no part and come out as 0.
            A slice without any entry comes out as zeros.
        dim (int): dimension along which the softmax runs.
    """

    @staticmethod
    def forward(ctx, input, mask, dim=-1):
        drop = ~mask.to(torch.bool).expand_as(input)
        top = input.masked_fill(drop, -torch.inf).amax(dim, keepdim=True)
        top = top.masked_fill(torch.isinf(top), 0.0)
        e = torch.exp(input.masked_fill(drop, -torch.inf) - top)
        total = e.sum(dim, keepdim=True)
        output = e / total.masked_fill(total == 0, 1.0)
        ctx.dim = dim
        ctx.save_for_backward(output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        (output,) = ctx.saved_tensors
        inner = (grad_output * output).sum(ctx.dim, keepdim=True)
        return output * (grad_output - inner), None, None


class GroupedQueryAttentionFunction(Function):
    """Attention in which several query heads share one key/value head.

    :param q: queries, ``(batch, heads, length, head_dim)``
    :param k: keys, ``(batch, kv_heads, kv_length, head_dim)``; ``heads`` is a multiple of ``kv_heads``
    :param v: values, shaped as the keys
    :param scale: factor of the scores, ``head_dim ** -0.5`` when None
    :param causal: position ``t`` sees the keys up to ``t`` only
    """

    @staticmethod
    def _probabilities(q, k, scale, causal):
        scores = torch.matmul(q, k.transpose(-1, -2)) * scale
        if causal:
            keep = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
            scores = scores.masked_fill(~keep, float("-inf"))
        return scores.softmax(-1)

    @staticmethod
    def forward(ctx, q, k, v, scale: Optional[float] = None, causal: bool = False):
        n_rep = q.shape[1] // k.shape[1]
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        full_k = k.repeat_interleave(n_rep, dim=1)
        full_v = v.repeat_interleave(n_rep, dim=1)
        p = GroupedQueryAttentionFunction._probabilities(q, full_k, scale, causal)
        ctx.save_for_backward(q, k, v)
        ctx.n_rep, ctx.scale, ctx.causal = n_rep, scale, causal
        return torch.matmul(p, full_v)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        q, k, v = ctx.saved_tensors
        full_k = k.repeat_interleave(ctx.n_rep, dim=1)
        full_v = v.repeat_interleave(ctx.n_rep, dim=1)
        p = GroupedQueryAttentionFunction._probabilities(q, full_k, ctx.scale, ctx.causal)
        dv = torch.matmul(p.transpose(-1, -2), grad)
        dp = torch.matmul(grad, full_v.transpose(-1, -2))
        ds = p * (dp - (dp * p).sum(-1, keepdim=True)) * ctx.scale
        dq = torch.matmul(ds, full_k)
        dk = torch.matmul(ds.transpose(-1, -2), q)
        b, kv_heads, s, d = k.shape
        dk = dk.reshape(b, ctx.n_rep, kv_heads, s, d).sum(1)
        dv = dv.reshape(b, ctx.n_rep, kv_heads, s, d).sum(1)
        return dq, dk, dv, None, None


def grouped_query_attention(q, k, v, *, scale=None, causal=False):
    """Function form of :class:`GroupedQueryAttentionFunction`."""
    if q.shape[1] % k.shape[1]:
        raise ValueError("the number of query heads has to be a multiple of the number of key/value heads")
    return GroupedQueryAttentionFunction.apply(q, k, v, scale, causal)


def _rotate(x, cos, sin, width):
    head, tail = x[..., :width], x[..., width:]
    a, b = head.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin, tail), dim=-1)


class RotaryFunction(Function):
    """Rotary position embedding of queries and keys.

    Args:
        q (Tensor): ``(batch, heads, length, head_dim)``
        k (Tensor): ``(batch, kv_heads, length, head_dim)``
        positions (LongTensor): ``(length,)`` or ``(batch, length)``
        base (float): base of the frequencies
        rotary_dim (int, optional): even number of leading features that are rotated, all of them when None
    """

    @staticmethod
    def forward(q, k, positions, base=10000.0, rotary_dim=None) -> Tuple[torch.Tensor, torch.Tensor]:
        cos, sin, width = RotaryFunction.table(q, positions, base, rotary_dim)
        return _rotate(q, cos, sin, width), _rotate(k, cos, sin, width)

    @staticmethod
    def table(q, positions, base, rotary_dim):
        width = q.shape[-1] if rotary_dim is None else rotary_dim
        half = torch.arange(0, width, 2, device=q.device, dtype=q.dtype)
        angle = positions.to(q.dtype)[..., None] * base ** (-half / width)
        if positions.dim() == 2:
            angle = angle[:, None]
        return angle.cos(), angle.sin(), width

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, _, positions, base, rotary_dim = inputs
        cos, sin, width = RotaryFunction.table(q, positions, base, rotary_dim)
        ctx.save_for_backward(cos, sin)
        ctx.width = width

    @staticmethod
    def backward(ctx, dq, dk):
        cos, sin = ctx.saved_tensors
        return _rotate(dq, cos, -sin, ctx.width), _rotate(dk, cos, -sin, ctx.width), None, None, None
