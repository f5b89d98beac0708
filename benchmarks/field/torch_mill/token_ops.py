"""Kernels for transformer and graph blocks, written out in plain torch."""

from dataclasses import dataclass
from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch import Tensor
from torch.autograd.function import once_differentiable

SQRT_2_OVER_PI = 0.7978845608028654
GELU_CUBIC = 0.044715


def _bias_geglu(y: Tensor, bias: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    if bias is not None:
        y = y + bias
    return y.chunk(2, dim=-1)


class BiasGeGLUFunction(torch.autograd.Function):
    """tanh-GELU gated linear unit, ``gelu(a) * b`` with ``[a, b] = y + bias``."""

    @staticmethod
    def forward(ctx, y: Tensor, bias: Optional[Tensor] = None) -> Tensor:
        ctx.save_for_backward(y, bias)
        a, b = _bias_geglu(y, bias)
        t = torch.tanh(SQRT_2_OVER_PI * a * (1.0 + GELU_CUBIC * a * a))
        return 0.5 * a * (1.0 + t) * b

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        y, bias = ctx.saved_tensors
        a, b = _bias_geglu(y, bias)
        t = torch.tanh(SQRT_2_OVER_PI * a * (1.0 + GELU_CUBIC * a * a))
        inner = SQRT_2_OVER_PI * (1.0 + GELU_CUBIC * a * a)
        d_gelu = 0.5 * (1.0 + t) + 0.5 * a * (1.0 - t * t) * inner
        grad_y = torch.cat((grad_output * b * d_gelu, grad_output * 0.5 * a * (1.0 + t)), dim=-1)
        grad_bias = None
        if bias is not None and ctx.needs_input_grad[1]:
            grad_bias = grad_y.reshape(-1, grad_y.shape[-1]).sum(0)
        return grad_y, grad_bias


class TokenDispatchFunction(torch.autograd.Function):
    """Copy tokens into expert slots.

    Args:
        tokens (Tensor): ``(num_tokens, hidden)``.
        slot_to_token (LongTensor): for each slot the token it holds, or -1 for an
            empty slot. A token routed to several experts fills several slots.
        gate (Tensor, optional): ``(num_slots,)`` factors applied to the copies.

    Returns:
        Tensor: ``(num_slots, hidden)``, zero in empty slots.
    """

    @staticmethod
    def forward(ctx, tokens, slot_to_token, gate=None):
        valid = slot_to_token >= 0
        picked = tokens[slot_to_token.clamp(min=0)]
        out = picked * valid.unsqueeze(-1)
        if gate is not None:
            out = out * gate.unsqueeze(-1)
        ctx.save_for_backward(tokens, slot_to_token, gate)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        tokens, slot_to_token, gate = ctx.saved_tensors
        valid = slot_to_token >= 0
        rows = slot_to_token[valid]
        upstream = grad_out[valid]
        grad_gate = None
        if gate is not None:
            grad_gate = torch.zeros_like(gate)
            grad_gate[valid] = (upstream * tokens[rows]).sum(-1)
            upstream = upstream * gate[valid].unsqueeze(-1)
        grad_tokens = torch.zeros_like(tokens)
        grad_tokens[rows] = upstream
        return grad_tokens, None, grad_gate


def _edge_softmax(score: Tensor, dst: Tensor, num_dst: int) -> Tensor:
    index = dst.unsqueeze(-1).expand_as(score)
    top = score.new_full((num_dst, score.shape[1]), float("-inf"))
    top = top.scatter_reduce(0, index, score, "amax")
    e = torch.exp(score - top[dst])
    total = torch.zeros_like(top).index_add_(0, dst, e)
    return e / total[dst]


class GATAggregateFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, score_src, score_dst, edge_index, negative_slope=0.2):
        src, dst = edge_index
        raw = score_src[src] + score_dst[dst]
        score = torch.where(raw > 0, raw, negative_slope * raw)
        alpha = _edge_softmax(score, dst, score_dst.shape[0])
        out = x.new_zeros((score_dst.shape[0],) + x.shape[1:])
        out.index_add_(0, dst, alpha.unsqueeze(-1) * x[src])
        ctx.save_for_backward(x, raw, alpha, out, src, dst)
        ctx.negative_slope = negative_slope
        ctx.num_src, ctx.num_dst = score_src.shape[0], score_dst.shape[0]
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, raw, alpha, out, src, dst = ctx.saved_tensors
        grad_dst = grad[dst]
        grad_x = torch.zeros_like(x).index_add_(0, src, alpha.unsqueeze(-1) * grad_dst)
        centred = (grad_dst * (x[src] - out[dst])).sum(-1)
        grad_score = alpha * centred
        grad_raw = torch.where(raw > 0, grad_score, ctx.negative_slope * grad_score)
        heads = raw.shape[1]
        grad_ss = raw.new_zeros(ctx.num_src, heads).index_add_(0, src, grad_raw)
        grad_sd = raw.new_zeros(ctx.num_dst, heads).index_add_(0, dst, grad_raw)
        return grad_x, grad_ss, grad_sd, None, None


class GATLayer(nn.Module):
    def __init__(self, in_dim: int, out_dim: int, heads: int = 1, negative_slope: float = 0.2):
        super().__init__()
        self.proj = nn.Linear(in_dim, heads * out_dim, bias=False)
        self.attn_src = nn.Parameter(torch.zeros(heads, out_dim))
        self.attn_dst = nn.Parameter(torch.zeros(heads, out_dim))
        self.heads, self.out_dim, self.negative_slope = heads, out_dim, negative_slope

    def forward(self, h, edge_index):
        x = self.proj(h).view(-1, self.heads, self.out_dim)
        s, d = (x * self.attn_src).sum(-1), (x * self.attn_dst).sum(-1)
        return GATAggregateFunction.apply(x, s, d, edge_index, self.negative_slope).flatten(1)


@dataclass(frozen=True)
class AlibiConfig:
    causal: bool = True
    scale: Optional[float] = None


def _alibi_probs(q, k, slopes, config):
    lq, lk = q.shape[-2], k.shape[-2]
    scale = q.shape[-1] ** -0.5 if config.scale is None else config.scale
    rows = torch.arange(lq, device=q.device).unsqueeze(-1) + (lk - lq)
    distance = (rows - torch.arange(lk, device=q.device)).to(q.dtype)
    logits = scale * q @ k.transpose(-1, -2) - slopes.view(-1, 1, 1) * distance.abs()
    if config.causal:
        logits = logits.masked_fill(distance < 0, float("-inf"))
    lse = torch.logsumexp(logits, dim=-1)
    return torch.exp(logits - lse.unsqueeze(-1)), lse, distance.abs(), scale


class ALiBiAttentionFunction(torch.autograd.Function):
    """Attention with linear position biases.

    Takes ``q`` of shape ``(batch, heads, lq, dim)``, ``k`` and ``v`` with ``lk >= lq``
    keys (queries are aligned with the last keys), and one slope per head. Gives
    the output and the log-sum-exp of the scores, ``(batch, heads, lq)``.
    """

    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, v: Tensor, slopes: Tensor, config: AlibiConfig = AlibiConfig()):
        p, lse, _, _ = _alibi_probs(q, k, slopes, config)
        out = p @ v
        ctx.save_for_backward(q, k, v, slopes, out)
        ctx.config = config
        return out, lse

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        q, k, v, slopes, out = ctx.saved_tensors
        p, _, distance, scale = _alibi_probs(q, k, slopes, ctx.config)
        delta = (grad_out * out).sum(-1, keepdim=True)
        ds = p * (grad_out @ v.transpose(-1, -2) - delta + grad_lse.unsqueeze(-1))
        dq = scale * ds @ k
        dk = scale * ds.transpose(-1, -2) @ q
        dv = p.transpose(-1, -2) @ grad_out
        dslopes = -(ds * distance).sum(dim=(0, 2, 3)).view_as(slopes)
        return dq, dk, dv, dslopes, None


class WeightNormFunction(torch.autograd.Function):
    """Weight normalisation ``w = g * v / ||v||`` for linear and convolution kernels.

    Args:
        v: direction tensor, e.g. ``(out, in)`` or ``(out, in, k)``.
        g: magnitudes; size ``v.shape[dim]`` along ``dim`` and one elsewhere.
        dim: the axis that keeps its own magnitude, 0 or 1.
    """

    @staticmethod
    def forward(ctx, v, g, dim=0):
        axes = tuple(i for i in range(v.dim()) if i != dim)
        norm = v.pow(2).sum(dim=axes, keepdim=True).sqrt()
        ctx.save_for_backward(v, g, norm)
        ctx.dim = dim
        return v * (g / norm)

    @staticmethod
    def backward(ctx, grad_w):
        v, g, norm = ctx.saved_tensors
        unit = v / norm
        inner = (grad_w * unit).sum(dim=1 - ctx.dim, keepdim=True)
        grad_g = inner.sum_to_size(g.shape)
        grad_v = (g / norm) * (grad_w - unit * inner)
        return grad_v, grad_g, None
