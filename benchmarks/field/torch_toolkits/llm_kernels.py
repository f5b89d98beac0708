"""Reference (eager) versions of the fused blocks that the decoder layers use.

Every block keeps only what its backward needs and recomputes the rest.
"""

from typing import Optional, Tuple

import torch
import torch.nn as nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

__all__ = [
    "PolyNormFunction",
    "PolyNorm",
    "TokenWeightedQuickGeGLUFunction",
    "token_weighted_quick_geglu",
    "ScaledUpperTriangSoftmaxFunction",
    "SoftcapAttentionFunction",
    "SoftcapAttention",
    "grouped_mm",
]

_QUICK_GELU = 1.702


# --------------------------------------------------------------------------- polynomial normalisation


def _inv_rms(u, eps):
    return torch.rsqrt(u.square().mean(dim=-1, keepdim=True) + eps)


class PolyNormFunction(Function):
    @staticmethod
    def forward(ctx, X: torch.Tensor, W: torch.Tensor, B: torch.Tensor, eps: float = 1e-6):
        ctx.eps = eps
        ctx.save_for_backward(X, W)
        out = torch.zeros_like(X)
        for slot, power in enumerate((3, 2, 1)):
            u = X**power
            out = out + W[slot] * (u * _inv_rms(u, eps))
        return out + B

    @staticmethod
    @once_differentiable
    def backward(ctx, dY):
        X, W = ctx.saved_tensors
        dX = torch.zeros_like(X)
        dW = torch.zeros_like(W)
        for slot, power in enumerate((3, 2, 1)):
            u = X**power
            r = _inv_rms(u, ctx.eps)
            normed = u * r
            dW[slot] = (dY * normed).sum()
            dn = dY * W[slot]
            du = r * (dn - normed * (dn * normed).mean(dim=-1, keepdim=True))
            dX += du * power * X ** (power - 1)
        dB = dY.sum().reshape(1)
        return dX, dW, dB, None


class PolyNorm(nn.Module):
    def __init__(self, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 1.0 / 3.0))
        self.bias = nn.Parameter(torch.zeros(1))
        self.eps = eps

    def forward(self, hidden_states):
        return PolyNormFunction.apply(hidden_states, self.weight, self.bias, self.eps)


# --------------------------------------------------------------------------- gated activation of routed tokens


class TokenWeightedQuickGeGLUFunction(Function):
    @staticmethod
    def forward(ctx, input, weights, linear_offset=0.0):
        gate, linear = input.chunk(2, dim=-1)
        ctx.save_for_backward(input, weights)
        ctx.linear_offset = linear_offset
        return gate * torch.sigmoid(_QUICK_GELU * gate) * (linear + linear_offset) * weights

    @staticmethod
    def backward(ctx, grad_output):
        input, weights = ctx.saved_tensors
        gate, linear = input.chunk(2, dim=-1)
        sig = torch.sigmoid(_QUICK_GELU * gate)
        act = gate * sig
        d_act = sig * (1.0 + _QUICK_GELU * gate * (1.0 - sig))

        scaled = grad_output * weights
        d_gate = scaled * (linear + ctx.linear_offset) * d_act
        d_linear = scaled * act
        d_weights = (grad_output * act * linear).sum(dim=-1, keepdim=True)
        return torch.cat((d_gate, d_linear), dim=-1), d_weights, None


def token_weighted_quick_geglu(
    input: torch.Tensor, weights: torch.Tensor, linear_offset: float = 0.0
) -> torch.Tensor:
    """Quick-GeGLU of routed tokens, scaled by the router's probabilities.

    ``input`` is ``(..., 2 * hidden)`` (gate first, then the linear half), ``weights`` is ``(..., 1)``;
    ``linear_offset`` is added to the linear half before the product.
    """
    shape = input.shape
    out = TokenWeightedQuickGeGLUFunction.apply(
        input.reshape(-1, shape[-1]), weights.reshape(-1, 1), linear_offset
    )
    return out.reshape(*shape[:-1], shape[-1] // 2)


# --------------------------------------------------------------------------- attention


def _causal_mask(sq, sk, device):
    rows = torch.arange(sq, device=device)[:, None] + (sk - sq)
    return torch.arange(sk, device=device)[None, :] > rows


class ScaledUpperTriangSoftmaxFunction(Function):
    """softmax(scale * inputs) over the keys, keys ahead of the query left out.

    :param inputs: scores, ``(attn_batches, sq, sk)`` with ``sq <= sk``; the last query sees all keys.
    :param scale: factor applied before the softmax.
    """

    @staticmethod
    def forward(inputs, scale):
        sq, sk = inputs.shape[-2:]
        if sq > sk:
            raise ValueError("more queries than keys")
        scores = (inputs * scale).masked_fill(_causal_mask(sq, sk, inputs.device), float("-inf"))
        return torch.softmax(scores, dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.scale = inputs
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (probs,) = ctx.saved_tensors
        inner = (grad_output * probs).sum(dim=-1, keepdim=True)
        return ctx.scale * probs * (grad_output - inner), None


class SoftcapAttentionFunction(Function):
    """Attention with tanh-capped scores.

    Args:
        q: ``(batch, heads, sq, dim)``.
        k: ``(batch, heads, sk, dim)``.
        v: ``(batch, heads, sk, dim_v)``.
        scale: score scale; ``None`` means ``dim ** -0.5``.
        softcap: scores are replaced by ``softcap * tanh(scores / softcap)``; ``None`` or 0 leaves them.
        causal: hide keys ahead of the query (aligned at the last query).

    Returns:
        The attended values ``(batch, heads, sq, dim_v)`` and the log-sum-exp of the scores
        ``(batch, heads, sq)``, for merging chunks and for the z-loss.
    """

    @staticmethod
    def forward(ctx, q, k, v, scale=None, softcap=None, causal=True):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        scores = torch.matmul(q, k.transpose(-1, -2)) * scale
        if softcap:
            scores = softcap * torch.tanh(scores / softcap)
        if causal:
            scores = scores.masked_fill(_causal_mask(q.shape[-2], k.shape[-2], q.device), float("-inf"))
        lse = torch.logsumexp(scores, dim=-1)
        out = torch.matmul(torch.exp(scores - lse.unsqueeze(-1)), v)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.settings = (scale, softcap, causal)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out, grad_lse):
        q, k, v, out, lse = ctx.saved_tensors
        scale, softcap, causal = ctx.settings
        scores = torch.matmul(q, k.transpose(-1, -2)) * scale
        slope = None
        if softcap:
            squashed = torch.tanh(scores / softcap)
            scores = softcap * squashed
            slope = 1.0 - squashed.square()
        if causal:
            scores = scores.masked_fill(_causal_mask(q.shape[-2], k.shape[-2], q.device), float("-inf"))
        probs = torch.exp(scores - lse.unsqueeze(-1))

        grad_v = torch.matmul(probs.transpose(-1, -2), grad_out)
        delta = (grad_out * out).sum(dim=-1, keepdim=True)
        grad_scores = probs * (torch.matmul(grad_out, v.transpose(-1, -2)) - delta)
        if slope is not None:
            grad_scores = grad_scores * slope
        grad_scores = grad_scores * scale
        grad_q = torch.matmul(grad_scores, k)
        grad_k = torch.matmul(grad_scores.transpose(-1, -2), q)
        return grad_q, grad_k, grad_v, None, None, None


class SoftcapAttention(nn.Module):
    """Self attention; also gives the mean squared log-normaliser as an auxiliary loss."""

    def __init__(self, dim, heads, *, softcap: Optional[float] = 50.0, causal: bool = True):
        super().__init__()
        self.heads, self.softcap, self.causal = heads, softcap, causal
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x) -> Tuple[torch.Tensor, torch.Tensor]:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        y, lse = SoftcapAttentionFunction.apply(q, k, v, None, self.softcap, self.causal)
        return self.out(y.transpose(1, 2).flatten(-2)), lse.square().mean()


# --------------------------------------------------------------------------- experts


def _bounds(offsets):
    ends = offsets.tolist()
    return list(zip([0] + ends[:-1], ends))


@torch.library.custom_op("llm_kernels::grouped_mm", mutates_args=())
def grouped_mm(x: torch.Tensor, weight: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Multiply consecutive groups of rows by their own matrices.

    Rows ``offsets[e - 1]:offsets[e]`` of ``x`` ``(tokens, d_in)`` meet ``weight[e]`` of
    ``(experts, d_in, d_out)``. Groups may be empty; rows after the last offset give zeros.
    """
    out = x.new_zeros(x.shape[0], weight.shape[-1])
    for expert, (start, stop) in enumerate(_bounds(offsets)):
        if stop > start:
            out[start:stop] = x[start:stop] @ weight[expert]
    return out


@grouped_mm.register_fake
def _(x, weight, offsets):
    return x.new_empty(x.shape[0], weight.shape[-1])


def _grouped_mm_setup(ctx, inputs, output):
    x, weight, offsets = inputs
    ctx.save_for_backward(x, weight, offsets)


def _grouped_mm_backward(ctx, grad):
    x, weight, offsets = ctx.saved_tensors
    grad_x = grad_w = None
    if ctx.needs_input_grad[0]:
        grad_x = grouped_mm(grad, weight.transpose(-1, -2), offsets)
    if ctx.needs_input_grad[1]:
        grad_w = torch.stack([x[i:j].transpose(0, 1) @ grad[i:j] for i, j in _bounds(offsets)])
    return grad_x, grad_w, None


grouped_mm.register_autograd(_grouped_mm_backward, setup_context=_grouped_mm_setup)
