"""Layers of a transformer whose hidden states live on the unit sphere."""

import math
from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

EPS = 1e-12


def _unit(x: Tensor) -> Tuple[Tensor, Tensor]:
    """Returns x scaled to unit length along the last axis, and the length."""
    length = (x.square().sum(-1, keepdim=True) + EPS).sqrt()
    return x / length, length


def _unit_pullback(grad: Tensor, unit: Tensor, length: Tensor) -> Tensor:
    return (grad - unit * (grad * unit).sum(-1, keepdim=True)) / length


class SphereStep(torch.autograd.Function):
    """Moves the hidden state towards the output of a branch and returns to the sphere.

    Computes ``unit(h + alpha * (unit(branch) - h))``.

    Args:
        h: Hidden state, (batch, time, dim).
        branch: Raw output of attention or of the MLP, (batch, time, dim).
        alpha: Step per channel, (dim,). May be negative while training.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, branch: Tensor, alpha: Tensor) -> Tensor:
        target, branch_len = _unit(branch)
        out, out_len = _unit(torch.lerp(h, target, alpha.expand_as(h)))
        ctx.save_for_backward(h, alpha, target, branch_len, out, out_len)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor):
        h, alpha, target, branch_len, out, out_len = ctx.saved_tensors
        inner = _unit_pullback(grad, out, out_len)
        grad_h = inner * (1 - alpha)
        grad_branch = _unit_pullback(inner * alpha, target, branch_len)
        grad_alpha = (inner * (target - h)).flatten(0, -2).sum(0)
        return grad_h, grad_branch, grad_alpha


class CosineLogits(torch.autograd.Function):
    """Output head: cosine between state and row-normalised vocabulary, with a learned scale per word.

    Args:
        x: States on the sphere, (..., dim).
        weight: Vocabulary, (vocab, dim); rows are normalised here.
        scale: Learned scale per word, (vocab,), initialised to one.
        gain: Fixed multiplier, usually sqrt(dim).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, scale: Tensor, gain: float) -> Tensor:
        rows, row_len = _unit(weight)
        logits = F.linear(x, rows)
        logits = logits.mul_(scale * gain)
        ctx.gain = gain
        ctx.save_for_backward(x, rows, row_len, scale, logits)
        return logits

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor):
        x, rows, row_len, scale, logits = ctx.saved_tensors
        grad_x = grad_w = grad_s = None
        scaled = grad * (scale * ctx.gain)
        if ctx.needs_input_grad[0]:
            grad_x = scaled @ rows
        if ctx.needs_input_grad[1]:
            outer = scaled.reshape(-1, rows.shape[0]).t() @ x.reshape(-1, rows.shape[1])
            grad_w = _unit_pullback(outer, rows, row_len)
        if ctx.needs_input_grad[2]:
            grad_s = (grad * logits).reshape(-1, rows.shape[0]).sum(0)
        return grad_x, grad_w, grad_s, None


class HeadGate(torch.autograd.Function):
    """Multiplies every attention head by a gate read from the residual stream.

    Args:
        heads: (batch, n_heads, time, head_dim).
        score: (batch, time, n_heads), or (batch, 1, n_heads) for one gate per sequence.
        mode: "sigmoid" in (0, 1), "double" in (0, 2), or "tanh" for 1 + tanh(score).
    """

    @staticmethod
    def forward(ctx: Any, heads: Tensor, score: Tensor, mode: str) -> Tensor:
        if mode == "sigmoid":
            gate = torch.sigmoid(score)
        elif mode == "double":
            gate = 2 * torch.sigmoid(score)
        elif mode == "tanh":
            gate = 2 * torch.sigmoid(2 * score)
        else:
            raise ValueError(mode)
        ctx.mode = mode
        ctx.save_for_backward(heads, score, gate)
        return heads * gate.transpose(1, 2).unsqueeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor):
        heads, score, gate = ctx.saved_tensors
        grad_heads = grad * gate.transpose(1, 2).unsqueeze(-1)
        grad_gate = (grad * heads).sum(-1).transpose(1, 2).sum_to_size(gate.shape)
        if ctx.mode == "tanh":
            slope = 2 * gate * torch.sigmoid(-2 * score)
        else:
            slope = gate * torch.sigmoid(-score)
        return grad_heads, grad_gate * slope, None


class ResultantPool(torch.autograd.Function):
    """Sentence vector: direction of the sum of the token directions.

    Args:
        tokens: (batch, time, dim), any length.
        mask: (batch, time), True on real tokens, at least one per sentence.

    Returns:
        (batch, dim), on the sphere.
    """

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, mask: Tensor) -> Tensor:
        units, lengths = _unit(tokens)
        units = units * mask.unsqueeze(-1).to(units.dtype)
        pooled, resultant = _unit(units.sum(1))
        ctx.save_for_backward(units, lengths, pooled, resultant)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor):
        units, lengths, pooled, resultant = ctx.saved_tensors
        grad_sum = _unit_pullback(grad, pooled, resultant)
        return _unit_pullback(grad_sum.unsqueeze(1).expand_as(units), units, lengths), None


class SphereBlock(nn.Module):
    """Attention and MLP with spherical residual steps."""

    def __init__(self, dim: int, n_heads: int, gate: str = "sigmoid"):
        super().__init__()
        self.n_heads, self.gate = n_heads, gate
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.score = nn.Linear(dim, n_heads)
        self.out = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
        self.step_attn = nn.Parameter(torch.full((dim,), 0.05))
        self.step_mlp = nn.Parameter(torch.full((dim,), 0.05))

    def forward(self, h: Tensor, causal: bool = True) -> Tensor:
        b, t, d = h.shape
        q, k, v = self.qkv(h).view(b, t, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        heads = F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=math.sqrt(d // self.n_heads)
        )
        heads = HeadGate.apply(heads, self.score(h), self.gate)
        h = SphereStep.apply(h, self.out(heads.transpose(1, 2).reshape(b, t, d)), self.step_attn)
        return SphereStep.apply(h, self.mlp(h), self.step_mlp)


class SphereHead(nn.Module):
    def __init__(self, dim: int, vocab: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, dim))
        self.scale = nn.Parameter(torch.ones(vocab))
        self.gain = math.sqrt(dim)

    def forward(self, h: Tensor, target: Optional[Tensor] = None) -> Tensor:
        logits = CosineLogits.apply(h, self.weight, self.scale, self.gain)
        if target is None:
            return logits
        return F.cross_entropy(logits.flatten(0, -2), target.flatten())


def sentence_similarity(a: Tensor, b: Tensor, mask_a: Tensor, mask_b: Tensor) -> Tensor:
    return (ResultantPool.apply(a, mask_a) * ResultantPool.apply(b, mask_b)).sum(-1)
