"""Fused building blocks for the decoder stack (eager reference backend).

These are the pure-PyTorch counterparts of our GPU kernels.  They keep the same
call signatures and save the same residuals, so that a model can be debugged on
CPU and then switched to the compiled backend through ``BACKEND``.

Shape letters used below
------------------------
``B`` batch, ``T`` query positions, ``S`` key positions, ``H`` query heads,
``G`` key/value heads, ``D`` head size, ``E`` model width, ``F`` feed-forward
width, ``V`` vocabulary.
"""
from __future__ import annotations

import math
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

BACKEND = "eager"
DEFAULT_EPS = 1e-6
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
GELU_CUBIC = 0.044715


def _acc_dtype(t: Tensor) -> torch.dtype:
    """Accumulate half types in fp32, leave fp32 / fp64 alone."""
    return torch.promote_types(t.dtype, torch.float32)


# --------------------------------------------------------------------------- #
# norm
# --------------------------------------------------------------------------- #
class FusedAddRMSNorm(Function):
    """Residual add followed by RMS normalisation.

    Computes ``h = x + residual`` and ``y = h / rms(h) * w`` with
    ``rms(h) = sqrt(mean(h**2, -1) + eps)``; ``w`` is ``weight`` or
    ``1 + weight`` when ``unit_offset`` is set (Gemma convention).

    Args:
        x: ``(..., E)``.
        residual: ``(..., E)`` or ``None`` for the first block.
        weight: ``(E,)``.
        eps: added to the mean square.
        unit_offset: store the gain as an offset from one.

    Returns:
        ``(y, h)``, both ``(..., E)``; ``h`` is the residual of the next block.
    """

    @staticmethod
    def forward(ctx, x, residual, weight, eps=DEFAULT_EPS, unit_offset=False):
        h = x + residual if residual is not None else x.clone()
        hf = h.to(_acc_dtype(h))
        rstd = torch.rsqrt(hf.square().mean(-1, keepdim=True) + eps)
        gain = weight + 1.0 if unit_offset else weight
        y = (hf * rstd * gain).to(x.dtype)
        ctx.save_for_backward(h, rstd, weight)
        ctx.unit_offset = unit_offset
        ctx.has_residual = residual is not None
        return y, h

    @staticmethod
    @once_differentiable
    def backward(ctx, dy, dh):
        h, rstd, weight = ctx.saved_tensors
        hf = h.to(rstd.dtype)
        normed = hf * rstd
        gain = weight + 1.0 if ctx.unit_offset else weight

        d_weight = None
        if ctx.needs_input_grad[2]:
            d_weight = (dy * normed).reshape(-1, weight.numel()).sum(0).to(weight.dtype)

        d_in = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            dn = dy * gain
            d_in = rstd * (dn - normed * (dn * normed).mean(-1, keepdim=True))
            d_in = d_in.to(h.dtype) + dh
        d_res = d_in if ctx.has_residual else None
        return d_in, d_res, d_weight, None, None


# --------------------------------------------------------------------------- #
# feed forward
# --------------------------------------------------------------------------- #
def _activate(name: str, z: Tensor) -> Tensor:
    if name == "silu":
        return z * torch.sigmoid(z)
    if name == "gelu_tanh":
        return 0.5 * z * (1.0 + torch.tanh(SQRT_2_OVER_PI * (z + GELU_CUBIC * z**3)))
    raise ValueError(f"unknown gate activation {name!r}")


def _activate_slope(name: str, z: Tensor) -> Tensor:
    """Derivative of :func:`_activate` with respect to ``z``."""
    if name == "silu":
        s = torch.sigmoid(z)
        return s * (1.0 + z * (1.0 - s))
    if name == "gelu_tanh":
        t = torch.tanh(SQRT_2_OVER_PI * (z + GELU_CUBIC * z**3))
        inner = SQRT_2_OVER_PI * (1.0 + 3.0 * GELU_CUBIC * z * z)
        return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * inner
    raise ValueError(f"unknown gate activation {name!r}")


class GatedUnit(Function):
    """``act(gate + b_gate) * (up + b_up)`` on a packed projection.

    Args:
        packed: ``(..., 2F)``, gate half first.
        bias: ``(2F,)`` or ``None``, packed the same way.
        activation: ``"silu"`` or ``"gelu_tanh"``.

    Returns:
        ``(..., F)``.
    """

    @staticmethod
    def forward(ctx, packed, bias, activation="silu"):
        gate, up = packed.chunk(2, dim=-1)
        ctx.save_for_backward(gate, up)
        ctx.activation = activation
        if bias is not None:
            b_gate, b_up = bias.chunk(2)
            gate = gate + b_gate
            up = up + b_up
        return _activate(activation, gate) * up

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        gate, up = ctx.saved_tensors
        d_gate = dy * up * _activate_slope(ctx.activation, gate)
        d_up = dy * _activate(ctx.activation, gate)
        d_packed = torch.cat([d_gate, d_up], dim=-1)
        d_bias = None
        if ctx.needs_input_grad[1]:
            d_bias = d_packed.flatten(0, -2).sum(0) if d_packed.dim() > 1 else d_packed
        return d_packed, d_bias, None


# --------------------------------------------------------------------------- #
# rotary embedding
# --------------------------------------------------------------------------- #
def _rotary_angles(positions: Tensor, dim: int, base: float, dtype) -> Tuple[Tensor, Tensor]:
    inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    ang = positions.to(torch.float64)[:, None, :, None] * inv
    return ang.cos().to(dtype), ang.sin().to(dtype)  # (B, 1, T, dim/2)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    dim = 2 * cos.shape[-1]
    rot, keep = x[..., :dim], x[..., dim:]
    if interleaved:
        a, b = rot[..., 0::2], rot[..., 1::2]
        out = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    else:
        a, b = rot.chunk(2, dim=-1)
        out = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return torch.cat([out, keep], dim=-1)


class RotaryQK(Function):
    """Rotate queries and keys in one go.

    Args:
        q: ``(B, H, T, D)``.
        k: ``(B, G, T, D)``.
        positions: integer ``(B, T)``; packed sequences restart at zero.
        rotary_dim: how many leading channels turn (even, ``<= D``).
        base: wavelength base.
        interleaved: pair channels ``(0, 1), (2, 3), ...`` (GPT-J) rather than
            ``(0, rotary_dim/2), ...`` (NeoX).
    """

    @staticmethod
    def forward(ctx, q, k, positions, rotary_dim, base=10000.0, interleaved=False):
        cos, sin = _rotary_angles(positions, rotary_dim, base, q.dtype)
        ctx.save_for_backward(cos, sin)
        ctx.interleaved = interleaved
        return _rotate(q, cos, sin, interleaved), _rotate(k, cos, sin, interleaved)

    @staticmethod
    def backward(ctx, dq, dk):
        cos, sin = ctx.saved_tensors
        # a rotation is undone by the opposite angle
        gq = _rotate(dq, cos, -sin, ctx.interleaved) if ctx.needs_input_grad[0] else None
        gk = _rotate(dk, cos, -sin, ctx.interleaved) if ctx.needs_input_grad[1] else None
        return gq, gk, None, None, None, None


# --------------------------------------------------------------------------- #
# attention
# --------------------------------------------------------------------------- #
def _allowed(t: int, s: int, causal: bool, window: Optional[int], device) -> Tensor:
    row = torch.arange(t, device=device)[:, None] + (s - t)
    col = torch.arange(s, device=device)[None, :]
    ok = torch.ones(t, s, dtype=torch.bool, device=device)
    if causal:
        ok = ok & (col <= row)
    if window is not None:
        ok = ok & (row - col < window)
    return ok


class GroupedAttention(Function):
    """Softmax attention with shared key/value heads and optional soft cap.

    Query head ``h`` reads key/value head ``h // (H // G)``.

    Args:
        q: ``(B, H, T, D)``.
        k: ``(B, G, S, D)`` with ``H % G == 0``.
        v: ``(B, G, S, D)``.
        causal: mask the future; queries are aligned to the end of the keys.
        window: optional sliding window length.
        softcap: optional ``cap * tanh(score / cap)`` on the scores.

    Returns:
        ``(B, H, T, D)``.
    """

    @staticmethod
    def forward(ctx, q, k, v, causal=True, window=None, softcap=None):
        rep = q.shape[1] // k.shape[1]
        scale = q.shape[-1] ** -0.5
        kk = k.repeat_interleave(rep, dim=1)
        vv = v.repeat_interleave(rep, dim=1)
        raw = torch.einsum("bhtd,bhsd->bhts", q, kk) * scale
        if softcap is not None:
            raw = softcap * torch.tanh(raw / softcap)
        ok = _allowed(q.shape[2], k.shape[2], causal, window, q.device)
        prob = torch.softmax(raw.masked_fill(~ok, float("-inf")), dim=-1)
        ctx.save_for_backward(q, k, v, raw, prob)
        ctx.scale, ctx.softcap, ctx.rep = scale, softcap, rep
        return torch.einsum("bhts,bhsd->bhtd", prob, vv)

    @staticmethod
    @once_differentiable
    def backward(ctx, do):
        q, k, v, score, prob = ctx.saved_tensors
        rep = ctx.rep
        kk = k.repeat_interleave(rep, dim=1)
        vv = v.repeat_interleave(rep, dim=1)

        dvv = torch.einsum("bhts,bhtd->bhsd", prob, do)
        dp = torch.einsum("bhtd,bhsd->bhts", do, vv)
        ds = prob * (dp - (dp * prob).sum(-1, keepdim=True))
        if ctx.softcap is not None:
            ds = ds * (1.0 - (score / ctx.softcap).square())
        ds = ds * ctx.scale

        dq = torch.einsum("bhts,bhsd->bhtd", ds, kk)
        dkk = torch.einsum("bhts,bhtd->bhsd", ds, q)
        # fold the query heads back on the heads they share
        b, g, s, d = k.shape
        dk = dkk.reshape(b, rep, g, s, d).sum(1)
        dv = dvv.reshape(b, rep, g, s, d).sum(1)
        return dq, dk, dv, None, None, None


# --------------------------------------------------------------------------- #
# head
# --------------------------------------------------------------------------- #
def make_linear_ce(
    *,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_weight: float = 0.0,
    reduction: str = "mean",
    chunk: int = 1024,
):
    """Build a fused ``lm_head`` + cross entropy that never keeps ``(N, V)`` logits.

    The returned callable takes ``(hidden (N, E), weight (V, E), bias (V,) or
    None, target (N,))`` and gives ``(loss, n_tokens)``.  ``loss`` is

        sum_i [ (1 - a) * nll_i + a * mean_v(-log p_iv) + z * lse_i**2 ]

    over positions whose target is not ``ignore_index``, divided by their number
    for ``reduction="mean"``.  ``n_tokens`` is an integer count.
    """
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be 'mean' or 'sum', got {reduction!r}")

    class LinearCE(Function):
        @staticmethod
        def forward(ctx, hidden, weight, bias, target):
            n_tokens = (target != ignore_index).sum()
            denom = n_tokens.clamp(min=1).to(hidden.dtype) if reduction == "mean" else 1.0
            loss = hidden.new_zeros(())
            g_hidden = torch.zeros_like(hidden)
            g_weight = torch.zeros_like(weight)
            g_bias = torch.zeros_like(bias) if bias is not None else None

            for lo in range(0, hidden.shape[0], chunk):
                sl = slice(lo, lo + chunk)
                h, t = hidden[sl], target[sl]
                valid = t != ignore_index
                keep, safe = valid.to(h.dtype), torch.where(valid, t, torch.zeros_like(t))
                logits = F.linear(h, weight, bias)
                lse = torch.logsumexp(logits, dim=-1)
                picked = logits.gather(1, safe[:, None]).squeeze(1)
                row = lse - (1.0 - label_smoothing) * picked - label_smoothing * logits.mean(-1)
                row = row + z_weight * lse.square()
                loss = loss + (row * keep).sum()

                prob = torch.exp(logits - lse[:, None])
                d = prob * (1.0 + 2.0 * z_weight * lse)[:, None]
                d = d - label_smoothing / logits.shape[1]
                d.scatter_add_(1, safe[:, None], d.new_full((len(t), 1), label_smoothing - 1.0))
                d = d * (keep / denom)[:, None]
                g_hidden[sl] = d @ weight
                g_weight += d.t() @ h
                if g_bias is not None:
                    g_bias += d.sum(0)

            ctx.save_for_backward(g_hidden, g_weight, g_bias)
            ctx.mark_non_differentiable(n_tokens)
            return loss / denom, n_tokens

        @staticmethod
        @once_differentiable
        def backward(ctx, d_loss, _d_count):
            g_hidden, g_weight, g_bias = ctx.saved_tensors
            return (
                g_hidden * d_loss if ctx.needs_input_grad[0] else None,
                g_weight * d_loss if ctx.needs_input_grad[1] else None,
                g_bias * d_loss if g_bias is not None else None,
                None,
            )

    return LinearCE.apply


# --------------------------------------------------------------------------- #
# modules
# --------------------------------------------------------------------------- #
class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float = DEFAULT_EPS, unit_offset: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width) if unit_offset else torch.ones(width))
        self.eps, self.unit_offset = eps, unit_offset

    def forward(self, x: Tensor, residual: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        return FusedAddRMSNorm.apply(x, residual, self.weight, self.eps, self.unit_offset)


class GatedMLP(nn.Module):
    def __init__(self, width: int, hidden: int, bias: bool = False, activation: str = "silu"):
        super().__init__()
        self.w_in = nn.Parameter(torch.randn(2 * hidden, width) * width**-0.5)
        self.b_in = nn.Parameter(torch.zeros(2 * hidden)) if bias else None
        self.w_out = nn.Linear(hidden, width, bias=bias)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.w_out(GatedUnit.apply(F.linear(x, self.w_in), self.b_in, self.activation))


class DecoderBlock(nn.Module):
    """Pre-norm block: attention with shared heads, then a gated MLP."""

    def __init__(self, width=64, heads=8, kv_heads=2, rotary_dim=4, softcap=None, mlp_bias=False):
        super().__init__()
        self.h, self.g, self.d = heads, kv_heads, width // heads
        self.rotary_dim, self.softcap = rotary_dim, softcap
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.d, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.mlp = GatedMLP(width, 2 * width, bias=mlp_bias)

    def forward(self, x: Tensor, residual: Optional[Tensor], positions: Tensor):
        b, t, _ = x.shape
        y, residual = self.norm1(x, residual)
        qkv = self.qkv(y).view(b, t, -1, self.d).transpose(1, 2)
        q, k, v = qkv.split([self.h, self.g, self.g], dim=1)
        q, k = RotaryQK.apply(q, k, positions, self.rotary_dim)
        o = GroupedAttention.apply(q, k, v, True, None, self.softcap)
        o = self.proj(o.transpose(1, 2).reshape(b, t, -1))
        y, residual = self.norm2(o, residual)
        return self.mlp(y), residual


if __name__ == "__main__":
    torch.manual_seed(0)
    block = DecoderBlock(mlp_bias=True)
    head = nn.Linear(64, 101)
    ce = make_linear_ce(label_smoothing=0.1, z_weight=1e-4, chunk=8)
    tok = torch.randint(0, 101, (2, 12))
    tok[1, 9:] = -100
    out, res = block(torch.randn(2, 12, 64), None, torch.arange(12).expand(2, 12))
    loss, n = ce((out + res).flatten(0, 1), head.weight, head.bias, tok.flatten())
    loss.backward()
    print(loss.item(), int(n))
