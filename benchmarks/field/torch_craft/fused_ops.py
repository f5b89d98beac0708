"""Fused building blocks for decoder-only and diffusion transformers.

Everything in this file is plain PyTorch: it is the reference path that is used on CPU and in
the unit tests of the Triton kernels, so each op mirrors the kernel's signature (same saved
tensors, same recomputation) and carries its own backward.

Shape glossary
--------------
B   batch            T   sequence length        D   model width
H   query heads      Hk  key/value heads        E   head dim
F   ffn width        V   vocabulary
"""

from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

IGNORE_INDEX = -100
_REDUCTIONS = ("mean", "sum", "none")


def _sum_to_vector(t: torch.Tensor) -> torch.Tensor:
    """Collapse every axis but the last one."""
    return t.reshape(-1, t.shape[-1]).sum(dim=0)


# --------------------------------------------------------------------------------------
# norms
# --------------------------------------------------------------------------------------
class AddRMSNorm(torch.autograd.Function):
    """Residual add followed by RMSNorm, in one pass.

    Args:
        x:           (..., D) output of the previous sub-layer.
        residual:    (..., D) residual stream.
        weight:      (D,) gain.
        eps:         added to the mean square.
        unit_offset: Gemma convention, gain is ``1 + weight``.

    Returns:
        normed (..., D), the new residual stream ``x + residual`` (..., D), and ``rstd`` (..., 1)
        which is only meant for logging and is not differentiable.
    """

    @staticmethod
    def forward(x, residual, weight, eps, unit_offset):
        h = x + residual
        rstd = torch.rsqrt(h.square().mean(dim=-1, keepdim=True) + eps)
        gain = 1.0 + weight if unit_offset else weight
        return h * rstd * gain, h, rstd

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, weight, _, unit_offset = inputs
        _, h, rstd = output
        ctx.mark_non_differentiable(rstd)
        ctx.save_for_backward(h, rstd, weight)
        ctx.unit_offset = unit_offset

    @staticmethod
    def backward(ctx, grad_normed, grad_h, _grad_rstd):
        h, rstd, weight = ctx.saved_tensors
        gain = 1.0 + weight if ctx.unit_offset else weight
        unit = h * rstd
        g = grad_normed * gain
        dh = rstd * (g - unit * (g * unit).mean(dim=-1, keepdim=True)) + grad_h
        dweight = _sum_to_vector(grad_normed * unit) if ctx.needs_input_grad[2] else None
        return dh, dh, dweight, None, None


class AdaLNModulate(torch.autograd.Function):
    """LayerNorm without affine, modulated by the conditioning: ``ln(x) * (1 + scale) + shift``.

    Args:
        x:     (B, T, D) tokens.
        shift: (B, D) from the timestep / class embedding.
        scale: (B, D) idem; the projection that makes it is zero-initialised (adaLN-Zero).
        eps:   added to the variance.

    Returns:
        (B, T, D)
    """

    @staticmethod
    def forward(ctx, x, shift, scale, eps):
        mean = x.mean(dim=-1, keepdim=True)
        centred = x - mean
        rstd = torch.rsqrt(centred.square().mean(dim=-1, keepdim=True) + eps)
        xhat = centred * rstd
        ctx.save_for_backward(xhat, rstd, scale)
        return xhat * (1.0 + scale.unsqueeze(1)) + shift.unsqueeze(1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        xhat, rstd, scale = ctx.saved_tensors
        dx = dshift = dscale = None
        if ctx.needs_input_grad[0]:
            m1 = grad_out.mean(dim=-1, keepdim=True)
            m2 = (grad_out * xhat).mean(dim=-1, keepdim=True)
            dx = (grad_out - m1 - xhat * m2) * rstd
        if ctx.needs_input_grad[1]:
            dshift = grad_out.sum(dim=1)
        if ctx.needs_input_grad[2]:
            dscale = (grad_out * xhat).sum(dim=1)
        return dx, dshift, dscale, None


# --------------------------------------------------------------------------------------
# gated activation
# --------------------------------------------------------------------------------------
class PackedSwiGLU(torch.autograd.Function):
    """``silu(gate) * up`` on the output of one packed projection.

    Args:
        packed:      (..., 2F). Two layouts exist in the checkpoints we load:
                     ``[gate_0 .. gate_{F-1}, up_0 .. up_{F-1}]`` (default) and, with
                     ``interleaved=True``, ``[gate_0, up_0, gate_1, up_1, ...]``.
        interleaved: see above.

    Returns:
        (..., F)

    Only the packed input is kept; the sigmoid is recomputed.
    """

    @staticmethod
    def _split(packed, interleaved):
        if interleaved:
            return packed[..., 0::2], packed[..., 1::2]
        return packed.chunk(2, dim=-1)

    @staticmethod
    def forward(ctx, packed, interleaved=False):
        gate, up = PackedSwiGLU._split(packed, interleaved)
        ctx.save_for_backward(packed)
        ctx.interleaved = interleaved
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx, grad_out):
        (packed,) = ctx.saved_tensors
        gate, up = PackedSwiGLU._split(packed, ctx.interleaved)
        sig = torch.sigmoid(gate)
        dgate = grad_out * up * sig * (1.0 + gate * (1.0 - sig))
        dup = grad_out * gate * sig
        return torch.cat((dgate, dup), dim=-1), None


# --------------------------------------------------------------------------------------
# rotary position embedding
# --------------------------------------------------------------------------------------
def rotary_tables(max_len: int, rotary_dim: int, base: float = 10000.0, dtype=None):
    """cos / sin tables, each (max_len, rotary_dim // 2)."""
    inv = base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float64) / rotary_dim)
    ang = torch.arange(max_len, dtype=torch.float64)[:, None] * inv[None]
    dtype = dtype or torch.get_default_dtype()
    return ang.cos().to(dtype), ang.sin().to(dtype)


def _rotate(x, cos, sin, interleaved):
    # x (B, T, H, E); cos, sin (B, T, 1, R / 2)
    r = 2 * cos.shape[-1]
    rot, rest = x[..., :r], x[..., r:]
    if interleaved:
        a, b = rot[..., 0::2], rot[..., 1::2]
        rot = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
    else:
        a, b = rot.chunk(2, dim=-1)
        rot = torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)
    return torch.cat((rot, rest), dim=-1)


class RotaryQK(torch.autograd.Function):
    """Rotate queries and keys together.

    Args:
        q:            (B, T, H, E)
        k:            (B, T, Hk, E)   (grouped-query attention: Hk divides H)
        cos, sin:     (L, R / 2) tables, R <= E, constants. Channels past R pass through.
        position_ids: (B, T) int64 rows of the tables.
        interleaved:  GPT-J pairing (2i, 2i + 1) instead of the NeoX halves.
    """

    @staticmethod
    def forward(ctx, q, k, cos, sin, position_ids, interleaved):
        c = cos[position_ids].unsqueeze(2)
        s = sin[position_ids].unsqueeze(2)
        ctx.save_for_backward(c, s)
        ctx.interleaved = interleaved
        return _rotate(q, c, s, interleaved), _rotate(k, c, s, interleaved)

    @staticmethod
    def backward(ctx, grad_q, grad_k):
        c, s = ctx.saved_tensors
        # a rotation is orthogonal, its transpose turns the other way
        dq = _rotate(grad_q, c, -s, ctx.interleaved) if ctx.needs_input_grad[0] else None
        dk = _rotate(grad_k, c, -s, ctx.interleaved) if ctx.needs_input_grad[1] else None
        return dq, dk, None, None, None, None


# --------------------------------------------------------------------------------------
# attention probabilities
# --------------------------------------------------------------------------------------
class BiasedMaskedSoftmax(torch.autograd.Function):
    """``softmax(scale * scores + bias)`` over the keys that may be seen.

    Args:
        scores:      (B, H, Tq, Tk) raw ``q @ k^T``.
        bias:        (H, Tq, Tk) learned relative position bias, shared by the batch, or None.
        key_padding: (B, Tk) bool, True on real keys, or None.
        scale:       float.
        causal:      query ``i`` sees keys up to ``i + Tk - Tq``.

    Returns:
        (B, H, Tq, Tk) probabilities; a query that sees no key gets a row of zeros.
    """

    @staticmethod
    def forward(ctx, scores, bias, key_padding, scale, causal):
        tq, tk = scores.shape[-2:]
        z = scores * scale
        if bias is not None:
            z = z + bias
        keep = torch.ones(1, 1, tq, tk, dtype=torch.bool, device=scores.device)
        if causal:
            keep = keep.tril(diagonal=tk - tq)
        if key_padding is not None:
            keep = keep & key_padding[:, None, None, :]
        z = z.masked_fill(~keep, float("-inf"))
        top = z.amax(dim=-1, keepdim=True)
        top = torch.where(torch.isinf(top), torch.zeros_like(top), top)
        e = torch.exp(z - top)
        total = e.sum(dim=-1, keepdim=True)
        probs = e / torch.where(total == 0, torch.ones_like(total), total)
        ctx.save_for_backward(probs)
        ctx.scale = scale
        return probs

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_probs):
        (probs,) = ctx.saved_tensors
        dz = probs * (grad_probs - (grad_probs * probs).sum(dim=-1, keepdim=True))
        dbias = dz.sum(dim=0) if ctx.needs_input_grad[1] else None
        return dz * ctx.scale, dbias, None, None, None


# --------------------------------------------------------------------------------------
# language-model loss
# --------------------------------------------------------------------------------------
class FusedLMCrossEntropy(torch.autograd.Function):
    """Cross entropy with label smoothing and z-loss; the gradient is made in the forward pass.

    Args:
        logits:          (N, V)
        labels:          (N,) int64; rows equal to ``ignore_index`` add nothing to the loss.
        ignore_index:    int.
        label_smoothing: float in [0, 1).
        z_loss:          coefficient of ``logsumexp(logits) ** 2``.
        reduction:       "mean" (over the rows that are not ignored), "sum" or "none".

    Returns:
        scalar, or (N,) for "none".
    """

    @staticmethod
    def forward(ctx, logits, labels, ignore_index=IGNORE_INDEX, label_smoothing=0.0, z_loss=0.0,
                reduction="mean"):
        if reduction not in _REDUCTIONS:
            raise ValueError(f"reduction must be one of {_REDUCTIONS}, got {reduction!r}")
        n, v = logits.shape
        valid = labels != ignore_index
        safe = labels.masked_fill(~valid, 0)
        lse = torch.logsumexp(logits, dim=-1)
        nll = lse - logits.gather(1, safe[:, None]).squeeze(1)
        smooth = lse - logits.mean(dim=-1)
        loss = (1.0 - label_smoothing) * nll + label_smoothing * smooth + z_loss * lse.square()
        loss = loss.masked_fill(~valid, 0.0)

        grad = torch.exp(logits - lse[:, None])
        grad = grad * (1.0 + 2.0 * z_loss * lse[:, None])
        grad = grad - label_smoothing / v
        grad.scatter_add_(1, safe[:, None], grad.new_full((n, 1), -(1.0 - label_smoothing)))
        grad = grad * valid[:, None]

        if reduction == "mean":
            loss = loss.sum() / valid.sum().clamp(min=1)
            grad = grad / n
        elif reduction == "sum":
            loss = loss.sum()
        ctx.save_for_backward(grad)
        ctx.per_row = reduction == "none"
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_loss):
        (grad,) = ctx.saved_tensors
        if ctx.per_row:
            grad_loss = grad_loss[:, None]
        return grad * grad_loss, None, None, None, None, None


# --------------------------------------------------------------------------------------
# modules
# --------------------------------------------------------------------------------------
class FusedRMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6, unit_offset: bool = False):
        super().__init__()
        self.eps, self.unit_offset = eps, unit_offset
        self.weight = nn.Parameter(torch.zeros(dim) if unit_offset else torch.ones(dim))

    def forward(self, x, residual) -> Tuple[torch.Tensor, torch.Tensor]:
        y, stream, _ = AddRMSNorm.apply(x, residual, self.weight, self.eps, self.unit_offset)
        return y, stream


class DiTModulation(nn.Module):
    """Shift / scale from a conditioning vector (B, C), applied to tokens (B, T, D)."""

    def __init__(self, dim: int, cond_dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.proj = nn.Linear(cond_dim, 2 * dim)
        nn.init.zeros_(self.proj.weight)
        nn.init.zeros_(self.proj.bias)

    def forward(self, x, cond):
        shift, scale = self.proj(F.silu(cond)).chunk(2, dim=-1)
        return AdaLNModulate.apply(x, shift, scale, self.eps)


class SwiGLUFeedForward(nn.Module):
    def __init__(self, dim: int, hidden: int, interleaved: bool = False):
        super().__init__()
        self.interleaved = interleaved
        self.w_in = nn.Linear(dim, 2 * hidden, bias=False)
        self.w_out = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w_out(PackedSwiGLU.apply(self.w_in(x), self.interleaved))


class GroupedQueryAttention(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int, rotary_dim: int, max_len: int = 256,
                 bias_len: Optional[int] = None, interleaved: bool = False):
        super().__init__()
        self.h, self.hk, self.e = heads, kv_heads, dim // heads
        self.interleaved = interleaved
        self.q = nn.Linear(dim, heads * self.e, bias=False)
        self.kv = nn.Linear(dim, 2 * kv_heads * self.e, bias=False)
        self.o = nn.Linear(heads * self.e, dim, bias=False)
        self.rel = nn.Parameter(torch.zeros(heads, bias_len, bias_len)) if bias_len else None
        cos, sin = rotary_tables(max_len, rotary_dim)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, position_ids, key_padding=None):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.h, self.e)
        k, v = self.kv(x).view(b, t, 2, self.hk, self.e).unbind(2)
        q, k = RotaryQK.apply(q, k, self.cos, self.sin, position_ids, self.interleaved)
        rep = self.h // self.hk
        k, v = (z.repeat_interleave(rep, dim=2).transpose(1, 2) for z in (k, v))
        scores = q.transpose(1, 2) @ k.transpose(-1, -2)
        bias = None if self.rel is None else self.rel[:, :t, :t]
        probs = BiasedMaskedSoftmax.apply(scores, bias, key_padding, 1.0 / math.sqrt(self.e), True)
        return self.o((probs @ v).transpose(1, 2).reshape(b, t, -1))


def lm_loss(logits: torch.Tensor, labels: torch.Tensor, *, label_smoothing: float = 0.0,
            z_loss: float = 1e-4, reduction: str = "mean") -> torch.Tensor:
    """Next-token loss for logits (B, T, V) and labels (B, T); padded labels are -100."""
    logits = logits[:, :-1].reshape(-1, logits.shape[-1])
    labels = labels[:, 1:].reshape(-1)
    return FusedLMCrossEntropy.apply(logits, labels, IGNORE_INDEX, label_smoothing, z_loss, reduction)
