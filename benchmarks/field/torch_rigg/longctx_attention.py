import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _allowed(t_q, t_k, causal, key_mask, device):
    allowed = torch.ones(1, 1, t_q, t_k, dtype=torch.bool, device=device)
    if causal:
        allowed = allowed.tril(t_k - t_q)
    if key_mask is not None:
        allowed = allowed & key_mask[:, None, None, :]
    return allowed


def _safe_softmax(scores, allowed):
    p = torch.softmax(scores.masked_fill(~allowed, float("-inf")), -1)
    return torch.where(allowed.any(-1, keepdim=True), p, torch.zeros_like(p))


def _softmax_vjp(p, dp):
    return p * (dp - (dp * p).sum(-1, keepdim=True))


class DifferentialAttention(Function):
    """(softmax(q1 k1) - lam * softmax(q2 k2)) v, one lam per head; rows without an allowed key give zeros."""

    @staticmethod
    def forward(ctx, q1, k1, q2, k2, v, lam, key_mask=None, causal=False):
        scale = 1.0 / math.sqrt(q1.shape[-1])
        allowed = _allowed(q1.shape[-2], k1.shape[-2], causal, key_mask, q1.device)
        p1 = _safe_softmax(scale * q1 @ k1.transpose(-1, -2), allowed)
        p2 = _safe_softmax(scale * q2 @ k2.transpose(-1, -2), allowed)
        weight = lam[:, None, None]
        ctx.scale = scale
        ctx.save_for_backward(q1, k1, q2, k2, v, lam, p1, p2)
        return (p1 - weight * p2) @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        q1, k1, q2, k2, v, lam, p1, p2 = ctx.saved_tensors
        weight = lam[:, None, None]
        d_v = (p1 - weight * p2).transpose(-1, -2) @ grad_out
        d_a = grad_out @ v.transpose(-1, -2)
        d_s1 = ctx.scale * _softmax_vjp(p1, d_a)
        d_s2 = -ctx.scale * weight * _softmax_vjp(p2, d_a)
        d_lam = -(d_a * p2).sum((0, 2, 3))
        return (
            d_s1 @ k1,
            d_s1.transpose(-1, -2) @ q1,
            d_s2 @ k2,
            d_s2.transpose(-1, -2) @ q2,
            d_v,
            d_lam,
            None,
            None,
        )


class ContextualPositions(Function):
    """Contextual position bias (CoPE, Golovneva et al. 2024).

    A key's position, seen from a query, is the number of open gates from that key up to the query:
    ``pos[b, i, j] = sum_{k >= j} sigmoid(gate_logits[b, i, k])``, over the allowed keys, capped at ``P - 1``.
    The bias is ``pos_logits[b, i, :]`` read at that (fractional) position by linear interpolation.

    Args:
        gate_logits: (B, Tq, Tk).
        pos_logits: (B, Tq, P), query times position embeddings; P >= 2.
        allowed: bool, broadcastable to (B, Tq, Tk), or None.

    Returns (B, Tq, Tk). Piecewise linear in the position, so kinked where it crosses an integer.
    """

    @staticmethod
    def forward(ctx, gate_logits, pos_logits, allowed=None):
        gates = torch.sigmoid(gate_logits)
        if allowed is not None:
            gates = gates * allowed
        pos = gates.flip(-1).cumsum(-1).flip(-1)
        last = pos_logits.shape[-1] - 1
        capped = pos >= last
        pos = pos.clamp(max=last)
        low = pos.floor().long()
        high = pos.ceil().long()
        frac = pos - low
        below = pos_logits.gather(-1, low)
        above = pos_logits.gather(-1, high)
        ctx.has_mask = allowed is not None
        ctx.width = last + 1
        ctx.save_for_backward(gate_logits, allowed, low, high, frac, above - below, capped)
        return below + frac * (above - below)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_bias):
        gate_logits, allowed, low, high, frac, step, capped = ctx.saved_tensors
        d_pos_logits = grad_bias.new_zeros(*grad_bias.shape[:-1], ctx.width)
        d_pos_logits.scatter_add_(-1, low, grad_bias * (1 - frac))
        d_pos_logits.scatter_add_(-1, high, grad_bias * frac)
        d_pos = (grad_bias * step).masked_fill(capped, 0.0)
        d_gates = d_pos.cumsum(-1)
        gates = torch.sigmoid(gate_logits)
        d_logits = d_gates * gates * (1 - gates)
        if ctx.has_mask:
            d_logits = d_logits * allowed
        return d_logits, d_pos_logits, None


class ForgettingAttention(Function):
    # causal softmax attention, logits biased by the summed log forget gates between key and query

    @staticmethod
    def forward(ctx, q, k, v, log_forget, key_mask=None, scale=1.0):
        total = log_forget.cumsum(-1)
        bias = total[..., :, None] - total[..., None, :]
        allowed = _allowed(q.shape[-2], k.shape[-2], True, key_mask, q.device)
        p = _safe_softmax(scale * (q @ k.transpose(-1, -2)) + bias, allowed)
        ctx.scale = scale
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        q, k, v, p = ctx.saved_tensors
        d_v = p.transpose(-1, -2) @ grad_out
        d_p = grad_out @ v.transpose(-1, -2)
        d_s = _softmax_vjp(p, d_p) * ctx.scale
        d_q = d_s @ k
        d_k = d_s.transpose(-1, -2) @ q
        d_total = d_s.sum(-1) - d_s.sum(-2)
        d_log_forget = d_total.flip(-1).cumsum(-1).flip(-1)
        return d_q, d_k, d_v, d_log_forget, None, None


class ForgettingHead(torch.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(dim, 3 * dim, bias=False)
        self.gate = torch.nn.Linear(dim, heads)

    def forward(self, x, key_mask=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        log_f = torch.nn.functional.logsigmoid(self.gate(x)).transpose(1, 2)
        out = ForgettingAttention.apply(q, k, v, log_f, key_mask, (d // self.heads) ** -0.5)
        return out.transpose(1, 2).reshape(b, t, d)
