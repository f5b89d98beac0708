"""Memory-lean building blocks for language-model post-training."""

from __future__ import annotations

import math
from typing import Optional, Sequence, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.function import once_differentiable


class TokenLogProbEntropyFunction(torch.autograd.Function):
    """Log-probability of the chosen tokens together with the policy entropy.

    Args:
        logits: ``(..., vocab)`` unnormalised scores.
        token_ids: ``(...)`` integer ids of the sampled tokens.
        temperature: sampling temperature; the logits are divided by it.

    Returns:
        A pair ``(logp, entropy)``, both of shape ``(...)``.
    """

    @staticmethod
    def forward(ctx, logits, token_ids, temperature=1.0):
        scores = logits / temperature
        lse = torch.logsumexp(scores, dim=-1, keepdim=True)
        logp_all = scores - lse
        logp = logp_all.gather(-1, token_ids.unsqueeze(-1)).squeeze(-1)
        entropy = -(logp_all.exp() * logp_all).sum(dim=-1)
        ctx.save_for_backward(logits, token_ids, lse, entropy)
        ctx.temperature = temperature
        return logp, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_logp, grad_entropy):
        logits, token_ids, lse, entropy = ctx.saved_tensors
        logp_all = logits / ctx.temperature - lse
        probs = logp_all.exp()

        grad = -probs * grad_logp.unsqueeze(-1)
        grad.scatter_add_(-1, token_ids.unsqueeze(-1), grad_logp.unsqueeze(-1))
        grad = grad / ctx.temperature

        centred = logp_all + entropy.unsqueeze(-1)
        grad = grad - grad_entropy.unsqueeze(-1) * probs * centred
        return grad, None, None


class TiledMLPFunction(torch.autograd.Function):
    # Gated MLP  (silu(x Wg^T) * x Wu^T) Wd^T, run over shards of the sequence.
    # Nothing but the inputs is kept; the hidden activations are rebuilt shard by shard.

    @staticmethod
    def forward(ctx, x, gate_weight, up_weight, down_weight, num_shards=None):
        hidden = x.shape[-1]
        flat = x.reshape(-1, hidden)
        if num_shards is None:
            num_shards = max(1, math.ceil(flat.shape[0] / max(hidden, 1)))
        ctx.num_shards = num_shards
        pieces = []
        for part in torch.chunk(flat, num_shards, dim=0):
            pieces.append((F.silu(part @ gate_weight.t()) * (part @ up_weight.t())) @ down_weight.t())
        ctx.save_for_backward(x, gate_weight, up_weight, down_weight)
        return torch.cat(pieces, dim=0).reshape(*x.shape[:-1], down_weight.shape[0])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        x, wg, wu, wd = ctx.saved_tensors
        flat = x.reshape(-1, x.shape[-1])
        gout = grad_out.reshape(-1, grad_out.shape[-1])
        gx = torch.empty_like(flat)
        gwg, gwu, gwd = torch.zeros_like(wg), torch.zeros_like(wu), torch.zeros_like(wd)
        start = 0
        for part in torch.chunk(flat, ctx.num_shards, dim=0):
            stop = start + part.shape[0]
            g = gout[start:stop]
            a, b = part @ wg.t(), part @ wu.t()
            sig = torch.sigmoid(a)
            act = a * sig
            gwd += g.t() @ (act * b)
            gh = g @ wd
            ga = gh * b * (sig + act * (1 - sig))
            gb = gh * act
            gwg += ga.t() @ part
            gwu += gb.t() @ part
            gx[start:stop] = ga @ wg + gb @ wu
            start = stop
        return gx.reshape(x.shape), gwg, gwu, gwd, None


class GatedFeedForward(nn.Module):
    def __init__(self, dim: int, inner: int, num_shards: Optional[int] = None):
        super().__init__()
        self.gate = nn.Linear(dim, inner, bias=False)
        self.up = nn.Linear(dim, inner, bias=False)
        self.down = nn.Linear(inner, dim, bias=False)
        self.num_shards = num_shards

    def forward(self, x):
        return TiledMLPFunction.apply(
            x, self.gate.weight, self.up.weight, self.down.weight, self.num_shards
        )


def _section_angles(position_ids, sections: Sequence[int], theta: float, dtype):
    half = sum(sections)
    inv_freq = theta ** (-torch.arange(half, dtype=dtype, device=position_ids.device) / half)
    which = torch.repeat_interleave(
        torch.arange(len(sections), device=position_ids.device),
        torch.tensor(sections, device=position_ids.device),
    )
    pos = position_ids.to(dtype)[which]  # (half, batch, seq)
    return (pos.permute(1, 2, 0) * inv_freq).unsqueeze(1)


def _turn(t, cos, sin):
    lo, hi = t.chunk(2, dim=-1)
    return torch.cat((lo * cos - hi * sin, hi * cos + lo * sin), dim=-1)


class SectionedRotaryFunction(torch.autograd.Function):
    """Multimodal rotary embedding of queries and keys.

    Parameters
    ----------
    q : torch.Tensor, shape (batch, heads, seq, dim)
    k : torch.Tensor, shape (batch, kv_heads, seq, dim)
    position_ids : torch.LongTensor, shape (len(sections), batch, seq)
        Temporal, vertical and horizontal positions.
    sections : sequence of int
        How many frequencies each kind of position governs; sums to ``dim // 2``.
    theta : float
        Base of the frequencies.
    """

    @staticmethod
    def forward(q, k, position_ids, sections: Tuple[int, ...], theta: float = 10000.0):
        angles = _section_angles(position_ids, sections, theta, q.dtype)
        cos, sin = angles.cos(), angles.sin()
        return _turn(q, cos, sin), _turn(k, cos, sin)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, _, position_ids, sections, theta = inputs
        ctx.save_for_backward(position_ids)
        ctx.sections, ctx.theta, ctx.dtype = sections, theta, q.dtype

    @staticmethod
    def backward(ctx, grad_q, grad_k):
        (position_ids,) = ctx.saved_tensors
        angles = _section_angles(position_ids, ctx.sections, ctx.theta, ctx.dtype)
        cos, sin = angles.cos(), angles.sin()
        return _turn(grad_q, cos, -sin), _turn(grad_k, cos, -sin), None, None, None


class LinearDistillKLFunction(torch.autograd.Function):
    """Fuses the student's output projection with a forward KL to a frozen teacher.

    The loss is ``T**2 * KL(teacher || student)``, averaged over the tokens whose label is
    not ``ignore_index``. Gradients are built while the logits of a chunk are at hand, so
    that the full logit matrix never exists. The teacher's logits are constants.

    :param hidden: student states, ``(tokens, dim)``
    :param weight: output projection, ``(vocab, dim)``
    :param teacher_logits: ``(tokens, vocab)``
    :param labels: ``(tokens,)`` or ``None`` to use every token
    :param temperature: softening of both distributions
    :param ignore_index: label of the tokens that do not count
    :param chunk_size: tokens per chunk
    """

    @staticmethod
    def forward(ctx, hidden, weight, teacher_logits, labels=None, temperature=1.0,
                ignore_index=-100, chunk_size=1024):
        tokens = hidden.shape[0]
        if labels is None:
            keep = torch.ones(tokens, dtype=hidden.dtype, device=hidden.device)
        else:
            keep = (labels != ignore_index).to(hidden.dtype)
        count = keep.sum().clamp(min=1.0)

        loss = hidden.new_zeros(())
        grad_hidden = torch.zeros_like(hidden)
        grad_weight = torch.zeros_like(weight)
        for lo in range(0, tokens, chunk_size):
            rows = slice(lo, min(lo + chunk_size, tokens))
            h, m = hidden[rows], keep[rows].unsqueeze(-1)
            log_q = F.log_softmax(h @ weight.t() / temperature, dim=-1)
            log_p = F.log_softmax(teacher_logits[rows] / temperature, dim=-1)
            p = log_p.exp()
            loss += (m * p * (log_p - log_q)).sum()
            dlogits = m * (log_q.exp() - p) * (temperature / tokens)
            grad_hidden[rows] = dlogits @ weight
            grad_weight += dlogits.t() @ h
        ctx.save_for_backward(grad_hidden, grad_weight)
        return loss * temperature**2 / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad_output, grad_weight * grad_output, None, None, None, None, None
