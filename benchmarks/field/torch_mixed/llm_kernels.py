"""Reference (eager) versions of our fused training kernels."""
from __future__ import annotations

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


# --------------------------------------------------------------------------- rotary

def _rope_tables(positions, dim, base, dtype):
    inv = base ** (-torch.arange(0, dim, 2, device=positions.device, dtype=torch.float64) / dim)
    ang = positions.to(torch.float64)[..., None] * inv           # b t d/2
    return ang.cos().to(dtype)[:, :, None], ang.sin().to(dtype)[:, :, None]


def _rotate(x, cos, sin, interleaved):
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
    else:
        a, b = x.chunk(2, dim=-1)
    ra, rb = a * cos - b * sin, a * sin + b * cos
    if interleaved:
        return torch.stack((ra, rb), dim=-1).flatten(-2)
    return torch.cat((ra, rb), dim=-1)


class ApplyRotary(torch.autograd.Function):
    """x: (b, t, h, d); positions: int (b, t); only the first `rotary_dim` features turn."""

    @staticmethod
    def forward(ctx, x: Tensor, positions: Tensor, rotary_dim: int, base: float = 10000.0,
                interleaved: bool = False) -> Tensor:
        cos, sin = _rope_tables(positions, rotary_dim, base, x.dtype)
        ctx.save_for_backward(positions)
        ctx.args = (rotary_dim, base, interleaved)
        turned = _rotate(x[..., :rotary_dim], cos, sin, interleaved)
        return torch.cat((turned, x[..., rotary_dim:]), dim=-1)

    @staticmethod
    def backward(ctx, dy):
        (positions,) = ctx.saved_tensors
        rotary_dim, base, interleaved = ctx.args
        cos, sin = _rope_tables(positions, rotary_dim, base, dy.dtype)
        back = _rotate(dy[..., :rotary_dim], cos, -sin, interleaved)
        return torch.cat((back, dy[..., rotary_dim:]), dim=-1), None, None, None, None


def apply_rotary(x, positions=None, rotary_dim=None, base=10000.0, interleaved=False):
    if positions is None:
        positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
    return ApplyRotary.apply(x, positions, rotary_dim or x.shape[-1], base, interleaved)


# ------------------------------------------------------------------------------ mlp

class SwiGLUFunction(torch.autograd.Function):
    """packed: (..., 2 * d) holding [gate, up]  ->  silu(gate) * up"""

    @staticmethod
    def forward(ctx, packed):
        gate, up = packed.chunk(2, dim=-1)
        ctx.save_for_backward(packed)
        return F.silu(gate) * up

    @staticmethod
    def backward(ctx, dh):
        (packed,) = ctx.saved_tensors
        gate, up = packed.chunk(2, dim=-1)
        sig = torch.sigmoid(gate)
        d_gate = dh * up * sig * (1 + gate * (1 - sig))
        d_up = dh * gate * sig
        return torch.cat([d_gate, d_up], dim=-1)


class LoRALinearFunction(torch.autograd.Function):
    """y = x W^T + scaling * (x A^T) B^T

    x (..., in), weight (out, in), lora_a (r, in), lora_b (out, r)
    """

    @staticmethod
    def forward(ctx, x, weight, lora_a, lora_b, scaling: float):
        ctx.save_for_backward(x, weight, lora_a, lora_b)
        ctx.scaling = scaling
        return x @ weight.t() + scaling * ((x @ lora_a.t()) @ lora_b.t())

    @staticmethod
    def backward(ctx, dy):
        x, weight, lora_a, lora_b = ctx.saved_tensors
        s = ctx.scaling
        dx = d_weight = d_a = d_b = None
        x2 = x.reshape(-1, x.shape[-1])
        dy2 = dy.reshape(-1, dy.shape[-1])
        dyb = s * (dy2 @ lora_b)                     # (n, r)
        if ctx.needs_input_grad[0]:
            dx = (dy2 @ weight + dyb @ lora_a).view_as(x)
        if ctx.needs_input_grad[1]:
            d_a = dyb.t() @ x2
        if ctx.needs_input_grad[2]:
            d_weight = dy2.t() @ x2
        if ctx.needs_input_grad[3]:
            d_b = s * (dy2.t() @ (x2 @ lora_a.t()))
        return dx, d_weight, d_a, d_b, None


class LoRALinear(nn.Module):
    def __init__(self, in_features, out_features, r=4, alpha=8.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_features, in_features) / math.sqrt(in_features),
                                   requires_grad=False)
        self.lora_a = nn.Parameter(torch.randn(r, in_features) / math.sqrt(in_features))
        self.lora_b = nn.Parameter(torch.zeros(out_features, r))
        self.scaling = alpha / r

    def forward(self, x):
        return LoRALinearFunction.apply(x, self.weight, self.lora_a, self.lora_b, self.scaling)


def _spread(t: Tensor, group_size: int) -> Tensor:
    return t.repeat_interleave(group_size, dim=1)


class QuantLinearFn(torch.autograd.Function):
    """Group-wise dequantised linear layer with trainable quantisation grid.

    x       (..., in)
    qweight (out, in) int8 codes
    scales  (out, in // group_size)
    zeros   (out, in // group_size), real valued zero points
    bias    (out,) or None
    """

    @staticmethod
    def forward(ctx, x, qweight, scales, zeros, bias, group_size):
        w = (qweight.to(x.dtype) - _spread(zeros, group_size)) * _spread(scales, group_size)
        ctx.save_for_backward(x, qweight, scales, zeros)
        ctx.group_size, ctx.has_bias = group_size, bias is not None
        return F.linear(x, w, bias)

    @staticmethod
    def backward(ctx, dy):
        x, qweight, scales, zeros = ctx.saved_tensors
        gs = ctx.group_size
        shifted = qweight.to(x.dtype) - _spread(zeros, gs)
        w = shifted * _spread(scales, gs)
        dy2, x2 = dy.reshape(-1, dy.shape[-1]), x.reshape(-1, x.shape[-1])
        dw = dy2.t() @ x2                                     # (out, in)
        out_f, in_f = dw.shape
        d_scales = (dw * shifted).view(out_f, in_f // gs, gs).sum(-1)
        d_zeros = -dw.view(out_f, in_f // gs, gs).sum(-1) * scales
        d_bias = dy2.sum(0) if ctx.has_bias else None
        return dy @ w, None, d_scales, d_zeros, d_bias, None


# ------------------------------------------------------------------------------ moe

class MoECombine(torch.autograd.Function):
    """Un-permutes expert outputs back to token order.

    expert_out (num_slots, d)   rows of all expert buffers
    gates      (tokens, k)      router weights
    slots      (tokens, k) int  row of each choice, -1 if it overflowed the capacity
    """

    @staticmethod
    def forward(ctx, expert_out, gates, slots):
        keep = slots >= 0
        rows = expert_out[slots.clamp(min=0)] * keep[..., None]
        ctx.save_for_backward(rows, gates, slots)
        ctx.num_slots = expert_out.shape[0]
        return (rows * gates[..., None]).sum(1)

    @staticmethod
    def backward(ctx, dy):
        rows, gates, slots = ctx.saved_tensors
        d_gates = (rows * dy[:, None]).sum(-1)
        d_rows = gates[..., None] * dy[:, None]
        d_expert = dy.new_zeros(ctx.num_slots, dy.shape[-1])
        d_expert.index_add_(0, slots.clamp(min=0).flatten(), d_rows.flatten(0, 1))
        return d_expert, d_gates, None


def moe_layer(x, router_logits, experts, capacity, k=2):
    """experts: (E, d, d) one matrix per expert."""
    gates, choice = router_logits.softmax(-1).topk(k, dim=-1)
    n_exp = experts.shape[0]
    onehot = F.one_hot(choice.flatten(), n_exp)
    rank = (onehot.cumsum(0) * onehot).sum(-1) - 1
    slots = torch.where(rank < capacity, choice.flatten() * capacity + rank, -1).view_as(choice)
    buf = x.new_zeros(n_exp * capacity, x.shape[-1])
    tok = torch.arange(x.shape[0]).repeat_interleave(k)
    ok = slots.flatten() >= 0
    buf = buf.index_put((slots.flatten()[ok],), x[tok[ok]])
    h = torch.bmm(buf.view(n_exp, capacity, -1), experts).flatten(0, 1)
    return MoECombine.apply(h, gates, slots)


# ---------------------------------------------------------------------------- losses

class FusedLinearCrossEntropy(torch.autograd.Function):
    """Head projection and cross entropy without keeping the (n, vocab) logits.

    hidden (n, d), weight (vocab, d), target (n,) with `ignore_index` for padding.
    Mean over the rows that count. The gradients are formed chunk by chunk during
    forward, while the logits are alive.
    """

    @staticmethod
    def forward(ctx, hidden, weight, target, ignore_index=-100, label_smoothing=0.0, chunk=2):
        n_valid = (target != ignore_index).sum().clamp(min=1)
        vocab = weight.shape[0]
        d_hidden = torch.empty_like(hidden)
        d_weight = torch.zeros_like(weight)
        loss = hidden.new_zeros(())
        for lo in range(0, hidden.shape[0], chunk):
            h, t = hidden[lo:lo + chunk], target[lo:lo + chunk]
            live = (t != ignore_index).to(h.dtype)
            logp = F.log_softmax(h @ weight.t(), dim=-1)
            goal = F.one_hot(torch.where(t == ignore_index, 0, t), vocab).to(h.dtype)
            goal = goal * (1 - label_smoothing) + label_smoothing / vocab
            loss = loss - ((goal * logp).sum(-1) * live).sum() / n_valid
            d_logits = (logp.exp() - goal) * live[:, None] / n_valid
            d_hidden[lo:lo + chunk] = d_logits @ weight
            d_weight += d_logits.t() @ h
        ctx.save_for_backward(d_hidden, d_weight)
        return loss

    @staticmethod
    def backward(ctx, dloss):
        d_hidden, d_weight = ctx.saved_tensors
        # the loss usually is the last node of the graph
        if not torch.equal(dloss, torch.ones_like(dloss)):
            d_hidden = d_hidden * dloss
        return d_hidden, d_weight, None, None, None, None


def lm_head_loss(hidden, weight, labels, label_smoothing=0.0):
    h = hidden[:, :-1].reshape(-1, hidden.shape[-1])
    t = labels[:, 1:].reshape(-1)
    return FusedLinearCrossEntropy.apply(h, weight, t, -100, label_smoothing)


@torch.library.custom_op("llmk::ce_zloss", mutates_args=())
def ce_zloss(logits: Tensor, labels: Tensor, ignore_index: int, z_coef: float) -> Tensor:
    """Cross entropy plus z_coef * logsumexp^2, mean over labels != ignore_index. logits (n, v)."""
    live = labels != ignore_index
    safe = labels.masked_fill(~live, 0)
    lse = torch.logsumexp(logits, -1)
    picked = logits.gather(1, safe[:, None]).squeeze(1)
    per_row = (lse - picked + z_coef * lse ** 2) * live
    return per_row.sum() / live.sum().clamp(min=1)


@ce_zloss.register_fake
def _(logits, labels, ignore_index, z_coef):
    return logits.new_empty(())


def _ce_zloss_setup(ctx, inputs, output):
    logits, labels, ctx.ignore_index, ctx.z_coef = inputs
    ctx.save_for_backward(logits, labels)


def _ce_zloss_backward(ctx, dloss):
    logits, labels = ctx.saved_tensors
    live = labels != ctx.ignore_index
    safe = labels.masked_fill(~live, 0)
    lse = torch.logsumexp(logits, -1, keepdim=True)
    d = torch.exp(logits - lse) * (1 + 2 * ctx.z_coef * lse)
    d = d.scatter_add(1, safe[:, None], -torch.ones_like(lse))
    d = d * live[:, None] / live.sum().clamp(min=1)
    return d * dloss, None, None, None


ce_zloss.register_autograd(_ce_zloss_backward, setup_context=_ce_zloss_setup)


# -------------------------------------------------------------------------- attention

def _gqa_probs(q, k, scale, causal):
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    s = (q @ k.transpose(-1, -2)) * scale
    if causal:
        t, n = s.shape[-2:]
        keep = torch.ones(t, n, dtype=torch.bool, device=s.device).tril(n - t)
        s = s.masked_fill(~keep, float("-inf"))
    return s.softmax(-1)


@torch.library.custom_op("llmk::gqa_attention", mutates_args=())
def gqa_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
    """Grouped-query attention.

    q (b, heads, t, d); k, v (b, kv_heads, s, d) with s >= t; heads % kv_heads == 0.
    Consecutive query heads share a kv head.
    """
    p = _gqa_probs(q, k, scale, causal)
    return p @ v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)


@gqa_attention.register_fake
def _(q, k, v, scale, causal):
    return q.new_empty(*q.shape[:-1], v.shape[-1])


def _gqa_setup(ctx, inputs, output):
    q, k, v, ctx.scale, ctx.causal = inputs
    ctx.save_for_backward(q, k, v)


def _gqa_backward(ctx, do):
    q, k, v = ctx.saved_tensors
    b, kv_heads = k.shape[:2]
    rep = q.shape[1] // kv_heads
    p = _gqa_probs(q, k, ctx.scale, ctx.causal)
    k_full = k.repeat_interleave(rep, dim=1)
    v_full = v.repeat_interleave(rep, dim=1)
    dp = do @ v_full.transpose(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * ctx.scale
    dq = ds @ k_full
    dk = ds.transpose(-1, -2) @ q
    dv = p.transpose(-1, -2) @ do
    dk = dk.view(b, rep, kv_heads, *dk.shape[2:]).sum(1)
    dv = dv.view(b, rep, kv_heads, *dv.shape[2:]).sum(1)
    return dq, dk, dv, None, None


gqa_attention.register_autograd(_gqa_backward, setup_context=_gqa_setup)


class GQABlock(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        hd = dim // heads
        self.heads, self.kv_heads, self.hd = heads, kv_heads, hd
        self.wq = nn.Linear(dim, heads * hd, bias=False)
        self.wkv = nn.Linear(dim, 2 * kv_heads * hd, bias=False)
        self.wo = nn.Linear(heads * hd, dim, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q = apply_rotary(self.wq(x).view(b, t, self.heads, self.hd)).transpose(1, 2)
        k, v = self.wkv(x).view(b, t, 2 * self.kv_heads, self.hd).chunk(2, dim=2)
        k = apply_rotary(k).transpose(1, 2)
        o = gqa_attention(q, k, v.transpose(1, 2), self.hd ** -0.5, True)
        return self.wo(o.transpose(1, 2).reshape(b, t, -1))
